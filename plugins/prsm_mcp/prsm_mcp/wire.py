"""What goes over the bridge's socket: bounded lines, the first of which says who connects.

The first line is `{"agent", "token", "pid"}`, with `patience_s` from a client that cuts calls off.
Its answer is `{"ok": true}`, with the `patience_s` in force where there is one, or
`{"error": TEXT}` before the connection ends. Every line after that is MCP's.

A call may wait for hours, so silence alone says nothing of an engine. To a client that says
`"beats": true` it is told how long the engine is silent at most, `silence_s`, and between two lines
there may be beats then: a byte that no JSON has. The engine's loop sends them, so that one which
stands still sends none.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from prsm_core import LineTooLongError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping

HELLO_LIMIT = 4096  # bytes: nobody has said yet who they are
LINE_LIMIT = 16 << 20
BEAT = b"\0"
BEAT_SECONDS = 60.0
SILENCE_SECONDS = 300.0  # of an engine that beats: beyond that it hangs
_CHUNK = 1 << 16
_MAX_SECONDS = 1e9

TCP_PREFIX = "tcp:"  # an address is a path, or tcp:127.0.0.1:PORT where there are no Unix sockets


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """Who connects; `pid` is only told, never trusted."""

    agent: str
    token: str = field(repr=False)
    pid: int
    patience_s: float | None = None
    beats: bool = False  # it wants to know whether the engine still works

    @property
    def key(self) -> bytes:
        """Agent and token as one, so that neither counts without the other."""
        return credentials(self.agent, self.token)


def credentials(agent: str, token: str) -> bytes:
    """Return what a connection must prove; JSON may spell text that has no encoding."""
    return json.dumps([agent, token]).encode()


def decode_hello(line: bytes) -> Hello | None:
    """Return who connects; None when the line does not say."""
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict):
        return None
    agent, token, pid = said.get("agent"), said.get("token"), said.get("pid")
    patience = said.get("patience_s")
    if not (isinstance(agent, str) and isinstance(token, str) and isinstance(pid, int)):
        return None
    if patience is not None and not (_is_number(patience) and 0 < patience < _MAX_SECONDS):
        return None
    beats = said.get("beats") is True
    return Hello(agent=agent, token=token, pid=pid, patience_s=patience, beats=beats)


def _is_number(value: object) -> bool:
    """Whether it is a number that a float can hold: JSON may spell others."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return -_MAX_SECONDS < value < _MAX_SECONDS


def mended(text: str) -> str:
    """Return a text that can be encoded: half a surrogate pair becomes a replacement character."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def encode(value: Mapping[str, Any]) -> bytes:
    """Return a value as one line."""
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


class LineReader:
    """Reads lines of a limited length from a stream."""

    def __init__(self, stream: asyncio.StreamReader) -> None:
        self._stream = stream
        self._held = bytearray()

    @property
    def is_at_end(self) -> bool:
        """Whether the peer has closed its side and all it sent is read."""
        return self._stream.at_eof()

    async def line(self, limit: int = LINE_LIMIT) -> bytes | None:
        """Return a line without its end; None when the stream has ended, be it within a line.

        Raises:
            LineTooLongError: the line has more than `limit` bytes; the stream is of no more use.
        """
        seen = 0
        while (end := self._held.find(b"\n", seen)) < 0 and len(self._held) <= limit:
            seen = len(self._held)
            chunk = await self._stream.read(_CHUNK)
            if not chunk:
                return None
            self._held += chunk
        if not 0 <= end <= limit:
            raise LineTooLongError(f"a line has at most {limit} bytes")
        line = bytes(self._held[:end])
        del self._held[: end + 1]
        return line
