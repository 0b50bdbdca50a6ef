"""Keeps the test of a contract from hanging: it fails within a bound, and says what hangs.

What is tested may wait for ever, go on though it is cancelled, or block the event loop. So each
test runs as a task: one that takes too long is cancelled, and one that does not mind is left
behind. What blocks the loop is seen by a thread; a signal then raises in the middle of it.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import signal
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import pytest

from prsm_testing.pytest_plugin import write_error

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator
    from types import FrameType

CANCEL_SECONDS = 1.0  # for what was cancelled to end
SIGNAL = signal.SIGVTALRM  # of no other use here
SIGNALS = 3  # how often what blocks is interrupted before the process is given up
GIVEN_UP = 70  # the exit code then
EXIT_SECONDS = 5.0  # for what the tests have left, once they are over

_KIT = str(Path(__file__).parent)
_ASYNCIO = str(Path(asyncio.__file__).parent)
_LIBRARY = str(Path(os.__file__).parent)
_left: list[asyncio.Task[Any]] = []  # kept: collected they would only complain

C = TypeVar("C", bound=type)


def bounded(contract: C) -> C:
    """Mark each asynchronous test of a contract class, and bound it by `bound_s`, in seconds."""
    for name, test in list(vars(contract).items()):
        if name.startswith("test_") and inspect.iscoroutinefunction(test):
            setattr(contract, name, pytest.mark.asyncio(_bounded(test)))
    return contract


def _bounded(
    test: Callable[..., Coroutine[Any, Any, None]],
) -> Callable[..., Coroutine[Any, Any, None]]:
    @functools.wraps(test)
    async def run(self: Any, *args: Any, **kwargs: Any) -> None:
        asyncio.get_running_loop().set_default_executor(_Threads())
        with _Watch(self.bound_s):
            await _run(test(self, *args, **kwargs), self.bound_s)

    return run


async def _run(test: Coroutine[Any, Any, None], seconds: float) -> None:
    """Await a test; raise what it raises, or fail where it cannot be ended."""
    before = asyncio.all_tasks()
    task = asyncio.ensure_future(test)
    started: set[asyncio.Task[Any]] = {task}
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
    finally:
        started |= asyncio.all_tasks() - before
        told = standing(started)
        left = await _end(started)
    if left:
        pytest.fail(f"what it tests goes on although it was cancelled: {standing(left)}")
    if not done:
        pytest.fail(f"it was not over after {seconds:g} s: {told}")
    try:
        task.result()
    except BaseExceptionGroup as group:
        if len(group.exceptions) == 1:
            raise group.exceptions[0] from None
        raise


async def _end(tasks: Iterable[asyncio.Task[Any]]) -> set[asyncio.Task[Any]]:
    """Cancel tasks; return those that go on. They are left behind: the loop closes without them."""
    alive = {task for task in tasks if not task.done()}
    if not alive:
        return alive
    for task in alive:
        task.cancel()
    _, left = await asyncio.wait(alive, timeout=CANCEL_SECONDS)
    for task in left:
        asyncio._unregister_task(task)
    _left.extend(left)
    return left


def standing(tasks: Iterable[asyncio.Task[Any]]) -> str:
    """Return where tasks wait: in the code that is tested, if any of it does."""
    chains = [list(_frames(task.get_coro())) for task in tasks if not task.done()]
    for is_ours in (False, True):
        found = {
            next((_place(f) for f in reversed(chain) if _is_kit(f) is is_ours), "")
            for chain in chains
        }
        if places := sorted(found - {""}):
            return ", ".join(f"it waits in {place}" for place in places)
    return "nothing of it waits any more"


def _frames(coroutine: Any) -> Iterator[FrameType]:
    """Yield the frames of a coroutine that waits, from the outermost."""
    while coroutine is not None:
        for kind in ("cr", "gi", "ag"):
            frame = getattr(coroutine, f"{kind}_frame", None)
            if frame is not None and not frame.f_code.co_filename.startswith(_ASYNCIO):
                yield frame
        awaited = (
            getattr(coroutine, name, None) for name in ("cr_await", "gi_yieldfrom", "ag_await")
        )
        coroutine = next((found for found in awaited if found is not None), None)


def _is_kit(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(_KIT)


def _place(frame: FrameType) -> str:
    code = frame.f_code
    return f"{code.co_qualname} ({Path(code.co_filename).name}:{frame.f_lineno})"


class _Watch:
    """A thread that notices when the event loop of this thread is blocked for too long."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds + 2 * CANCEL_SECONDS
        self._loop = asyncio.get_running_loop()
        self._owner = threading.current_thread()
        self._over = threading.Event()
        self._reason = ""
        self._before: Any = None

    def __enter__(self) -> Self:
        if self._owner is threading.main_thread():  # no other gets signals
            self._before = signal.signal(SIGNAL, self._raise)
            threading.Thread(target=self._look, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._before is not None:
            signal.signal(SIGNAL, self._before)
        if self._reason:
            pytest.fail(self._reason)

    def _look(self) -> None:
        if self._over.wait(self._seconds) or self._beats():
            return
        for _ in range(SIGNALS):
            signal.pthread_kill(self._owner.ident or 0, SIGNAL)
            if self._over.wait(CANCEL_SECONDS):
                return
        write_error(f"{self._reason}; it cannot be interrupted, and so the tests end here\n")
        os._exit(GIVEN_UP)

    def _beats(self) -> bool:
        beat = threading.Event()
        self._loop.call_soon_threadsafe(beat.set)
        return beat.wait(CANCEL_SECONDS)

    def _raise(self, _: int, frame: FrameType | None) -> None:
        self._reason = self._reason or f"it blocks the event loop: {_tested(frame)} does not return"
        if not self._over.is_set():
            raise pytest.fail.Exception(self._reason)


def _tested(frame: FrameType | None) -> str:
    """Return where a stack is in the code that is tested."""
    while frame is not None and frame.f_code.co_filename.startswith((_KIT, _LIBRARY)):
        frame = frame.f_back
    return "it" if frame is None else _place(frame)


def see_out() -> None:
    """Have the process end once its main thread has: threads that do not end would keep it."""
    threading.Thread(target=_end_late, daemon=True).start()


def _end_late() -> None:
    main = threading.main_thread()
    main.join()  # the process of a worker goes on for as long as others work
    threading.Event().wait(EXIT_SECONDS)
    frames = sys._current_frames()
    kept = [t for t in threading.enumerate() if not t.daemon and t is not main]
    places = [_tested(frames.get(thread.ident or 0)) for thread in kept]
    write_error(f"threads that were left do not end: {', '.join(places)}\n")
    os._exit(GIVEN_UP)


class _Threads(ThreadPoolExecutor):
    """Runs each call in a daemon thread: one that blocks for ever holds up no end."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        threading.Thread(target=_call, args=(future, fn, args, kwargs), daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Wait for nothing."""


def _call(future: Future[Any], fn: Callable[..., Any], args: Any, kwargs: Any) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(fn(*args, **kwargs))
    except BaseException as error:  # noqa: BLE001 - whoever awaits it gets it
        future.set_exception(error)
