"""The one guard around calls into third-party code: whatever goes wrong there gets its name.

    with guest.calling("write"):                    # in the caller's own task
        await sink.write(batch)
    status = await guest.within(6.0, "probe", provider.probe, clock=clock)  # in one of its own
    verdict = await guest.asked(5.0, "its answer", check)   # in one, if it has to wait for anything

Any BaseException of a call becomes a PluginFaultError, but for Ctrl-C and a cancellation that
somebody asked for. So does a wrong answer (`wrong`), and a late one: what swallows its
cancellation is left behind.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from typing import TYPE_CHECKING, Any, TypeVar

from prsm_core.distributions import distribution_of
from prsm_core.errors import PluginError, PrsmError
from prsm_core.kit.background import resumed
from prsm_core.loop.blame import note_module
from prsm_core.loop.blocking import BlockedError
from prsm_core.loop.interrupts import is_interrupt
from prsm_core.plugins.objects import load_object
from prsm_core.plugins.records import WORDS, one_line
from prsm_core.plugins.settings import WithSettings, reference_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from prsm_core.interfaces.clock import Clock, Timer
    from prsm_core.plugins.records import Spec

T = TypeVar("T")

GRACE_SECONDS = 2.0  # how long what was cancelled may take to end before it is left behind

_UNBEGUN = inspect.CORO_CREATED

_log = logging.getLogger("prsm.plugins")


class PluginFaultError(PluginError, code="plugin_fault", exit_code=1):
    """Code of a plugin failed while the core called it; the message names it."""

    def __init__(self, guest: Guest, what: str, why: str) -> None:
        super().__init__(f"{guest} {what}: {why}", hint="it is an error of the plugin")
        self.why = why  # without the name of who did it


class TooLateError(PluginFaultError):
    """A call of a plugin's code did not end in time, or was made to."""


class Guest:
    """Code that a plugin has registered, by the name that people know: event sink jsonl.

    `code` is an import string or an object; it tells the distribution.
    """

    def __init__(self, kind: str, name: str, code: object = None) -> None:
        self.kind = kind
        self.name = name
        self._code = code
        self._has_failed = False
        note_module(_module_of(code))

    @classmethod
    def of(cls, spec: Spec) -> Guest:
        """Return the guest that a record registers."""
        return cls(WORDS[type(spec)], spec.name, reference_of(spec))

    def __str__(self) -> str:
        """Return its kind and name, and its distribution where that is known."""
        found = distribution_of(_module_of(self._code))
        return f"{self.kind} {self.name}" + ("" if found is None else f" ({found})")

    def load(self) -> Any:
        """Return what was registered, imported if needed. Raises PluginError that names it."""
        return load_object(self._code, plugin=self.name)

    def calling(self, what: str, passes: tuple[type[Exception], ...] = ()) -> Calling:
        """Guard the body, which calls it; errors of the kinds in `passes` are answers."""
        return Calling(self, what, passes)

    def attribute(self, owner: object, name: str, *default: object) -> Any:
        """Return what an object of its code has by this name; see `calling` for what is raised."""
        try:
            return getattr(owner, name, *default)
        except BaseException as error:
            self.calling(name).check(error)
            raise

    def failed(self, what: str, error: BaseException) -> PluginFaultError:
        """Return the error for a failure of its code; the first traceback is logged."""
        if not self._has_failed:
            self._has_failed = True
            _log.info("%s failed in %s", self, what, exc_info=error)
        why = _in_words(error)
        kind = TooLateError if isinstance(error, BlockedError) else PluginFaultError
        return kind(self, f"failed in {what}", why)

    def wrong(self, what: str, problem: str) -> PluginFaultError:
        """Return the error for a wrong answer: what gave it, and what it is."""
        self._has_failed = True  # there is no traceback
        return PluginFaultError(self, what, problem)

    async def within(
        self,
        seconds: float | None,
        what: str,
        call: Callable[[], Awaitable[T]],
        *,
        clock: Clock | None = None,
        passes: tuple[type[Exception], ...] = (),
        grace: float = GRACE_SECONDS,
    ) -> T:
        """Await `call()` in a task of its own, for at most so many seconds.

        A later answer does not count. When it is late or the caller is cancelled, the call has
        `grace` seconds to end; then it is left behind, with a warning.

        None waits as long as the caller does; without a clock the running loop counts. Errors in
        `passes` are answers. Raises TooLateError for a late call, PluginFaultError for a failed
        one.
        """
        visit = _Visit(clock, grace)
        visit.begin(self._called(what, call, passes, visit), f"{what} of {self.kind} {self.name}")
        try:
            await visit.until_over(seconds)
        except asyncio.CancelledError:
            visit.stop()
            await visit.until_over(None)
            raise
        finally:
            if visit.leave():
                _log.warning("%s does not end its %s: it is left behind", self, what)
        if visit.is_late:
            raise TooLateError(self, what, f"it did not end within {seconds:.3g} s")
        answer: T = visit.task.result()
        return answer

    async def asked(
        self,
        seconds: float | None,
        what: str,
        call: Callable[[], Awaitable[T] | T],
        passes: tuple[type[Exception], ...] = (),
    ) -> T:
        """Return what `call()` gives; await it as `within` does if it has to be awaited.

        An immediate answer costs no task and no timer, and nothing cuts it short.
        """
        with self.calling(what, passes):
            given: Any = call()
        if not hasattr(type(given), "__await__"):
            answer: T = given
            return answer
        try:
            return await self.within(seconds, what, lambda: given, passes=passes)
        except asyncio.CancelledError:
            if inspect.iscoroutine(given) and inspect.getcoroutinestate(given) == _UNBEGUN:
                given.close()  # its task was cancelled before it began
            raise

    def here(
        self,
        seconds: float,
        what: str,
        clock: Clock,
        on_stuck: Callable[[], object] | None = None,
        passes: tuple[type[Exception], ...] = (),
    ) -> Stay:
        """Return what runs a call in the caller's own task, for at most so many seconds.

        For what has to begin and end in one task; arguments as of `within`. `on_stuck` is called if
        the call swallows its cancellation: it keeps the task.
        """
        return Stay(self, what, seconds, clock, on_stuck, passes)

    async def _called(
        self,
        what: str,
        call: Callable[[], Awaitable[T]],
        passes: tuple[type[Exception], ...],
        visit: _Visit,
    ) -> T:
        try:
            with self.calling(what, passes):
                return await call()
        finally:
            visit.end()


class Calling:
    """The guard of one call; see Guest.calling."""

    __slots__ = ("_guest", "_passes", "_what")

    def __init__(self, guest: Guest, what: str, passes: tuple[type[Exception], ...]) -> None:
        self._guest = guest
        self._what = what
        self._passes = passes

    def __enter__(self) -> None:
        """Begin the call."""

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        """End it; raise PluginFaultError for what is an error of the plugin."""
        if error is not None:
            self.check(error)

    def check(self, error: BaseException) -> None:
        """Raise PluginFaultError for an error of the call that is the plugin's."""
        if not (isinstance(error, self._passes) or is_ours(error)):
            raise self._guest.failed(self._what, error) from error


class Stay:
    """A call in the caller's own task, cancelled at its deadline; `check` refuses a late answer."""

    def __init__(
        self,
        guest: Guest,
        what: str,
        seconds: float,
        clock: Clock,
        on_stuck: Callable[[], object] | None,
        passes: tuple[type[Exception], ...],
    ) -> None:
        self._guest = guest
        self._what = what
        self._seconds = seconds
        self._clock = clock
        self._on_stuck = on_stuck
        self._calling = guest.calling(what, passes)
        self._scope: asyncio.Timeout | None = None

    async def run(self, call: Callable[[], Awaitable[T]]) -> T:
        """Await `call()`; what never waits costs no timer.

        Raises PluginFaultError as `calling` does, TooLateError if it was cancelled.
        """
        work = _awaited(call)
        with self._calling:
            try:
                pending = work.send(None)
            except StopIteration as ended:
                value: T = ended.value
                return value
        return await self._go_on(resumed(work, pending))

    async def _go_on(self, work: Awaitable[T]) -> T:
        """Await work that has begun, until its deadline."""
        self._scope = asyncio.timeout(None)
        try:
            async with self._scope:
                self._timer = self._clock.call_later(self._seconds, self._expire)
                try:
                    with self._calling:
                        return await work
                finally:
                    self._timer.cancel()
        except TimeoutError as cancelled:
            if not self._scope.expired():
                raise
            raise self._too_late() from cancelled

    def check(self) -> None:
        """Raise TooLateError if it has ended, but after its deadline."""
        if self._scope is not None and self._scope.expired():
            raise self._too_late()

    def _too_late(self) -> TooLateError:
        return TooLateError(self._guest, self._what, f"it did not end within {self._seconds:.3g} s")

    def _expire(self) -> None:
        if self._scope is not None:
            self._scope.reschedule(asyncio.get_running_loop().time())
        self._timer = self._clock.call_later(GRACE_SECONDS, self._stick)

    def _stick(self) -> None:
        _log.warning("%s does not end its %s, though it is cancelled", self._guest, self._what)
        if self._on_stuck is not None:
            self._on_stuck()


async def _awaited(call: Callable[[], Awaitable[T]]) -> T:
    return await call()


def is_ours(error: BaseException) -> bool:
    """Return whether an exception is the caller's: Ctrl-C, cancelled task, abandoned coroutine."""
    if isinstance(error, asyncio.CancelledError):
        task = _running_task()
        return task is not None and task.cancelling() > 0
    if isinstance(error, GeneratorExit):
        return asyncio._get_running_loop() is not None and _running_task() is None
    return is_interrupt(error)


def _in_words(error: BaseException) -> str:
    if isinstance(error, asyncio.CancelledError):
        return "it cancelled itself"
    if isinstance(error, PrsmError):
        return error.message
    return str(error) if isinstance(error, BlockedError) else one_line(error)


def _running_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


class _Visit:
    """A call in a task of its own, until it has ended or nobody waits for it any more."""

    def __init__(self, clock: Clock | None, grace: float) -> None:
        self.is_late = False
        self._loop = asyncio.get_running_loop()
        self._later = (clock or self._loop).call_later
        self._grace = grace
        self._is_over = False
        self._waiter: asyncio.Future[None] | None = None
        self._timer: Timer | None = None

    def begin(self, work: Coroutine[Any, Any, Any], name: str) -> None:
        self.task = self._loop.create_task(work, name=name)
        self.task.add_done_callback(self._ended)

    async def until_over(self, seconds: float | None) -> None:
        if seconds is not None:
            self._timer = self._later(seconds, self._expire)
        if not self._is_over:
            self._waiter = self._loop.create_future()
            await self._waiter

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.task.cancel()
        self._timer = self._later(self._grace, self.end)

    def end(self) -> None:
        self._is_over = True
        waiter = self._waiter
        if waiter is not None and not waiter.done() and not self._loop.is_closed():
            waiter.set_result(None)

    def leave(self) -> bool:
        """Wait for it no more; return whether it goes on all the same."""
        if self._timer is not None:
            self._timer.cancel()
        return not self.task.done()

    def _expire(self) -> None:
        self.is_late = True
        self.stop()

    def _ended(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled():
            task.exception()  # whoever waits is told of it, and it is logged
        self.end()  # also of one that was cancelled before it began


def _module_of(code: object) -> str:
    if isinstance(code, WithSettings):
        return _module_of(code.reference)
    if isinstance(code, str):
        return code.partition(":")[0]
    module = getattr(code, "__module__", None) or getattr(type(code), "__module__", "")
    return module if isinstance(module, str) else ""
