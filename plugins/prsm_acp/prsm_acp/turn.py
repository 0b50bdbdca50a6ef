"""One running turn of an ACP agent: what it is asked meanwhile."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from prsm_core import StopReason
from prsm_core.kit import Turn

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from prsm_core import (
        BackgroundTask,
        ProviderServices,
    )


class AcpTurn(Turn):
    """A turn, and what works on the agent's requests in it."""

    def __init__(self, services: ProviderServices) -> None:
        super().__init__()
        self._services = services
        self.is_completed = False  # its task_complete was accepted
        self._work: dict[asyncio.Future[Any], BackgroundTask] = {}

    @property
    def stopped(self) -> StopReason:
        """Why it ended, where it was asked to."""
        return StopReason.END_TURN if self.is_completed else StopReason.ABORTED

    @property
    def is_open(self) -> bool:
        """Whether the vendor may still ask something of the turn."""
        return not (self.over.is_set() or self.stopping)

    def ended(self) -> None:
        """Let go of the agent's requests; see Turn."""
        self.drop_work()

    async def answer(self, work: Callable[[], Awaitable[Any]], otherwise: Any, name: str) -> Any:
        """Return what `work()` gives, or `otherwise` as soon as the turn is not wanted any more."""
        if not self.is_open:
            return otherwise
        given: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        task = self._services.start_soon(_fulfil, given, work, name=name)
        self._work[given] = task
        try:
            found = await given
        finally:
            self._work.pop(given, None)
            task.cancel()
        return otherwise if found is _DROPPED else found

    def drop_work(self) -> None:
        """End whoever works for a turn that is over: the vendor does not say so."""
        for given, task in self._work.items():
            if not given.done():
                given.set_result(_DROPPED)
            task.cancel()


_DROPPED = object()


async def _fulfil(given: asyncio.Future[Any], work: Callable[[], Awaitable[Any]]) -> None:
    try:
        result = await work()
    except Exception as error:  # noqa: BLE001 - told to the one who waits for it
        if not given.done():
            given.set_exception(error)
    else:
        if not given.done():
            given.set_result(result)
