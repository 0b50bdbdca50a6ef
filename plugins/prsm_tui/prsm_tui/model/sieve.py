"""Which blocks of a transcript a filter shows: those of its kinds that have all of its words."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from prsm_tui.model.blocks import (
    Asked,
    Block,
    Call,
    Changed,
    Ending,
    Note,
    Plan,
    Prompt,
    Said,
    Thought,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

KINDS: Mapping[str, type[Block]] = {
    "prompts": Prompt,
    "texts": Said,
    "thoughts": Thought,
    "calls": Call,
    "plans": Plan,
    "files": Changed,
    "requests": Asked,
    "notes": Note,
    "endings": Ending,
}
_OF_KIND = ":"  # a word that begins so is the beginning of a kind's name


@dataclass(frozen=True, slots=True)
class Sieve:
    """What a filter asks for; `unknown` are words for a kind that there is not."""

    words: Sequence[str] = ()
    kinds: frozenset[type[Block]] = frozenset()
    unknown: Sequence[str] = ()

    @property
    def passes_all(self) -> bool:
        """Whether nothing is asked for."""
        return not (self.words or self.kinds or self.unknown)

    def passes(self, block: Block) -> bool:
        """Return whether a block is of one of the kinds, and has all words in its text."""
        if (self.kinds or self.unknown) and type(block) not in self.kinds:
            return False
        if not self.words:
            return True
        text = _text_of(block).casefold()
        return all(word in text for word in self.words)


@lru_cache(maxsize=64)
def read_sieve(text: str) -> Sieve:
    """Return what a filter asks for: `:calls make` for calls in which `make` stands."""
    words: list[str] = []
    kinds: set[type[Block]] = set()
    unknown: list[str] = []
    for word in text.casefold().split():
        if not word.startswith(_OF_KIND):
            words.append(word)
            continue
        named = [kind for name, kind in KINDS.items() if name.startswith(word[1:])]
        kinds.update(named)
        if not named:
            unknown.append(word)
    return Sieve(tuple(words), frozenset(kinds), tuple(unknown))


class Sifting:
    """Sifts one list of blocks again and again: only what has changed is read again."""

    def __init__(self) -> None:
        self._sieve = Sieve()
        self._known: dict[int, tuple[Block, int, bool]] = {}  # by identity: which has it, so lives

    def sift(self, sieve: Sieve, blocks: Iterable[Block]) -> Sequence[Block]:
        """Return the blocks that pass."""
        known = self._known if sieve == self._sieve else {}
        self._sieve, self._known = sieve, {}
        passed: list[Block] = []
        for block in blocks:
            before = known.get(id(block))
            if before is None or before[1] != block.version:
                before = block, block.version, sieve.passes(block)
            self._known[id(block)] = before
            if before[2]:
                passed.append(block)
        return passed


def _text_of(block: Block) -> str:
    """Return all that a person may look for in a block."""
    match block:
        case Call():
            written = block.output.text if block.is_open else block.result
            return "\n".join((block.tool, block.subject, block.arguments, block.status, written))
        case Plan():
            return "\n".join(f"{status} {text}" for status, text in block.entries)
        case Changed():
            return "\n".join((block.kind, block.path, *block.others))
        case Asked():
            return f"{block.text}\n{block.outcome}"
        case Ending():
            return "\n".join((block.status, block.summary, block.error, block.details))
    return str(getattr(block, "text", ""))
