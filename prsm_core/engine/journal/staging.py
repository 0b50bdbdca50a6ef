"""What agents have done and the journal has not written yet, in order: facts and staged acts.

A fact is what somebody said. A staged act is a step without an effect outside the engine, so nobody
must wait for it. Both are written before their agent's next step, in its transaction, or alone when
their time is over. Whoever writes takes a batch and lets go of it once it is written or never will
be: only then is the place of live text known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from msgspec.structs import replace

from prsm_core.domain.writes import Told
from prsm_core.engine.state import Staged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from prsm_core.domain.events import Event
    from prsm_core.domain.steps import Step, Write
    from prsm_core.engine.journal.spoken import Piece, Spoken

    OnLive = Callable[[Event, int], None]

Unwritten: TypeAlias = Sequence[Told | Staged]


class Batch(list[Told | Staged]):
    """What an agent did that is written in one go, and the live text in between."""

    __slots__ = ("live",)

    def __init__(self) -> None:
        super().__init__()
        self.live: list[tuple[int, Piece]] = []  # each with how many acts and facts come before

    def last_piece(self) -> Piece | None:
        """Return the text that new text may continue."""
        if self.live and self.live[-1][0] == len(self):
            return self.live[-1][1]
        return None


NOTHING = Batch()  # of an agent that has done nothing


class Pending:
    """Owns the unwritten acts and facts by agent, and the text behind them.

    `on_live` gets live text and the number of the event it comes behind.
    """

    def __init__(self, spoken: Spoken, on_live: OnLive) -> None:
        self._spoken = spoken
        self._on_live = on_live
        self._unwritten: dict[str | None, Batch] = {}
        self._in_flight: dict[str | None, Batch] = {}  # the newest that is being written
        self.count = 0  # acts and facts that nobody has taken

    @property
    def agents(self) -> Iterable[str | None]:
        """The agents with acts or facts that nobody has taken."""
        return self._unwritten.keys()

    def has(self, agent_id: str | None) -> bool:
        """Whether an agent has acts or facts that nobody has taken."""
        return agent_id in self._unwritten

    def add(self, agent_id: str | None, one: Told | Staged) -> None:
        """Append an act or fact to what its agent did before."""
        batch = self._unwritten.get(agent_id)
        if batch is None:
            batch = self._unwritten[agent_id] = Batch()
        batch.append(one)
        self.count += 1

    def take(self, agent_id: str | None) -> Batch:
        """Return what an agent did, for the caller to write and then let go of."""
        taken = self._unwritten.pop(agent_id, NOTHING)
        if taken:
            self.count -= len(taken)
            self._in_flight[agent_id] = taken
        return taken

    def let_go(self, agent_id: str | None, batch: Batch, seqs: Sequence[int | None] = ()) -> None:
        """Publish the text between what was just written, or never will be.

        `seqs` are the numbers of the last events of what was written, None for what was left out.
        """
        if self._in_flight.get(agent_id) is batch:
            del self._in_flight[agent_id]
        live, batch.live = batch.live, []
        for place, piece in live:
            known = [seq for seq in seqs[:place] if seq is not None]
            agent = piece.first.agent or ""
            piece.behind = known[-1] if known else self._spoken.last_seq(agent)
            for event in piece.events:  # each as its provider told it: readers may join them
                self._on_live(event, piece.behind)
            self._spoken.waiting.remove(agent, piece.behind)

    def tell(self, agent: str, event: Event) -> None:
        """Publish text as soon as what its agent did before is written."""
        batch = self._unwritten.get(agent) or self._in_flight.get(agent)
        if batch is None:
            behind = self._spoken.last_seq(agent)
            self._spoken.piece(event, behind)
            self._on_live(event, behind)
            return
        last = batch.last_piece()
        if last is None or not last.takes(event):
            batch.live.append((len(batch), self._spoken.piece(event, None)))
            self._spoken.waiting.add(agent, self._spoken.last_seq(agent))


def last_seqs(batch: Batch, step: Step, events: Sequence[Event]) -> list[int | None]:
    """Return the number of each act's or fact's last event in a step; None without events."""
    seq = (events[0].seq or 1) - 1 if events else 0
    seqs: list[int | None] = []
    for one in batch:
        told = sum(len(list(write.events(step))) for write in _writes([one]))
        seq += told
        seqs.append(seq if told else None)
    return seqs


def joined(before: Unwritten, step: Step) -> Step:
    """Return a step preceded by all that its agent did before; each keeps its time."""
    return replace(step, writes=(*_writes(before), *step.writes))


def settle(unwritten: Unwritten) -> None:
    """Note that acts are in the ledger."""
    for one in unwritten:
        if isinstance(one, Staged):
            one.settle()


def can_join(before: Unwritten, step: Step) -> bool:
    """Return whether acts are of the step's life and run, and may all be written."""
    for one in before:
        if isinstance(one, Staged) and not one.fits(step.run_id, step.incarnation):
            return False
    return True


def last_act(unwritten: Unwritten) -> Staged | None:
    """Return the newest act, or None."""
    return next((one for one in reversed(unwritten) if isinstance(one, Staged)), None)


def _writes(unwritten: Unwritten) -> Iterator[Write]:
    for one in unwritten:
        if isinstance(one, Staged):
            for write in one.step.writes:
                yield write if write.at is not None else replace(write, at=one.step.at)
        else:
            yield one
