"""A step with a write of any kind is applied wholly, once, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from prsm_core.domain import writes
from prsm_core.domain.agents import AgentResult, AgentState, PermissionMode
from prsm_core.domain.changes import Decision
from prsm_core.domain.messages import MessageType
from prsm_core.domain.notes import Notes
from prsm_core.domain.turns import Effect
from prsm_core.domain.usage import Spent, TokenUsage
from prsm_core.domain.writes import (
    AgentEnded,
    AgentHeld,
    AgentNoted,
    AgentRelabelled,
    AgentRestarted,
    AgentSpawned,
    AgentsResumed,
    CallOpened,
    ChangesDecided,
    EffectNoted,
    Granted,
    MessagesConsumed,
    ModelSwitched,
    ModeSwitched,
    ReceivesUndone,
    RequestOpened,
    ResultClaimed,
    RunFinished,
    RunResumed,
    RunStarted,
    SessionNamed,
    SnapshotTaken,
    ThreadKept,
    TurnMetered,
)
from prsm_core.errors import PrsmError
from tests.store.dumps import dump

if TYPE_CHECKING:
    from pathlib import Path

    from prsm_testing.store_contract import Steps

    from prsm_core.domain.steps import Step, Write
    from prsm_core.domain.writes import TurnOpened
    from prsm_core.store import SqliteStore

KINDS = [kind.__name__ for kind in vars(writes).values() if isinstance(kind, type)]


async def prepare(store: SqliteStore, team: Steps) -> TurnOpened:
    """Leave w1 in its first turn with an open call, an open request, mail read and unread."""
    turn = team.turn("w1")
    sent = team.message("master", "w1", MessageType.ANSWER, message_id="answer")
    read = team.message("master", "w1", MessageType.ANSWER, message_id="read")
    used = team.message("master", "w1", MessageType.ANSWER, message_id="used")
    request = team.request("w1", request_id="request")
    await store.commit(team.step("w1", turn))
    await store.commit(team.open_call(turn, team.call("c1"), "w1"))
    await store.commit(team.ask("w1", request))
    await store.commit(team.step("master", *team.sent(sent, read, used)))
    await store.commit(team.consume("w1", "read"))
    await store.commit(team.open_call(turn, team.call("c0"), "w1"))
    await store.commit(team.close_call(turn, "c0", "w1", consumed=("used",)))
    await store.commit(team.step(None, team.changed("f1", "w1")))
    return turn


DEFAULT, PLAN = PermissionMode.DEFAULT, PermissionMode.PLAN
SPENT = Spent.of_turn(TokenUsage(input_tokens=1, output_tokens=2), 0.5)


def _of_session(team: Steps) -> dict[str, Write]:
    """Return those that an agent does not bring about, by kind."""
    return {
        "ModeSwitched": ModeSwitched(source=DEFAULT, target=PLAN, mode=PLAN, granted=PLAN),
        "AgentHeld": AgentHeld(waiting_on="a usage limit", reason="429", until=1.5),
        "SessionNamed": SessionNamed(name="a name"),
        "SnapshotTaken": SnapshotTaken(snapshot=team.snapshot()),
        "FileChanged": team.changed("f2", "w1"),
        "ChangesDecided": ChangesDecided(decisions=(Decision("f1", "src/a.py", "accepted"),)),
    }


def full_step(kind: str, team: Steps, turn: TurnOpened) -> Step:
    """Return a step with a write of the kind that says everything such a write can say."""
    calls = (team.call("c1", sequence=1), team.call("v1", orchestration=False))
    closing = team.result(tool_calls=calls, permissions_used=("Bash",))
    result = AgentResult(agent_id=team.agent("w1"), success=True, summary="done")
    starting = team.change(AgentState.PENDING, AgentState.STARTING)
    effect = Effect(turn_id=turn.turn_id, call_id="c1", name="child", ref="w9", data={"n": 1})
    write: Write = {
        "RunStarted": RunStarted(
            task="t", workspace="/w", engine=("boot", 1, 2), options={"mode": "plan"}
        ),
        "RunResumed": RunResumed(epoch=2, engine=("boot", 3, 4), options={"mode": "plan"}),
        "RunFinished": RunFinished(status="failed", summary="s", error="e", used={"cost_usd": 1.0}),
        "Told": team.told("three"),
        "AgentSpawned": AgentSpawned(agent=team.descriptor("w3", "w1")),
        "StateChanged": starting,
        "AgentEnded": AgentEnded(result=result),
        "ResultClaimed": ResultClaimed(result=result),
        "AgentRestarted": AgentRestarted(prompt="again"),
        "AgentsResumed": AgentsResumed(lives={team.agent("w1"): 2, team.agent("w2"): 2}),
        "ModelSwitched": ModelSwitched(provider="p", model="m", reasoning_effort="high"),
        "AgentRelabelled": AgentRelabelled(agent_id=team.agent("w1"), labels={"a": "b"}),
        "ThreadKept": ThreadKept(thread="thread"),
        "AgentNoted": AgentNoted(notes=Notes(failures=1, heard={"w9": 2})),
        "CallOpened": CallOpened(turn_id=turn.turn_id, call=team.call("c2")),
        "CallClosed": team.answer(turn, "c1", status="failed", result="no", consumed=("answer",)),
        "ReceivesUndone": ReceivesUndone(turn_id=turn.turn_id, received={"c0": ("used",)}),
        "MessageSent": team.sent(team.message("w1", "w2"))[0],
        "EffectNoted": EffectNoted(effect=effect),
        "MessagesConsumed": MessagesConsumed(messages=("answer",)),
        "RequestOpened": RequestOpened(request=team.request("w1")),
        "RequestResolved": team.resolved("request", "deny"),
        "Granted": Granted(grant={"tool": "Bash"}),
        **_of_session(team),
        "TurnOpened": team.turn("w1", 2, parent_turn_id=turn.turn_id, consumed=("answer",)),
        "TurnMetered": TurnMetered(turn_id=turn.turn_id, spent=SPENT),
        "TurnClosed": team.close(turn, result=closing),
    }[kind]
    besides = (team.told("one"), *team.sent(team.message("w1", "master")), team.told("two"))
    match kind:
        case "RunStarted":
            return team.step(None, team.told("one"), write, run_id="r2")
        case "RunFinished" | "RunResumed" | "AgentsResumed":
            return team.step(None, team.told("one"), write)
        case "AgentEnded":
            over = team.change(AgentState.PENDING, AgentState.KILLED)
            return team.step("w1", *besides, write, over)
        case "AgentRestarted":
            return team.step("w1", *besides, write, starting, incarnation=2)
    return team.step("w1", *besides, write)


@pytest.mark.requirement("N18")
@pytest.mark.parametrize("kind", KINDS)
async def test_a_step_committed_twice_leaves_the_same_rows(
    kind: str, store: SqliteStore, team: Steps, path: Path
):
    step = full_step(kind, team, await prepare(store, team))
    before = dump(path)
    told = len(before["events"])
    first = await store.commit(step)
    once = dump(path)
    second = await store.commit(step)
    assert once != before
    assert dump(path) == once
    assert second == replace(first, duplicate=True)
    assert [event.seq for event in second.events] == [
        told + number for number, _ in enumerate(first.events, 1)
    ]


def unknown_target(team: Steps) -> Write:
    return team.sent(replace(team.message("w1", "master"), target="nobody"))[0]


def unfit_change(team: Steps) -> Write:
    return team.change(AgentState.COMPLETED, AgentState.FAILED)


def unwritable_event(team: Steps) -> Write:
    return team.told("\ud800")


def unknown_value(team: Steps) -> Write:
    return team.sent(replace(team.message("w1", "master"), payload={"text": object()}))[0]


@pytest.mark.requirement("N18")
@pytest.mark.parametrize("kind", KINDS)
async def test_a_step_that_fails_in_the_middle_leaves_nothing(
    kind: str, store: SqliteStore, team: Steps, path: Path
):
    step = full_step(kind, team, await prepare(store, team))
    before = dump(path)
    for spoilt in (unknown_target, unfit_change, unwritable_event, unknown_value):
        with pytest.raises(PrsmError):
            await store.commit(replace(step, writes=(*step.writes, spoilt(team))))
        assert dump(path) == before, spoilt
    assert not (await store.commit(step)).duplicate


@pytest.mark.requirement("D13")
async def test_an_answer_is_taken_by_its_id_while_older_messages_wait(
    store: SqliteStore, team: Steps
):
    turn = team.turn("w1")
    await store.commit(team.step("w1", turn))
    await store.commit(team.open_call(turn, team.call("c1"), "w1"))
    prompt = team.message("master", "w1", MessageType.USER_PROMPT)
    answer = team.message("master", "w1", MessageType.ANSWER, correlation_id="q1")
    await store.commit(team.step("master", *team.sent(prompt, answer)))
    by_correlation = {m.correlation_id: m for m in await store.inbox("s1")}
    used = (by_correlation["q1"].message_id,)
    await store.commit(team.close_call(turn, "c1", "w1", consumed=used))
    assert await store.inbox("s1") == [prompt]


async def test_a_child_cannot_be_spawned_under_an_ended_parent(store: SqliteStore, team: Steps):
    await store.commit(team.end("w1"))
    with pytest.raises(PrsmError, match="has ended"):
        await store.commit(team.spawn("w3", "w1"))


async def test_a_name_is_unique_in_its_session(store: SqliteStore, team: Steps):
    twin = replace(team.spawn("w1", "master", agent_id="other"), agent_id="other")
    with pytest.raises(PrsmError, match=r"agents\.name"):
        await store.commit(twin)


async def test_a_turn_belongs_to_its_agent(store: SqliteStore, team: Steps):
    turn = team.turn("w1")
    await store.commit(team.step("w1", turn))
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
    turn = team.turn("w1")
    await store.commit(team.step("w1", turn))
    await store.commit(team.close_turn(turn, "w1"))
    with pytest.raises(PrsmError, match="is closed"):
        await store.commit(team.open_call(turn, team.call("c1"), "w1"))


async def test_grants_are_kept_in_order(store: SqliteStore, team: Steps):
    for name in ("master", "w1"):
        await store.commit(team.step(name, Granted(grant={"tool": "Bash", "rule": "make"})))
    grants = (await store.state("s1")).grants
    assert [g["agent_id"] for g in grants] == [team.agent("master"), team.agent("w1")]
    assert grants[0]["data"] == {"tool": "Bash", "rule": "make"}


async def test_a_run_names_its_engine_and_ends_once(store: SqliteStore, team: Steps, path: Path):
    for run in ("r2", "r3"):
        started = RunStarted(task="t", workspace="", engine=("b", 12, 3456))
        await store.commit(team.step(None, started, run_id=run))
    rows = dump(path)
    assert [row[1:] for row in rows["engines"]] == [(12, 3456, "b")]
    assert [(row[0], row[2]) for row in rows["runs"]] == [("s1-run", None), ("r2", 1), ("r3", 1)]
    ended = RunFinished(status="failed", error="no", used={})
    await store.commit(team.step(None, ended, run_id="r3"))
    with pytest.raises(PrsmError, match="not running"):
        await store.commit(team.step(None, ended, run_id="r3"))


async def test_a_resume_token_can_be_kept_before_the_turn_ends(store: SqliteStore, team: Steps):
    await store.commit(team.step("w1", ThreadKept(thread="thread-1")))
    tokens = {row.descriptor.name: row.resume_token for row in await store.agents("s1")}
    assert tokens == {"master": None, "w1": "thread-1", "w2": None}
