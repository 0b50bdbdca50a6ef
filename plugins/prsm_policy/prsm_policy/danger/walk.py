"""What a command reads of folders, and its words taken apart without knowing all of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from prsm_policy.safe.options import Parsed
from prsm_policy.tree import Reach

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prsm_policy.shell.words import Word


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """Which folders a command goes through, and what of them it shows or hands on.

    `words` may name them; without one that does it is where the command runs, if `is_here`. What
    only `searches` shows lines, not all: where a tree of the workspace is too large to be looked
    through, that is let go. `inside` is False where only folders outside the workspace matter,
    `is_foreign` says that any of those does, `always` why it is dangerous wherever it reads.
    """

    words: tuple[Word, ...] = ()
    is_here: bool = True
    reach: Reach = field(default_factory=Reach)
    searches: bool = False
    inside: bool = True
    is_foreign: bool = False
    always: str | None = None


def loosely_parsed(words: Sequence[Word], valued: str, valued_long: frozenset[str]) -> Parsed:
    """Return words taken apart; options that are not known take no value."""
    options: set[str] = set()
    operands: list[Word] = []
    values: list[tuple[str, Word]] = []
    rest = iter(words)
    for word in rest:
        text = word.text
        if text == "--":
            operands += rest
        elif text[:2] == "--":
            name, equals, value = text.partition("=")
            options.add(name)
            if equals:
                values.append((name, word.told(value)))
            elif name[2:] in valued_long and (following := next(rest, None)) is not None:
                values.append((name, following))
        elif text[:1] == "-" and len(text) > 1:
            for at, letter in enumerate(text[1:], start=2):
                options.add(f"-{letter}")
                if letter in valued:
                    value_word = word.told(text[at:]) if text[at:] else next(rest, None)
                    if value_word is not None:
                        values.append((f"-{letter}", value_word))
                    break
        else:
            operands.append(word)
    return Parsed(frozenset(options), tuple(operands), tuple(values))


def values_of(words: Sequence[Word]) -> Iterator[Word]:
    """Yield what of words may be a path: operands, and values that stand in an option."""
    for word in words:
        text = word.text
        name, equals, value = text.partition("=")
        if equals and value and not name.startswith("--exclude"):
            yield word.told(value)
        if text[:1] != "-":
            yield word
        elif text[1:2] not in {"", "-"} and text[2:3] in {"/", ".", "~"}:
            yield word.told(text[2:])  # attached to its letter
