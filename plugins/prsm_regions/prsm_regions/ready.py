"""The ready queue: which subtasks can begin, once others are completed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from prsm_regions.plan import Plan, Subtask


class ReadyQueue:
    """Owns what is still to be begun of a plan, in its order.

    A subtask is ready once all that it depends on is completed, and can never be once something
    of that has ended otherwise.
    """

    def __init__(self, plan: Plan, *, only: Iterable[int] = (), done: Iterable[int] = ()) -> None:
        """Begin with `only` these subtasks, or else with all; those `done` are completed."""
        wanted = set(only) or {one.index for one in plan.subtasks}
        self._done = set(done)
        self._lost: set[int] = set()
        self._left = [one for one in plan.subtasks if one.index in wanted - self._done]

    def pop(self) -> Subtask | None:
        """Take the first subtask that is ready; None: none is."""
        for place, one in enumerate(self._left):
            if self._done.issuperset(one.depends_on):
                return self._left.pop(place)
        return None

    def completed(self, index: int) -> None:
        """Note that a subtask is completed."""
        self._done.add(index)

    def lost(self, index: int) -> Sequence[Subtask]:
        """Note that a subtask ended otherwise; return those that can never be ready now."""
        self._lost.add(index)
        gone: list[Subtask] = []
        while True:
            found = [one for one in self._left if not self._lost.isdisjoint(one.depends_on)]
            if not found:
                return gone
            self._left = [one for one in self._left if one not in found]
            self._lost.update(one.index for one in found)
            gone += found

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left to begin."""
        return not self._left
