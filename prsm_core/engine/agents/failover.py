"""Failover: how an agent continues after a failed turn.

The order: another login of the provider, a retry after a pause, another model. If a login or a
limit blocks all of these, the agent is held. A switch is never silent: there is a notice, and the
ledger has the agent's new model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from prsm_core.domain.record import Record
from prsm_core.domain.turns import AgentError, ErrorKind
from prsm_core.domain.writes import ModelSwitched, ThreadKept, Told
from prsm_core.engine.providers.model_choice import model_of, resolve_model
from prsm_core.engine.providers.registry import EXHAUSTED, NOT_LOGGED_IN
from prsm_core.engine.providers.retry import FAILURES, MAX_SECONDS
from prsm_core.errors import ModelNotAvailableError, PrsmError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prsm_core.domain.notes import ModelChoice
    from prsm_core.engine.agents.life import SessionParts
    from prsm_core.engine.providers.retry import CircuitBreaker
    from prsm_core.engine.state import AgentRecord


# What another model may do better; the others are the engine's own clocks, or bugs.
_OF_THE_MODEL = frozenset(
    {
        ErrorKind.AUTH_FAILURE,
        ErrorKind.COMPACTION_FAILURE,
        ErrorKind.CONTEXT_OVERFLOW,
        ErrorKind.MODEL_ERROR,
        ErrorKind.RATE_LIMIT,
    }
)


_OPENINGS = 3  # sessions in a row that may not be opened, in a life that was cut off
_OPENING_SECONDS = 2.0  # after the first of them; twice as many after the second


class Recovery(Record, frozen=True, kw_only=True):
    """How to continue: after `delay_s`, in a new session, or held until its provider is cured."""

    delay_s: float | None = 0.0
    reopen: bool = False
    is_held: bool = False


class Failover(Struct, eq=False):
    """Decides how one life continues after failures in a row, which the agent's notes count."""

    _record: AgentRecord
    _parts: SessionParts
    _was_cut_off: bool = False  # the life goes on after an engine that died
    unopened: int = 0  # sessions in a row that could not be opened
    _login: str | None = None

    @property
    def breaker(self) -> CircuitBreaker:
        """The breaker of the agent's present provider."""
        return self._parts.breaker_of(self._record.descriptor.provider)

    def opening(self) -> None:
        """Note the login with which the next session is opened."""
        self._login = self._parts.providers.profiles(self._record.descriptor.provider).current

    def pause_to_open(self, error: PrsmError) -> float | None:
        """Return the seconds before a cut-off life retries an opening; None means never."""
        self.unopened += 1
        if not self._was_cut_off or self.unopened == _OPENINGS:
            return None
        self._tell(f"its session cannot be opened yet, and is tried again: {error.message}")
        return _OPENING_SECONDS * self.unopened

    def succeeded(self) -> None:
        """Note a turn that ended well."""
        notes = self._record.notes
        if notes.failures or notes.left is not None:
            self._record.note(failures=0, left=None)
        self.breaker.succeeded()

    async def after(self, error: AgentError) -> Recovery | None:
        """Return how to continue after the newest turn, which failed; None to give up."""
        record = self._record
        failures = record.notes.failures + 1
        record.note(failures=failures, settled=record.head_turn_id)
        if self._take_other_login(error):
            return Recovery(reopen=True)
        if error.retryable and self.breaker.failed():
            times = f"{record.descriptor.provider} failed {FAILURES} times in a row"
            self._tell(f"provider {times}: a pause for all its agents")
        delay = self._parts.retry.delay(failures, error)
        is_long = (error.retry_after_s or 0.0) > MAX_SECONDS
        if delay is None or is_long:
            return await self._without_retry(error, is_long=is_long)
        delay = max(delay, self.breaker.remaining())
        self._tell_retry(error, delay)
        return Recovery(delay_s=delay)

    async def _without_retry(self, error: AgentError, *, is_long: bool) -> Recovery | None:
        if error.kind in _OF_THE_MODEL and await self._take_other_model(error.message):
            return Recovery(reopen=True)
        if error.kind not in EXHAUSTED and not is_long:
            return None
        profiles = self._parts.providers.profiles(self._record.descriptor.provider)
        seconds, other = error.retry_after_s, profiles.fresh_in
        if seconds is not None and other is not None:
            seconds = min(seconds, other)
        return Recovery(delay_s=seconds, is_held=True)

    def _tell_retry(self, error: AgentError, delay: float) -> None:
        failures = self._record.notes.failures
        to_come = self._parts.retry.pauses_to_come(failures, error, self.breaker.pause_after)
        self._parts.journal.note(
            "retry_scheduled",
            self._record.agent_id,
            attempt=failures,
            delay_s=round(delay, 3),
            error=error.to_dict(),
            tries_left=len(to_come) + 1,
            pauses_s=round(delay + sum(to_come), 3),
        )

    def _take_other_login(self, error: AgentError) -> bool:
        provider = self._record.descriptor.provider
        profiles = self._parts.providers.profiles(provider)
        if not profiles.retire(self._login, error):
            return False
        self._record.note(failures=0)
        self._tell(
            f"provider {provider}: auth profile {self._login!r} rests ({error.kind.value}), "
            f"{profiles.current!r} takes over"
        )
        return True

    async def replace_provider(self, error: PrsmError) -> bool:
        """Switch to another login or model after a session could not be opened, if possible."""
        refused = AgentError(kind=ErrorKind.AUTH_FAILURE, message=error.message)
        if error.code == NOT_LOGGED_IN and self._take_other_login(refused):
            self._record.resume_token = None
            return True
        return await self._take_other_model(error.message)

    async def _take_other_model(self, why: str) -> bool:
        record, parts = self._record, self._parts
        was = model_of(record.descriptor)
        self._try(was)
        first = record.notes.tried[0].partition("/")[0]  # a bare name in the chain is of its own
        await parts.listings.check(parts.settings.defaults.fallbacks, first)
        for choice in self._chain(replace(was, provider=first)):
            self._try(choice)
            if await self._is_available(choice):
                text = f"model {was.name} gave up ({why}): {choice.name} takes over"
                await self._switch(choice, "warning", text, failures=0, left=None)
                return True
        return False

    async def take_chosen(self) -> bool:
        """Switch between turns to a model that a person chose; return whether there is one."""
        was, chosen = model_of(self._record.descriptor), self._record.notes.chosen
        if chosen is None:
            return False
        text = f"model {chosen.provider}/{chosen.model} takes over from {was.name}, as was chosen"
        anew = {"failures": 0, "tried": (), "chosen": None, "left": was}
        await self._switch(chosen, "info", text, **anew)
        return True

    async def _switch(self, choice: ModelChoice, level: str, text: str, **notes: Any) -> None:
        record = self._record
        record.switch_model(choice.provider, choice.model, choice.reasoning_effort)
        record.ride(ThreadKept(thread=None))  # one that waits for its step is of the other model
        record.note(**notes)
        told = Told(kind="notice", data={"level": level, "text": text})
        await self._parts.steps.write(record, ModelSwitched(**asdict(choice)), told)

    def _try(self, choice: ModelChoice) -> None:
        tried = self._record.notes.tried
        if choice.name not in tried:
            self._record.note(tried=(*tried, choice.name))

    def _chain(self, first: ModelChoice) -> Iterator[ModelChoice]:
        parts, granted = self._parts, self._record.descriptor.grant.models
        if (left := self._record.notes.left) is not None:
            yield left
        for text in parts.settings.defaults.fallbacks:
            try:
                choice = resolve_model(text, first, parts.listings.names)
            except ModelNotAvailableError as error:
                self._tell(f"fallback {text!r} is left out: {error.message}")
                continue
            is_granted = granted is None or choice.name in granted
            if is_granted and choice.name not in self._record.notes.tried:
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

    def _tell(self, text: str) -> None:
        self._parts.journal.warn(self._record.agent_id, text)


def coming_model(record: AgentRecord) -> ModelChoice:
    """Return the model that an agent's next turn runs on."""
    chosen = record.notes.chosen
    return model_of(record.descriptor) if chosen is None else chosen
