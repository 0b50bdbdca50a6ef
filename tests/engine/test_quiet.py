"""The quiet moment: who writes now, the gate, and that nobody waits for ever."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from prsm_testing.fake_clock import FakeClock

from prsm_core.domain.permissions import Allow, Deny, PermissionRequest
from prsm_core.engine.quiet import GATE_SECONDS, QuietMoment, WritingCall
from tests.engine.harness import DEADLINE, failed


def call(name="c1", agent="a1", **fields):
    return WritingCall(agent=agent, name=f"agent {agent}", call=name, tool="Bash", **fields)


def running(quiet):
    return list(quiet.running)


async def settled():
    for _ in range(10):
        await asyncio.sleep(0)


class TestGate:
    async def test_a_call_goes_by_where_nobody_holds_the_gate(self):
        quiet = QuietMoment(FakeClock())
        assert await quiet.enter(call())
        assert running(quiet) == [call()]
        quiet.ended(call())
        assert running(quiet) == []

    async def test_a_hold_waits_for_those_that_run_and_new_ones_wait_for_it(self):
        quiet = QuietMoment(FakeClock(autojump=False))
        order: list[object] = []
        assert await quiet.enter(call("old"))

        async def hold():
            async with quiet.hold() as held:
                order.append(("held", held.disturbing))

        async def enter():
            assert await quiet.enter(call("new"))
            order.append("new")

        async with asyncio.TaskGroup() as group:
            group.create_task(hold())
            await settled()
            group.create_task(enter())
            await settled()
            assert order == []
            quiet.ended(call("old"))
        assert order == [("held", ()), "new"]

    async def test_what_still_runs_after_ten_seconds_is_named(self):
        clock = FakeClock()
        quiet = QuietMoment(clock)
        await quiet.enter(call("c1", command="make all"))
        async with quiet.hold() as held:
            assert [str(one) for one in held.disturbing] == ["agent a1: make all"]
        assert clock.now() == 10.0

    async def test_a_gate_that_is_held_for_too_long_opens_and_says_who_went_by(self):
        clock = FakeClock()
        quiet = QuietMoment(clock)
        async with quiet.hold() as held:
            assert not list(held.disturbing)
            assert await quiet.enter(call())
            assert list(held.disturbing) == [call()]
        assert clock.now() == GATE_SECONDS

    async def test_a_hold_whose_owner_is_cancelled_is_released(self):
        quiet = QuietMoment(FakeClock(autojump=False))
        await quiet.enter(call("old"))

        async def hold():
            async with quiet.hold():
                raise AssertionError("the old one still runs")

        holding = asyncio.ensure_future(hold())
        await settled()
        entering = asyncio.ensure_future(quiet.enter(call("new")))
        await settled()
        assert not entering.done()
        holding.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await holding
        assert await entering

    async def test_the_end_of_a_turn_lets_go_of_who_waits_at_the_gate(self):
        quiet = QuietMoment(FakeClock(autojump=False))
        hold = quiet.close_gate()
        entering = asyncio.ensure_future(quiet.enter(call()))
        other = asyncio.ensure_future(quiet.enter(call("c2", "a2")))
        await settled()
        quiet.turn_over("a1")
        assert not await entering
        assert not other.done()
        hold.release()
        hold.release()
        assert await other
        assert running(quiet) == [call("c2", "a2")]

    async def test_two_may_hold_it_and_the_last_one_opens_it(self):
        quiet = QuietMoment(FakeClock(autojump=False))
        first, second = quiet.close_gate(), quiet.close_gate()
        entering = asyncio.ensure_future(quiet.enter(call()))
        first.release()
        await settled()
        assert not entering.done()
        second.release()
        assert await entering


class TestNames:
    """A provider tells of a call before it asks, after it, or without asking."""

    async def test_a_call_that_is_told_and_then_asked_about_does_not_run_until_allowed(self):
        quiet = QuietMoment(FakeClock())
        quiet.began(call("v1", command="make"))
        assert len(quiet.running) == 1
        quiet.asks(call(None, command="make"))
        assert running(quiet) == []
        assert await quiet.enter(call(None, command="make"))
        quiet.ended(call("v1", command="make"))
        assert running(quiet) == []

    async def test_a_call_that_is_told_and_then_asked_about_disturbs_no_moment(self):
        quiet = QuietMoment(FakeClock(autojump=False))
        hold = quiet.close_gate()
        quiet.began(call("c1"))
        assert list(hold.disturbing) == [call("c1")]
        quiet.asks(call("c1", paths=("a.txt",)))
        assert list(hold.disturbing) == []
        quiet.began(call("c2", agent="a2"))  # which nobody asks about
        assert list(hold.disturbing) == [call("c2", agent="a2")]
        hold.release()

    async def test_a_call_that_is_asked_about_and_then_told_is_one_call(self):
        quiet = QuietMoment(FakeClock())
        quiet.asks(call(None, command="make"))
        quiet.began(call("v1", command="make"))
        assert running(quiet) == []
        assert await quiet.enter(call(None, command="make"))
        quiet.began(call("v1", command="make"))
        assert [one.call for one in running(quiet)] == ["v1"]
        quiet.ended(call("v1", command="make"))
        assert running(quiet) == []

    async def test_a_refused_call_never_ran(self):
        quiet = QuietMoment(FakeClock())
        quiet.asks(call("v1"))
        quiet.refused(call("v1"))
        assert running(quiet) == []
        quiet.ended(call("v1"))
        assert running(quiet) == []

    async def test_calls_of_one_text_are_two_by_their_names(self):
        quiet = QuietMoment(FakeClock())
        quiet.began(call("v1", command="make"))
        quiet.began(call("v2", command="make"))
        quiet.ended(call("v1", command="make"))
        assert [one.call for one in running(quiet)] == ["v2"]


NAMES = st.sampled_from(["c1", "c2", None])
AGENTS = st.sampled_from(["a1", "a2"])


class Gate(RuleBasedStateMachine):
    """Whatever comes in whatever order: nobody waits at a gate that is open."""

    def __init__(self):
        super().__init__()
        self.runner = asyncio.Runner()
        self.clock = FakeClock(autojump=False)
        self.quiet = QuietMoment(self.clock)
        self.holds = []
        self.entering = {}
        self.step(lambda: None)

    def step(self, act):
        async def run():
            done = act()
            await settled()
            return done

        return self.runner.run(run())

    @rule(name=NAMES, agent=AGENTS)
    def ask_and_enter(self, name, agent):
        wanted = call(name, agent)
        self.step(lambda: self.quiet.asks(wanted))
        self.entering[self.step(lambda: asyncio.ensure_future(self.quiet.enter(wanted)))] = wanted

    @rule(name=NAMES, agent=AGENTS)
    def begin_unasked(self, name, agent):
        self.step(lambda: self.quiet.began(call(name, agent)))

    @rule(name=NAMES, agent=AGENTS)
    def end(self, name, agent):
        self.step(lambda: self.quiet.ended(call(name, agent)))

    @rule(agent=AGENTS)
    def end_turn(self, agent):
        self.step(lambda: self.quiet.turn_over(agent))
        assert not [one for one in self.quiet.running if one.agent == agent]
        assert all(task.done() for task, one in self.entering.items() if one.agent == agent)

    @rule()
    def hold(self):
        self.holds.append(self.step(self.quiet.close_gate))

    @rule(newest=st.booleans())
    def release(self, newest):
        if self.holds:
            self.step(self.holds.pop(-1 if newest else 0).release)

    @rule()
    def cancel(self):
        for task in self.entering:
            self.step(task.cancel)

    @invariant()
    def nobody_waits_at_an_open_gate(self):
        if not self.holds:
            assert all(task.done() for task in self.entering)

    @invariant()
    def none_runs_is_told_at_once(self):
        waiting = self.step(lambda: asyncio.ensure_future(self.quiet.none_runs.wait()))
        assert waiting.done() is (not self.quiet.running)
        self.step(waiting.cancel)

    def teardown(self):
        for hold in self.holds:
            self.step(hold.release)
        assert all(task.done() for task in self.entering)
        self.runner.close()


TestAnyOrder = Gate.TestCase
TestAnyOrder.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)


class TestAgents:
    """On the real engine."""

    @staticmethod
    def shell(agent, command="echo x", name=None):
        return PermissionRequest(
            agent_id=agent.id, tool="Bash", command=command, cwd=".", call_id=name
        )

    async def test_a_permitted_command_runs_until_it_is_told_that_it_ended(self, opened):
        seen: list[object] = []

        async def master(agent):
            quiet = team.engine.quiet
            await agent.host.authorize(self.shell(agent, name="v1"))
            seen.append([(one.call, one.command) for one in quiet.running])
            await agent.start_tool("v1", "Bash", command="echo x")
            await agent.host.authorize(self.shell(agent, "rm x", "v2"))
            seen.append([one.call for one in running(quiet)])
            await agent.end_tool("v1")
            seen.append(list(quiet.running))
            await agent.complete()

        async with opened() as team:
            assert (await team.run("do it", master=master)).exit_code == 0
        assert seen == [[("v1", "echo x")], ["v1"], []]

    async def test_a_call_that_waits_for_a_person_holds_no_moment_up(self, opened):
        async def master(agent):
            await agent.start_tool("v1", "Bash", command="make it")
            verdict = await agent.host.authorize(self.shell(agent, "make it", "v1"))
            assert isinstance(verdict, Allow)
            await agent.end_tool("v1")
            await agent.complete()

        async with opened(interactive=True) as team:
            running = team.start("do it", master=master)
            asked = await team.seen("permission_requested")
            async with asyncio.timeout(DEADLINE), team.engine.quiet.hold() as held:
                assert not list(held.disturbing)
            team.engine.requests.resolve(asked.data["request"], "permission", {"verdict": "once"})
            assert (await running).exit_code == 0

    async def test_run_bash_waits_at_the_gate_and_leaves_it(self, opened):
        async def master(agent):
            await agent.spawn("write", name="writer")
            await agent.collect()
            await agent.complete()

        async def writer(agent):
            assert (await agent.call("run_bash", command="echo one"))["stdout"] == "one\n"
            assert team.engine.quiet.running == ()
            await agent.complete()

        async with opened() as team:
            hold = team.engine.quiet.close_gate()
            running = team.start("do it", master=master, writer=writer)
            await team.seen("tool_call_started", "writer", tool="run_bash")
            await team.settled()
            assert "run_bash" not in str(team.ledger.events("tool_call_finished"))
            hold.release()
            assert (await running).exit_code == 0

    async def test_an_agent_that_waits_at_the_gate_can_be_killed(self, opened):
        verdicts = []

        async def master(agent):
            await agent.spawn("write", name="writer")
            await agent.collect()
            await agent.complete()

        async def writer(agent):
            await agent.say("now")
            verdicts.append(await agent.host.authorize(self.shell(agent)))

        async with opened() as team:
            hold = team.engine.quiet.close_gate()
            running = team.start("do it", master=master, writer=writer)
            await team.seen("message_completed", "writer")
            await team.settled()
            record = team.manager.roster.resolve("writer")
            await team.engine.ends.kill_tree(record, "enough")
            assert (await running).exit_code == 0
            hold.release()
        assert verdicts in ([], [Deny("the turn it was asked in is over")])

    @pytest.mark.parametrize("end", ["complete", "fail"])
    async def test_the_end_of_a_turn_ends_what_was_never_told_to_have_ended(self, opened, end):
        async def master(agent):
            await agent.host.authorize(self.shell(agent))
            await agent.start_tool("v1", "Write", file_path="a.py")
            assert len(team.engine.quiet.running) == 2
            if end == "complete":
                await agent.complete()
            else:
                raise failed()

        async with opened() as team:
            await team.run("do it", master=master)
            assert team.engine.quiet.running == ()
