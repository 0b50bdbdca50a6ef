"""Tools of plugins: who has them, and that what a handler does is written with its answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec import UNSET, Struct, UnsetType

from prsm_core.domain.agents import AgentRole
from prsm_core.domain.turns import UsageReported
from prsm_core.domain.usage import TokenUsage
from prsm_core.domain.writes import AgentRelabelled, CallClosed, CallOpened
from prsm_core.engine.tools.table import ToolTable
from prsm_core.errors import OrchestrationError, StoreError, ToolInputError
from prsm_core.interfaces.tool import ToolContribution
from tests.engine.deaths import die, dies_after, dies_at, go_on

ALL = frozenset({"master", "worker", "expert", "reviewer"})


class Moving(Struct):
    to: str | UnsetType = UNSET
    text: str | UnsetType = UNSET


def tool(handler, name="move", when=lambda labels: "protocol" in labels, **fields):
    """Return a tool of a plugin; `to` and `text` are what it takes."""
    told: dict[str, Any] = {"description": "Moves.", "arguments": Moving, "roles": ALL}
    given: dict[str, Any] = {**told, "summary": "", "labels": "p", **fields}
    return ToolContribution(name=name, handler=handler, when=when, **given)


def table(*tools):
    return ToolTable().with_added(tools)


async def move(call):
    state = call.labels.get("p/state", "start")
    if call.args["to"] == state:
        raise ToolInputError(f"you are in {state}", hint="go elsewhere", code="no_move")
    call.relabel({"p/state": call.args["to"]})
    return {"from": state, "state": call.labels["p/state"]}


LABELS = {"labels": {"protocol": "inbox"}}


def state_of(team, name="master"):
    return dict(team[name].descriptor.labels).get("p/state")


async def test_a_handler_moves_its_agent_by_the_step_that_closes_the_call(opened):
    async def master(agent):
        assert await agent.call("move", to="work") == {"from": "start", "state": "work"}
        assert state_of(team) == "work"
        assert await agent.refused("move", to="work") == "no_move"
        await agent.complete()

    async with opened(tools=table(tool(move))) as team:
        await team.run("do it", LABELS, master=master)
        (state,) = (await team.store.state("session")).agents
    assert dict(state.agent.labels) == {"protocol": "inbox", "p/state": "work"}
    rows = team.ledger.rows("SELECT type FROM events ORDER BY seq")
    kinds = [kind for (kind,) in rows]
    told = kinds.index("agent_labels_changed")
    assert kinds[told + 1] == "tool_call_finished"
    assert kinds.count("agent_labels_changed") == 1


def move_at_once(call):
    state = call.labels.get("p/state", "start")
    if call.args["to"] == state:
        raise ToolInputError(f"you are in {state}", hint="go elsewhere", code="no_move")
    call.relabel({"p/state": call.args["to"]})
    return {"from": state, "state": call.labels["p/state"]}


def fails_at_once(call):
    call.relabel({"p/state": call.args["to"]})
    raise KeyError("broken")


async def test_a_handler_that_answers_at_once_is_answered_for_in_the_same_step(opened):
    async def master(agent):
        assert await agent.call("move", to="work") == {"from": "start", "state": "work"}
        assert state_of(team) == "work"
        assert await agent.refused("move", to="work") == "no_move"
        assert await agent.refused("fail", to="rest") == "plugin_fault"
        assert state_of(team) == "work"
        await agent.complete()

    tools = table(tool(move_at_once), tool(fails_at_once, "fail"))
    async with opened(tools=tools) as team:
        await team.run("do it", LABELS, master=master)
    kinds = [kind for (kind,) in team.ledger.rows("SELECT type FROM events ORDER BY seq")]
    told = kinds.index("agent_labels_changed")
    assert kinds[told + 1] == "tool_call_finished"
    assert kinds.count("agent_labels_changed") == 1


async def test_only_who_asks_for_a_tool_has_it_and_children_inherit_that(opened):
    has: dict[str, set[str]] = {}

    async def worker(agent):
        has[agent.name] = {spec.name for spec in agent.host.tools} & {"move", "lead", "all"}
        await agent.complete()

    async def master(agent):
        await agent.spawn(name="w1")
        await agent.collect()
        await worker(agent)

    tools = table(
        tool(move),
        tool(move, "lead", roles=frozenset({"master"})),
        tool(move, "all", lambda labels: True),
    )
    async with opened(tools=tools) as team:
        await team.run("do it", LABELS, master=master, w1=worker)
        assert has == {"master": {"move", "lead", "all"}, "w1": {"move", "all"}}
        assert not team["master"].sends_messages


async def test_a_tool_that_nobody_asks_for_costs_no_byte(opened):
    async def master(agent):
        assert agent.host.tools == ToolTable().for_role(AgentRole.MASTER, may_spawn=True).specs
        assert await agent.refused("move", to="x") == "unknown_tool"
        await agent.complete()

    spec = tool("no.such.module:handler", when="no.such.module:when")
    async with opened(tools=table(spec)) as team:
        await team.run("do it", master=master)


async def test_labels_only_deny_afterwards(opened):
    async def master(agent):
        await agent.host.relabel({"script/off": "yes"})
        assert "move" in {spec.name for spec in agent.host.tools}
        assert await agent.refused("move", to="work") == "tool_denied"
        await agent.host.relabel({"script/off": None})
        await agent.call("move", to="work")
        await agent.complete()

    def when(labels):
        return "protocol" in labels and "script/off" not in labels

    async with opened(tools=table(tool(move, when=when)), is_program=True) as team:
        await team.run("do it", LABELS, master=master)
        assert state_of(team) == "work"


@pytest.mark.parametrize("when", ["no.such.module:when", lambda labels: 1 / 0, lambda labels: "x"])
async def test_a_tool_whose_plugin_cannot_say_who_has_it_is_nobodys_and_that_is_told(opened, when):
    async def master(agent):
        assert await agent.refused("move", to="x") == "unknown_tool"
        await agent.complete()

    async with opened(tools=table(tool(move, when=when))) as team:
        result = await team.run("do it", LABELS, master=master)
    assert result.status == "completed"
    told = [event["text"] for event in team.ledger.events("notice") if event["level"] == "error"]
    assert len(told) == 1
    assert told[0].startswith("master is without the tool move")


async def no_mapping(call):
    return ["x"]


async def fails(call):
    call.relabel({"p/state": "lost"})
    raise KeyError("x")


async def refuses(call):
    call.relabel({"p/state": "lost"})
    raise OrchestrationError("not now", hint="later", code="later")


async def bad_label(call):
    call.relabel({"p/a b": "x"})


async def plain_label(call):
    call.relabel({"protocol": "other"})


async def others_label(call):
    call.relabel({"q/state": "x"})


async def sends(call):
    call.send("master", "hello")


async def takes(call):
    await call.next_message(0)


async def cancels(call):
    raise asyncio.CancelledError


async def leaves(call):
    raise SystemExit(3)


@pytest.mark.parametrize(
    ("handler", "code", "word"),
    [
        (no_mapping, "plugin_fault", "it gave a list, not a mapping"),
        (fails, "plugin_fault", "KeyError"),
        (cancels, "plugin_fault", "it cancelled itself"),
        (leaves, "plugin_fault", "SystemExit"),
        ("no.such.module:handler", "plugin", "cannot import"),
        (refuses, "later", "not now"),
        (bad_label, "bad_labels", "no name of a label"),
        (plain_label, "bad_labels", "not this tool's to set"),
        (others_label, "bad_labels", "the program q's alone"),
        (sends, "plugin_fault", "has no sends_messages"),
        (takes, "plugin_fault", "has no takes_messages"),
    ],
)
async def test_what_a_handler_does_wrong_is_told_and_nothing_of_it_is_done(
    opened, handler, code, word
):
    async def master(agent):
        outcome = await agent.outcome("move", {"to": "x"})
        assert outcome.is_error
        assert outcome.data["error"]["code"] == code
        assert word in outcome.data["error"]["message"]
        await agent.complete()

    async with opened(tools=table(tool(handler))) as team:
        result = await team.run("do it", LABELS, master=master)
        assert dict(team["master"].descriptor.labels) == LABELS["labels"]
    assert result.status == "completed"
    assert team.ledger.events("agent_labels_changed") == []
    told = [event["text"] for event in team.ledger.events("notice") if event["level"] == "error"]
    assert [word in text for text in told] == ([True] if code.startswith("plugin") else [])


async def test_of_two_moves_at_once_one_is_made_and_the_other_told_that_the_agent_has_moved(opened):
    gate = asyncio.Event()

    async def slow(call):
        assert call.labels.get("p/state") is None
        call.relabel({"p/state": call.args["to"]})
        if call.args["to"] == "a":
            await gate.wait()
        return {"state": call.args["to"]}

    async def master(agent):
        first = asyncio.ensure_future(agent.outcome("move", {"to": "a"}, step=False))
        await asyncio.sleep(0)
        assert (await agent.call("move", to="b")) == {"state": "b"}
        gate.set()
        outcome = await first
        assert outcome.data["error"]["code"] == "labels_changed"
        await agent.complete()

    async with opened(tools=table(tool(slow))) as team:
        await team.run("do it", LABELS, master=master)
        assert state_of(team) == "b"
    assert [e["labels"]["p/state"] for e in team.ledger.events("agent_labels_changed")] == ["b"]


@pytest.mark.parametrize("dies", [dies_at, dies_after])
@pytest.mark.parametrize("kind", [AgentRelabelled, CallClosed, CallOpened])
@pytest.mark.parametrize("acts_outside", [False, True])
async def test_a_move_is_made_once_or_not_at_all_whenever_the_engine_dies(
    opened, dies, kind, acts_outside
):
    """The agent's own script goes on by its labels alone, as a program does."""

    async def master(agent):
        state = dict(agent.session.request.labels).get("p/state", "")
        for place in "abc"["abc".find(state) + 1 if state else 0 :]:
            outcome = await agent.outcome("move", {"to": place})
            assert not outcome.is_error or outcome.data["error"]["code"] == "no_move"
        await agent.complete()

    async def first(agent):
        dies(team, kind)
        await master(agent)

    tools = table(tool(move, acts_outside=acts_outside))
    async with opened(check=False, tools=tools) as team:
        team.provider.behaviours["master"] = first
        with pytest.raises(StoreError):
            await team.run("do it", LABELS)
    async with opened(tools=tools) as team:
        assert (await go_on(team, master=master)).status == "completed"
        assert state_of(team) == "c"
    moves = [e["labels"]["p/state"] for e in team.ledger.events("agent_labels_changed")]
    assert moves == ["a", "b", "c"]


async def test_a_call_that_was_cut_off_is_made_again_and_says_so(opened):
    seen = []

    async def slow(call):
        seen.append((call.id, call.is_again))
        call.relabel({"p/state": "done"})
        if not call.is_again:
            await die(team)
        return {}

    async def master(agent):
        await agent.outcome("move", {"to": "x"}, call_id="call-1")

    async def goes_on(agent):
        assert dict(agent.session.request.labels)["p/state"] == "done"
        await agent.complete()

    tools = table(tool(slow, acts_outside=True))
    async with opened(check=False, tools=tools) as team:
        team.provider.behaviours["master"] = master
        with pytest.raises(StoreError):
            await team.run("do it", LABELS)
    async with opened(tools=tools) as team:
        await go_on(team, master=goes_on)
    assert seen == [("call-1", False), ("call-1", True)]
    assert len(team.ledger.events("agent_labels_changed")) == 1


async def test_a_refused_step_leaves_the_labels_as_they_were(opened):
    async def master(agent):
        commit = team.store.commit

        async def refuse(step):
            if step.find(AgentRelabelled) is not None:
                raise StoreError("not that one", code="unfit")
            return await commit(step)

        vars(team.store)["commit"] = refuse
        assert (await agent.outcome("move", {"to": "x"})).is_error
        assert state_of(team) is None
        vars(team.store)["commit"] = commit
        await agent.call("move", to="y")
        await agent.complete()

    async with opened(check=False, tools=table(tool(move))) as team:
        await team.run("do it", LABELS, master=master)
        assert state_of(team) == "y"


async def test_a_message_goes_with_the_answer_and_is_taken_with_one(opened):
    async def say(call):
        sent = call.send(call.args["to"], call.args["text"])
        if call.args["text"] == "lost":
            raise OrchestrationError("no", hint="no", code="no")
        return {"id": sent}

    async def take(call):
        message = await call.next_message(60)
        if message is not None and call.args.get("text") == "fail":
            raise OrchestrationError("no", hint="no", code="no")
        return {"from": message.name, "text": message.text}

    async def reader(agent):
        assert await agent.refused("take", text="fail") == "no"
        assert await agent.call("take") == {"from": "w2", "text": "hello"}
        await agent.complete()

    async def writer(agent):
        assert await agent.refused("say", to="w1", text="lost") == "no"
        assert await agent.refused("say", to="w11", text="hello") == "unknown_agent"
        await agent.call("say", to="w1", text="hello")
        await agent.complete()

    async def master(agent):
        await agent.spawn(name="w1")
        await agent.spawn(name="w2")
        await agent.collect(2)
        await agent.complete()

    tools = table(
        tool(say, "say", sends_messages=True, labels=""),
        tool(take, "take", takes_messages=True, labels=""),
    )
    async with opened(tools=tools) as team:
        await team.run("do it", LABELS, master=master, w1=reader, w2=writer)
    sent = team.ledger.rows("SELECT type, consumed_by IS NOT NULL FROM inbox WHERE type = 'peer'")
    assert sent == [("peer", 1)]


async def test_a_handler_sees_who_calls_and_who_else_is_there(opened):
    seen: dict[str, Any] = {}

    async def look(call):
        seen.update(
            name=call.agent_name,
            role=call.role,
            provider=call.provider,
            args=dict(call.args),
            trusted=call.trusted,
            places=(call.cwd, call.workspace),
            used=call.context_used,
            others=[(one.name, one.role.value, dict(one.labels)) for one in call.agents()],
        )
        return {}

    async def master(agent):
        used = UsageReported(TokenUsage(), context_used=250, context_window=1000)
        await agent.tell(used)
        await agent.call("move", to="x")
        await agent.complete()

    async with opened(tools=table(tool(look))) as team:
        await team.run("do it", LABELS, master=master)
        where = str(team.workspace)
    assert seen == {
        "name": "master",
        "role": AgentRole.MASTER,
        "provider": "script",
        "args": {"to": "x"},
        "trusted": False,
        "places": (where, where),
        "used": 0.25,
        "others": [("master", "master", LABELS["labels"])],
    }
