"""Background tasks: the one place where the engine's tasks are born.

A task that fails is reported to the engine's error handler and ends alone. A task of a plugin that
refuses to end is left behind and named.
"""

from __future__ import annotations

import asyncio
import logging
import types
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

from prsm_core.kit.clocks import Parting, SystemClock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Generator

    from prsm_core.interfaces.clock import Clock

    OnError = Callable[[str, Exception], None]

T = TypeVar("T")

LEAVE_SECONDS = 10.0  # how long cancelled tasks may take to end

_log = logging.getLogger("prsm.engine")


class Background:
    """Owns the engine's tasks; leaving it ends them.

    Attributes:
        on_error: Called with the name and error of a task that fails.
        parting: Says how long anything that ends may be waited for.
    """

    def __init__(
        self, on_error: OnError, clock: Clock | None = None, parting: Parting | None = None
    ) -> None:
        self.on_error = on_error
        self._clock = clock
        self.parting = parting or Parting(clock or SystemClock())
        self._is_over = False
        self._is_late = False
        self._changed = asyncio.Event()  # a task has ended, or the time to end is over
        self._tasks: dict[asyncio.Task[None], Coroutine[Any, Any, object]] = {}
        self._finishing: set[asyncio.Task[None]] = set()
        # One of each for all tasks: whoever waits keeps what it was begun with.
        self._on_end, self._context = self._ended, copy_context()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._is_over = True
        self.cancel_all()
        cancelled = await self._until_ended()
        for task in self._tasks:
            _log.warning("%s does not end: it is left behind", task.get_name())
        if self._finishing:
            await asyncio.wait(self._finishing, timeout=self.parting.rest())
        if cancelled is not None:
            raise cancelled

    async def _until_ended(self) -> asyncio.CancelledError | None:
        """Wait for the end of all tasks, for a bounded time; return a cancellation meanwhile."""
        cancelled = None
        later = (self._clock or asyncio.get_running_loop()).call_later
        timer = later(self.parting.most(LEAVE_SECONDS), self._expire) if self._tasks else None
        while self._tasks and not self._is_late:
            self._changed.clear()
            try:
                await self._changed.wait()
            except asyncio.CancelledError as error:
                cancelled = error
        if timer is not None:
            timer.cancel()
        return cancelled

    def _expire(self) -> None:
        self._is_late = True
        self._changed.set()

    def start(
        self, work: Coroutine[Any, Any, object], *, name: str, is_bare: bool = False
    ) -> asyncio.Task[None]:
        """Run `work` until it ends, is cancelled, or the engine closes; report its error.

        Whoever awaits the task hears of no error. A bare task keeps its error and may only be
        awaited by `asyncio.wait`: it saves a coroutine for as long as it runs.
        """
        guarded: Coroutine[Any, Any, Any] = work if is_bare else self.guard(work, name)
        task = asyncio.get_running_loop().create_task(guarded, name=name)
        self._tasks[task] = work
        task.add_done_callback(self._on_end, context=self._context)
        if self._is_over:
            task.cancel()
        return task

    def launch(self, work: Coroutine[Any, Any, object], *, name: str) -> None:
        """Run `work` like `start`, where nobody needs the task."""
        _ = self.start(work, name=name)

    async def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Await `work`, which goes on to its end even if the caller is cancelled meanwhile.

        Work that never waits is done at once, in the caller's task. Otherwise the rest gets a task
        of its own, so that it may not begin with what belongs to a task, such as `asyncio.timeout`.
        """
        try:
            pending = work.send(None)
        except StopIteration as ended:
            value: T = ended.value
            return value
        name = getattr(work, "__qualname__", "a commit")
        return await self._outlive(resumed(work, pending), name)

    async def _outlive(self, work: Awaitable[T], name: str) -> T:
        """Await `work` in a task of its own; its errors are the caller's."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        async def run() -> None:
            try:
                value = await work
            except Exception as error:  # noqa: BLE001 - handed to the one who waits
                if done.done():  # the caller was cancelled, so that nobody else hears of it
                    _log.warning("%s failed after its caller had left", name, exc_info=error)
                else:
                    done.set_exception(error)
            else:
                if not done.done():
                    done.set_result(value)
            finally:
                self._finishing.discard(task)

        task = loop.create_task(run())
        self._finishing.add(task)
        return await done

    def cancel_all(self) -> None:
        """Cancel every task that still runs."""
        for task in tuple(self._tasks):
            task.cancel()

    def _ended(self, task: asyncio.Task[None]) -> None:
        work = self._tasks.pop(task)
        self._changed.set()
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):  # of a bare one
            self.on_error(task.get_name(), error)
        work.close()  # a task cancelled before its first step never awaits its work

    async def guard(self, work: Coroutine[Any, Any, object], name: str) -> None:
        """Await `work` in the caller's task; an error is reported to the engine instead."""
        try:
            await work
        except Exception as error:  # noqa: BLE001 - the boundary: reported, never swallowed
            self.on_error(name, error)

    def report(self, name: str, error: Exception) -> None:
        """Report an error of what runs in a caller's task, as `guard` does."""
        self.on_error(name, error)


@types.coroutine
def resumed(work: Coroutine[Any, Any, T], pending: Any) -> Generator[Any, Any, T]:
    """Go on with work that has begun, by `send(None)`, and waits for `pending`."""
    while True:
        try:
            sent = yield pending
        except BaseException as error:  # noqa: BLE001 - thrown into the one that waits
            step = partial(work.throw, error)
        else:
            step = partial(work.send, sent)
        try:
            pending = step()
        except StopIteration as ended:
            value: T = ended.value
            return value
