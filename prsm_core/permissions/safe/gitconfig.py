"""Reads files of git's configuration as git reads them, each once until it changes."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from functools import lru_cache

_MAX_SIZE = 128 * 2**10  # bytes; a longer file is not read
_MAX_CACHED = 256

_SPACE = re.compile(r"(?:[ \t\r\n]|[#;][^\n]*)*")
_SECTION = re.compile(
    r"\[[ \t]*(?P<name>[A-Za-z0-9.-]+)(?:[ \t]+\"(?P<sub>(?:[^\"\\\n]|\\[^\n])*)\")?[ \t]*\]"
)
_KEY = re.compile(r"(?P<name>[A-Za-z][A-Za-z0-9-]*)[ \t]*(?P<equals>=?)")
_VALUE = re.compile(
    r"(?:\"(?:[^\"\\\n]|\\[^\n]|\\\n)*\"|\\\r?\n|\\[^\n]|[^\"\\\n#;])*(?:[#;][^\n]*)?"
)
_PIECE = re.compile(
    r"\"(?P<quoted>(?:[^\"\\]|\\(?:.|\n))*)\"|(?P<join>\\\r?\n)|\\(?P<escaped>.)"
    r"|(?P<comment>[#;].*)|(?P<plain>[^\"\\#;]+)",
    re.DOTALL,
)
_ANY_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "b": "\b"}


@dataclass(frozen=True, slots=True)
class Config:
    """The settings of one file, in its order: a key in small letters, and its value.

    A subsection keeps its case. What cannot be read is not `readable`.
    """

    settings: tuple[tuple[str, str], ...] = ()
    readable: bool = True


_NOTHING = Config()
_UNREADABLE = Config(readable=False)


def read_config(path: str) -> Config:
    """Return the settings of a file; none where there is no file."""
    try:
        info = os.stat(path)  # noqa: PTH116 - text all the way, it may be no path
    except (FileNotFoundError, NotADirectoryError):
        return _NOTHING
    except (OSError, ValueError):
        return _UNREADABLE
    if not stat.S_ISREG(info.st_mode) or info.st_size > _MAX_SIZE:
        return _UNREADABLE
    return _cached(path, info.st_mtime_ns, info.st_ctime_ns, info.st_ino, info.st_size)


@lru_cache(maxsize=_MAX_CACHED)
def _cached(path: str, _mtime: int, _ctime: int, _inode: int, _size: int) -> Config:
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            text = file.read(_MAX_SIZE + 1).decode()
    except (OSError, ValueError):
        return _UNREADABLE
    return parse_config(text)


def parse_config(text: str) -> Config:
    """Return the settings in a text."""
    settings: list[tuple[str, str]] = []
    section = ""
    at = _end(_SPACE, text, 1 if text.startswith("\ufeff") else 0)
    while at < len(text):
        if match := _SECTION.match(text, at):
            section = _section(match)
        elif section and (match := _KEY.match(text, at)):
            key = f"{section}.{match['name'].lower()}"
            if match["equals"]:
                match = _VALUE.match(text, match.end())
                if match is None:
                    return _UNREADABLE
                settings.append((key, _value(match.group())))
            else:
                settings.append((key, "true"))
        else:
            return _UNREADABLE
        at = _end(_SPACE, text, match.end())
    return Config(tuple(settings))


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return at if match is None else match.end()


def _section(match: re.Match[str]) -> str:
    name, sub = match["name"].lower(), match["sub"]
    if sub is None:
        return name
    unescaped = _ANY_ESCAPED.sub(lambda found: found[1], sub)
    return f"{name}.{unescaped}"


def _value(raw: str) -> str:
    parts: list[str] = []
    for piece in _PIECE.finditer(raw):
        if piece["quoted"] is not None:
            parts.append(_ANY_ESCAPED.sub(_unescaped, piece["quoted"]))
        elif piece["escaped"] is not None:
            parts.append(_ESCAPED.get(piece["escaped"], piece["escaped"]))
        elif piece["plain"] is not None:
            parts.append(piece["plain"])
    return "".join(parts).strip()


def _unescaped(match: re.Match[str]) -> str:
    return "" if match[1] == "\n" else _ESCAPED.get(match[1], match[1])
