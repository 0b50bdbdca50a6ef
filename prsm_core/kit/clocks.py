"""The system's clock, deadlines and waits by a clock, and the deadline of all that are left."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from prsm_core.loop.leaving import leave_within

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from prsm_core.interfaces.clock import Clock, Timer
    from prsm_core.interfaces.provider import ProviderServices

# Each part that ends waits a while for others: a turn for its vendor, the run for its sinks, the
# engine for its providers. Each of these waits is short; together they took a minute and a half.
TOTAL_SECONDS = 15.0  # from the limit to the end of the process
WAITS_SECONDS = 10.0  # of these, for all waits of the engine
PROGRAMS_SECONDS = 3.0  # … and for programs to be ended after them; the loop has the rest


class SystemClock:
    """The Clock of a real run."""

    now = staticmethod(time.monotonic)  # asked hundreds of times a turn: no call between
    time = staticmethod(time.time)

    async def sleep(self, seconds: float) -> None:
        """Sleep on the running loop."""
        await asyncio.sleep(seconds)

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        """Let the running loop call."""
        return asyncio.get_running_loop().call_later(seconds, callback)


@asynccontextmanager
async def deadline(services: ProviderServices, seconds: float) -> AsyncIterator[None]:
    """Cancel the body after `seconds` of the engine's clock; TimeoutError is raised then."""
    async with expiring(services.clock, seconds):
        yield


@asynccontextmanager
async def expiring(clock: Clock, seconds: float) -> AsyncIterator[asyncio.Timeout]:
    """Do as `deadline` does; the yielded scope tells whether it was this that expired."""
    is_over = False

    def expire() -> None:
        if not is_over:
            scope.reschedule(asyncio.get_running_loop().time())

    async with asyncio.timeout(None) as scope:
        timer = clock.call_later(seconds, expire)
        try:
            yield scope
        finally:
            is_over = True
            timer.cancel()


async def first_of(
    clock: Clock, seconds: float | None, wait: Callable[[], Awaitable[object]]
) -> bool:
    """Await `wait()` for at most `seconds` of the clock; return whether it ended in time.

    None means no deadline. A late `wait()` is cancelled and has ended when this returns. Its own
    errors are raised, a TimeoutError too.
    """
    if seconds is None:
        await wait()
        return True
    scope: asyncio.Timeout | None = None
    try:
        async with expiring(clock, seconds) as scope:
            await wait()
    except TimeoutError:
        if scope is None or not scope.expired():
            raise
        return False
    return True


class Parting:
    """Limits waits for what ends, once a run's time is over, to half of what is left each."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until: float | None = None

    def begin(self) -> None:
        """Begin to count: the time limit of a run is over."""
        self._until = self._clock.now() + WAITS_SECONDS
        leave_within(TOTAL_SECONDS)

    def stay(self) -> None:
        """Count no more: another run begins."""
        self._until = None

    def most(self, seconds: float) -> float:
        """Return how long a wait that would take `seconds` may take now."""
        left = self._left()
        return seconds if left is None else min(seconds, left / 2)

    def rest(self) -> float | None:
        """Return how long a wait without a limit of its own may take; None: as long as it needs."""
        left = self._left()
        return None if left is None else left / 2

    def most_for_programs(self, seconds: float) -> float:
        """Return how long programs that would get `seconds` to end may take now."""
        return seconds if self._left() is None else min(seconds, PROGRAMS_SECONDS)

    def _left(self) -> float | None:
        """Return what is left of the time; None where nothing ends, or the session goes on."""
        if self._until is None:
            return None
        left = self._until - self._clock.now()
        # A person whose session stays open may end it later, and then there is no hurry.
        return None if left < -TOTAL_SECONDS else max(left, 0.0)
