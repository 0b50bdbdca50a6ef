"""What is allowed is a call from then on, and one with what the vendor tells of it."""

from __future__ import annotations

import asyncio
import random

import pytest

from prsm_core.domain.permissions import Allow, Deny, PermissionRequest
from prsm_core.domain.turns import ToolOutput
from prsm_core.engine.turns.fold import UNTOLD
from prsm_core.engine.turns.going_on import CUT_OFF
from prsm_core.engine.turns.vendor_calls import NOT_ALLOWED
from tests.command_policies import POLICY
from tests.engine.deaths import die, go_on, run_to_death

pytestmark = pytest.mark.requirement("N9")
CALLS = (
    "SELECT id, tool_name, status, error, params FROM tool_calls WHERE NOT orchestration"
    " ORDER BY sequence"
)


def asks(agent, command="echo hi", call_id=None, **fields):
    wanted = {"tool": "Bash", "arguments": {"command": command}, "command": command, **fields}
    return agent.host.authorize(
        PermissionRequest(agent_id=agent.id, cwd=".", call_id=call_id, **wanted)
    )


def calls(team):
    return [row[:4] for row in team.ledger.rows(CALLS)]


def told(team, agent="master"):
    """Return what is told of the vendor's calls, in order."""
    ours = {e["call"] for e in team.ledger.events("tool_call_started") if e["orchestration"]}
    kinds = {"tool_call_started": "started", "tool_call_finished": "finished"}
    return [
        (event["call"], kinds[event["type"]])
        for event in team.ledger.events(agent=agent)
        if event["type"] in kinds and event["call"] not in ours
    ]


async def test_an_allowed_call_that_is_never_told_is_unknown(as_master):
    async def script(agent, team):
        assert isinstance(await asks(agent, call_id="c1"), Allow)
        begun = team.ledger.events("tool_call_started", "master")
        assert [(e["call"], e["arguments"]) for e in begun] == [("c1", {"command": "echo hi"})]

    team = await as_master(script)
    assert calls(team) == [("c1", "Bash", "unknown", UNTOLD)]
    assert told(team) == [("c1", "started"), ("c1", "finished")]
    (end,) = [e for e in team.ledger.events("tool_call_finished", "master") if e["call"] == "c1"]
    assert (end["status"], end["error"], end.get("exit_code")) == ("unknown", UNTOLD, None)


async def test_it_is_in_the_ledger_before_its_vendor_may_run_it(as_master, fast_clock):
    async def script(agent, team):
        with team.clock.hold():  # nothing is written for being old
            await asks(agent, call_id="c1")
        begun = "SELECT count(*) FROM events WHERE type = 'tool_call_started'"
        assert team.ledger.one(begun) == 1

    team = await as_master(script, clock=fast_clock)
    assert len(calls(team)) == 1


@pytest.mark.parametrize("permission_id", ["v1", "another", None])
@pytest.mark.parametrize("is_told_first", [True, False])
async def test_it_is_one_call_with_what_is_told(as_master, permission_id, is_told_first):
    async def script(agent, _):
        if is_told_first:
            await agent.start_tool("v1", command="echo hi")
        assert isinstance(await asks(agent, call_id=permission_id), Allow)
        if not is_told_first:
            await agent.start_tool("v1", command="echo hi")
        await agent.tell(ToolOutput("v1", "h"))
        await agent.end_tool("v1", "failed", "hi", "exit code 1", 1)
        await agent.end_tool("v1", "completed")  # told twice

    team = await as_master(script)
    ((call_id, *rest),) = calls(team)
    assert rest == ["Bash", "failed", "exit code 1"]
    assert told(team) == [(call_id, "started"), (call_id, "finished")]
    if is_told_first or permission_id is not None:
        assert call_id == ("v1" if is_told_first else permission_id)


async def test_an_end_without_a_beginning_ends_what_was_allowed(as_master):
    async def script(agent, _):
        await asks(agent, call_id="v1")
        await agent.end_tool("v1")

    assert calls(await as_master(script)) == [("v1", "Bash", "completed", None)]


async def test_each_permission_has_a_call_of_its_own(as_master):
    """The same command twice: one after the other, of which the first is stopped, and at once."""

    async def script(agent, _):
        await asks(agent)
        await asks(agent)
        await agent.start_tool("t1", command="echo hi")
        await agent.end_tool("t1")
        await agent.start_tool("t2", command="echo both")
        await agent.start_tool("t3", command="echo both")
        await asyncio.gather(asks(agent, "echo both"), asks(agent, "echo both"))
        await agent.end_tool("t3")
        await agent.end_tool("t2", "failed", None, "no")

    found = [(tool, status) for _, tool, status, _ in calls(await as_master(script))]
    assert found == [
        ("Bash", "unknown"),
        ("Bash", "completed"),
        ("Bash", "failed"),
        ("Bash", "completed"),
    ]


async def test_a_call_that_is_asked_about_twice_is_one(as_master):
    async def script(agent, _):
        await asks(agent, call_id="v1")
        await asks(agent, "echo more", call_id="v1")
        await agent.start_tool("v1", command="echo hi")
        await asks(agent, call_id="v1")
        await agent.end_tool("v1")

    assert calls(await as_master(script)) == [("v1", "Bash", "completed", None)]


async def test_an_id_that_is_used_again_loses_no_call(as_master):
    async def script(agent, _):
        for status in ("completed", "failed"):
            await asks(agent, call_id="v1")
            await agent.start_tool("v1", command="echo hi")
            await agent.end_tool("v1", status)
        await asks(agent, call_id="v1")

    found = [(call_id, status) for call_id, _, status, _ in calls(await as_master(script))]
    assert found == [("v1", "completed"), ("v1#2", "failed"), ("v1#3", "unknown")]


async def test_files_are_known_by_their_paths_and_other_tools_by_their_arguments(as_master):
    async def script(agent, _):
        edit = PermissionRequest(
            agent_id=agent.id, tool="Write", arguments={"diff": "x"}, paths=("./a.py",), cwd="."
        )
        search = PermissionRequest(agent_id=agent.id, tool="mcp__x__find", arguments={"what": "y"})
        for request in (edit, search):
            assert isinstance(await agent.host.authorize(request), Allow)
        await agent.start_tool("t1", "Edit", file_path="a.py")
        await agent.start_tool("t2", "mcp__x__find", what="z")
        await agent.start_tool("t3", "mcp__x__find", what="y")
        for call_id in ("t1", "t3"):
            await agent.end_tool(call_id)

    team = await as_master(script, broker=Permissive())
    found = [(tool, status) for _, tool, status, _ in calls(team)]
    assert found == [
        ("Write", "completed"),
        ("mcp__x__find", "completed"),
        ("mcp__x__find", "unknown"),
    ]


async def test_what_is_denied_is_no_call_of_the_engines(as_master):
    async def script(agent, _):
        assert isinstance(await asks(agent, "rm x", call_id="v1"), Deny)
        await agent.start_tool("v2", command="rm y")
        assert isinstance(await asks(agent, "rm y", call_id="v2"), Deny)
        await agent.end_tool("v2", "denied", None, "never")

    assert calls(await as_master(script)) == [("v2", "Bash", "failed", "never")]


async def test_what_is_still_asked_about_or_denied_when_its_turn_ends_did_not_run(opened):
    async def worker(agent):
        await agent.start_tool("v1", command="rm x")
        assert isinstance(await asks(agent, "rm x"), Deny)
        await agent.start_tool("v2", command="make it")
        asked = asyncio.ensure_future(asks(agent, "make it", call_id="v2"))
        await team.seen("permission_requested", "w1")
        await agent.start_tool("v3", command="echo 3")
        memory.append(asked)
        await agent.complete()

    async def master(agent):
        await agent.spawn(name="w1")
        await agent.collect()
        await agent.complete()

    memory: list = []
    async with opened(interactive=True) as team:
        await team.run("do it", master=master, w1=worker)
    found = {call_id: (status, error) for call_id, _, status, error in calls(team)}
    refused = ("failed", NOT_ALLOWED)
    assert found == {"v1": refused, "v2": refused, "v3": ("unknown", UNTOLD)}
    ends = team.ledger.events("tool_call_finished", "w1")
    assert [e["status"] for e in ends if e["call"] in found] == ["denied", "denied", "unknown"]


async def test_an_orchestration_tool_is_no_call_of_the_vendors(as_master):
    async def script(agent, _):
        for tool in ("get_children_status", "mcp__prsm__get_children_status"):
            request = PermissionRequest(agent_id=agent.id, tool=tool, arguments={})
            assert isinstance(await agent.host.authorize(request), Allow)

    assert calls(await as_master(script, broker=Permissive())) == []


async def test_run_bash_stays_the_one_call_that_it_is(opened):
    async def worker(agent):
        await agent.call("run_bash", command="echo hi")
        await agent.complete()

    async def master(agent):
        await agent.spawn(name="w1")
        await agent.collect()
        await agent.complete()

    async with opened() as team:
        await team.run("do it", master=master, w1=worker)
    assert calls(team) == []
    tools = team.ledger.rows("SELECT tool_name FROM tool_calls WHERE tool_name = 'run_bash'")
    assert tools == [("run_bash",)]


async def test_a_call_that_a_person_allows_late_begins_then_and_always_allows_the_next(opened):
    async def master(agent):
        asked = asyncio.ensure_future(asks(agent, "make it"))
        await team.seen("permission_requested")
        assert told(team) == []
        [request] = team.ledger.events("permission_requested")
        answer = {"verdict": "always"}
        team.engine.requests.resolve(request["request"], "permission", answer)
        assert isinstance(await asked, Allow)
        assert isinstance(await asks(agent, "make more"), Allow)
        await agent.start_tool("t1", command="make more")
        await agent.end_tool("t1")
        await agent.complete()

    async with opened(interactive=True) as team:
        await team.run("do it", master=master)
    assert [status for _, _, status, _ in calls(team)] == ["unknown", "completed"]
    order = [e["type"] for e in team.ledger.events(agent="master") if e["type"] in ORDER]
    assert order[:3] == list(ORDER)


ORDER = ("permission_requested", "permission_resolved", "tool_call_started")


async def test_an_untold_call_holds_nothing_up(opened, fast_clock):
    """It runs for no clock: the turn waits for a child, and its own tools have their limit."""

    async def master(agent):
        await asks(agent, call_id="v1")
        await agent.spawn(name="w1")
        await agent.collect()
        await agent.complete()

    async def worker(agent):
        await agent.session.provider.services.clock.sleep(400.0)
        await agent.complete()

    limits = {"tool_timeout_seconds": 100.0, "idle_timeout_seconds": 500.0}
    async with opened(clock=fast_clock, engine=limits) as team:
        assert (await team.run("do it", master=master, w1=worker)).status == "completed"
    assert calls(team) == [("v1", "Bash", "unknown", UNTOLD)]


async def test_after_the_turn_nothing_is_allowed(opened):
    hosts = []

    async def worker(agent):
        hosts.append((agent.host, agent.id))
        await agent.complete()

    async def master(agent):
        await agent.spawn(name="w1")
        await agent.collect()
        ((host, agent_id),) = hosts
        request = PermissionRequest(agent_id=agent_id, tool="Bash", command="echo hi")
        assert isinstance(await host.authorize(request), Deny)
        await agent.complete()

    async with opened() as team:
        await team.run("do it", master=master, w1=worker)
    assert calls(team) == []


async def test_a_kill_in_the_midst_leaves_no_call_open(opened):
    async def worker(agent):
        await asks(agent, call_id="v1")
        await agent.start_tool("v2", command="echo 2")
        await asks(agent, "echo 2", call_id="v2")
        await agent.hang()

    async def master(agent):
        await agent.spawn(name="w1")
        await team.seen("tool_call_started", "w1", call="v2")
        await team.manager.kill_agent(team["w1"].agent_id, "enough")
        await agent.complete()

    async with opened() as team:
        await team.run("do it", master=master, w1=worker)
    assert [(one[0], one[2]) for one in calls(team)] == [("v1", "unknown"), ("v2", "unknown")]


async def test_a_crash_settles_an_allowed_call_once(opened):
    async def master(agent):
        await asks(agent, call_id="v1")
        await die(team)

    async def mastered(agent):
        await agent.complete()

    async with opened(check=False) as team:
        await run_to_death(team, master=master)
    async with opened() as again:
        assert (await go_on(again, master=mastered)).status == "completed"
    assert calls(again) == [("v1", "Bash", "unknown", CUT_OFF)]
    assert told(again) == [("v1", "started"), ("v1", "finished")]


@pytest.mark.parametrize("seed", range(12))
async def test_whatever_comes_first_each_call_is_one_and_has_the_end_that_is_told(as_master, seed):
    """Calls of few texts, asked about with the vendor's id, another, or none, and told or not."""
    dice = random.Random(seed)
    plays = [Play(dice, number) for number in range(12)]

    async def script(agent, _):
        acts = [(play, act) for play in plays for act in play.acts]
        turns = [play for play, _ in acts]
        dice.shuffle(turns)
        left = {play: list(play.acts) for play in plays}
        for play in turns:
            await play.do(agent, left[play].pop(0))

    found = [status for _, _, status, _ in calls(await as_master(script))]
    assert len(found) == len(plays)
    ends = [play.is_ended for play in plays]
    assert sorted(found) == sorted("completed" if ended else "unknown" for ended in ends)


class Play:
    """One call of a vendor, and in which order it asks about it and tells of it."""

    def __init__(self, dice, number):
        self.name = f"t{number}"
        self.command = f"echo {dice.randrange(3)}"
        self.asked_as = dice.choice([self.name, f"hook{number}", None])
        begins = dice.choice([["ask"], ["ask", "tell"], ["tell", "ask"]])
        self.is_ended = "tell" in begins and dice.random() < 0.7
        self.acts = [*begins, *(["end"] if self.is_ended else [])]

    async def do(self, agent, act):
        if act == "ask":
            assert isinstance(await asks(agent, self.command, self.asked_as), Allow)
        elif act == "tell":
            await agent.start_tool(self.name, command=self.command)
        else:
            await agent.end_tool(self.name)


class Permissive:
    """Allows everything."""

    commands = POLICY
    watches_calls = False

    async def decide(self, *_):
        return Allow()

    reconsider = decide

    async def may_write(self, *_):
        return False

    def told(self):
        return {"rules": [], "tools": {}, "grants": []}

    def mark(self):
        return 0

    def settle(self, *_):
        """Take note of nothing."""

    ended = turn_over = changed_by_hand = forget = settle
