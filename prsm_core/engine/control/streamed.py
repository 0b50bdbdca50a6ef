"""An answer with many values: each is sent when it comes, to a peer that may be slow, or leave.

What its events come from buffers little for it, and drops live ones rather than wait: so a peer
that reads slowly loses deltas, and one that does not read at all is cut off. It is never idle.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from prsm_core.engine.control.wire import encode, encode_end, encode_failure, encode_next
from prsm_core.kit.clocks import first_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from prsm_core.interfaces.clock import Clock

BUFFERED = 64 * 1024  # bytes that are sent and not yet taken, beyond which it is waited


class Streamed:
    """The values of one operation on their way to a peer."""

    def __init__(self, values: AsyncIterator[Any], *, is_numbered: bool) -> None:
        """Take the values; those that are numbered are events, each with its `seq`."""
        self._values = values
        self._is_numbered = is_numbered
        self._sent = 0  # the number of the last event that was sent
        self._last: int | None = None  # the one to end with
        self._closing = asyncio.Event()

    def finish(self, last: int) -> None:
        """End after event `last`: the session is being closed."""
        self._last = last
        self._check_end()

    def _check_end(self) -> None:
        if self._last is not None and (not self._is_numbered or self._sent >= self._last):
            self._closing.set()

    async def send(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        clock: Clock,
        patience_s: float,
    ) -> None:
        """Send the values until there are no more, the peer leaves, or the session is closed.

        A peer that takes nothing for `patience_s` is cut off.
        """
        writer.write(encode({"ok": None}))
        async with asyncio.TaskGroup() as group:
            sending = group.create_task(self._send_all(writer, clock, patience_s), name="send")
            ends = {
                sending,
                group.create_task(self._closing.wait(), name="close"),
                group.create_task(_left(reader), name="peer leaves"),
            }
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            is_over = self._closing.is_set() and not sending.done()
            for task in ends:
                task.cancel()
        if (close := getattr(self._values, "aclose", None)) is not None:
            await close()
        if is_over:
            writer.write(encode_end("the session is being closed"))
            await first_of(clock, patience_s, lambda: _drained(writer))

    async def _send_all(
        self, writer: asyncio.StreamWriter, clock: Clock, patience_s: float
    ) -> None:
        try:
            async for value in self._values:
                writer.write(encode_next(value))
                if not await _taken(writer, clock, patience_s):
                    return
                if self._is_numbered and value["seq"] is not None:
                    self._sent = value["seq"]
                    self._check_end()
            writer.write(encode_end("there is no more"))
        except Exception as error:  # noqa: BLE001 - the boundary: told to the peer, and logged
            writer.write(encode_failure(error))
        await first_of(clock, patience_s, lambda: _drained(writer))


async def _taken(writer: asyncio.StreamWriter, clock: Clock, patience_s: float) -> bool:
    """Return whether the peer keeps up, once it has had time to."""
    if writer.transport.is_closing():
        return False
    if writer.transport.get_write_buffer_size() <= BUFFERED:
        return True
    return await first_of(clock, patience_s, lambda: _drained(writer))


async def _drained(writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):  # it has gone, which is seen elsewhere
        await writer.drain()


async def _left(reader: asyncio.StreamReader) -> None:
    """Return once the peer has closed its end, or says what nobody asked for."""
    with suppress(ConnectionError):
        await reader.read(1)
