"""What find and xargs run, with the names that they add as words that are not known yet."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from prsm_core.policies import word_set
from prsm_policy.safe.listed import Passage
from prsm_policy.safe.options import Syntax, parse
from prsm_policy.safe.producers import names_of_find
from prsm_policy.shell.script import Command
from prsm_policy.shell.words import Kind, Word

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prsm_policy.places import Place
    from prsm_policy.safe.producers import Output

_XARGS = Syntax(flags="0rt", long=word_set("null no-run-if-empty"))
_VALUES: Mapping[str, re.Pattern[str]] = {
    **dict.fromkeys(("-n", "-P", "-L"), re.compile(r"\d+")),
    "-I": re.compile(r"\{\}|%|@"),
    "-d": re.compile(r"\\n|\n"),
}
_PLAIN_LINE = re.compile(r"[\w./@:+,=%* -]*")  # without quotes, which it takes away
_ENDS = frozenset({";", "+"})
_COUNTS = (0, 1, 2, 3)


def carried_by_xargs(command: Command, place: Place, incoming: Output) -> list[Command] | None:
    """Return the commands that xargs may run, given what comes in; None if it cannot be told."""
    command = replace(command, behind=False)  # what it runs does not read what comes in
    words = list(command.words[1:])
    mark = size = ""
    is_other = False  # the lines do not become words as usual
    own: list[Word] = []
    while words and words[0].text.startswith("-"):
        option = words.pop(0)
        name, value = option.text[:2], option.text[2:]
        if name not in _VALUES:
            own.append(option)
            continue
        value = value or (words.pop(0).text if words else "")
        if not option.known or not _VALUES[name].fullmatch(value):
            return None
        mark = value if name == "-I" else mark
        size = value if name == "-n" else size
        is_other = is_other or name in {"-L", "-d"}
    if parse(own, _XARGS, place) is None or not words or not all(word.exact for word in words):
        return None
    if incoming.lines:
        known = None if own or is_other else _known(words, incoming.lines, mark, size)
        return None if known is None else [replace(command, words=tuple(each)) for each in known]
    kind: Kind = incoming.kind if incoming.names is None else Kind.TEXT
    if incoming.names is not None and incoming.names.are_harmless(place, Passage.LINES):
        kind = Kind.NAME
    added = Word("", exact=False, kind=kind)
    if not mark:
        return [replace(command, words=(*words, *[added] * count)) for count in _COUNTS]
    filled = [_filled(word, mark, added) for word in words]
    return None if None in filled else [replace(command, words=tuple(filter(None, filled)))]


def _known(
    words: Sequence[Word], lines: Sequence[str], mark: str, size: str
) -> list[list[Word]] | None:
    """Return what runs for lines that are known, None for those that xargs reads differently."""
    if not all(map(_PLAIN_LINE.fullmatch, lines)):
        return None
    if mark:
        return [
            [word.told(word.text.replace(mark, line.lstrip())) for word in words] for line in lines
        ]
    items = [Word(item) for line in lines for item in line.split()]
    step = max(int(size), 1) if size else len(items) or 1
    return [[*words, *items[at : at + step]] for at in range(0, max(len(items), 1), step)]


def carried_by_find(command: Command, place: Place) -> tuple[Command, list[Command]] | None:
    """Return a find without what it runs, and what it runs; None if it cannot be told."""
    words = list(command.words)
    kept: list[Word] = []
    inner: list[tuple[list[Word], str, bool]] = []
    while words:
        word = words.pop(0)
        if word.text not in {"-exec", "-execdir"}:
            kept.append(word)
            continue
        carried: list[Word] = []
        while words and words[0].text not in _ENDS:
            carried.append(words.pop(0))
        if not words or not carried or not words[0].known:
            return None
        inner.append((carried, words.pop(0).text, word.text == "-execdir"))
        kept.append(Word("-true"))
    names = names_of_find(kept[1:], place)
    if names is None or not names.are_harmless(place, Passage.WHOLE):
        return None
    added = Word("", exact=False, kind=Kind.NAME)
    commands: list[Command] = []
    for carried, end, is_beside in inner:
        if is_beside and _names_others(carried):
            return None
        filled = [_filled(word, "{}", added) for word in carried]
        if None in filled or not carried[0].known:
            return None
        first = tuple(filter(None, filled))
        # With + it adds as many names as it has, and some programs write to their second one.
        further = _COUNTS[:-1] if end == "+" else (0,)
        commands += [Command((*first, *[added] * count)) for count in further]
    return replace(command, words=tuple(kept)), commands


def _filled(word: Word, mark: str, added: Word) -> Word | None:
    if word.text == mark:
        return added
    if mark in word.text or not word.exact:
        return None
    return word


def _names_others(words: Sequence[Word]) -> bool:
    """Return whether a command may name files, which are others in each folder."""
    operands = [word for word in words[1:] if not word.text.startswith("-") and word.text != "{}"]
    return len(operands) > (words[0].text == "grep")
