"""Patterns for names as bash reads them, and which names they may stand for.

Bash is `bash -c` without options: no extglob, globstar, dotglob or nullglob. What depends on the
locale or the version is not guessed: a maybe makes the whole pattern untold.
"""

from __future__ import annotations

import re
import string
from functools import lru_cache
from typing import TYPE_CHECKING

from prsm_core.domain.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAX_PATTERN = 250  # characters; no name is longer

_LETTERS = (string.ascii_lowercase, string.ascii_uppercase)
_ASCII = frozenset(map(chr, range(1, 128)))
_CLASSES = {
    "alpha": frozenset(string.ascii_letters),
    "digit": frozenset(string.digits),
    "alnum": frozenset(string.ascii_letters + string.digits),
    "upper": frozenset(string.ascii_uppercase),
    "lower": frozenset(string.ascii_lowercase),
    "space": frozenset(" \t\n\r\v\f"),
    "blank": frozenset(" \t"),
    "punct": frozenset(string.punctuation),
    "xdigit": frozenset(string.hexdigits),
    "cntrl": frozenset(map(chr, [*range(1, 32), 127])),
    "graph": frozenset(map(chr, range(33, 127))),
    "print": frozenset(map(chr, range(32, 127))),
    "word": frozenset(string.ascii_letters + string.digits + "_"),
    "ascii": _ASCII,
}


class UntoldError(Exception):
    """It cannot be told what a pattern stands for, or it takes too long."""


class Part(Record, frozen=True):
    """A pattern for one name; text without a pattern is `literal`.

    `sure` matches what every locale matches, `maybe` what one of them may match.
    """

    literal: str | None
    is_dotted: bool
    prefix: str
    counts: bool
    sure: re.Pattern[str]
    maybe: re.Pattern[str]

    def matches(self, name: str) -> bool:
        """Return whether the shell matches a name; raise UntoldError where that depends."""
        if name[:1] == "." and not self.is_dotted:
            return False
        if self.counts and not name.isascii():  # of how many characters it is, a locale decides
            if name.startswith(self.prefix):
                raise UntoldError(f"it depends on the locale whether {name!r} matches")
            return False
        if self.maybe.fullmatch(name) is None:
            return False
        if self.maybe is not self.sure and self.sure.fullmatch(name) is None:
            raise UntoldError(f"it depends on the locale whether {name!r} matches")
        return True

    def may_match(self, name: str, *, dots: bool = True) -> bool:
        """Return whether a name may match; `dots` says that a first dot must be written."""
        if dots and name[:1] == "." and not self.is_dotted:
            return False
        if self.counts and not name.isascii():
            return name.startswith(self.prefix)
        return self.maybe.fullmatch(name) is not None


@lru_cache(maxsize=1024)
def part_of(pattern: str) -> Part:
    """Return a pattern for one name; a backslash escapes. Raises UntoldError if locales differ."""
    if len(pattern) > _MAX_PATTERN:
        raise UntoldError("the pattern is too long")
    return _PartReader(pattern).part()


class _PartReader:
    """Turns a pattern into regular expressions that take linear time for each star."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._sure: list[str] = []
        self._maybe: list[str] = []
        self._is_dotted = False
        self._counts = False
        self._literal: list[str] = []
        self._prefix: str | None = None  # what stands before the first star, sign or bracket

    def part(self) -> Part:
        while self._at < len(self._pattern):
            self._read(self._pattern[self._at])
        sure, maybe = "".join(_atomic(self._sure)), "".join(_atomic(self._maybe))
        first = re.compile(sure, re.DOTALL)
        text = "".join(self._literal)
        return Part(
            literal=text if self._prefix is None else None,
            is_dotted=self._is_dotted,
            prefix=text if self._prefix is None else self._prefix,
            counts=self._counts,
            sure=first,
            maybe=first if sure == maybe else re.compile(maybe, re.DOTALL),
        )

    def _read(self, char: str) -> None:
        self._at += 1
        if char == "*":
            self._special("*", "*")
        elif char == "?":
            self._counts = True
            self._special(".", ".")
        elif char == "[" and (inner := self._bracket()) is not None:
            self._counts = True
            self._special(*inner)
        else:
            if char == "\\" and self._at < len(self._pattern):
                char = self._pattern[self._at]
                self._at += 1
            self._is_dotted = self._is_dotted or (char == "." and not self._sure)
            self._literal.append(char)
            self._sure.append(re.escape(char))
            self._maybe.append(re.escape(char))

    def _special(self, sure: str, maybe: str) -> None:
        if self._prefix is None:
            self._prefix = "".join(self._literal)
        self._sure.append(sure)
        self._maybe.append(maybe)

    def _bracket(self) -> tuple[str, str] | None:
        """Return what a bracket matches surely and maybe, None when it is only a character."""
        start = at = self._at
        pattern = self._pattern
        negated = pattern[at : at + 1] in {"!", "^"}
        at += negated
        sure: set[str] = set()
        maybe: set[str] = set()
        is_first = True
        while at < len(pattern):
            if pattern[at] == "]" and not is_first:
                self._at = at + 1
                return _sets(sure, maybe, negated=negated)
            is_first = False
            at = self._element(at, sure, maybe)
        if any(sign in pattern[start:] for sign in ("[:", "[=", "[.")):
            raise UntoldError("a bracket in the pattern has no end")
        return None

    def _element(self, at: int, sure: set[str], maybe: set[str]) -> int:
        kind = self._pattern[at : at + 2]
        if kind in {"[=", "[."}:
            raise UntoldError("bash takes such brackets for more than one character")
        if kind == "[:":
            end = self._pattern.find(":]", at + 2)
            found = _CLASSES.get(self._pattern[at + 2 : end]) if end > 0 else None
            if found is None or self._pattern[end + 2 : end + 3] == "-":
                raise UntoldError("a class in the pattern cannot be told")
            sure |= found
            maybe |= found
            return end + 2
        first, at = self._char(at)
        is_range = self._pattern[at : at + 1] == "-" and self._pattern[at + 1 : at + 2] != "]"
        if not is_range or at + 1 >= len(self._pattern):
            sure.add(first)
            maybe.add(first)
            return at
        if self._pattern[at + 1] == "[":
            raise UntoldError("a range in the pattern cannot be told")
        last, at = self._char(at + 1)
        _range(first, last, sure, maybe)
        return at

    def _char(self, at: int) -> tuple[str, int]:
        if self._pattern[at] == "\\" and at + 1 < len(self._pattern):
            at += 1
        if not self._pattern[at].isascii():
            raise UntoldError("a bracket in the pattern depends on the locale")
        return self._pattern[at], at + 1


def _range(first: str, last: str, sure: set[str], maybe: set[str]) -> None:
    if first > last:
        raise UntoldError("a range in the pattern ends before it begins")
    between = {chr(code) for code in range(ord(first), ord(last) + 1)}
    if first.isdigit() and last.isdigit():
        sure |= between
        maybe |= between
    elif any(first in letters and last in letters for letters in _LETTERS):
        # Where a locale sorts a, A, b, B the other case lies between, too.
        sure |= between
        maybe |= between | {char.swapcase() for char in between}
    else:
        sure |= {first, last}
        maybe |= _ASCII


def _sets(sure: set[str], maybe: set[str], *, negated: bool) -> tuple[str, str]:
    if negated:
        sure, maybe = set(_ASCII - maybe), set(_ASCII - sure)
    return _expression(sure), _expression(maybe)


def _expression(chars: set[str]) -> str:
    return f"[{''.join(re.escape(char) for char in sorted(chars))}]" if chars else "(?!)"


def _atomic(tokens: list[str]) -> Iterator[str]:
    """Yield a regular expression: what stands between two stars is best matched early."""
    pieces: list[list[str]] = [[]]
    for each in tokens:
        if each == "*":
            pieces.append([])
        else:
            pieces[-1].append(each)
    yield "".join(pieces[0])
    for piece in pieces[1:-1]:
        if piece:
            yield f"(?>.*?{''.join(piece)})"
    if len(pieces) > 1:
        yield f".*{''.join(pieces[-1])}"
