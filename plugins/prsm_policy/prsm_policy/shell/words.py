"""Words of shell text: what the shell makes of quotes and backslashes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from enum import Enum, IntEnum

GLOB = frozenset("*?[")

_SIMPLE = re.compile(r"[A-Za-z0-9_./,:@%+-]*(?:=[A-Za-z0-9_./,:@%+-]*)*")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED_IN_DOUBLE = re.compile(r'\\([\\"$`\n])')
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9/]")
_UNESCAPED_GLOB = re.compile(r"(?:\\.|[^\\*?\[])*[*?\[]", re.DOTALL)
# Braces expand only around a comma or dots: HEAD@{1} and {} stand for themselves.
_LITERAL_BRACES = re.compile(r"\{[A-Za-z0-9_@/^~+-]*\}")
_ANSI_C = re.compile(
    r"\\(?:(?P<char>[abeEfnrtv\\'\"?])|(?P<octal>[0-7]{1,3})|x(?P<hex>[0-9a-fA-F]{1,2})"
    r"|u(?P<short>[0-9a-fA-F]{1,4})|U(?P<long>[0-9a-fA-F]{1,8})|(?P<other>.))",
    re.DOTALL,
)
_ANSI_CHARS = dict(zip("abeEfnrtv\\'\"?", "\a\b\x1b\x1b\f\n\r\t\v\\'\"?", strict=True))


class Found(Enum):
    """What a name is that a pattern stands for, as the folder is."""

    ORDINARY = "inside the workspace, and no secret"
    SECRET = "inside the workspace, and may hold a secret"  # noqa: S105 - a kind of name
    OUTSIDE = "outside the workspace"


class Kind(IntEnum):
    """What a text that is only known when it runs can be.

    A number, the hash of a commit, the path of a file below the workspace that holds no secret and
    does not begin with a dash, or any text at all.
    """

    NUMBER = 1
    HASH = 2
    NAME = 3
    TEXT = 4


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a command, quotes removed.

    An unquoted pattern (`glob`) may become file names, an unquoted `tilde` a home folder. If it is
    not `exact`, a part that is only known when it runs is missing from `text`; `kind` says what it
    can be, for the whole word or behind the folder that `text` is. `pattern` is the text as the
    shell matches it, with a backslash before what is quoted. `found` is set for a name that a
    pattern stands for.
    """

    text: str
    glob: bool = False
    tilde: bool = False
    exact: bool = True
    pattern: str = field(default="", compare=False, repr=False)
    found: Found | None = None
    kind: Kind | None = None

    @property
    def may_be_option(self) -> bool:
        """Whether the word is an option, or may become one when it is expanded."""
        if not self.exact and not self.text:
            return self.kind is None or self.kind is Kind.TEXT
        return self.text.startswith("-") or (self.glob and self.text[:1] in GLOB)

    @property
    def known(self) -> bool:
        """Whether the text is the one the program gets."""
        return self.exact and not self.glob and not self.tilde

    def __add__(self, other: Word) -> Word:
        """Return both as one word."""
        return Word(
            self.text + other.text,
            self.glob or other.glob,
            self.tilde or other.tilde,
            self.exact and other.exact,
            _pattern(self) + _pattern(other),
        )

    def told(self, text: str) -> Word:
        """Return a word with another text that comes of this one: the value of an option."""
        return replace(self, text=text, pattern="", found=None)


# An expansion without quotes, which may become several words.
UNKNOWN = Word("", glob=True, exact=False)


def is_simple(raw: str) -> bool:
    """Return whether unquoted text stands for itself."""
    return _SIMPLE.fullmatch(raw) is not None


def bare(raw: str) -> Word:
    """Return what unquoted text means; braces may expand, so that the word is not exact."""
    if is_simple(raw):
        return Word(raw, pattern=raw)
    text = _ESCAPED.sub(r"\1", raw)
    if "{" in raw:
        inside = _LITERAL_BRACES.sub("", raw).partition("{")[2]
        if "," in inside or ".." in inside:
            return Word(text, exact=False, pattern=raw)
    glob = _UNESCAPED_GLOB.match(raw) is not None
    tilde = raw.startswith("~") or "=~" in raw or ":~" in raw
    return Word(text, glob=glob, tilde=tilde, pattern=raw)


def _pattern(word: Word) -> str:
    return word.pattern or _NOT_PLAIN.sub(r"\\\g<0>", word.text)


def double_quoted(inner: str) -> str:
    """Return what the inside of double quotes means, expansions aside."""
    return _ESCAPED_IN_DOUBLE.sub(lambda match: match[1].strip("\n"), inner)


def ansi_c(inner: str) -> Word:
    """Return what the inside of $'…' means."""
    text = _ANSI_C.sub(_ansi_char, inner)
    # Bytes beyond ASCII depend on the locale, and a NUL ends the string.
    return Word(text.partition("\0")[0], exact="\0" not in text and "\ufffd" not in text)


def _ansi_char(match: re.Match[str]) -> str:
    if match["char"]:
        return _ANSI_CHARS[match["char"]]
    if match["octal"]:
        return _byte(int(match["octal"], 8) & 0xFF)
    if match["hex"]:
        return _byte(int(match["hex"], 16))
    if code := match["short"] or match["long"]:
        number = int(code, 16)
        return chr(number) if number < 0x110000 and not 0xD800 <= number < 0xE000 else "\ufffd"
    # \cX is a control character; any other backslash stands for itself.
    return "\ufffd" if match["other"] == "c" else match.group()


def _byte(number: int) -> str:
    return chr(number) if number < 0x80 else "\ufffd"
