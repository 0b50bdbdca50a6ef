"""What a run has left in its ledger, and what must be true of it."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING

from prsm_core.domain.agents import AgentState
from prsm_core.errors import InvalidTransitionError
from prsm_core.lifecycle.agent import RESTART, validate_transition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prsm_core.domain.events import Event
    from prsm_testing.memory_ledger import MemoryLedger
    from prsm_testing.sim.rules import Findings
    from prsm_testing.sim.watch import Facts

# What begins in the log also ends there, and by what the two are matched.
_PAIRS = (
    ("turn_started", "turn_finished", "turn"),
    ("tool_call_started", "tool_call_finished", "call"),
    ("permission_requested", "permission_resolved", "request"),
    ("question_asked", "question_answered", "request"),
)


def check_ledger(
    ledger: MemoryLedger, session: str, findings: Findings, *, crashed: str | None
) -> None:
    """Check a whole ledger; of the run that crashed only what holds at every moment."""
    events = ledger.events[session]
    findings.check(
        "log",
        [event.seq for event in events] == list(range(1, len(events) + 1)),
        "the events' numbers have a gap",
    )
    for run in ledger.tables["runs"]:
        own = [event for event in events if event.run == run]
        _check_frame(own, findings, is_open=run == crashed)
        if run != crashed:
            _check_pairs(own, findings)
    internal = [e.data["text"] for e in events if "failed inside prsm" in e.data.get("text", "")]
    findings.check("surprises", not internal, "; ".join(internal[:3]))
    _check_states(ledger, events, findings)
    _check_messages(ledger, events, findings)


def _check_frame(events: Sequence[Event], findings: Findings, *, is_open: bool) -> None:
    kinds = [event.type for event in events]
    findings.check("log", kinds[:1] == ["run_started"] or not kinds, "a run begins with no start")
    ends = [number for number, kind in enumerate(kinds, 1) if kind == "run_finished"]
    last = [number for number in ends if kinds[number : number + 1] != ["run_resumed"]]
    findings.check(
        "log",
        last == [len(kinds)] or (is_open and not last),
        f"run_finished stands at {ends} of {len(kinds)} events",
    )


def _check_pairs(events: Sequence[Event], findings: Findings) -> None:
    for begin, end, key in _PAIRS:
        begun = Counter((e.agent, e.data[key]) for e in events if e.type == begin)
        ended = Counter((e.agent, e.data[key]) for e in events if e.type == end)
        findings.check(
            "fold",
            not ended - begun and not begun - ended,
            f"{begin} without {end}, or the other way: {begun - ended}, {ended - begun}",
        )


def _check_states(ledger: MemoryLedger, events: Sequence[Event], findings: Findings) -> None:
    moves: defaultdict[str | None, list[Event]] = defaultdict(list)
    for event in events:
        if event.type == "agent_state_changed":
            moves[event.agent].append(event)
    for agent_id, row in ledger.tables["agents"].items():
        state, name = AgentState(row["state"]), row["name"]
        states = [AgentState.PENDING, *(AgentState(m.data["to"]) for m in moves[agent_id])]
        sources = [AgentState(m.data["from"]) for m in moves[agent_id]]
        findings.check(
            "fold",
            states[-1] is state and sources == states[:-1],
            f"{name} is {state} in the ledger, by its events {states[-1]}",
        )
        findings.check("results", _is_legal(states), f"{name} went {' → '.join(states)}")
        if state.is_terminal:
            findings.check(
                "results", row.get("result") is not None, f"{name} ended without a result"
            )


def _is_legal(states: Sequence[AgentState]) -> bool:
    try:
        for source, target in pairwise(states):
            validate_transition(source, target, trigger=RESTART if source.is_terminal else None)
    except InvalidTransitionError:
        return False
    return True


def _check_messages(ledger: MemoryLedger, events: Sequence[Event], findings: Findings) -> None:
    told = [event.data["mid"] for event in events if event.type == "message_routed"]
    findings.check(
        "fold",
        told == list(ledger.tables["inbox"]),
        "the messages in the ledger are not those that its events tell of",
    )


def check_ended(
    ledger: MemoryLedger, facts: Facts, findings: Findings, *, crashed: str | None
) -> None:
    """Check that the runs that have ended, all but the one that crashed, left nobody behind.

    Who was interrupted has not ended, and can be resumed; but its turns have.
    """
    events = [event for log in ledger.events.values() for event in log]
    torn = {event.agent for event in events if event.run == crashed and crashed is not None}
    runs, turns = ledger.tables["runs"], ledger.tables["turns"]
    interrupted = {run for run, row in runs.items() if row["status"] == "interrupted"}
    stopped = {event.agent for event in events if event.run in interrupted}
    for agent_id, row in ledger.tables["agents"].items():
        name, has_ended = row["name"], AgentState(row["state"]).is_terminal
        if agent_id in torn:
            continue
        findings.check(
            "results",
            has_ended or agent_id in stopped,
            f"the run has ended and {name} is {row['state']}",
        )
        lives = [n for agent, n in facts.results if agent == agent_id]
        findings.check(
            "results",
            lives == sorted(set(lives)) and (not has_ended or lives[-1:] == [row["incarnation"]]),
            f"{name} has lived {row['incarnation']} times, and has results of {lives}",
        )
        own = [turn for turn in turns.values() if turn["agent_id"] == agent_id]
        is_open = any(turn["status"] == "running" for turn in own)
        findings.check("fold", not is_open, f"{name} has a turn that never ended")
    waiting = [
        row
        for row in ledger.tables["requests"].values()
        if row["state"] == "open" and row["agent_id"] not in torn
    ]
    findings.check("leftovers", not waiting, f"{len(waiting)} requests still wait for a person")
