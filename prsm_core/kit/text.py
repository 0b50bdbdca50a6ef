"""Text for terminals: what agents write has no effect but to be read."""

from __future__ import annotations

import re
import unicodedata

from prsm_core.kit.terminal import replace_acting

# Letters and signs that show nothing, or nothing of their own.
_BLANK = frozenset("\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_MARKS = frozenset({"Mn", "Me", "Mc"})
# Backslashes that could be taken for the beginning of an escape.
_LIKE_ESCAPE = re.compile(r"\\+(?=x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|[^\x20-\x7e])")


def escape_prose(text: str) -> str:
    """Return text with acting and hiding characters escaped; lines and tabs stay."""
    text = text.replace("\r\n", "\n")
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return replace_acting(text, lambda char: char if char in "\n\t" else _escaped(char))


def escape_exact(text: str) -> str:
    """Return a command or name in one line, with all that could hide or mislead escaped."""
    if text.isascii() and text.isprintable():
        return text
    text = replace_acting(text, _escaped, is_name=True)
    return "".join(char if char.isprintable() else _escaped(char) for char in text)


def escape_command(text: str) -> str:
    """Return a command in one line in which nothing hides; no two commands look the same.

    A character that shows nothing, joins or acts is written by its number; a backslash that could
    begin such a number is doubled.
    """
    if text.isascii() and text.isprintable() and "\\" not in text:
        return text
    doubled = _LIKE_ESCAPE.sub(lambda match: match[0] * 2, text)
    return "".join(char if _is_plain(char) else _numbered(char) for char in doubled)


def command_lines(command: str) -> list[str]:
    """Return all of a command, each of its lines escaped."""
    return [escape_command(line) for line in command.split("\n")]


def call_text(result: str | None, error: str | None) -> str:
    """Return what a call came to: why it failed, and what it wrote, each said once."""
    wrote, why = result or "", error or ""
    said = " ".join(why.split()).removesuffix(" …")  # some errors are the result on one line, cut
    if said in " ".join(wrote.split()):
        return wrote
    return f"{why}\n{wrote}" if wrote else why


def first_line(text: str, limit: int = 100) -> str:
    """Return the first line that says something, escaped and cut at `limit` characters."""
    lines = text.strip().splitlines()
    if not lines:
        return ""
    cut = len(lines) > 1 or len(lines[0]) > limit
    return escape_prose(lines[0][:limit]) + ("…" if cut else "")


def format_duration(seconds: float | None) -> str:
    """Return "32s", "1m 14s", "2h 05m", or "unknown"."""
    if seconds is None:
        return "unknown"
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes}m {rest:02}s" if minutes < 60 else f"{minutes // 60}h {minutes % 60:02}m"


def _is_plain(char: str) -> bool:
    if char.isascii():
        return char.isprintable()
    is_seen = char.isprintable() and char not in _BLANK
    return is_seen and unicodedata.category(char) not in _MARKS


def _escaped(char: str) -> str:
    if char in "\n\t\r":
        return {"\n": "\\n", "\t": "\\t", "\r": "\\r"}[char]
    return _numbered(char)


def _numbered(char: str) -> str:
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
