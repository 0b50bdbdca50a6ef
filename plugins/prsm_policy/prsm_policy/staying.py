"""Which commands surely write in the workspace and nowhere else: a few plain ones.

None of them makes, moves or copies a link, so that what a path leads to stays as it is judged.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from prsm_core.policies import has_second_name
from prsm_policy.safe import is_safe, program_name, sets_only_harmless
from prsm_policy.shell.words import Word

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prsm_policy.places import Place
    from prsm_policy.shell import Command

_OPTIONS = {
    "touch": frozenset({"-a", "-c", "-m"}),
    "mkdir": frozenset({"-p", "-v"}),
    "tee": frozenset({"-a"}),
    "cp": frozenset({"-f", "-v"}),  # what a link leads to is copied, not the link
}


def stays_inside(command: Command, place: Place) -> bool:
    """Return whether a command writes in the workspace alone, if it writes at all."""
    if not all(_may_write(word, place) for word in command.writes):
        return False
    bare = replace(command, writes=())
    if is_safe(bare, place, trusted=False):
        return True
    name = program_name(command.words[0])
    options = _OPTIONS.get(name or "")
    if options is None or not sets_only_harmless(command) or command.feeds:
        return False
    operands = [word for word in command.words[1:] if word.text not in options]
    if not operands or any(word.may_be_option for word in operands):
        return False
    if not all(map(place.is_ordinary, operands)):
        return False
    written = _copies(operands) if name == "cp" else iter(operands)
    return all(_may_write(word, place) for word in written)


def _copies(operands: list[Word]) -> Iterator[Word]:
    """Yield where `cp` may write: its last operand, or a file of each name in that folder."""
    *sources, last = operands
    yield last
    for source in sources:
        yield Word(f"{last.text}/{source.text.rstrip('/').rpartition('/')[2]}")


def _may_write(word: Word, place: Place) -> bool:
    names = (f"{folder}/{word.text}" for folder in place.folders)
    return place.is_writable(word) and not any(map(has_second_name, names))
