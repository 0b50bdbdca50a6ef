"""What a scenario left in its ledger, and what must be true of it."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from prsm_core.domain.agents import AgentState
from prsm_core.lifecycle import AGENT_MACHINE, RESTART
from prsm_core.store.codec import decode
from prsm_core.store.copies import check_told
from tests.store.dumps import query, reading

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

# What begins in the log also ends there, and by what the two are matched.
PAIRS = (
    ("turn_started", "turn_finished", "turn"),
    ("tool_call_started", "tool_call_finished", "call"),
    ("permission_requested", "permission_resolved", "request"),
    ("question_asked", "question_answered", "request"),
)
# A fork begins in the midst, with what its origin tells.
NAMES = "SELECT agent_id, name FROM agents WHERE session_id NOT IN (SELECT session_id FROM forks)"
STATES = "SELECT name, state FROM agents WHERE session_id NOT IN (SELECT session_id FROM forks)"
SUSPENDED = "SELECT agent_id FROM agents JOIN runs USING (run_id) WHERE status = 'interrupted'"
TOLD = """
SELECT seq, type, agent_id, run_id, data FROM events
WHERE session_id NOT IN (SELECT session_id FROM forks) ORDER BY seq
"""


class Ledger:
    """What a scenario left behind, read with plain SQL; forks of its session are not looked at."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def rows(self, sql: str, *values) -> list[tuple]:
        return query(self.path, sql, *values)

    def one(self, sql: str, *values) -> Any:
        """Return the only value of the only row."""
        [(value,)] = self.rows(sql, *values)
        return value

    def written(self) -> dict[str, list[tuple]]:
        """Return what acts leave behind, apart from the record of the calls themselves."""
        columns = {
            "agents": "agent_id, name, incarnation",  # their states go on meanwhile
            "agent_specs": "*",
            "inbox": "message_id, target",
            "sessions": "label",
            "requests": "request_id",
            "grants": "*",
        }
        return {
            table: self.rows(f"SELECT {columns} FROM {table} ORDER BY 1")  # noqa: S608 - no input
            for table, columns in columns.items()
        }

    def events(self, kind: str | None = None, agent: str | None = None) -> list[dict[str, Any]]:
        """Return the events as dicts, `agent` being the name of the one they are of."""
        return [
            event
            for event in _events(dict(self.rows(NAMES)), self.rows(TOLD))
            if kind in {None, event["type"]} and agent in {None, event["agent"]}
        ]

    def states(self, agent: str) -> list[str]:
        """Return the states an agent has passed."""
        return _states(self.events("agent_state_changed", agent))

    def check(self) -> None:
        """Check what must be true of the ledger of every closed engine."""
        # Most tests of the engine end here: one connection for all its queries.
        with reading(self.path) as connection:

            def column(sql: str) -> set[Any]:
                return {value for (value,) in connection.execute(sql)}

            events = _events(dict(connection.execute(NAMES)), connection.execute(TOLD))
            for _, kind, _, _, data in connection.execute(TOLD):
                check_told(kind, decode(data))  # what an engine writes a copy may hold
            _check_runs(events)
            _check_states(connection.execute(STATES), events)
            suspended = column(SUSPENDED)
            assert column("SELECT agent_id FROM requests WHERE state = 'open'") <= suspended
            turns = dict(
                connection.execute("SELECT id, agent_id FROM turns WHERE status = 'running'")
            )
            assert set(turns.values()) <= suspended
            assert column("SELECT turn_id FROM tool_calls WHERE completed_at IS NULL") <= set(turns)
            names = dict(connection.execute("SELECT agent_id, name FROM agents"))
        _check_pairs(events, {names[agent] for agent in suspended})


def _events(names: dict[str, str], rows: Iterable[tuple]) -> list[dict[str, Any]]:
    return [
        {"seq": seq, "type": kind, "agent": names.get(agent), "run": run, **decode(data)}
        for seq, kind, agent, run, data in rows
    ]


def _states(moves: list[dict[str, Any]]) -> list[str]:
    return [AgentState.PENDING.value, *(move["to"] for move in moves)]


def _check_runs(events: list[dict[str, Any]]) -> None:
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    for run in {event["run"] for event in events}:
        kinds = [event["type"] for event in events if event["run"] == run]
        assert kinds[0] == "run_started"
        # Those that were cut off may have ended in order.
        lives = 1 + kinds.count("run_resumed")
        assert 1 <= kinds.count("run_finished") <= lives
        assert kinds[-1] == "run_finished"


def _check_states(ends: Iterable[tuple], events: list[dict[str, Any]]) -> None:
    moves = defaultdict(list)
    for event in events:
        if event["type"] == "agent_state_changed":
            moves[event["agent"]].append(event)
    for name, state in ends:
        states = _states(moves[name])
        assert states[-1] == state, name
        for source, target in pairwise(map(AgentState, states)):
            trigger = RESTART if source.is_terminal else None
            AGENT_MACHINE.validate(source, target, trigger=trigger)
        assert [move["from"] for move in moves[name]] == states[:-1]


def _check_pairs(events: list[dict[str, Any]], suspended: set[str]) -> None:
    for begin, end, key in PAIRS:
        begun = Counter((e["agent"], e[key]) for e in events if e["type"] == begin)
        ended = Counter((e["agent"], e[key]) for e in events if e["type"] == end)
        unmatched = begun - ended
        still_open = Counter({one: n for one, n in unmatched.items() if one[0] in suspended})
        assert begun - still_open == ended, (begin, begun - ended, ended - begun)
