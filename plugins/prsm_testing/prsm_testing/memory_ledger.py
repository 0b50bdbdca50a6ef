"""MemoryLedger: a MemoryStore's tables and log. What a step writes, its projections say.

It keeps the values it is given, neither copied nor encoded, and every step: the tables as they once
were, and as they were before a step that fails, are made of the steps again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from prsm_core.domain.events import LIVE_TYPES
from prsm_core.domain.projection import check_step, events_of, fork_of, made_of, rows_of
from prsm_core.domain.record import Record
from prsm_core.domain.renaming import renamed
from prsm_core.domain.rows import (
    BEGINS,
    ENDS,
    Advance,
    Amend,
    Insert,
    Merge,
    Now,
    Several,
    Update,
)
from prsm_core.domain.steps import Committed
from prsm_core.domain.writes.turns import ClosedBeforeError
from prsm_core.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from prsm_core.domain.events import Event
    from prsm_core.domain.rows import Computed, Fence, Ledger, Of
    from prsm_core.domain.rows import Row as Change
    from prsm_core.domain.steps import Step
    from prsm_core.domain.writes.forks import SessionForked

Values = Mapping[str, Any]
Rows = dict[Any, "Row"]
KeyOf = Callable[[Any], Any]  # of a row's values, what tells it from others

# What tells the rows of a table apart; those of the others are only ever added.
KEYS = {
    "meta": ("session_id",),
    "engines": ("boot_id", "pid", "start"),
    "runs": ("run_id",),
    "agents": ("agent_id",),
    "agent_specs": ("agent_id",),
    "sessions": ("label",),
    "turns": ("id",),
    "tool_calls": ("turn_id", "id"),
    "messages": ("turn_id", "id"),
    "compactions": ("turn_id",),
    "inbox": ("message_id",),
    "requests": ("request_id",),
    "effects": ("turn_id", "call_id", "name"),
    "snapshots": ("session_id", "snapshot_id", "last_commit"),
    "file_changes": ("session_id", "id"),
    "forks": ("session_id", "origin_id"),
    "aliases": ("session_id", "old_id"),
}
# The column that rows are looked for by without their key; it never changes.
INDEXES = {"sessions": "agent_id", "tool_calls": "turn_id", "inbox": "target"}
_NUMBERS = {"engines": "engine_id"}  # columns that a ledger counts by itself
# A row of another table, as SQLite would ask for.
_NEEDS = {"requests": ("agent_id", "agents"), "effects": ("turn_id", "turns")}


class Row(dict[str, Any]):
    """A row; columns that were never written hold nothing."""

    def __missing__(self, name: str) -> None:
        return None


class Table:
    """The rows of one table, by their key or their number."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.key = frozenset(KEYS.get(name, ()))
        # Returns what tells a row from others, of its values.
        self.key_of: KeyOf = itemgetter(*KEYS[name]) if self.key else self._next_number
        self.index = INDEXES.get(name)
        self.begins = name in BEGINS
        self.ends_by = ENDS.get(name)
        self.number = _NUMBERS.get(name)
        self.needs = _NEEDS.get(name)
        self.rows: Rows = {}
        self.indexed: dict[Any, Rows] = {}

    def _next_number(self, _values: Values) -> int:
        return len(self.rows)

    def find(self, where: Values) -> list[Row]:
        """Return the rows that `where` tells."""
        if self.key and self.key <= where.keys():
            row = self.rows.get(self.key_of(where))
            found = [] if row is None else [row]
            if len(where) == len(self.key):
                return found
        elif self.index is not None and self.index in where:
            found = list(self.indexed.get(where[self.index], {}).values())
        else:
            found = list(self.rows.values())
        for name, value in where.items():
            found = [row for row in found if row[name] == value]
        return found


class _ByName(dict[str, Table]):
    """Tables by their names; each is there once somebody asks for it."""

    def __missing__(self, name: str) -> Table:
        table = self[name] = Table(name)
        return table


class Tables:
    """Owns the tables, and applies rows to them. Rows that fail leave them in pieces."""

    def __init__(self) -> None:
        self._tables = _ByName()
        self._position = 0  # of the commit that is written

    def __getitem__(self, name: str) -> Rows:
        return self._tables[name].rows

    def find(self, table: str, where: Values) -> list[Row]:
        """Return the rows of a table that `where` tells."""
        return self._tables[table].find(where)

    def write(self, position: int, rows: Iterable[Change], ledger: Ledger | None = None) -> None:
        """Write the rows of a commit in order. Raises what a row's refusal says.

        Without a ledger none is refused: they were written once, into other tables.
        """
        self._position = position
        for row in rows:
            if type(row) is Insert:
                self._insert(row)
            elif type(row) is not Update:
                self._write_many(row)
            elif not self._update(row) and row.refusal is not None and ledger is not None:
                error = row.refusal(ledger)
                if error is not None:
                    raise error

    def _write_many(self, row: Change) -> None:
        """Write what stands for many rows; lines of turns are none of a store in memory."""
        if type(row) is Merge:
            self._merge(row)
        elif type(row) is Several:
            for values in row.rows:
                new = dict(zip(row.form.columns, values, strict=True))
                self._insert(Insert(row.form.table, new))
        elif type(row) is Amend:
            self._amend(row)
        elif type(row) is Advance:
            nothing = dict.fromkeys(row.empty)
            for key, number in row.numbers.items():
                where = {row.key: key, row.column: number - 1, **nothing}
                self._update(Update(row.table, where, {row.column: number}))

    def _insert(self, row: Insert) -> None:
        table, new = self._tables[row.table], Row(row.row)
        key = table.key_of(new)
        if key in table.rows:
            if row.keep:
                return
            raise StoreError(f"{key} is used already", code="conflict")
        if table.needs is not None:
            column, there = table.needs
            if new[column] not in self[there]:
                raise StoreError(f"{new[column]} is not in {there}", code="conflict")
        if row.computed is not None:
            new.update(self._compute(row.computed))
        if table.begins and "began" not in new:
            new["began"] = self._position
        if table.number is not None:
            new[table.number] = len(table.rows) + 1
        table.rows[key] = new
        if table.index is not None:
            table.indexed.setdefault(new[table.index], {})[key] = new

    def _update(self, row: Update) -> bool:
        table = self._tables[row.table]
        found, values, by = table.find(row.where), row.values, table.ends_by
        if row.computed is not None:
            values = {**values, **self._compute(row.computed)}
        if by is not None and by in values:
            values = {**values, "ended": None if values[by] is None else self._position}
        for one in found:
            one.update(values)
        return bool(found)

    def _amend(self, row: Amend) -> None:
        form = row.form
        values = dict(zip((*form.columns, *form.key), row.values, strict=True))
        where = {name: values.pop(name) for name in form.key}
        if form.counted is not None:
            values[form.counted] = len(self.find("tool_calls", {"turn_id": where["id"]}))
        self._update(Update(form.table, where, values))

    def _merge(self, row: Merge) -> None:
        form = row.form
        table = self._tables[form.table]
        for values in row.rows:
            new = dict(zip(form.columns, values, strict=True))
            there = table.rows.get(table.key_of(new))
            if there is None:
                self._insert(Insert(form.table, new))
                continue
            news = {name: new[name] for name in form.newer}
            if there[form.until] is None:
                news |= {name: new[name] for name in form.open}
            news |= {name: new[name] for name in form.known if new[name] is not None}
            there.update(news)

    def _compute(self, computed: Computed) -> dict[str, Any]:
        return {name: self._value(value) for name, value in computed.items()}

    def _value(self, value: Of | Now) -> Any:
        if isinstance(value, Now):
            return self._position
        found = self.find(value.table, value.where)
        return found[0][value.column] if found else None


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
        return tuple([found[0][column] for column in columns]) if found else None


def _first_result(step: Step, session_id: str, kind: str, events: tuple[Event, ...]) -> Committed:
    if (session_id, kind) != (step.session_id, made_of(step).names):
        raise StoreError(
            f"step {step.step_id} was already committed in session {session_id}: {kind or 'told'}",
            code="step_id_reused",
        )
    return Committed(step_id=step.step_id, events=events, duplicate=True)
