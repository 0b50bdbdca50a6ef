"""MemoryLedger: a MemoryStore's tables and log. What a step writes, its projections say.

It keeps the values it is given, neither copied nor encoded, and every step: the tables as they once
were, and as they were before a step that fails, are made of the steps again.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from prsm_core.domain.events import LIVE_TYPES
from prsm_core.domain.projection import check_step, events_of, fork_of, made_of, rows_of
from prsm_core.domain.record import Record
from prsm_core.domain.renaming import renamed
from prsm_core.domain.steps import Committed
from prsm_core.domain.writes.turns import ClosedBeforeError
from prsm_core.errors import StoreError
from prsm_testing.memory_rows import Tables

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from prsm_core.domain.events import Event
    from prsm_core.domain.rows import Fence, Values
    from prsm_core.domain.steps import Step
    from prsm_core.domain.writes.forks import SessionForked


class _Commit(Record, frozen=True, gc=False):
    """A commit: whose, the session's last event by then, and its step if it has one."""

    session_id: str
    seq: int
    step: Step | None


class MemoryLedger:
    """Owns the tables and the log; every act is synchronous and whole."""

    def __init__(self) -> None:
        self.tables = Tables()
        self.events: defaultdict[str, list[Event]] = defaultdict(list)  # seq is the index + 1
        self.positions: defaultdict[str, list[int]] = defaultdict(list)  # of the commits of these
        self._commits: list[_Commit] = []  # their positions are the indexes + 1
        self._newest: dict[str, int] = {}  # position of each session's newest commit
        self._steps: dict[str, tuple[str, str, tuple[Event, ...]]] = {}
        self._fences: dict[str, Fence] = {}  # agents, as the steps so far leave them
        self._session_id = ""  # of the step that is applied now
        self._changed: dict[str, Fence] = {}  # agents, as its writes so far leave them

    def commit(self, step: Step) -> Committed:
        """Apply a step or nothing of it; a known one returns its first result."""
        known = self._steps.get(step.step_id)
        if known is not None:
            return _first_result(step, *known)
        kinds = made_of(step)
        fork = fork_of(step) if kinds.forks else None
        log = self.events[step.session_id]
        events = events_of(step, len(log) if fork is None else fork.seq)
        self._session_id, self._changed = step.session_id, {}
        try:
            check_step(step, kinds, self)
        except ClosedBeforeError as closed:
            _, _, events = self._steps[closed.step_id]
            return Committed(step_id=step.step_id, events=events, duplicate=True)
        try:
            self.tables.write(len(self._commits) + 1, rows_of(step), self)
        except BaseException:
            self.tables = self._made_of(self._commits)
            raise
        if fork is not None:
            self._share(step.session_id, fork)
        log.extend(events)
        self._commit(step.session_id, len(events), step)
        self._fences.update(self._changed)
        self._steps[step.step_id] = (step.session_id, kinds.names, events)
        return Committed(step_id=step.step_id, events=events)

    def _share(self, session_id: str, fork: SessionForked) -> None:
        """Have a fork's log begin as that of its origin."""
        origin, state = fork.state.origins[-1], fork.state
        shared = self.events[origin.session_id][: origin.seq]
        self.events[session_id] += [renamed(event, state.aliases) for event in shared]
        self.positions[session_id] += self.positions[origin.session_id][: origin.seq]

    def append(self, events: Sequence[Event]) -> tuple[Event, ...]:
        """Append events that no step causes."""
        for event in events:
            if event.type in LIVE_TYPES:
                raise StoreError(f"{event.type} events are live only", code="live_event")
        numbered, told = [], dict[str, int]()
        for event in events:
            log = self.events[event.session]
            event = event.at(len(log) + 1)
            log.append(event)
            numbered.append(event)
            told[event.session] = told.get(event.session, 0) + 1
        for session_id, count in told.items():
            self._commit(session_id, count)
        return tuple(numbered)

    def _commit(self, session_id: str, count: int, step: Step | None = None) -> None:
        """Number what has just been written, with so many events."""
        seq = len(self.events[session_id])
        self._commits.append(_Commit(session_id, seq, step))
        self._newest[session_id] = position = len(self._commits)
        self.positions[session_id].extend([position] * count)

    def newest(self, session_id: str) -> int:
        """Return the position of the session's newest commit, 0 without any."""
        return self._newest.get(session_id, 0)

    def commit_of(self, session_id: str, seq: int) -> tuple[str, int] | None:
        """Return whose commit holds an event, and its position."""
        if not 0 < seq <= len(self.positions[session_id]):
            return None
        position = self.positions[session_id][seq - 1]
        return self._commits[position - 1].session_id, position

    def seq_at(self, session_id: str, position: int) -> int | None:
        """Return the session's last event by a commit of its own; None where that is not one."""
        if not 0 < position <= len(self._commits):
            return None
        commit = self._commits[position - 1]
        return commit.seq if commit.session_id == session_id else None

    def as_of(self, position: int) -> Tables:
        """Return the tables as they were after a commit; they are only to be read."""
        if position == len(self._commits):
            return self.tables
        return self._made_of(self._commits[:position])

    @staticmethod
    def _made_of(commits: Sequence[_Commit]) -> Tables:
        tables = Tables()
        for position, commit in enumerate(commits, 1):
            if commit.step is not None:
                tables.write(position, rows_of(commit.step))
        return tables

    def agent(self, agent_id: str) -> Fence | None:
        """Return an agent of the step's session, as its writes so far leave it."""
        fence = self._changed.get(agent_id) or self._fences.get(agent_id)
        return fence if fence is not None and fence.session_id == self._session_id else None

    def agents(self, agent_ids: Collection[str]) -> Mapping[str, Fence]:
        """Return those of several agents that there are, as `agent` would."""
        fences = {agent_id: self.agent(agent_id) for agent_id in agent_ids}
        return {agent_id: fence for agent_id, fence in fences.items() if fence is not None}

    def change(self, fence: Fence) -> None:
        """Let an agent be known as a write leaves it."""
        self._changed[fence.agent_id] = fence

    def look(self, table: str, where: Values, *columns: str) -> tuple[Any, ...] | None:
        """Return columns of a row, None where there is none."""
        found = self.tables.find(table, where)
        return tuple([found[0].get(column) for column in columns]) if found else None


def _first_result(step: Step, session_id: str, kind: str, events: tuple[Event, ...]) -> Committed:
    if (session_id, kind) != (step.session_id, made_of(step).names):
        raise StoreError(
            f"step {step.step_id} was already committed in session {session_id}: {kind or 'told'}",
            code="step_id_reused",
        )
    return Committed(step_id=step.step_id, events=events, duplicate=True)
