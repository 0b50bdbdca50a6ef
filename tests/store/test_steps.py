"""Each of the seven kinds of step is applied wholly, once, or not at all."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from prsm_core.domain.agents import AgentState
from prsm_core.domain.messages import MessageType
from prsm_core.domain.steps import CallClose, Resolution, StateChange
from prsm_core.errors import PrsmError
from tests.store.dumps import dump

if TYPE_CHECKING:
    from pathlib import Path

    from prsm_core.domain.steps import Step, TurnOpenStep
    from prsm_core.store import SqliteStore
    from prsm_core.testing.store_contract import Steps

KINDS = [
    "spawn",
    "turn_open",
    "call_open",
    "call_close",
    "turn_close",
    "agent_end",
    "control",
]


async def prepare(store: SqliteStore, team: Steps) -> TurnOpenStep:
    """Leave w1 in its first turn with an open call, an open request and an unread message."""
    turn = team.open_turn("w1")
    sent = team.message("master", "w1", MessageType.ANSWER, message_id="answer")
    request = replace(team.request("w1"), request_id="request")
    await store.commit(turn)
    await store.commit(team.open_call(turn, team.call("c1"), "w1"))
    await store.commit(
        team.control("w1", "request", requests=(request,), events=(team.event("w1"),))
    )
    await store.commit(team.control("master", "notice", messages=(sent,)))
    return turn


def full_step(kind: str, team: Steps, turn: TurnOpenStep) -> Step:
    """Return a step of the kind that writes everything such a step can write."""
    more: dict[str, Any] = {
        "events": (team.event("w1", "one"), team.event("w1", "two")),
        "messages": (team.message("w1", "master"), team.message("w1", "w2")),
    }
    change: dict[str, Any] = {
        "changes": (StateChange(source=AgentState.PENDING, target=AgentState.STARTING),)
    }
    answer = CallClose(
        turn_id=turn.turn_id,
        call_id="c1",
        status="failed",
        result="no",
        consumed=("answer",),
    )
    resolved = (Resolution(request_id="request", answer={"verdict": "deny"}, by="user"),)
    match kind:
        case "spawn":
            return team.spawn("w3", "w1", **more, **change)
        case "turn_open":
            return team.open_turn(
                "w1", 2, parent_turn_id=turn.turn_id, consumed=("answer",), **more, **change
            )
        case "call_open":
            return team.open_call(turn, team.call("c2"), "w1", **more, **change)
        case "call_close":
            return replace(team.close_call(turn, "c1", "w1"), close=answer, **more, **change)
        case "turn_close":
            calls = (team.call("c1", sequence=1), team.call("v1", orchestration=False))
            result = team.result(tool_calls=calls, permissions_used=("Bash",))
            return replace(team.close_turn(turn, "w1", result=result), **more, **change)
        case "agent_end":
            return team.end("w1", close=answer, resolutions=resolved, **more)
        case _:
            return team.control(
                "w1",
                "restart",
                incarnation=2,
                prompt="again",
                requests=(team.request("w1"),),
                resolutions=resolved,
                consumed=("answer",),
                **more,
                **change,
            )


@pytest.mark.requirement("N18")
@pytest.mark.parametrize("kind", KINDS)
async def test_a_step_committed_twice_leaves_the_same_rows(
    kind: str, store: SqliteStore, team: Steps, path: Path
):
    step = full_step(kind, team, await prepare(store, team))
    before = dump(path)
    first = await store.commit(step)
    once = dump(path)
    second = await store.commit(step)
    assert once != before
    assert dump(path) == once
    assert second == replace(first, duplicate=True)
    assert [event.seq for event in second.events] == [2, 3]


def unknown_target(step: Step, team: Steps) -> Step:
    nobody = replace(team.message("w1", "master"), target="nobody")
    return replace(step, messages=(*step.messages, nobody))


def foreign_event(step: Step, team: Steps) -> Step:
    return replace(step, events=(*step.events, replace(team.event(), session="s9")))


def unfit_change(step: Step, team: Steps) -> Step:
    change = StateChange(source=AgentState.COMPLETED, target=AgentState.FAILED)
    return replace(step, changes=(*step.changes, change))


def unwritable_event(step: Step, team: Steps) -> Step:
    return replace(step, events=(*step.events, team.event(text="\ud800")))


def unknown_value(step: Step, team: Steps) -> Step:
    odd = replace(team.message("w1", "master"), payload={"text": object()})
    return replace(step, messages=(*step.messages, odd))


@pytest.mark.requirement("N18")
@pytest.mark.parametrize(
    "spoil", [unknown_target, foreign_event, unfit_change, unwritable_event, unknown_value]
)
@pytest.mark.parametrize("kind", KINDS)
async def test_a_step_that_fails_in_the_middle_leaves_nothing(
    kind: str, spoil, store: SqliteStore, team: Steps, path: Path
):
    step = full_step(kind, team, await prepare(store, team))
    before = dump(path)
    with pytest.raises(PrsmError):
        await store.commit(spoil(step, team))
    assert dump(path) == before
    assert not (await store.commit(step)).duplicate


@pytest.mark.requirement("D13")
async def test_an_answer_is_taken_by_its_id_while_older_messages_wait(
    store: SqliteStore, team: Steps
):
    turn = team.open_turn("w1")
    await store.commit(turn)
    await store.commit(team.open_call(turn, team.call("c1"), "w1"))
    prompt = team.message("master", "w1", MessageType.USER_PROMPT)
    answer = team.message("master", "w1", MessageType.ANSWER, correlation_id="q1")
    await store.commit(team.control("master", "notice", messages=(prompt, answer)))
    by_correlation = {m.correlation_id: m for m in await store.inbox("s1")}
    used = (by_correlation["q1"].message_id,)
    await store.commit(team.close_call(turn, "c1", "w1", consumed=used))
    assert await store.inbox("s1") == [prompt]


async def test_a_child_cannot_be_spawned_under_an_ended_parent(store: SqliteStore, team: Steps):
    await store.commit(team.end("w1"))
    with pytest.raises(PrsmError, match="has ended"):
        await store.commit(team.spawn("w3", "w1"))


async def test_a_name_is_unique_in_its_session(store: SqliteStore, team: Steps):
    twin = team.spawn("w1", "master")
    twin = replace(twin, agent=replace(twin.agent, agent_id="other"), agent_id="other")
    with pytest.raises(PrsmError, match=r"agents\.name"):
        await store.commit(twin)


async def test_a_turn_belongs_to_its_agent(store: SqliteStore, team: Steps):
    turn = team.open_turn("w1")
    await store.commit(turn)
    for step in (
        team.open_call(turn, team.call("c1"), "w2"),
        team.close_call(turn, "c1", "w2"),
        team.close_turn(turn, "w2"),
        team.open_turn("w2", session_label="s1/w1"),
        team.open_turn("w1", 2, parent_turn_id="nothing"),
        team.close_turn(turn, "w1", parent_turn_id="nothing"),
    ):
        with pytest.raises(PrsmError):
            await store.commit(step)


async def test_a_closed_turn_takes_no_more_calls(store: SqliteStore, team: Steps):
    turn = team.open_turn("w1")
    await store.commit(turn)
    await store.commit(team.close_turn(turn, "w1"))
    with pytest.raises(PrsmError, match="is closed"):
        await store.commit(team.open_call(turn, team.call("c1"), "w1"))


async def test_grants_are_kept_in_order(store: SqliteStore, team: Steps):
    for name in ("master", "w1"):
        await store.commit(team.control(name, "grant", data={"tool": "Bash", "rule": "make"}))
    grants = await store.grants("s1")
    assert [g["agent_id"] for g in grants] == [team.agent("master"), team.agent("w1")]
    assert grants[0]["data"] == {"tool": "Bash", "rule": "make"}


async def test_a_run_names_its_engine_and_ends_once(store: SqliteStore, team: Steps, path: Path):
    identity = {"pid": 12, "start": 3456, "boot_id": "b"}
    for run in ("r2", "r3"):
        started = team.control(None, "run_started", run_id=run, data={"task": "t", **identity})
        await store.commit(started)
    rows = dump(path)
    assert [row[1:] for row in rows["engines"]] == [(12, 3456, "b")]
    assert [(row[0], row[2]) for row in rows["runs"]] == [("s1-run", None), ("r2", 1), ("r3", 1)]
    ended = {"run_id": "r3", "data": {"status": "failed", "error": "no"}}
    await store.commit(team.control(None, "run_finished", **ended))
    with pytest.raises(PrsmError, match="not running"):
        await store.commit(team.control(None, "run_finished", **ended))


async def test_a_resume_token_can_be_kept_before_the_turn_ends(store: SqliteStore, team: Steps):
    await store.commit(team.control("w1", "resume_token", data={"token": "thread-1"}))
    tokens = {row.descriptor.name: row.resume_token for row in await store.agents("s1")}
    assert tokens == {"master": None, "w1": "thread-1", "w2": None}
