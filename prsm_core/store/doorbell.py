"""A doorbell: how the writer thread hands what is done to the event loop.

It does what `call_soon_threadsafe` does at less cost: a ring is a byte in a pipe, and one read
answers for all that was left meanwhile.
"""

from __future__ import annotations

import os
from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

T = TypeVar("T")

_RINGS = 256  # answered by one read; small, since the room for them is made each time


class Doorbell(Generic[T]):
    """Calls `receive` in `loop` with each thing that a thread leaves, in order."""

    def __init__(self, loop: asyncio.AbstractEventLoop, receive: Callable[[T], None]) -> None:
        self._loop = loop
        self._receive = receive
        self._left: deque[T] = deque()
        self._inner, self._outer = os.pipe()
        os.set_blocking(self._inner, False)
        os.set_blocking(self._outer, False)
        loop.add_reader(self._inner, self._answer)

    def leave(self, thing: T) -> None:
        """Leave a thing and ring; the only method for the thread."""
        self._left.append(thing)
        try:
            os.write(self._outer, b"\0")
        except BlockingIOError:
            return  # it has been ringing all the time, and nobody has come yet

    def close(self) -> None:
        """Receive what was left and take the bell down; the thread must not ring any more."""
        self._receive_all()
        self._loop.remove_reader(self._inner)
        os.close(self._inner)
        os.close(self._outer)

    def _answer(self) -> None:
        os.read(self._inner, _RINGS)
        self._receive_all()

    def _receive_all(self) -> None:
        while self._left:
            self._receive(self._left.popleft())
