"""A small grammar of command lines: which options a harmless tool may have, and what they take.

Everything is on an allow-list. An option that is not listed, an abbreviated one, or a value that
could itself be an option makes the command line one that is not known.

The value of an option that names a format, a reporter or an output is a small language of its own:
a file to write (`text:x`), a class or a module to load. Harmless is only what the program brings
along and prints, so each program has a list.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from prsm_core.policies import word_set
from prsm_policy.shell.words import Kind
from prsm_policy.tables import read_rows, values_of, words_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from prsm_policy.places import Place
    from prsm_policy.shell.words import Word
    from prsm_policy.tables import Fields
    from prsm_policy.tree import Reach

    Judge = Callable[[Word, Place], bool]
    Reaches = Mapping[str, Callable[["Parsed"], Reach | None]]

Row = TypeVar("Row")
_NEGATIVE = re.compile(r"-\d+(?:\.\d+)?")
# Options that may name such a value in any program.
_NAMING = re.compile(
    r"--(?:[a-z]+-)*(?:format(?:ter)?|report(?:er|s)?|output|out|log|logger|plugin|config|profile"
    r"|render(?:er)?|style|printer|writer|loader|parser|resolver|runner|environment|template)s?"
    r"(?:-[a-z-]+)?",
    re.IGNORECASE,
)
# What most programs have, beside levels and switches.
_COMMON = word_set(
    "text json yaml plain rich short long concise full compact simple tty auto always never yes no"
    " y n on off true false trace debug info log warn warning error critical fatal silent quiet"
    " minimal normal detailed diagnostic verbose"
)
# Values that a program has of its own, by program and option.
_VALUES: Mapping[str, Mapping[str, frozenset[str]]] = {
    program: {option: words_of(fields, kind) for kind in fields for option in kind.split(",")}
    for program, fields in read_rows("formats")
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Syntax:
    """The harmless options of one tool and what its operands are.

    The fields are those of `tables/readers.txt`. With `names_only` the tool does not show what is
    in a file, with `numeric` -N stands for a count, with `negative` an operand may be a number
    below zero. A `tame` tool has no option that does harm, so that a pattern may become one by the
    name of a file. With `apart` a value is never attached to the letter of its option, with
    `no_input` `-` is no operand.
    """

    flags: str = ""
    valued: str = ""
    long: frozenset[str] = frozenset()
    texts: int = 0
    all_paths: frozenset[str] = frozenset()
    max_operands: int | None = None
    names_only: bool = False
    numeric: bool = False
    negative: bool = False
    tame: bool = False
    free: frozenset[str] = frozenset()
    apart: bool = False
    no_input: bool = False
    reach: Callable[[Parsed], Reach | None] | None = None


def syntax_of(fields: Fields, reaches: Reaches | None = None) -> Syntax:
    """Return the syntax that the fields of a row tell; `reaches` are what `reach` may name."""
    given = values_of(fields, Syntax.__annotations__)
    if "reach" in given:
        given["reach"] = (reaches or {})[given["reach"]]
    return Syntax(**given)


def read_syntax(table: str, reaches: Reaches | None = None) -> dict[str, Syntax]:
    """Return the syntax of each program in a table."""
    return {
        name: rules
        for head, fields in read_rows(table)
        for rules in [syntax_of(fields, reaches)]
        for name in head.split()
    }


def read_command_lines(table: str) -> Iterator[tuple[tuple[str, ...], Syntax, Fields]]:
    """Yield the words that each row of a table begins with, their syntax, and all fields."""
    for head, fields in read_rows(table):
        rules = syntax_of(fields)
        yield from ((tuple(words.split()), rules, fields) for words in head.split("|"))


def row_of(table: Mapping[tuple[str, ...], Row], texts: Sequence[str]) -> tuple[int, Row] | None:
    """Return the row of the longest beginning of a command line in a table, and its length."""
    sizes = (size for size in (3, 2, 1) if tuple(texts[:size]) in table)
    size = next(sizes, None)
    return None if size is None else (size, table[tuple(texts[:size])])


def operands_of(
    words: Sequence[Word], options: re.Pattern[str], valued: Mapping[str, Judge], place: Place
) -> list[Word] | None:
    """Return the operands of a command line, None if an option or its value does not fit.

    `options` are words by themselves. Behind one of `valued` the next word is its value.
    """
    operands: list[Word] = []
    rest = iter(words)
    for word in rest:
        if (fits := valued.get(word.text)) is not None:
            value = next(rest, None)
            if value is None or not fits(value, place):
                return None
        elif not word.may_be_option:
            operands.append(word)
        elif not options.fullmatch(word.text):
            return None
    return operands


@dataclass(frozen=True, slots=True)
class Parsed:
    """A command line that fits its syntax: options as written, values by option, and operands."""

    options: frozenset[str]
    operands: tuple[Word, ...]
    values: tuple[tuple[str, Word], ...] = ()


def parse(
    arguments: Sequence[Word], rules: Syntax, place: Place, *, revisions: bool = False
) -> Parsed | None:
    """Return the arguments taken apart if all are ordinary; with `revisions` hashes are, too."""
    parsed = _Parser(arguments, rules, place).parse()
    if parsed is None:
        return None
    if rules.max_operands is not None and len(parsed.operands) > rules.max_operands:
        return None
    texts = 0 if parsed.options & rules.all_paths else rules.texts
    for position, word in enumerate(parsed.operands):
        is_text = (texts < 0 or position < texts) and not (word.glob or word.tilde)
        if not word.exact and not is_text:
            is_told = word.kind is Kind.NAME or (revisions and word.kind is Kind.HASH)
            if not is_told or not place.is_ordinary(word):
                return None
            continue
        if not is_text and not place.is_ordinary(word, is_read=not rules.names_only):
            return None
    return parsed if _reaches_ordinary(parsed, texts, rules, place) else None


def _reaches_ordinary(parsed: Parsed, texts: int, rules: Syntax, place: Place) -> bool:
    """Return whether what a tool reads below its operands, or where it runs, is ordinary."""
    reach = rules.reach(parsed) if rules.reach is not None else None
    if reach is None:
        return True
    size = len(parsed.operands) if texts < 0 else texts
    first = [word for word in parsed.operands[:size] if word.glob]  # may become paths, too
    paths = parsed.operands[size:]
    known = [*first, *(word for word in paths if word.exact)]
    if known and not place.is_tree_ordinary(known, reach):
        return False
    return bool(paths) or place.is_tree_ordinary((), reach)


class _Parser:
    def __init__(self, arguments: Sequence[Word], rules: Syntax, place: Place) -> None:
        self._rules = rules
        self._place = place
        self._rest = list(reversed(arguments))
        self._options: set[str] = set()
        self._operands: list[Word] = []
        self._values: list[tuple[str, Word]] = []

    def parse(self) -> Parsed | None:
        while self._rest:
            word = self._rest.pop()
            if word.text == "--":
                self._operands += reversed(self._rest)
                break
            if not self._take(word):
                return None
        return Parsed(frozenset(self._options), tuple(self._operands), tuple(self._values))

    def _take(self, word: Word) -> bool:
        text = word.text
        if not word.exact:
            self._operands.append(word)
            is_harmless = self._rules.tame and self._rules.texts < 0
            return word.kind is not None and (is_harmless or not word.may_be_option)
        if text.startswith("--"):
            return self._long(word)
        if text.startswith("-") and text != "-":
            if self._rules.numeric and text[1:].isdigit():
                return True
            return (self._rules.negative and _is_negative(word)) or self._short(word)
        if text != "-" and word.may_be_option and not self._rules.tame:
            return False
        self._operands.append(word)
        return True

    def _long(self, word: Word) -> bool:
        name, equals, value = word.text[2:].partition("=")
        self._options.add(f"--{name}")
        if equals:
            self._values.append((f"--{name}", word.told(value)))
            known = f"{name}=" in self._rules.long
            if known and f"--{name}" in self._rules.free:
                return True
            return known and self._place.is_ordinary(word.told(value))
        if name in self._rules.long:
            return True
        return f"{name}=" in self._rules.long and self._value(f"--{name}")

    def _short(self, word: Word) -> bool:
        for position, letter in enumerate(word.text[1:], start=2):
            self._options.add(f"-{letter}")
            if letter in self._rules.valued:
                value = word.text[position:]
                if not value:
                    return self._value(f"-{letter}")
                if self._rules.apart:
                    return False
                self._values.append((f"-{letter}", word.told(value)))
                is_free = f"-{letter}" in self._rules.free
                return is_free or self._place.is_ordinary(word.told(value))
            if letter not in self._rules.flags:
                return False
        return True

    def _value(self, option: str) -> bool:
        """Take the next word as the value of an option; it must not look like one itself."""
        if not self._rest:
            return False
        value = self._rest.pop()
        self._values.append((option, value))
        if not value.exact:
            is_free = option in self._rules.free and value.kind is not None
            return value.kind is Kind.NUMBER or (is_free and not value.glob)
        if option in self._rules.free:
            return value.known
        if _is_negative(value):
            return True
        return not value.may_be_option and self._place.is_ordinary(value)


def _is_negative(word: Word) -> bool:
    return word.known and _NEGATIVE.fullmatch(word.text) is not None


def are_harmless(texts: Sequence[str], values: Iterable[tuple[str, Word]]) -> bool:
    """Return whether no option of a check names what would be loaded or written."""
    is_started = len(texts) > 2 and texts[1] in {"-m", "exec"}
    listed = _VALUES.get(texts[2 if is_started else 0], {})
    for option, word in values:
        allowed = listed.get(option)
        if allowed is None and _NAMING.fullmatch(option):
            allowed = _COMMON
        if allowed is None:
            continue
        values_of_word = word.text.split(",")
        if not word.known or not all(each in allowed or each.isdigit() for each in values_of_word):
            return False
    return True
