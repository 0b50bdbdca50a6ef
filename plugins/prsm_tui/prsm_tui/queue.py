"""Acts that are done one after the other, in the order asked for."""

from __future__ import annotations

import asyncio
from functools import partial, update_wrapper
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Protocol, TypeVar

from prsm_core import PrsmError
from prsm_tui.pump import said

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Act = Callable[[], Awaitable[None]]
    Do = Callable[[Act], object]

_WAITING = 100  # acts that have not begun


class _HasQueue(Protocol):
    @property
    def _do(self) -> Do: ...


_P = ParamSpec("_P")
_S = TypeVar("_S", bound=_HasQueue)


class ActQueue:
    """Does acts in order; `tell` hears what goes wrong, with its level."""

    def __init__(self, tell: Callable[[str, str], None]) -> None:
        self._tell = tell
        self._queue: asyncio.Queue[Act] = asyncio.Queue(_WAITING)

    def put(self, act: Act) -> bool:
        """Have something done; return whether it will be."""
        try:
            self._queue.put_nowait(act)
        except asyncio.QueueFull:
            self._tell("error", f"not done: {_WAITING} things before it wait already")
            return False
        return True

    async def serve(self, after_each: Callable[[], None] = lambda: None) -> None:
        """Do what is in the queue, until cancelled."""
        while True:
            act = await self._queue.get()
            try:
                await act()
            except PrsmError as error:
                self._tell("error", said(error))
            after_each()


def in_order(
    act: Callable[Concatenate[_S, _P], Awaitable[None]],
) -> Callable[Concatenate[_S, _P], None]:
    """Have a method put itself into its object's queue, where it is called."""

    def put(self: _S, /, *args: _P.args, **kwargs: _P.kwargs) -> None:
        _ = self._do(partial(act, self, *args, **kwargs))

    update_wrapper(put, act)
    return put
