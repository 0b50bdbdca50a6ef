"""Makes what a program says harmless to a terminal."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

LONGEST_LINE = 500  # characters of `one_line`; a server may answer with a whole page
_TAIL_LINES = 5

# Control characters and halves of surrogate pairs; what separates lines or turns the order of text
# around; and what shows nothing: Unicode's Default_Ignorable_Code_Point, with which words are split
# and texts are hidden.
_ACTING = (
    r"\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
    r"\xad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u206f\u3164\ufe00-\ufe0f"
    r"\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_PICTURE = (
    r"[\xa9\xae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u24c2\u25a0-\u27bf\u2934\u2935"
    r"\u2b00-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff]"
)
# Of a script in which a joiner between two letters changes how they are written.
_JOINED = r"[\u0620-\u08ff\u0900-\u0dff\u1000-\u109f\u1780-\u17b3\u17b6-\u17ff\u1820-\u18aa]"
# What belongs to a picture: how it is drawn, also that of a keycap.
_STYLE = rf"(?<={_PICTURE})[\ufe0e\ufe0f]|(?<=[0-9#*])\ufe0f(?=\u20e3)"
# A joiner between two of them, or between two such letters.
_JOINER = (
    rf"(?:(?<={_PICTURE})|(?<={_PICTURE}[\ufe0e\ufe0f]))\u200d(?={_PICTURE})"
    rf"|(?<={_JOINED})[\u200c\u200d](?={_JOINED})"
)
_KEPT = rf"{_JOINER}|{_STYLE}"
_ACTS = re.compile(rf"[{_ACTING}]")
_SEQUENCES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours and cursor moves
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # titles, links, the clipboard
)
_SPACES = frozenset("\t\n\v\f\r\u2028\u2029")


def replace_acting(text: str, write: Callable[[str], str], *, is_name: bool = False) -> str:
    """Return a text with `write(char)` for each character that acts or hides.

    How a picture is drawn stays; so does a joiner between two of them, or between letters of a
    script that has it, unless the text is a name.
    """
    # Compiled here: few texts have such characters, and every start would pay for it.
    kept = re.compile(_STYLE if is_name else _KEPT)

    def written(match: re.Match[str]) -> str:
        char = match[0]
        return char if kept.match(text, match.start()) else write(char)

    return _ACTS.sub(written, text)


def one_line(text: str) -> str:
    """Return a text as one line for a person, without what acts on a terminal and not too long."""
    text = _SEQUENCES.sub("", text)
    line = _harmless(text)
    return line if len(line) <= LONGEST_LINE else f"{_harmless(line[:LONGEST_LINE])} …"


def _harmless(text: str) -> str:
    if not (text.isascii() and text.isprintable()):
        text = replace_acting(text, lambda char: " " if char in _SPACES else "")
    return " ".join(text.split())


def readable_tail(stderr: str, noise: re.Pattern[str] | None = None) -> str:
    """Return the last five lines of a stderr, by `one_line`, in which no `noise` is found."""
    lines = (one_line(line) for line in stderr.split("\n"))
    telling = [line for line in lines if line and not (noise and noise.search(line))]
    return "\n".join(telling[-_TAIL_LINES:])
