"""Splits shell text that holds nothing but simple commands into their words.

A text is plain when every word of it is literal: no expansion, substitution, group, control flow,
background, or redirection that writes. What is not plain is not judged here at all: the
answer is None, never a guess.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field

MAX_PLAIN = 20_000  # characters, and
MAX_WORDS = 500  # words; a longer text is not plain

GLOB = frozenset("*?[")
# A backslash before a newline joins words, which no reader of a prompt would see.
_REFUSED = re.compile(r"[^\t\n -~\u00a1-\U0010ffff]|\\\n")
_NEVER_PLAIN = frozenset("$`(){}")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_REDIRECT = re.compile(
    r"(?P<null>(?:&|[12])?>[ \t]*/dev/null)(?![^\s;&|<>])"
    r"|(?P<dup>[12]?>&[12-])(?![^\s;&|<>])"
    r"|(?P<read>0?<(?![<>&(]))"
)
_OPERATOR = re.compile(r"&&|\|\||\|(?!&)|;(?!;)|\n")


@dataclass(frozen=True, slots=True)
class Word:
    """One literal word of a command, quotes removed.

    `glob` says that an unquoted pattern in it may become file names, `tilde` that an unquoted
    tilde in it may become a home folder.
    """

    text: str
    glob: bool = False
    tilde: bool = False

    @property
    def may_be_option(self) -> bool:
        """Whether the word is an option, or may become one by the name of a file."""
        return self.text.startswith("-") or (self.glob and self.text[:1] in GLOB)


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """One program with its arguments; `piped` says that it stands in a pipeline.

    `assigned` are the variables set for it, `reads` the files its input is redirected from.
    """

    words: tuple[Word, ...]
    assigned: tuple[str, ...] = ()
    reads: tuple[Word, ...] = ()
    piped: bool = False

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts of its words."""
        return tuple(word.text for word in self.words)


def split_plain(text: str) -> tuple[SimpleCommand, ...] | None:
    """Return the simple commands of a plain text, None for any other text."""
    if len(text) > MAX_PLAIN or not _is_visible(text):
        return None
    try:
        return _Splitter(text).split()
    except _NotPlainError:
        return None


def _is_visible(text: str) -> bool:
    """Return whether the text shows all that is in it."""
    if _REFUSED.search(text):
        return False
    return text.isascii() or not any(
        unicodedata.category(char) in {"Cf", "Zs", "Zl", "Zp", "Cn", "Co", "Cs"}
        for char in text
        if char != " "
    )


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text, as tables of names are written."""
    return frozenset(text.split())


class _NotPlainError(Exception):
    """The text is not plain."""


@dataclass(slots=True)
class _Draft:
    """The simple command that is being read."""

    words: list[Word] = field(default_factory=list)
    assigned: list[str] = field(default_factory=list)
    reads: list[Word] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return not (self.words or self.assigned or self.reads)


class _Splitter:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._words = 0
        self._done: list[SimpleCommand] = []
        self._draft = _Draft()
        self._operator = "\n"  # before the command that is being read

    def split(self) -> tuple[SimpleCommand, ...]:
        while self._at < len(self._text):
            self._step()
        if self._draft.is_empty and self._operator in {"&&", "||", "|"}:
            raise _NotPlainError
        if not self._draft.is_empty:
            self._finish("\n")
        return tuple(self._done)

    def _step(self) -> None:
        text, at = self._text, self._at
        if text[at] in " \t":
            self._at += 1
        elif text[at] == "#":
            end = text.find("\n", at)
            self._at = len(text) if end < 0 else end
        elif match := _REDIRECT.match(text, at):
            self._redirect(match)
        elif match := _OPERATOR.match(text, at):
            self._at = match.end()
            self._finish(match.group())
        else:
            self._argument(*self._word())

    def _count(self) -> None:
        self._words += 1
        if self._words > MAX_WORDS:
            raise _NotPlainError

    def _redirect(self, match: re.Match[str]) -> None:
        self._at = match.end()
        if match["read"]:
            while self._text[self._at : self._at + 1] in {" ", "\t"}:
                self._at += 1
            word, _ = self._word()
            self._draft.reads.append(word)

    def _argument(self, word: Word, assigns: bool) -> None:
        if assigns and not self._draft.words:
            self._draft.assigned.append(word.text.partition("=")[0])
        else:
            self._draft.words.append(word)

    def _finish(self, operator: str) -> None:
        if self._draft.is_empty:
            # Empty lines are nothing, and a pipeline may go on after the end of a line.
            if operator != "\n":
                raise _NotPlainError
            return
        if not self._draft.words:
            raise _NotPlainError
        self._done.append(
            SimpleCommand(
                tuple(self._draft.words),
                tuple(self._draft.assigned),
                tuple(self._draft.reads),
                piped="|" in (operator, self._operator),
            )
        )
        self._draft, self._operator = _Draft(), operator

    def _word(self) -> tuple[Word, bool]:
        """Read one word; return it and whether it is an assignment."""
        self._count()
        start = self._at
        pieces: list[str] = []
        glob = tilde = False
        while self._at < len(self._text) and self._text[self._at] not in " \t\n;&|<>":
            char = self._text[self._at]
            if char in _NEVER_PLAIN:
                raise _NotPlainError
            glob = glob or char in GLOB
            # bash expands it there, too, in any word that looks like an assignment.
            tilde = tilde or (
                char == "~" and (self._at == start or self._text[self._at - 1] in "=:")
            )
            pieces.append(self._piece(char))
        if self._at == start:
            raise _NotPlainError
        raw = self._text[start : self._at]
        if raw.isdigit() and self._text[self._at : self._at + 1] in {"<", ">"}:
            raise _NotPlainError  # no word but the number of a file
        glob = glob and raw != "["  # alone it is the name of a program
        word = Word("".join(pieces), glob=glob, tilde=tilde)
        return word, _ASSIGNMENT.match(raw) is not None

    def _piece(self, char: str) -> str:
        if char == "'":
            return self._single_quoted()
        if char == '"':
            return self._double_quoted()
        if char == "\\":
            self._at += 1
            char = self._text[self._at : self._at + 1]
            if not char:
                raise _NotPlainError
        self._at += 1
        return char

    def _single_quoted(self) -> str:
        start, end = self._at + 1, self._text.find("'", self._at + 1)
        if end < 0:
            raise _NotPlainError
        self._at = end + 1
        return self._text[start:end]

    def _double_quoted(self) -> str:
        match = _DOUBLE_QUOTED.match(self._text, self._at)
        if match is None:
            raise _NotPlainError
        self._at = match.end()
        return _ESCAPED.sub(r"\1", match[1])


# A dollar is literal only at the end of the string or behind a backslash.
_DOUBLE_QUOTED = re.compile(r'"((?:[^"\\$`]|\\.)*\$?)"', re.DOTALL)
_ESCAPED = re.compile(r'\\([\\"$`])')
