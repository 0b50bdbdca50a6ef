"""A turn of the real Codex goes on after its process was killed: each answer reaches it once."""

from __future__ import annotations

import asyncio

import pytest
from prsm_testing.doubles import RecordingHost, only, run_turn, turn_context, until

from plugins.prsm_codex.tests.real_codex import call
from prsm_core.domain.tools import ToolOutcome
from prsm_core.domain.turns import AssistantMessage, StopReason, ToolCallStarted
from prsm_core.interfaces.provider import Carried, CarriedCall

pytestmark = pytest.mark.live

YES = ToolOutcome(text='{"answer": "blue"}')


@pytest.fixture
def waiting():
    """A host that never answers `ask_parent` and `wait_for_message`, and who waits for a call."""
    called = asyncio.Event()

    async def wait(**_):
        called.set()
        await asyncio.Event().wait()

    host = RecordingHost(ask_parent=wait, wait_for_message=wait)
    return host, called


def carried(host, outcome=YES, **prompts):
    """What an engine carries that has answered all calls."""
    calls = tuple(
        CarriedCall(
            call_id=made.call_id,
            tool=made.name,
            arguments=made.arguments,
            orchestration=True,
            outcome=outcome,
        )
        for made in host.calls
    )
    return Carried(turn_id="t", prompts=prompts, calls=calls)


def going_on(session, host, **prompts):
    told = carried(host, **prompts)
    answers = {made.call_id: made.outcome for made in told.calls if made.outcome is not None}
    return {"resume_token": session.resume_token, "carried": told, "answers": answers}


async def kill(live):
    """Kill the app-server as the reaper shim does when the engine dies."""
    live.services.processes[-1].kill()
    await live.provider.aclose()
    await until(lambda: not live.services.live)


async def read(session, context):
    async for event in session.run_turn(context):
        assert event is not None


async def killed_in(live, host, called, context=None, calls=1):
    """Run a turn until its calls wait, and kill Codex there; return the session that was."""
    async with live.session(host) as session, asyncio.TaskGroup() as group:
        turn = group.create_task(read(session, context or turn_context("one")))
        await called.wait()
        await until(lambda: len(host.calls) == calls)
        await until(lambda: all(rollout_holds(live, made.call_id) for made in host.calls))
        await kill(live)
        await turn
    return session


def rollout_of(live):
    (file,) = (live.services.state_dir / "codex-home" / "sessions").rglob("rollout-*.jsonl")
    return file


def rollout_holds(live, text):
    return text in rollout_of(live).read_text()


@pytest.mark.parametrize("tool", ["ask_parent", "wait_for_message"])
async def test_an_answer_is_the_output_of_the_call_that_waited(codex, waiting, tool):
    """No prompt is needed, and the model does not learn that anything happened."""
    host, called = waiting
    async with codex({"call": call(tool, "q")}, {"say": "done"}) as live:
        session = await killed_in(live, host, called)
        async with live.session(host, **going_on(session, host)) as session:
            assert session.taken == {host.calls[0].call_id}
            events = await run_turn(session, None)
    assert events[-1].stop_reason is StopReason.END_TURN
    assert live.outputs("q") == [YES.text]
    assert live.prompts() == ["one"]
    assert len(host.calls) == 1


async def test_it_is_there_once_after_kills_behind_the_injection_and_in_the_response(
    codex, waiting
):
    host, called = waiting
    steps = ({"call": call("ask_parent", "q")}, {"say": "a b c", "hang": True}, {"say": "done"})
    async with codex(*steps) as live:
        session = await killed_in(live, host, called)
        for _ in range(2):  # nobody asks the model anything
            async with live.session(host, **going_on(session, host)) as session:
                assert session.taken == {host.calls[0].call_id}
                await kill(live)
        async with (
            live.session(host, **going_on(session, host)) as session,
            asyncio.TaskGroup() as group,
        ):
            turn = group.create_task(run_turn(session, None))
            await live.server.wait_for_requests(2)
            assert live.outputs("q") == [YES.text]
            await kill(live)
            await turn
        async with live.session(host, **going_on(session, host)) as session:
            events = await run_turn(session, None)
    assert [message.text for message in only(AssistantMessage, events)] == ["done"]
    assert live.outputs("q") == [YES.text]
    assert live.prompts() == ["one"]


async def test_two_calls_that_wait_get_each_their_answer(codex, waiting):
    host, called = waiting
    both = [call("ask_parent", "q"), call("wait_for_message", "w")]
    async with codex({"call": both}, {"say": "done"}) as live:
        session = await killed_in(live, host, called, calls=2)
        seen = {made.call_id for made in host.calls}
        async with live.session(host, **going_on(session, host)) as session:
            assert session.taken == seen
            await run_turn(session, None)
    assert [len(live.outputs(name)) for name in ("q", "w")] == [1, 1]
    assert live.outputs("q") == [YES.text]


async def test_a_call_that_nobody_has_seen_is_to_be_made_again(codex, waiting):
    host, called = waiting
    async with codex({"call": call("ask_parent", "q")}, {"say": "done"}) as live:
        session = await killed_in(live, host, called)
        host.calls.clear()  # as if it had not come to the ledger
        async with live.session(host, **going_on(session, host)) as session:
            assert session.taken == frozenset()
            await run_turn(session, None)
    (output,) = live.outputs("q")
    assert "no effect" in output


async def test_a_command_that_was_cut_off_may_have_run(codex, waiting):
    host, _ = waiting
    shell = call("exec_command", "s", cmd="echo hi > made.txt; sleep 300", yield_time_ms=30_000)
    async with codex({"call": shell}, {"say": "done"}) as live:
        begun = asyncio.Event()
        async with live.session(host) as session, asyncio.TaskGroup() as group:

            async def read():
                async for event in session.run_turn(turn_context("one")):
                    if isinstance(event, ToolCallStarted):
                        begun.set()

            turn = group.create_task(read())
            await begun.wait()
            await until(lambda: (live.cwd / "made.txt").exists())
            await until(lambda: rollout_holds(live, '"name":"exec_command"'))
            await kill(live)
            await turn
        async with live.session(host, **going_on(session, host)) as session:
            await run_turn(session, None)
    (output,) = live.outputs("s")
    assert "may have run" in output


@pytest.mark.parametrize("torn", ['{"timestamp":"2026-11-23T20:00:00Z","type":"resp', "\x00\x00"])
async def test_a_torn_line_takes_nothing_with_it(codex, waiting, torn):
    """Neither what stands before it nor what Codex writes next, over two kills."""
    host, called = waiting
    async with codex({"call": call("ask_parent", "q")}, {"say": "done"}) as live:
        session = await killed_in(live, host, called)
        for _ in range(2):
            with rollout_of(live).open("a") as file:
                file.write(torn)
            async with live.session(host, **going_on(session, host)) as session:
                assert session.taken == {host.calls[0].call_id}
                await kill(live)
        async with live.session(host, **going_on(session, host)) as session:
            await run_turn(session, None)
    assert live.outputs("q") == [YES.text]
    assert live.prompts() == ["one"]


async def test_a_prompt_is_known_by_the_id_that_the_ledger_gave_it(codex, waiting):
    """One that is not in the thread is not taken: the engine tells it."""
    host, called = waiting
    async with codex({"call": call("ask_parent", "q")}, {"say": "done"}) as live:
        context = turn_context("one")
        session = await killed_in(live, host, called, context)
        assert context.current_message is not None
        known = context.current_message.id
        prompts = {known: "one", "lost": "never sent"}
        async with live.session(host, **going_on(session, host, **prompts)) as session:
            assert session.taken == {known, host.calls[0].call_id}
            await run_turn(session, "never sent")
    assert live.prompts() == ["one", "never sent"]
    assert live.outputs("q") == [YES.text]
