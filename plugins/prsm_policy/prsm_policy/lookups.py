"""The class of commands that look things up at a service, and change nothing there or here.

They are no readers of the workspace: what they ask leaves this machine with the user's login, so
that a person says once whether agents may do so. Subcommands that show secrets are not in it, nor
are programs that load code of the repository to answer (yarn, terraform).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prsm_policy.safe import program_name, sets_only_harmless
from prsm_policy.safe.options import Syntax, parse, syntax_of
from prsm_policy.tables import read_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from prsm_policy.places import Place
    from prsm_policy.shell import Command, Word

    Paths = frozenset[tuple[str, ...]]


def _starts(lines: Iterable[str]) -> Paths:
    """Return subcommands: words, or a group and behind the colon those that may follow it."""
    parts = [line.rpartition(":") for line in lines]
    return frozenset((*head.split(), name) for head, _, names in parts for name in names.split())


# By program: the words that begin a look-up, and the options it may have.
_PROGRAMS: Mapping[str, tuple[Paths, Syntax]] = {
    name: (_starts(fields["starts"]), syntax_of(fields))
    for head, fields in read_rows("lookups")
    for name in head.split()
}
# Other formats of these show what a resource holds, its environment too.
_FORMATTING = frozenset({"kubectl", "helm"})
_PLAIN_FORMATS = frozenset({"wide", "name", "table"})
_PLAIN_OPTION = re.compile(r"(?:-o|--output=)(?:wide|name|table)")


def is_lookup(command: Command, place: Place) -> bool:
    """Return whether a simple command only looks things up at a service."""
    name = program_name(command.words[0]) if command.words else None
    if name is None or name not in _PROGRAMS or not sets_only_harmless(command):
        return False
    if command.writes or command.feeds or not all(word.known for word in command.words):
        return False
    starts, rules = _PROGRAMS[name]
    arguments = command.words[1:]
    size = _size(starts, [word.text for word in arguments])
    rest = _without_plain_output(arguments[size:]) if name in _FORMATTING else arguments[size:]
    return size > 0 and parse(rest, rules, place) is not None


def are_lookups(parts: Iterable[tuple[Command, Place]]) -> bool:
    """Return whether each of some parts of a command, at least one, is a look-up."""
    found = [is_lookup(part, place) for part, place in parts]
    return bool(found) and all(found)


def _without_plain_output(words: Sequence[Word]) -> list[Word]:
    """Return the words without a format that shows names and states only: `-o wide`."""
    rest: list[Word] = []
    for word in words:
        if word.text in _PLAIN_FORMATS and rest and rest[-1].text in {"-o", "--output"}:
            rest.pop()
        elif not _PLAIN_OPTION.fullmatch(word.text):
            rest.append(word)
    return rest


def _size(starts: Paths, words: Sequence[str]) -> int:
    """Return how many of the first words name the look-up, 0 if they name none."""
    return next((size for size in (2, 1) if tuple(words[:size]) in starts), 0)
