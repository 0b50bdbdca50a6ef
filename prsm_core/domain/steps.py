"""Steps: one durable act each. What no step has written did not happen.

A step is one transaction. Its `step_id` (`agent:incarnation:n`) is unique; committing it again
changes nothing and returns the first result. A step of an older incarnation is refused
(FencedError).

A write is one fact, told once. The ledger's rows and the events that people watch are two
projections of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from prsm_core.domain.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from prsm_core.domain.events import Event
    from prsm_core.domain.rows import Ledger, Row

W = TypeVar("W", bound="Write")


class Telling(Record, frozen=True, gc=False):
    """An event before it has a number."""

    kind: str
    data: Mapping[str, Any]
    agent_id: str | None
    at: float  # Unix seconds


class Write(Record, frozen=True, gc=False, kw_only=True):
    """One fact. A new kind of fact is a subclass, and a place that commits it."""

    at: float | None = None  # Unix seconds; None: when its step was made

    texts: ClassVar[tuple[str, ...]] = ()  # the fields that hold what somebody wrote
    is_of_run: ClassVar[bool] = False  # the run itself may write it, without an agent
    is_of_life: ClassVar[bool] = False  # only an agent that has not ended writes it
    is_fork: ClassVar[bool] = False  # its session begins where that of another one was

    def guard(self, step: Step, ledger: Ledger) -> None:
        """Raise PrsmError where the ledger is in no state for this; tell it what changes."""

    def rows(self, step: Step) -> Iterable[Row]:
        """Return what changes in the ledger's tables."""
        return ()

    def events(self, step: Step) -> Iterable[Telling]:
        """Return what is told of it."""
        return ()


class Step(Record, frozen=True, gc=False, kw_only=True):
    """What one agent, or the run itself, writes at one moment, in this order."""

    step_id: str
    session_id: str
    run_id: str
    agent_id: str | None  # None: an act of the run itself
    incarnation: int = 1
    at: float  # Unix seconds
    writes: tuple[Write, ...] = ()

    def find(self, kind: type[W]) -> W | None:
        """Return the first write of a kind."""
        for write in self.writes:
            if isinstance(write, kind):
                return write
        return None

    def all(self, kind: type[W]) -> list[W]:
        """Return the writes of a kind."""
        return [write for write in self.writes if isinstance(write, kind)]

    def telling(
        self, kind: str, data: Mapping[str, Any], agent_id: str | None = None
    ) -> tuple[Telling]:
        """Return the one event of a write; it is about the step's agent or another one."""
        return (Telling(kind, data, agent_id or self.agent_id, self.at),)


class HumanRequest(Record, frozen=True, gc=False, kw_only=True):
    """An open permission request or question; `kind` is permission or question."""

    request_id: str
    agent_id: str
    kind: str
    payload: Mapping[str, Any]
    opened_at: float  # Unix seconds


class Committed(Record, frozen=True, gc=False, kw_only=True):
    """What a commit did: the events with their numbers, or the first result of a known step."""

    step_id: str
    events: tuple[Event, ...] = ()
    duplicate: bool = False
