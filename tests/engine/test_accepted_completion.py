"""An accepted task_complete stands, whatever its provider sends or does after it."""

from __future__ import annotations

import asyncio

import pytest

from prsm_core.domain.turns import AgentError, ErrorKind, StopReason, TurnEnded, UsageReported
from prsm_core.domain.usage import Provenance, TokenUsage
from prsm_core.engine.guarded.provider import EVENTS
from prsm_core.plugins.values import first_problem

pytestmark = pytest.mark.requirement("U28")

ERROR = AgentError(kind=ErrorKind.MODEL_ERROR, message="the vendor lost it")
LAST = {
    **{reason.name: TurnEnded(reason) for reason in StopReason},
    **{f"{reason.name} with an error": TurnEnded(reason, ERROR) for reason in StopReason},
    "text": TurnEnded("end_turn"),  # type: ignore[arg-type]
    "text that is none": TurnEnded("done"),  # type: ignore[arg-type]
    "a number": TurnEnded(7),  # type: ignore[arg-type]
    "no event": 5,
}


@pytest.mark.parametrize("last", list(LAST.values()), ids=list(LAST))
@pytest.mark.parametrize("has_child", [False, True])
async def test_an_accepted_completion_stands_whatever_event_comes_last(team, last, has_child):
    released = asyncio.Event()

    async def master(agent):
        if has_child:
            await agent.spawn(name="a")
        await agent.complete("all of it")
        await agent.tell(last)
        await agent.hang()  # it says nothing else

    async def a(agent):
        await released.wait()
        await agent.complete()

    run = team.start(master=master, a=a)
    await team.seen("turn_finished", "master")
    released.set()
    result = await run
    assert (result.status, result.summary, result.exit_code) == ("completed", "all of it", 0)
    [turn] = team.ledger.events("turn_finished", "master")
    assert (turn["stop_reason"], turn["error"]) == ("end_turn", None)


@pytest.mark.parametrize("tries", range(8))
async def test_text_for_a_stop_reason_is_taken_and_other_types_are_refused_each_time(team, tries):
    async def master(agent):
        await agent.say("all of it")
        await agent.tell(TurnEnded("end_turn" if tries % 2 else 7))  # type: ignore[arg-type]
        await agent.hang()

    result = await team.run(master=master)
    assert (result.status, result.exit_code) == (("completed", 0) if tries % 2 else ("failed", 1))


async def test_a_wrong_last_event_after_a_completion_is_told(team):
    async def master(agent):
        await agent.complete()
        await agent.tell(TurnEnded(7))  # type: ignore[arg-type]

    await team.run(master=master)
    [notice] = team.ledger.events("notice", "master")
    assert notice["level"] == "warning"
    assert "stop_reason" in notice["text"]


async def test_a_turn_that_ends_while_the_agent_is_being_ended_undoes_nothing(team):
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def merges_for_long(*_):
        begun.set()
        await may_end.wait()

    async def master(agent):
        call = agent.outcome("task_complete", {"summary": "all of it"})
        calls.append(asyncio.ensure_future(call))  # no part of what the turn's end cancels
        await begun.wait()
        await agent.tell(TurnEnded(StopReason.ERROR, ERROR))

    team.engine.files.trees.settle = merges_for_long
    calls: list[asyncio.Future] = []
    run = team.start(master=master)
    await begun.wait()
    for _ in range(20):
        await asyncio.sleep(0)
    may_end.set()
    result = await run
    assert (result.status, result.summary) == ("completed", "all of it")
    assert not (await calls[0]).is_error


def test_text_stands_for_the_member_that_it_names_in_every_event():
    ended = TurnEnded("error", AgentError(kind="timeout", message="late"))  # type: ignore[arg-type]
    assert ended == TurnEnded(StopReason.ERROR, AgentError(kind=ErrorKind.TIMEOUT, message="late"))
    assert ended.error is not None
    assert isinstance(ended.error.kind, ErrorKind)
    usage = UsageReported(
        TokenUsage(),
        provenance="estimated",  # type: ignore[arg-type]
        cost_provenance="unknown",  # type: ignore[arg-type]
    )
    assert usage.provenance is Provenance.ESTIMATED
    assert usage.cost_provenance is Provenance.UNKNOWN
    assert first_problem(ended, EVENTS) is first_problem(usage, EVENTS) is None


@pytest.mark.parametrize(
    "event",
    [
        TurnEnded("Error"),  # type: ignore[arg-type]
        TurnEnded(StopReason.ERROR, AgentError(kind="odd", message="x")),  # type: ignore[arg-type]
        UsageReported(TokenUsage(), provenance="told"),  # type: ignore[arg-type]
        UsageReported(TokenUsage(), cost_provenance=None),  # type: ignore[arg-type]
    ],
)
def test_text_that_names_no_member_is_refused(event):
    assert first_problem(event, EVENTS) is not None
