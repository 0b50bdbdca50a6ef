"""What a scenario left in its ledger, and what must be true of it."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from prsm_core.domain.agents import AgentState
from prsm_core.lifecycle.agent import RESTART, validate_transition
from prsm_core.store.codec import decode
from prsm_core.store.copy_checks import check_told
from tests.store.dumps import query

if TYPE_CHECKING:
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
        found = self._all_events()
        return [
            event
            for event in found
            if kind in {None, event["type"]} and agent in {None, event["agent"]}
        ]

    def _all_events(self) -> list[dict[str, Any]]:
        names, rows = dict(self.rows(NAMES)), self.rows(TOLD)
        return [
            {"seq": seq, "type": kind, "agent": names.get(agent), "run": run, **decode(data)}
            for seq, kind, agent, run, data in rows
        ]

    def states(self, agent: str) -> list[str]:
        """Return the states an agent has passed."""
        moves = self.events("agent_state_changed", agent)
        return [AgentState.PENDING.value, *(move["to"] for move in moves)]

    def check(self) -> None:
        """Check what must be true of the ledger of every closed engine."""
        events = self.events()
        assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
        for _, kind, _, _, data in self.rows(TOLD):
            check_told(kind, decode(data))  # what an engine writes a copy may hold
        for run in {event["run"] for event in events}:
            kinds = [event["type"] for event in events if event["run"] == run]
            assert kinds[0] == "run_started"
            lives = 1 + kinds.count(
                "run_resumed"
            )  # those that were cut off may have ended in order
            assert 1 <= kinds.count("run_finished") <= lives
            assert kinds[-1] == "run_finished"
        self._check_states()
        self._check_calls_and_turns(events)
        requests = self.rows("SELECT agent_id FROM requests WHERE state = 'open'")
        assert {agent for (agent,) in requests} <= self._suspended()

    def _suspended(self) -> set[str]:
        """Return the agents that were left as they were, for a resume, when their run ended."""
        rows = self.rows(
            "SELECT agent_id FROM agents JOIN runs USING (run_id) WHERE status = 'interrupted'"
        )
        return {agent for (agent,) in rows}

    def _check_states(self) -> None:
        for agent_id, name in self.rows(NAMES):
            state = self.one("SELECT state FROM agents WHERE agent_id = ?", agent_id)
            states = self.states(name)
            assert states[-1] == state, name
            for source, target in pairwise(map(AgentState, states)):
                trigger = RESTART if source.is_terminal else None
                validate_transition(source, target, trigger=trigger)
            moves = self.events("agent_state_changed", name)
            assert [move["from"] for move in moves] == states[:-1]

    def _check_calls_and_turns(self, events) -> None:
        suspended = self._suspended()
        turns = self.rows("SELECT agent_id, id FROM turns WHERE status = 'running'")
        assert {agent for agent, _ in turns} <= suspended
        calls = self.rows("SELECT turn_id FROM tool_calls WHERE completed_at IS NULL")
        assert {turn for (turn,) in calls} <= {turn for _, turn in turns}
        names = dict(self.rows("SELECT agent_id, name FROM agents"))
        left = {names[agent] for agent in suspended}
        for begin, end, key in PAIRS:
            begun = Counter((e["agent"], e[key]) for e in events if e["type"] == begin)
            ended = Counter((e["agent"], e[key]) for e in events if e["type"] == end)
            open_still = Counter({one: n for one, n in (begun - ended).items() if one[0] in left})
            assert begun - open_still == ended, (begin, begun - ended, ended - begun)
