"""Runs a coroutine as `asyncio.run` does, but it ends whatever plugins do.

After a `sys.exit` in a plugin's task or callback the loop goes on; a task or thread that does not
end is left behind after a moment. Both are told by name, and blocking code is watched for.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from prsm_core.loop.blame import place_of_error, place_of_frame, place_of_task
from prsm_core.loop.blocking import watched
from prsm_core.loop.interrupts import is_interrupt, note_interrupt, noting_interrupts
from prsm_core.loop.leaving import leave_behind, leave_whenever, time_to_leave

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator
    from types import FrameType

T = TypeVar("T")

END_SECONDS = 5.0  # how long cancelled tasks may take to end
THREAD_SECONDS = 2.0  # how long the work of `asyncio.to_thread` may take

_log = logging.getLogger("prsm.cli")


def run_to_end(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a loop of its own, in the main thread. Raises KeyboardInterrupt."""
    leave_whenever()
    loop = asyncio.new_event_loop()
    executor = ThreadPoolExecutor(thread_name_prefix="asyncio")
    loop.set_default_executor(executor)
    asyncio.set_event_loop(loop)
    _keep_going(loop)
    loop.set_exception_handler(_tell)
    try:
        with watched(loop):
            try:
                return _run(loop, main)
            finally:
                _end_tasks(loop)
    finally:
        _end_threads(executor)
        asyncio.set_event_loop(None)
        loop.close()


def _keep_going(loop: asyncio.AbstractEventLoop) -> None:
    """Let nobody but asyncio itself stop a loop."""
    stop = loop.stop

    def refuse() -> None:
        caller = sys._getframe(1)
        if caller.f_globals.get("__name__", "").startswith("asyncio"):
            stop()
        else:
            _log.warning("%s wants to stop the event loop, which goes on", place_of_frame(caller))

    loop.stop = refuse  # type: ignore[method-assign]


def _tell(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log what asyncio reports, but for what is thrown away with the interpreter."""
    if not sys.is_finalizing():
        loop.default_exception_handler(context)


def _run(loop: asyncio.AbstractEventLoop, main: Coroutine[Any, Any, T]) -> T:
    task = loop.create_task(main)
    with _interruptible(task) as interrupts:
        try:
            return _until_done(loop, task)
        except asyncio.CancelledError:
            if interrupts:
                raise KeyboardInterrupt from None
            raise


def _until_done(loop: asyncio.AbstractEventLoop, task: asyncio.Task[T]) -> T:
    """Run the loop until a task is done, whoever else would end it."""
    while not task.done():
        try:
            loop.run_until_complete(task)
        except (SystemExit, KeyboardInterrupt) as error:
            if is_interrupt(error):
                raise
            if not task.done():
                place = place_of_error(error)
                deed = "raised KeyboardInterrupt"
                if isinstance(error, SystemExit):
                    deed = f"called sys.exit({error.code!r})"
                _log.warning("%s %s: nothing ends but it", place, deed)
    return task.result()


@contextmanager
def _interruptible(task: asyncio.Task[Any]) -> Iterator[list[int]]:
    """Let the first Ctrl-C cancel a task, and the second raise KeyboardInterrupt where it is."""
    interrupts: list[int] = []

    def came(number: int, _frame: FrameType | None) -> None:
        note_interrupt()
        interrupts.append(number)
        if len(interrupts) > 1 or task.done():
            raise KeyboardInterrupt
        task.cancel()
        task.get_loop().call_soon_threadsafe(lambda: None)  # wake it

    with noting_interrupts(came):
        yield interrupts


def _end_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel all tasks, and end generators; what does not end is left behind."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    _wait(loop, tasks)
    if all(task.done() for task in tasks):  # else one that runs may hold a generator
        _wait(loop, {loop.create_task(loop.shutdown_asyncgens(), name="asynchronous generators")})


def _wait(loop: asyncio.AbstractEventLoop, tasks: set[asyncio.Task[Any]]) -> None:
    if not tasks:
        return
    seconds = time_to_leave(END_SECONDS)
    _until_done(loop, loop.create_task(asyncio.wait(tasks, timeout=seconds)))
    for task in tasks:
        if not task.done():
            place = place_of_task(task)
            _log.warning("task %r does not end, at %s: it is left behind", task.get_name(), place)
            leave_behind(task)
        elif not task.cancelled() and task.exception() is not None:
            error = task.exception()
            _log.warning("task %r failed at the end", task.get_name(), exc_info=error)


def _end_threads(executor: ThreadPoolExecutor) -> None:
    """End the threads of `asyncio.to_thread`; what blocks them has a moment to end."""
    ending = threading.Thread(target=executor.shutdown, daemon=True)
    ending.start()
    ending.join(time_to_leave(THREAD_SECONDS))
