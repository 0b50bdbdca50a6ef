"""Guard every call into a provider: its mistakes are its own failures, by its name.

What providers return is checked field by field by the tables below.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from msgspec import Struct

from prsm_core.domain.models import ModelInfo
from prsm_core.domain.record import Record
from prsm_core.domain.turns import (
    AgentError,
    AssistantMessage,
    ErrorKind,
    Notice,
    PlanEntry,
    PlanUpdated,
    StepEnded,
    StopReason,
    TextDelta,
    ThinkingDelta,
    ToolCallFinished,
    ToolCallStarted,
    ToolOutput,
    TurnEnded,
    UsageReported,
)
from prsm_core.domain.usage import Provenance, TokenUsage
from prsm_core.errors import PluginError, PrsmError
from prsm_core.interfaces.provider import (
    Provider,
    ProviderCapabilities,
    ProviderSession,
    ProviderStatus,
)
from prsm_core.kit.sanitize import MAX_DEPTH
from prsm_core.plugins.guard import GRACE_SECONDS
from prsm_core.plugins.values import (
    FLAG,
    NUMBER,
    TEXT,
    TEXTS,
    WHOLE,
    Fields,
    Kind,
    Table,
    first_problem,
    instance,
    many,
    maybe,
    one_of,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from prsm_core.domain.images import Image
    from prsm_core.domain.turns import AssembledContext, ProviderEvent
    from prsm_core.interfaces.clock import Clock
    from prsm_core.interfaces.provider import AgentHost, SessionRequest
    from prsm_core.plugins.guard import Guest

PROBE_SECONDS = 6.0  # a provider gives up its probe within 5 s
CLOSE_SECONDS = 10.0  # how long a provider may take to end what it started
ANSWERS = (PrsmError,)  # errors that a provider may raise, as its interface says
NOTHING = ProviderCapabilities(supports_master=False, resume="none")

T = TypeVar("T")
_log = logging.getLogger("prsm.engine")


class Limits(Record, frozen=True, kw_only=True):
    """How long each call into a provider may take, in seconds; a turn has its own clocks."""

    models: float = 30.0  # `list_models` and `knows_model`; whoever surveys many waits less
    open: float = 300.0  # `engine.open_timeout_seconds`
    end: float = 30.0
    vendor: float = 10.0  # what a vendor answers at once: `steer`, `interrupt`, `park`


class Opener(Protocol):
    """Opens a session in a task of its own."""

    def on_stuck(self) -> None:
        """Note that the provider keeps that task although it is late and cancelled."""


class GuardedProvider(Provider):
    """A plugin's provider. Raises PluginFaultError for an object that is none."""

    def __init__(
        self, provider: Provider, guest: Guest, clock: Clock, limits: Limits | None = None
    ) -> None:
        if not callable(getattr(provider, "open_session", None)):
            what = f"gave a {type(provider).__name__}, which is no Provider"
            raise guest.wrong("its factory", what)
        self.inner = provider
        self._guest = guest
        self._clock = clock
        self._limits = limits or Limits()
        self._known: Sequence[ModelInfo] = ()  # as it was given, where that was a tuple
        self._can: ProviderCapabilities | None = None  # as it was given and looked at last
        self._capabilities()  # wrong ones are told now

    @property
    def capabilities(self) -> ProviderCapabilities:  # type: ignore[override]
        """Its capabilities; nothing if it does not say."""
        try:
            return self._capabilities()
        except PluginError as error:
            _log.warning("%s", error)
            return NOTHING

    def _capabilities(self) -> ProviderCapabilities:
        found: ProviderCapabilities = self._guest.attribute(self.inner, "capabilities")
        if self._can is None or found is not self._can:  # the same ones cannot have changed
            if (problem := first_problem(found, CAPABILITIES)) is not None:
                raise self._guest.wrong("capabilities", problem)
            self._can = found
        return found

    @property
    def known_models(self) -> Sequence[ModelInfo]:  # type: ignore[override]
        """The models it knows; none if it does not say."""
        try:
            found = self._guest.attribute(self.inner, "known_models")
            if found is not self._known:
                self._known = self._models("known_models", found)
        except PluginError as error:
            _log.warning("%s", error)
            return ()
        return self._known

    async def prepare(self) -> None:
        """Begin what all sessions share, as far as it can; see Provider."""
        try:  # one that derives from nothing has none
            prepare = self._guest.attribute(self.inner, "prepare", None)
            if callable(prepare):
                await self._guest.within(self._limits.open, "prepare", prepare, passes=ANSWERS)
        except PrsmError as error:
            _log.info("%s", error)

    async def probe(self) -> ProviderStatus:
        """Probe for at most six seconds; see Provider."""
        call = self.inner.probe
        status = await self._guest.within(PROBE_SECONDS, "its probe", call, passes=ANSWERS)
        return _checked(status, STATUS, self._guest, "its probe")

    async def list_models(self) -> Sequence[ModelInfo]:
        """Ask for the models; see Provider."""
        call = self.inner.list_models
        found = await self._guest.within(self._limits.models, "list_models", call, passes=ANSWERS)
        return self._models("list_models", found)

    async def knows_model(self, model: str) -> bool:
        """Return whether the vendor takes an unlisted model; see Provider."""
        call = partial(self.inner.knows_model, model)
        what, limit = "knows_model", self._limits.models
        found: object = await self._guest.within(limit, what, call, passes=ANSWERS)
        if not isinstance(found, bool):
            raise self._guest.wrong(what, f"gave a {type(found).__name__}, not True or False")
        return found

    def _models(self, what: str, found: object) -> Sequence[ModelInfo]:
        if not isinstance(found, list | tuple):
            raise self._guest.wrong(what, f"gave a {type(found).__name__}, not a tuple of models")
        return tuple([_checked(model, MODELS, self._guest, what) for model in found])

    def open_session(
        self, request: SessionRequest, host: AgentHost, opener: Opener | None = None
    ) -> AbstractAsyncContextManager[GuardedSession]:
        """Open an agent's session and end it in the caller's task; see Provider.

        `opener` is told if the provider ignores a cancel, as it cannot be left behind there.
        """
        make = partial(self.inner.open_session, request, host)
        return _Opening(make, self._guest, self._limits, self._clock, opener)

    async def aclose(self, seconds: float = CLOSE_SECONDS) -> None:
        """End what it started, within a bounded time; see Provider."""
        grace = min(GRACE_SECONDS, seconds / 2)
        call, clock = self.inner.aclose, self._clock
        await self._guest.within(seconds, "aclose", call, clock=clock, grace=grace)


class _Opening(Struct, eq=False):
    _make: Callable[[], AbstractAsyncContextManager[ProviderSession]]
    _guest: Guest
    _limits: Limits
    _clock: Clock
    _opener: Opener | None
    _manager: Any = None

    async def __aenter__(self) -> GuardedSession:
        guest, limits = self._guest, self._limits
        begin = guest.here(limits.open, "open_session", self._clock, self._stuck, passes=ANSWERS)
        inner = await begin.run(self._open)
        try:
            begin.check()
            return GuardedSession(inner, guest, limits)
        except BaseException as error:
            await self._end(error)
            raise

    async def __aexit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        await self._end(error)

    def _stuck(self) -> None:
        if self._opener is not None:
            self._opener.on_stuck()

    async def _open(self) -> ProviderSession:
        self._manager = self._make()
        session: ProviderSession = await self._manager.__aenter__()
        return session

    async def _end(self, error: BaseException | None) -> None:
        kind, trace = (None, None) if error is None else (type(error), error.__traceback__)
        # The session's end may hand the error back as it is.
        same = (type(error),) if isinstance(error, Exception) else ()
        answers: tuple[type[Exception], ...] = (*ANSWERS, *same)
        what, seconds = "the end of its session", self._limits.end
        end = self._guest.here(seconds, what, self._clock, self._stuck, passes=answers)
        await end.run(lambda: self._manager.__aexit__(kind, error, trace))


class GuardedSession(ProviderSession):
    """A session of a plugin's provider."""

    def __init__(
        self, session: ProviderSession, guest: Guest, limits: Limits | None = None
    ) -> None:
        for name in ("run_turn", "steer", "interrupt"):
            if not callable(getattr(session, name, None)):
                what = f"gave a {type(session).__name__}, which is no ProviderSession"
                raise guest.wrong("open_session", what)
        self.inner = session
        self._guest = guest
        self._limits = limits or Limits()
        self._has_told = False

    @property
    def resume_token(self) -> str | None:  # type: ignore[override]
        """The vendor's name of the conversation; None if it gives no text."""
        token: str | None = self._read("resume_token", _MAYBE_TEXT, None)
        return token

    @property
    def reusable(self) -> bool:  # type: ignore[override]
        """Whether it can take another turn; False if it does not say."""
        return self._read("reusable", FLAG, False) is True

    @property
    def taken(self) -> frozenset[str] | None:  # type: ignore[override]
        """What of a continued turn its vendor holds; None if it does not say."""
        found = self._read("taken", _MAYBE_SET, None)
        return None if found is None else frozenset(found)

    def _read(self, name: str, kind: Kind, default: object) -> Any:
        try:
            found = self._guest.attribute(self.inner, name, default)
            what = f"is a {type(found).__name__}"
        except PluginError as error:
            found, what = _MISSING, f"cannot be read: {error.message}"
        if kind.fits(found):
            return found
        if not self._has_told:
            self._has_told = True
            _log.warning("%s: %s %s; it is not used", self._guest, name, what)
        return default

    async def run_turn(self, context: AssembledContext) -> AsyncGenerator[ProviderEvent, None]:
        """Run one turn with checked events; see ProviderSession."""
        guard = self._guest.calling("run_turn", ANSWERS)
        with guard:
            stream: Any = self.inner.run_turn(context)
            if inspect.iscoroutine(stream):
                stream.close()
            if not hasattr(stream, "__anext__"):
                what = f"gave a {type(stream).__name__}: it must be an asynchronous generator"
                raise self._guest.wrong("run_turn", what)
        try:
            while True:
                with guard:
                    try:
                        event = await stream.__anext__()
                    except StopAsyncIteration:
                        return
                if (problem := first_problem(event, EVENTS)) is not None:
                    raise self._guest.wrong("run_turn", f"gave {problem}")
                yield event
        finally:
            if hasattr(stream, "aclose"):
                with guard:
                    await stream.aclose()

    async def answer(
        self, context: AssembledContext, take: Callable[[ProviderEvent], None], clock: Clock
    ) -> None:
        """Run a turn to its end within `context.timeout_ms`, else raise TooLateError."""

        async def run() -> None:
            async with aclosing(self.run_turn(context)) as stream:
                async for event in stream:
                    take(event)
                    if isinstance(event, TurnEnded):
                        return

        seconds = None if context.timeout_ms is None else context.timeout_ms / 1000
        await self._guest.within(seconds, "run_turn", run, clock=clock, passes=ANSWERS)

    async def steer(self, text: str, images: Sequence[Image] = ()) -> bool:
        """Say something within the turn; return whether the vendor took it."""
        shown = (images,) if images else ()
        call = partial(self.inner.steer, text, *shown)
        try:
            taken = await self._guest.within(self._limits.vendor, "steer", call, passes=ANSWERS)
        except PluginError as error:
            _log.warning("%s", error)
            return False
        return taken is True

    async def interrupt(self) -> None:
        """Make the turn end; see ProviderSession."""
        await self._guest.within(self._limits.vendor, "interrupt", self.inner.interrupt)

    async def park(self) -> bool:
        """Let go of the waiting call; see ProviderSession."""
        call = self.inner.park
        try:
            parked = await self._guest.within(self._limits.vendor, "park", call, passes=ANSWERS)
        except PrsmError as error:  # the session is closed all the same
            _log.warning("%s", error)
            return False
        return parked is True


def _checked(value: T, table: Table, guest: Guest, what: str) -> T:
    if (problem := first_problem(value, table)) is not None:
        raise guest.wrong(what, f"gave {problem}")
    return value


def is_json(value: Any, depth: int = 0) -> bool:
    """Return whether a value can be written as JSON."""
    if value is None or isinstance(value, str | int | float | bool):
        return True
    if depth > MAX_DEPTH:
        return True  # what is nested deeper is cut off
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and is_json(value[key], depth + 1) for key in value)
    return isinstance(value, list | tuple) and all(is_json(inner, depth + 1) for inner in value)


def _of_table(table: Table, words: str) -> Kind:
    return Kind(words, lambda value: first_problem(value, table) is None)


_PLAIN = {
    "str": TEXT,
    "bool": FLAG,
    "int": WHOLE,
    "float": NUMBER,
    "tuple[str, ...]": TEXTS,
    "frozenset[str]": TEXTS,
}
_PLAIN |= {f"{hint} | None": maybe(kind) for hint, kind in _PLAIN.items()}


def _fields(record: type, **special: Kind) -> Fields:
    hints: Mapping[str, str] = record.__annotations__
    return {name: special.get(name) or _PLAIN[hint] for name, hint in hints.items()}


_MISSING = object()
_MAYBE_TEXT = maybe(TEXT)
_MAYBE_SET = maybe(Kind("a set", lambda value: isinstance(value, frozenset | set)))
_ARGUMENTS = Kind(
    "a mapping of JSON values", lambda value: isinstance(value, Mapping) and is_json(value)
)
_ENTRY: Table = {
    PlanEntry: _fields(PlanEntry, status=one_of("pending", "in_progress", "completed"))
}
_ENTRIES = many(_of_table(_ENTRY, "a PlanEntry of a text and its status"))
_USAGE = _of_table({TokenUsage: _fields(TokenUsage)}, "a TokenUsage of whole numbers")
_ERROR = _of_table(
    {AgentError: _fields(AgentError, kind=instance(ErrorKind))},
    "an AgentError whose fields are what they must be",
)
_TOLD = one_of("step", "turn", "none")

STATUS: Table = {ProviderStatus: _fields(ProviderStatus)}
CAPABILITIES: Table = {
    ProviderCapabilities: _fields(
        ProviderCapabilities,
        enforcement=one_of("pre_tool", "approval", "sandbox", "none"),
        resume=one_of("call", "native", "rebuild", "none"),
        parameters=many(one_of("max_response_tokens", "temperature")),
        tokens_told=_TOLD,
        cost_told=_TOLD,
    )
}
MODELS: Table = {ModelInfo: _fields(ModelInfo)}
EVENTS: Table = {
    **{
        event: _fields(event)
        for event in (TextDelta, ThinkingDelta, AssistantMessage, ToolOutput, StepEnded)
    },
    ToolCallStarted: _fields(ToolCallStarted, arguments=_ARGUMENTS),
    ToolCallFinished: _fields(ToolCallFinished, status=one_of("completed", "failed", "denied")),
    PlanUpdated: _fields(PlanUpdated, entries=_ENTRIES),
    UsageReported: _fields(
        UsageReported,
        usage=_USAGE,
        provenance=instance(Provenance),
        cost_provenance=instance(Provenance),
    ),
    Notice: _fields(Notice, level=one_of("info", "warning", "error")),
    TurnEnded: _fields(TurnEnded, stop_reason=instance(StopReason), error=maybe(_ERROR)),
}
