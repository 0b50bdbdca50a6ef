"""What an agent has done and its journal has not written yet, in order: facts and staged acts.

A fact is what somebody said. A staged act is a step that has no effect outside the engine, so that
nobody needs to wait until it is durable. Both are written in front of their agent's next step, in
its transaction, or alone when their time is over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from msgspec.structs import replace

from prsm_core.domain.writes import Told
from prsm_core.engine.state import Staged

if TYPE_CHECKING:
    from prsm_core.domain.events import Event
    from prsm_core.domain.steps import Step, Write
    from prsm_core.engine.journal.spoken import Piece

Unwritten: TypeAlias = Sequence[Told | Staged]


class Batch(list[Told | Staged]):
    """What an agent has done and is written in one go, and the live text that came between."""

    __slots__ = ("live",)

    def __init__(self) -> None:
        super().__init__()
        self.live: list[tuple[int, Piece]] = []  # each with how many acts and facts come before

    def last_piece(self) -> Piece | None:
        """Return the text that what comes now may go on from."""
        if self.live and self.live[-1][0] == len(self):
            return self.live[-1][1]
        return None


NOTHING = Batch()  # of an agent that has done nothing


def last_seqs(batch: Batch, step: Step, events: Sequence[Event]) -> list[int | None]:
    """Return for each act and fact the number of its last event: they are the first of a step.

    None for an act that tells nothing.
    """
    seq = (events[0].seq or 1) - 1 if events else 0
    seqs: list[int | None] = []
    for one in batch:
        told = sum(len(list(write.events(step))) for write in _writes([one]))
        seq += told
        seqs.append(seq if told else None)
    return seqs


def joined(before: Unwritten, step: Step) -> Step:
    """Return a step with all that its agent did before in front; each keeps its time."""
    return replace(step, writes=(*_writes(before), *step.writes))


def settle(unwritten: Unwritten) -> None:
    """Take note that acts are in the ledger."""
    for one in unwritten:
        if isinstance(one, Staged):
            one.settle()


def can_join(before: Unwritten, step: Step) -> bool:
    """Return whether acts are of the same life and run as a step, and all may be written."""
    for one in before:
        if isinstance(one, Staged) and not one.fits(step.run_id, step.incarnation):
            return False
    return True


def last_act(unwritten: Unwritten) -> Staged | None:
    """Return the newest act; None where there are but facts."""
    return next((one for one in reversed(unwritten) if isinstance(one, Staged)), None)


def _writes(unwritten: Unwritten) -> Iterator[Write]:
    for one in unwritten:
        if isinstance(one, Staged):
            for write in one.step.writes:
                yield write if write.at is not None else replace(write, at=one.step.at)
        else:
            yield one
