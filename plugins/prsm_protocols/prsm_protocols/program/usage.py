"""What Claude Code's own session logs, in an agent's home, say that it has used.

A program that is Claude Code, or runs it, writes a line of JSON for each part of a response, with
the response's id and its usage so far. What has grown since the last look is reported.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from prsm_core import Provenance, TokenUsage, UsageReported
from prsm_core.kit import token_count

if TYPE_CHECKING:
    from pathlib import Path

LOGS = ".claude/projects"
_KEYS = (
    "input_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
    "output_tokens",
)
Counts = tuple[int, ...]


class SessionLogs:
    """Owns how far the logs of one home were read, and what each response had used by then."""

    def __init__(self, home: Path) -> None:
        self._folder = home / LOGS
        self._read: dict[Path, int] = {}  # bytes of whole lines
        self._known: dict[str, Counts] = {}  # by response

    async def skip(self) -> None:
        """Take what is there as told: an earlier engine has."""
        await asyncio.to_thread(self._grow)

    async def grown(self) -> UsageReported | None:
        """Return what was used since the last look; None where nothing was."""
        counts = await asyncio.to_thread(self._grow)
        return _report(counts) if any(counts) else None

    def _grow(self) -> Counts:
        grown: Counts = (0,) * len(_KEYS)
        for path in sorted(self._folder.glob("*/*.jsonl")):
            for line in self._new_lines(path):
                grown = _added(grown, self._growth(line))
        return grown

    def _new_lines(self, path: Path) -> list[bytes]:
        if path.is_symlink():  # it would lead out of the home
            return []
        begin = self._read.get(path, 0)
        with path.open("rb") as file:
            file.seek(begin)
            whole, end, _ = file.read().rpartition(b"\n")
        self._read[path] = begin + len(whole) + len(end)
        return whole.splitlines()

    def _growth(self, line: bytes) -> Counts:
        """Return by how much a line makes the counts of its response grow."""
        try:
            told = msgspec.json.decode(line, type=_Line)
        except msgspec.DecodeError:
            return (0,) * len(_KEYS)
        message = told.message
        if not message.id or not message.usage:
            return (0,) * len(_KEYS)
        counts = tuple(token_count(message.usage.get(key)) or 0 for key in _KEYS)
        known = self._known.get(message.id, (0,) * len(_KEYS))
        newest = tuple(max(pair) for pair in zip(known, counts, strict=True))
        self._known[message.id] = newest
        return tuple(new - old for new, old in zip(newest, known, strict=True))


class _Message(msgspec.Struct):
    id: str = ""
    usage: dict[str, Any] | None = None


class _Line(msgspec.Struct):
    message: _Message


def _added(one: Counts, other: Counts) -> Counts:
    return tuple(a + b for a, b in zip(one, other, strict=True))


def _report(counts: Counts) -> UsageReported:
    fresh, cached, written, output = counts
    used = TokenUsage(
        input_tokens=fresh + cached + written,
        output_tokens=output,
        cached_input_tokens=cached,
        cache_write_tokens=written,
        total_tokens=fresh + cached + written + output,
    )
    return UsageReported(used, provenance=Provenance.REPORTED)
