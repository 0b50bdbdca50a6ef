"""Failover: what an agent goes on with after a turn that failed.

In this order: another login of the provider, a pause and the same again, another model. A switch
is never silent: it is a notice, and the ledger has the agent's new model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.domain.record import Record
from prsm_core.domain.turns import AgentError, ErrorKind
from prsm_core.domain.writes import ModelSwitched, Told
from prsm_core.engine.providers.breaker import FAILURES
from prsm_core.engine.providers.model_choice import ModelChoice, resolve_model
from prsm_core.engine.providers.profiles import NOT_LOGGED_IN
from prsm_core.engine.providers.retry import MAX_SECONDS
from prsm_core.errors import ModelNotAvailableError, PrsmError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prsm_core.config import Settings
    from prsm_core.engine.journal.unit import Journal
    from prsm_core.engine.ports import Steps
    from prsm_core.engine.providers.breaker import Breakers, CircuitBreaker
    from prsm_core.engine.providers.listings import Listings
    from prsm_core.engine.providers.registry import ProviderRegistry
    from prsm_core.engine.providers.retry import RetryPolicy
    from prsm_core.engine.state import AgentRecord

# What another model may do better; the others are the engine's own clocks, or bugs.
_OF_THE_MODEL = frozenset(
    {
        ErrorKind.AUTH_FAILURE,
        ErrorKind.CONTEXT_OVERFLOW,
        ErrorKind.MODEL_ERROR,
        ErrorKind.RATE_LIMIT,
    }
)


class Recovery(Record, frozen=True, kw_only=True):
    """How to go on: after a pause, and in a new session where login or model are others."""

    delay_s: float = 0.0
    reopen: bool = False


class FailoverParts(Record, frozen=True, kw_only=True):
    """What the failover of all agents uses."""

    settings: Settings
    providers: ProviderRegistry
    listings: Listings
    breakers: Breakers
    retry: RetryPolicy
    steps: Steps
    journal: Journal


_NONE: frozenset[str] = frozenset()  # one for all: each that is made takes 216 bytes


class Failover:
    """Owns what the failures in a row of one incarnation lead to."""

    __slots__ = (
        "_failures",
        "_first",
        "_login",
        "_parts",
        "_record",
        "_tried",
    )

    def __init__(self, record: AgentRecord, parts: FailoverParts) -> None:
        self._record = record
        self._parts = parts
        self._failures = 0
        self._login: str | None = None
        self._tried: frozenset[str] = _NONE  # models that have failed for good
        self._first: ModelChoice | None = None  # a bare name in the chain is of its provider

    @property
    def breaker(self) -> CircuitBreaker:
        """The breaker of the provider the agent runs on now."""
        return self._parts.breakers.of(self._record.descriptor.provider)

    def opening(self) -> None:
        """Note with which login the session is opened that comes next."""
        provider = self._record.descriptor.provider
        self._login = self._parts.providers.profiles(provider).current

    def succeeded(self) -> None:
        """Note a turn that ended well."""
        self._failures = 0
        self.breaker.succeeded()

    async def after(self, error: AgentError) -> Recovery | None:
        """Return how to go on after a turn that failed; None = give up."""
        self._failures += 1
        if self._take_other_login(error):
            return Recovery(reopen=True)
        if error.retryable and self.breaker.failed():
            self._tell_breaker_open()
        delay = self._parts.retry.delay(self._failures, error)
        is_long = delay is not None and delay > MAX_SECONDS * 2
        gives_up = delay is None or is_long
        if gives_up and error.kind in _OF_THE_MODEL and await self._take_other_model(error.message):
            return Recovery(reopen=True)
        if delay is None:
            return None
        delay = max(delay, self.breaker.remaining())
        if delay > (limit := self._parts.settings.engine.agent_timeout_seconds):
            self._tell(f"the provider wants a pause of {delay:.0f} s; no agent waits {limit:.0f} s")
            return None
        self._tell_retry(error, delay)
        return Recovery(delay_s=delay)

    def _tell_retry(self, error: AgentError, delay: float) -> None:
        """Tell that the same is tried again, and how long that can go on."""
        to_come = self._parts.retry.pauses_to_come(self._failures, error, self.breaker.pause_after)
        self._parts.journal.note(
            "retry_scheduled",
            self._record.agent_id,
            attempt=self._failures,
            delay_s=round(delay, 3),
            error=error.to_dict(),
            tries_left=len(to_come) + 1,
            pauses_s=round(delay + sum(to_come), 3),
        )

    def _take_other_login(self, error: AgentError) -> bool:
        provider = self._record.descriptor.provider
        profiles = self._parts.providers.profiles(provider)
        used = self._login
        if not profiles.retire(used, error):
            return False
        self._failures = 0
        self._tell(
            f"provider {provider}: auth profile {used!r} rests ({error.kind.value}), "
            f"{profiles.current!r} takes over"
        )
        return True

    async def replace_provider(self, error: PrsmError) -> bool:
        """Go on where a session cannot be opened, with another login or model; whether it can."""
        refused = AgentError(kind=ErrorKind.AUTH_FAILURE, message=error.message)
        if error.code == NOT_LOGGED_IN and self._take_other_login(refused):
            self._record.resume_token = None
            return True
        return await self._take_other_model(error.message)

    async def _take_other_model(self, why: str) -> bool:
        """Go on with the next model of the fallback chain; whether there is one."""
        record, parts = self._record, self._parts
        was = _choice(record)
        first = self._first = self._first or was
        self._tried |= {was.name}
        await parts.listings.check(parts.settings.defaults.fallbacks, first.provider)
        for choice in self._chain(first):
            self._tried |= {choice.name}
            if not await self._is_available(choice):
                continue
            record.switch_model(choice.provider, choice.model, choice.reasoning_effort)
            self._failures = 0
            switched = ModelSwitched(
                provider=choice.provider,
                model=choice.model,
                reasoning_effort=choice.reasoning_effort,
            )
            text = f"model {was.name} gave up ({why}): {choice.name} takes over"
            told = Told(kind="notice", data={"level": "warning", "text": text})
            await parts.steps.write(record, switched, told)
            return True
        return False

    def _chain(self, first: ModelChoice) -> Iterator[ModelChoice]:
        """Yield the models that may take over: known, granted, and not tried yet."""
        parts, granted = self._parts, self._record.descriptor.grant.models
        for text in parts.settings.defaults.fallbacks:
            try:
                choice = resolve_model(text, first, parts.listings.names)
            except ModelNotAvailableError as error:
                self._tell(f"fallback {text!r} is left out: {error.message}")
                continue
            is_granted = granted is None or choice.name in granted
            if is_granted and choice.name not in self._tried:
                yield choice

    async def _is_available(self, choice: ModelChoice) -> bool:
        try:
            status = await self._parts.providers.probe(choice.provider)
        except PrsmError as error:
            self._tell(f"fallback {choice.name} is left out: {error.message}")
            return False
        if not status.available:
            self._tell(f"fallback {choice.name} is left out: {status.reason or 'not available'}")
        return status.available

    def _tell_breaker_open(self) -> None:
        provider = self._record.descriptor.provider
        times = f"{FAILURES} times in a row"
        self._tell(f"provider {provider} failed {times}: a pause for all its agents")

    def _tell(self, text: str) -> None:
        self._parts.journal.note("notice", self._record.agent_id, level="warning", text=text)


def _choice(record: AgentRecord) -> ModelChoice:
    descriptor = record.descriptor
    return ModelChoice(
        provider=descriptor.provider,
        model=descriptor.model,
        reasoning_effort=descriptor.reasoning_effort,
    )
