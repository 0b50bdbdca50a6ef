"""How somebody reads one transcript: where they are in it, what is open, and what they look for.

A place is a block and a line of it, never a row of the screen: whatever comes in front of it, is
folded, or is broken at another width, it stays the same place.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from prsm_tui.screen.filtering import Filter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prsm_tui.model.blocks import Block


@dataclass(frozen=True, slots=True)
class Spot:
    """A line of a block; `after` is the number of an event before which it is not."""

    block: Block
    line: int
    after: int

    @classmethod
    def of(cls, blocks: Sequence[Block], place: int, line: int) -> Spot:
        """Return the spot of a line of one of the blocks."""
        block = blocks[place]
        if block.seq is not None:
            return cls(block, line, block.seq - 1)
        before = (one.seq for one in reversed(blocks[:place]) if one.seq is not None)
        return cls(block, line, next(before, 0))

    def find(self, blocks: Sequence[Block]) -> int | None:
        """Return the place of its block; of what was let go and came again, too."""
        for is_it in (lambda one: one is self.block, self._is_again):
            place = next((n for n, one in enumerate(blocks) if is_it(one)), None)
            if place is not None:
                return place
        return None

    def next_to(self, blocks: Sequence[Block]) -> int | None:
        """Return the place of the first block that is not before it, None where all are."""
        later = (n for n, one in enumerate(blocks) if one.seq is None or one.seq > self.after)
        return next(later, None)

    def _is_again(self, block: Block) -> bool:
        """Whether a block is this one, from a page, or once it was said to its end."""
        if type(block) is not type(self.block) or block.seq is None:
            return False
        return block.seq == self.block.seq if self.block.seq else block.seq > self.after


@dataclass(slots=True)
class Reading:
    """Owns how one transcript is read; `at` is what the first row shows unless it `follows`."""

    follows: bool = True
    at: Spot | None = None
    last: Spot | None = None  # the newest block when it stopped to follow
    streamed: int = 0  # rows of what was not committed then
    opened: dict[int, Block] = field(default_factory=dict)  # unfolded, by identity
    marked: Block | None = None
    filter: Filter = field(default_factory=Filter)

    def follow(self) -> None:
        """Go with the end."""
        self.follows, self.at, self.last = True, None, None

    def stay(self, at: Spot, blocks: Sequence[Block], streamed: int) -> None:
        """Stay at a spot; `blocks` are all that are committed."""
        if self.follows:
            self.last = Spot.of(blocks, len(blocks) - 1, 0) if blocks else None
            self.streamed = streamed
        self.follows, self.at = False, at

    def turn(self, block: Block) -> None:
        """Unfold a block, or fold it."""
        if self.opened.pop(id(block), None) is None:
            self.opened[id(block)] = block

    def newer(self, blocks: Sequence[Block]) -> Sequence[Block]:
        """Return the blocks that came since it stopped to follow, the newest first."""
        found: list[Block] = []
        last = self.last
        for block in reversed(blocks):
            if last is not None and (block is last.block or _is_known(block, last)):
                break
            found.append(block)
        return found


def _is_known(block: Block, last: Spot) -> bool:
    seq = last.block.seq or last.after
    return block.seq is not None and block.seq <= seq
