"""Agents under a protocol in the real engine: each move once, and nobody else pays."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
from prsm_protocols.labels import STATE
from prsm_protocols.measurement import MEASUREMENTS, MeasurementSink
from prsm_protocols.places import PAGES
from prsm_protocols.plugin import prsm_event_sinks, prsm_permission_checks, prsm_tools

from plugins.prsm_protocols.tests.conftest import IDLE, INBOX
from prsm_core import EventSinkSpec
from prsm_core.config import Settings
from prsm_core.domain.agents import PermissionMode
from prsm_core.domain.tools import NATIVE_TOOLS
from prsm_core.domain.turns import UsageReported
from prsm_core.domain.usage import TokenUsage
from prsm_core.domain.writes import AgentRelabelled, CallClosed, CallOpened
from prsm_core.engine.tools.table import ToolTable
from prsm_core.errors import StoreError
from prsm_core.interfaces.provider import ProviderCapabilities, ProviderStatus
from prsm_core.permissions import PermissionBroker
from tests.command_policies import policy_for
from tests.engine.deaths import dies_after, dies_at, go_on
from tests.engine.harness import open_team

UNDER = {"labels": {"protocol": "inbox"}}
OPEN = INBOX.replace("tools: Read, Grep", "tools: Read, Grep, spawn_child")


@pytest.fixture
def opened(tmp_path, monkeypatch):
    """Open a team in a trusted workspace with two pages: `async with opened() as team`."""
    monkeypatch.setenv("PRSM_HOME", str(tmp_path / "home"))
    folder = tmp_path / "workspace" / PAGES
    folder.mkdir(parents=True)
    (folder / "inbox.md").write_text(OPEN)
    (folder / "idle.md").write_text(IDLE)
    tools = ToolTable().with_added(list(prsm_tools()))
    checks = {spec.name: spec for spec in prsm_permission_checks()}
    broker = partial(
        PermissionBroker,
        Settings().permissions,
        checks=checks,
        orchestration=tools.names,
        commands=policy_for(Settings().permissions),
    )
    given: dict[str, Any] = {
        "tools": tools,
        "config": {"checks": tuple(checks.values()), "trusted": True},
    }
    return lambda **fields: open_team(tmp_path, broker=broker(), **given, **fields)


def states(team):
    """Return the states that agents came to, in order."""
    told = [event["labels"][STATE] for event in team.ledger.events("agent_labels_changed")]
    return [state for n, state in enumerate(told) if n == 0 or told[n - 1] != state]


@pytest.mark.requirement("A4")
async def test_a_move_that_is_asked_for_twice_with_one_id_is_made_once(opened):
    async def master(agent):
        told = [
            await agent.outcome("state_transition", {"to": "deep_work"}, call_id="c1")
            for _ in range(2)
        ]
        assert [outcome.is_error for outcome in told] == [False, True]
        assert "you are in the state deep_work already" in told[1].text
        assert await agent.refused("state_transition", to="gone") == "no_transition"
        await agent.complete()

    async with opened() as team:
        assert (await team.run("do it", UNDER, master=master)).status == "completed"
    assert states(team) == ["deep_work"]


@pytest.mark.requirement("A15", "F8")
@pytest.mark.parametrize("dies", [dies_at, dies_after])
@pytest.mark.parametrize("kind", [AgentRelabelled, CallClosed, CallOpened])
async def test_each_move_is_made_once_whenever_the_engine_dies(opened, dies, kind):
    """The agent's own script goes on by what it is told, as a model does."""
    ways = {"inbox": "deep_work", "deep_work": "inbox"}

    async def master(agent):
        moves = len(states(team))
        at = (await agent.call("state_transition"))["state"]
        for _ in range(4 - max(moves, 1)):
            outcome = await agent.outcome("state_transition", {"to": ways[at]})
            assert not outcome.is_error, outcome.text
            at = outcome.data["state"]
        await agent.complete()

    async def first(agent):
        dies(team, kind)
        await master(agent)

    async with opened(check=False) as team:
        team.provider.behaviours["master"] = first
        with pytest.raises(StoreError):
            await team.run("do it", UNDER)
    async with opened() as team:
        assert (await go_on(team, master=master)).status == "completed"
    assert states(team) == ["inbox", "deep_work", "inbox", "deep_work"]


@pytest.mark.requirement("A8", "A20")
async def test_after_a_resume_what_is_measured_says_where_the_agent_is(opened, tmp_path):
    async def first(agent):
        await agent.call("state_transition")
        dies_after(team, AgentRelabelled)
        await agent.call("state_transition", to="deep_work")

    async def again(agent):
        await agent.call("measure", name="mails", value=3)
        await agent.complete()

    def open_sink(run, _):
        return MeasurementSink(run, MEASUREMENTS(path=str(tmp_path / "m")))

    (spec,) = prsm_event_sinks()
    sinks = [EventSinkSpec(name="m", summary="", factory=open_sink, kinds=spec.kinds)]
    async with opened(check=False) as team:
        team.provider.behaviours["master"] = first
        with pytest.raises(StoreError):
            await team.run("do it", UNDER)
    async with opened(sinks=sinks) as team:
        assert (await go_on(team, master=again)).status == "completed"
    (path,) = (tmp_path / "m").glob("*/*.jsonl")
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert {one["kind"] for one in records} >= {"measured", "turn", "ended"}
    assert {one["agent_name"] for one in records} == {"master"}
    assert {one["state"] for one in records} == {"deep_work"}
    assert {one["protocol"].partition("@")[0] for one in records} == {"inbox"}


@pytest.mark.requirement("A18")
async def test_a_guard_opens_by_what_the_vendor_tells_of_the_context(opened):
    async def master(agent):
        await agent.call("state_transition", to="deep_work")
        assert await agent.refused("state_transition", to="distill") == "no_transition"
        await agent.tell(UsageReported(TokenUsage(), context_used=850, context_window=1000))
        assert (await agent.call("measure", name="x"))["opened"]
        assert (await agent.call("state_transition", to="distill"))["state"] == "distill"
        assert await agent.refused("spawn_child", prompt="x") == "permission_denied"
        await agent.complete()

    async with opened() as team:
        assert (await team.run("do it", UNDER, master=master)).status == "completed"


@pytest.mark.requirement("A5", "A6")
async def test_agents_of_a_run_write_to_each_other_and_are_prompted_with_it(opened):
    """Who writes has its answer, and has even ended, before anybody reads."""

    async def writer(agent):
        assert await agent.refused("message_send", to="w11", text="x") == "routing"
        sent = await agent.call("message_send", to="w1", text="the tests are red")
        assert sent["state"] == "inbox"
        assert read == [], "the call is answered before anybody has read it"
        await agent.complete()

    read: list[bool] = []

    async def reader(agent):
        if agent.turn == 1:
            await team.seen("agent_state_changed", "w2", to="completed")
            return
        read.append("the tests are red" in agent.text)
        assert "message_next" not in {spec.name for spec in agent.host.tools}
        await agent.complete()

    async def master(agent):
        await agent.spawn(name="w1")
        await agent.spawn(name="w2")
        await agent.collect(2)
        await agent.complete()

    async with opened() as team:
        result = await team.run("do it", UNDER, master=master, w1=reader, w2=writer)
    assert (result.status, read) == ("completed", [True])


async def test_who_is_under_no_protocol_has_none_of_the_tools(opened):
    async def master(agent):
        assert await agent.refused("state_transition") == "unknown_tool"
        await agent.complete()

    async with opened() as team:
        assert (await team.run("do it", master=master)).status == "completed"


@pytest.mark.requirement("F8")
async def test_pages_that_became_wrong_are_told_and_nothing_is_moved(opened):
    async def master(agent):
        (team.workspace / PAGES / "inbox.md").write_text("# Nothing\n")
        assert await agent.refused("state_transition", to="deep_work") == "protocol"
        assert await agent.refused("spawn_child", prompt="x") == "permission_denied"
        await agent.complete()

    async with opened() as team:
        assert (await team.run("do it", UNDER, master=master)).status == "completed"
    assert states(team) == []


@pytest.mark.requirement("F8")
@pytest.mark.parametrize(
    ("enforcement", "gaps", "told"),
    [
        ("approval", (), "it asks for what it takes for dangerous"),
        ("pre_tool", (), None),
        ("pre_tool", ("its search is not asked",), "agents of script do: its search is not asked"),
    ],
)
async def test_what_a_vendor_cannot_be_held_to_is_told_before_its_first_turn(
    opened, enforcement, gaps, told
):
    async def worker(agent):
        await agent.complete()

    async def master(agent):
        await agent.call("state_transition", to="deep_work")
        await agent.spawn(name="w1")
        await agent.collect()
        await agent.complete()

    given = {
        "capabilities": ProviderCapabilities(enforcement=enforcement),
        "status": ProviderStatus(available=True, gaps=gaps),
    }
    async with opened(**given) as team:
        await team.run("do it", UNDER, master=master, w1=worker)
    rows = team.ledger.rows("SELECT type, data FROM events ORDER BY seq")
    notices = {
        n: json.loads(row[1])["text"]
        for n, row in enumerate(rows)
        if "the check protocol-states does not" in row[1]
    }
    assert len(notices) == (told is not None)
    assert all((told or "") in text for text in notices.values())
    turns = [n for n, (kind, _) in enumerate(rows) if kind == "turn_started"]
    assert all(n < turns[0] for n in notices)


async def test_who_is_under_no_protocol_is_not_told_of_the_check(opened):
    async def master(agent):
        await agent.complete()

    async with opened(capabilities=ProviderCapabilities(enforcement="none")) as team:
        await team.run("do it", master=master)
    texts = [event["text"] for event in team.ledger.events("notice")]
    assert not [text for text in texts if "protocol-states" in text]


@pytest.mark.requirement("U31")
async def test_a_page_may_make_its_master_solo_and_a_resume_keeps_it_so(opened, tmp_path):
    async def first(agent):
        dies_after(team, AgentRelabelled)
        await agent.call("state_transition")

    async def again(agent):
        assert "run_bash" in {tool.name for tool in agent.host.tools}
        # the states of the page hold for what it does itself
        assert await agent.refused("run_bash", command="true") == "permission_denied"
        await agent.complete()

    page = tmp_path / "workspace" / PAGES / "inbox.md"
    page.write_text(OPEN + "\n## Master\n- solo: small tasks\n")
    async with opened(check=False) as team:
        team.provider.behaviours["master"] = first
        with pytest.raises(StoreError):
            await team.run("do it", UNDER)
    page.write_text(OPEN)
    async with opened() as team:
        assert (await go_on(team, master=again)).status == "completed"
        [request] = team.provider.requests["master"]
    assert request.native_tools == NATIVE_TOOLS
    assert request.mode is PermissionMode.DEFAULT


@pytest.mark.parametrize("page", [OPEN, f"{OPEN}\n## Master\ndelegate\n", "# Protocol: other"])
async def test_under_any_other_page_the_master_delegates(opened, tmp_path, page):
    async def master(agent):
        await agent.complete()

    (tmp_path / "workspace" / PAGES / "inbox.md").write_text(page)
    async with opened() as team:
        await team.run("do it", UNDER, master=master)
        [request] = team.provider.requests["master"]
    assert request.native_tools == frozenset({"Read", "Glob", "Grep"})
