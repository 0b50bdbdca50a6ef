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
    from prsm_core.domain.steps import Step, Write

Unwritten: TypeAlias = Sequence[Told | Staged]


def joined(before: Unwritten, step: Step) -> Step:
    """Return a step with all that its agent did before in front; each keeps its time."""
    return replace(step, writes=(*_writes(before), *step.writes))


def settle(unwritten: Unwritten) -> None:
    """Take note that acts are in the ledger."""
    for one in unwritten:
        if isinstance(one, Staged):
            one.is_settled = True


def can_join(before: Unwritten, step: Step) -> bool:
    """Return whether acts are of the same life and run as a step, and all may be written."""
    life = (step.run_id, step.incarnation)
    acts = [one for one in before if isinstance(one, Staged)]
    return all(
        (act.step.run_id, act.step.incarnation) == life and act.hindrance is None for act in acts
    )


def last_act(unwritten: Unwritten) -> Staged | None:
    """Return the newest act; None where there are but facts."""
    return next((one for one in reversed(unwritten) if isinstance(one, Staged)), None)


def _writes(unwritten: Unwritten) -> Iterator[Write]:
    for one in unwritten:
        if isinstance(one, Told):
            yield one
            continue
        for write in one.step.writes:
            yield write if write.at is not None else replace(write, at=one.step.at)
