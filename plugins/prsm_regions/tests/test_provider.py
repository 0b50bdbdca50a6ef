"""The rules of a provider's turns, of its contract those that one without a model can keep.

The contract itself plays a vendor's model in front of the provider, and there is none here.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from prsm_regions.notes import Notes
from prsm_regions.provider import RegionsSession, build
from prsm_regions.team import Team
from prsm_testing import RecordingHost, only, open_services, run_turn, session_request

from prsm_core import (
    ProviderNotAvailableError,
    StepEnded,
    StopReason,
    ToolOutcome,
    TurnEnded,
    UsageReported,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from prsm_core import ProviderEvent


async def nothing_usable(**_: Any) -> ToolOutcome:
    return ToolOutcome(text="{}", data={"usable": [], "models": []})


@asynccontextmanager
async def opened(
    tmp_path: Path, host: RecordingHost, **changes: Any
) -> AsyncIterator[RegionsSession]:
    async with open_services(tmp_path / "state") as services:
        provider = build({}, services)
        request = session_request(tmp_path, model="default", **changes)
        async with provider.open_session(request, host) as session:
            yield session


async def test_a_turn_ends_once_with_why_it_failed_and_has_used_no_token(tmp_path):
    async with opened(tmp_path, RecordingHost(recommend_model=nothing_usable)) as session:
        events = await run_turn(session, "Build auth.")
        assert session.reusable
    (ended,) = only(TurnEnded, events)
    assert events[-1] is ended
    assert ended.stop_reason is StopReason.ERROR
    assert ended.error is not None
    assert (
        "no model can plan: no provider that has one can be used (install a provider"
        in ended.error.message
    )
    (used,) = only(UsageReported, events)
    assert (used.usage.total_tokens, used.cost_usd) == (0, 0.0)


async def test_an_interrupted_turn_ends_as_aborted_and_the_session_goes_on(tmp_path):
    called = asyncio.Event()

    async def hangs(**_: Any) -> ToolOutcome:
        called.set()
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    async with (
        opened(tmp_path, RecordingHost(recommend_model=hangs)) as session,
        asyncio.TaskGroup() as group,
    ):
        turn = group.create_task(run_turn(session, "Build auth."))
        await called.wait()
        await session.interrupt()
        (ended,) = only(TurnEnded, await turn)
        assert session.reusable
    assert ended.stop_reason is StopReason.ABORTED


async def test_without_its_notes_a_session_is_not_gone_on_with(tmp_path):
    with pytest.raises(ProviderNotAvailableError, match="notes of this agent") as failed:
        async with opened(tmp_path, RecordingHost(), resume_token="a" * 32):
            pytest.fail("it was opened")
    assert failed.value.code == "resume_failed"


async def test_a_wrong_effort_is_told_before_anything_is_begun(tmp_path):
    host = RecordingHost()
    async with opened(tmp_path, host, labels={"effort": "huge"}) as session:
        (ended,) = only(TurnEnded, await run_turn(session, "Build auth."))
    assert ended.error is not None
    assert "low, medium, high" in ended.error.message
    assert host.calls == []


async def test_it_can_be_used_wherever_it_is_installed(tmp_path):
    async with open_services(tmp_path / "state") as services:
        assert (await build({}, services).probe()).available


MESSAGES = (
    {"type": "question", "from": "b", "text": "Which colour?"},
    {"type": "question", "from": "c", "text": "Still?", "reminder": True},
    {"type": "task_result", "from": "owner", "success": True, "summary": "a signature"},
    {"type": "task_result", "from": "c", "success": True, "summary": "made"},
)


def heard(host: RecordingHost, tmp_path: Path) -> Team:
    """Return a team that was just begun, or is run again from the same notes."""

    async def tell(event: ProviderEvent) -> None:
        assert isinstance(event, StepEnded)

    notes = Notes(tmp_path / "notes.json", lambda value: value)
    if (tmp_path / "notes.json").exists():
        notes.read()
    else:
        notes.begin("build auth")
    return Team(host, notes, tell)


async def test_what_others_say_while_an_owner_is_asked_is_not_lost_when_a_turn_is_run_again(
    tmp_path,
):
    answers = iter(MESSAGES)

    async def wait_for_message(**_: Any) -> ToolOutcome:
        data = next(answers)
        await asyncio.sleep(0)
        return ToolOutcome(text="", data=data)

    host = RecordingHost(wait_for_message=wait_for_message)
    rest: list[list[str]] = []
    team = heard(host, tmp_path)
    for _ in range(2):
        team = heard(host, tmp_path)

        async def asked(team: Team = team) -> str:
            return str((await team.hear("owner"))["summary"])

        assert await team.once_heard("route1", asked) == "a signature"
        rest.append([str((await team.next_message())["from"])])
        if not rest[1:]:
            assert len(host.calls) == 3
    assert rest == [["b"], ["b"]]
    assert (await team.next_message())["from"] == "c"
    assert [call.call_id for call in host.calls] == [f"regions-1-wait{n}" for n in (1, 2, 3, 4)]


async def test_messages_that_come_by_one_answer_are_heard_one_by_one(tmp_path):
    b, owner, c = ({"type": "task_result", "from": name, "summary": name} for name in "boc")

    async def wait_for_message(**_: Any) -> ToolOutcome:
        await asyncio.sleep(0)
        return ToolOutcome(text="", data={**b, "others": [owner, c]})

    host = RecordingHost(wait_for_message=wait_for_message)
    for _ in range(2):  # the second time from its notes
        team = heard(host, tmp_path)

        async def asked(team: Team = team) -> str:
            return str((await team.hear("o"))["summary"])

        assert await team.once_heard("route1", asked) == "o"
        assert [(await team.next_message())["from"] for _ in "bc"] == ["b", "c"]
    assert len(host.calls) == 1


async def test_what_an_agent_said_while_another_was_heard_is_heard_of_it_later(tmp_path):
    b, owner = ({"type": "task_result", "from": name, "summary": name} for name in "bo")

    async def wait_for_message(**_: Any) -> ToolOutcome:
        await asyncio.sleep(0)
        return ToolOutcome(text="", data={**b, "others": [owner]})

    team = heard(RecordingHost(wait_for_message=wait_for_message), tmp_path)
    assert [(await team.hear(name))["summary"] for name in "ob"] == ["o", "b"]
