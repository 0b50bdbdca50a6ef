"""Rows: what a step changes in the ledger's tables, as data that every store applies alike.

Values are plain: text, numbers, None, and JSON values in columns of JSON. What only the ledger can
tell is `computed`. A condition with None asks for an empty column. A new row's mapping is the
store's to keep.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from prsm_core.domain.record import Record
from prsm_core.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Collection

    from prsm_core.domain.agents import AgentState

Values: TypeAlias = Mapping[str, Any]
# Looks at the ledger and says why a row could not be written; None if that is just as well.
Refusal: TypeAlias = Callable[["Ledger"], Exception | None]


# Tables whose rows keep the position of the commit by which they `began`, unless they tell another,
# and those whose rows keep that by which they `ended`, with the column that then holds something.
BEGINS = frozenset(
    {"runs", "agents", "turns", "inbox", "requests", "grants", "effects", "snapshots"}
    | {"file_changes"}
)
ENDS: Mapping[str, str] = {"turns": "closed_by", "inbox": "consumed_by", "requests": "resolved_by"}


def refusing(message: str, code: str, hint: str | None = None) -> Refusal:
    """Return a refusal that says why in a StoreError."""
    return lambda _: StoreError(message, hint=hint, code=code)


class Insert(Record, frozen=True, gc=False):
    """A new row; one with its key that is there is an error, or stays as it is (`keep`)."""

    table: str
    row: dict[str, Any]
    keep: bool = False
    computed: Computed | None = None  # more columns


class Form(Record, frozen=True, eq=False, gc=False):
    """What the rows of one kind have in common: a constant by which a store writes them.

    Its rows hold values alone, so that no mapping is built for each.
    """

    table: str
    columns: tuple[str, ...]
    key: tuple[str, ...] = ()  # columns that tell the row, where it is there already
    counted: str | None = None  # a column that becomes the number of a turn's calls


class MergeForm(Form, frozen=True, eq=False, gc=False, kw_only=True):
    """The form of rows that may be there already.

    Then `newer` columns are written anew, `open` ones while `until` holds nothing, and `known` ones
    if they now hold something.
    """

    newer: tuple[str, ...]
    until: str
    open: tuple[str, ...]
    known: tuple[str, ...]


class Several(Record, frozen=True, gc=False):
    """New rows of one form; one with its key that is there is an error."""

    form: Form
    rows: Sequence[Sequence[Any]]


class Merge(Record, frozen=True, gc=False):
    """Rows of one form that may be there already."""

    form: MergeForm
    rows: Sequence[Sequence[Any]]


class Amend(Record, frozen=True, gc=False):
    """New values of the row with the form's key: its columns, then the key. It may end the row."""

    form: Form
    values: Sequence[Any]


class Update(Record, frozen=True, gc=False):
    """New values of the rows that `where` tells, in fact mostly one."""

    table: str
    where: Values
    values: Values
    refusal: Refusal | None = None  # why there was no such row
    computed: Computed | None = None  # more columns


class Advance(Record, frozen=True, gc=False):
    """A number that becomes the next one, in the rows that `key` tells: what it is then, by key.

    Rows stay as they are that hold another number than the one before, or have an `empty` column
    that holds something.
    """

    table: str
    column: str
    key: str
    numbers: Mapping[str, int]
    empty: tuple[str, ...] = ()


class Place(Record, frozen=True, gc=False):
    """A new turn in the line of turns that it follows."""

    turn_id: str
    parent_turn_id: str | None


class Total(Record, frozen=True, gc=False):
    """The tokens of a line of turns, the last of which is over."""

    turn_id: str
    parent_turn_id: str | None
    tokens: int | None


class Of(Record, frozen=True, gc=False):
    """As a value: a column of another row."""

    table: str
    where: Values
    column: str


class Now(Record, frozen=True, gc=False):
    """As a value: the position of the commit that is written."""


Computed: TypeAlias = Mapping[str, "Of | Now"]
Row: TypeAlias = Insert | Several | Merge | Update | Amend | Advance | Place | Total


class Fence(Record, frozen=True, gc=False):
    """An agent as stored, to decide on its steps; the newest turn only if opened in this ledger."""

    agent_id: str
    session_id: str
    label: str  # of its ledger session
    incarnation: int
    state: AgentState
    next_turn: int
    turn_id: str | None = None  # the newest turn
    parent_turn_id: str | None = None  # of that turn
    closed_by: str | None = None  # the step that closed it


class Ledger(Protocol):
    """What a write may ask of the ledger that it is about to change."""

    def agent(self, agent_id: str) -> Fence | None:
        """Return an agent of the step's session, as the writes before this one leave it."""

    def agents(self, agent_ids: Collection[str]) -> Mapping[str, Fence]:
        """Return those of several agents that there are, each as `agent` would; asked at once."""

    def change(self, fence: Fence) -> None:
        """Let an agent be known as this write leaves it."""

    def look(self, table: str, where: Values, *columns: str) -> tuple[Any, ...] | None:
        """Return columns of the row that `where` tells, None where there is none."""
