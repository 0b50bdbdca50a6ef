"""What a program says, made harmless to a terminal: the one place that knows which text is not."""

from __future__ import annotations

import re
import unicodedata

LONGEST_LINE = 500  # characters of `one_line`; a server may answer with a whole page
_TAIL_LINES = 5

# What turns the order of text around: the characters of Unicode's property Bidi_Control.
_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
# Control characters, halves of surrogate pairs, separators of lines and paragraphs.
_ACTING = frozenset({"Cc", "Cs", "Zl", "Zp"})
_SEQUENCES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours and cursor moves
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # titles, links, the clipboard
)
_SPACES = frozenset("\t\n\v\f\r\u2028\u2029")


def acts_on_terminal(char: str) -> bool:
    """Return whether a character does something to a terminal, or to the text around it.

    Line ends and tabs do; a joiner or a mark, which belongs to how a script or a sign is written,
    does not.
    """
    return char in _BIDI or unicodedata.category(char) in _ACTING


def one_line(text: str) -> str:
    """Return a text as one line for a person, without what acts on a terminal and not too long."""
    text = _SEQUENCES.sub("", text)
    if not text.isprintable():
        text = "".join(" " if char in _SPACES else char for char in text if not _is_dropped(char))
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]} …"


def _is_dropped(char: str) -> bool:
    return acts_on_terminal(char) and char not in _SPACES


def readable_tail(stderr: str, noise: re.Pattern[str] | None = None) -> str:
    """Return the last telling lines of a stderr, five at most, each as `one_line` makes it.

    A line in which `noise` is found tells nothing.
    """
    lines = (one_line(line) for line in stderr.split("\n"))
    telling = [line for line in lines if line and not (noise and noise.search(line))]
    return "\n".join(telling[-_TAIL_LINES:])
