"""Failover: how an agent continues after a failed turn.

The order: another login of the provider, a retry after a pause, another model. If a login or a
limit blocks all of these, the agent is held. A switch is never silent: there is a notice, and the
ledger has the agent's new model.
"""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from prsm_core.domain.agents import AgentState
from prsm_core.domain.permissions import Question
from prsm_core.domain.record import Record
from prsm_core.domain.turns import AgentError, ErrorKind
from prsm_core.domain.writes import AgentHeld, ModelSwitched, ThreadKept, Told
from prsm_core.engine.providers.model_choice import model_of, resolve_model
from prsm_core.engine.providers.registry import EXHAUSTED, NOT_LOGGED_IN
from prsm_core.engine.providers.retry import FAILURES, MAX_SECONDS
from prsm_core.errors import ModelNotAvailableError, PrsmError
from prsm_core.lifecycle import WAITING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prsm_core.domain.ids import Ids
    from prsm_core.domain.notes import ModelChoice
    from prsm_core.domain.permissions import Answer
    from prsm_core.engine.agents.parts import SessionParts
    from prsm_core.engine.journal.unit import AgentSteps, Journal
    from prsm_core.engine.providers.retry import CircuitBreaker
    from prsm_core.engine.requests import HumanRequests
    from prsm_core.engine.state import AgentRecord, Roster
    from prsm_core.interfaces.clock import Clock
    from prsm_core.kit.background import Background
    from prsm_core.messaging.deadlock import DeadlockDetector


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
        return self._parts.breakers.of(self._record.descriptor.provider)

    def opening(self) -> None:
        """Note the login with which the next session is opened."""
        provider = self._record.descriptor.provider
        self._login = self._parts.providers.profiles(provider).current

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
        """Run on another model by one step; the old thread means nothing to it."""
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
        self._parts.journal.note("notice", self._record.agent_id, level="warning", text=text)


def coming_model(record: AgentRecord) -> ModelChoice:
    """Return the model that an agent's next turn runs on."""
    chosen = record.notes.chosen
    return model_of(record.descriptor) if chosen is None else chosen


ASK, WAIT, END = "ask", "wait", "end"
FIRST_SECONDS, MOST_SECONDS = 60.0, 900.0  # of a wait whose end the vendor does not tell
LEAST_SECONDS = 1.0  # of any wait: a time that is told may have passed meanwhile

TRY_AGAIN = "Try again now"
WAIT_ON = "Wait and try again"
END_RUN = "End the run; it can be resumed"
_WHAT = {ErrorKind.AUTH_FAILURE: "a login", ErrorKind.RATE_LIMIT: "a usage limit"}
_ANSWERS = {WAIT_ON: WAIT, END_RUN: END}
_MEANWHILE = {
    ASK: "a person is asked",
    WAIT: "it waits",
    END: "the run ends once nothing else works, and can be resumed",
}


class HeldBy(Record, frozen=True, gc=False, kw_only=True):
    """What holds an agent: its turn's error, and the end in Unix seconds, if known."""

    error: AgentError
    until: float | None = None

    @property
    def on(self) -> str:
        """What the agent waits for."""
        what = _WHAT.get(self.error.kind, "a pause that its provider wants")
        if self.until is None:
            return what
        return f"{what} until {datetime.fromtimestamp(self.until).astimezone():%Y-%m-%d %H:%M:%S}"

    def seconds(self, now: float, tries: int) -> float:
        """Return how long the agent waits before the next try, after `tries` in vain."""
        if self.until is not None:
            return max(self.until - now, LEAST_SECONDS)
        return min(FIRST_SECONDS * 2.0 ** min(tries, 10), MOST_SECONDS)


class _Asking(Struct, eq=False):
    """The question to a person about one provider, its count of answers, and the last one."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    answers: int = 0
    way: str = ""


class Holds(Struct, eq=False):
    """Owns which agents are held, and what ends that.

    A held agent is RUNNING, without a slot or a session. `engine.limits` says whether a person is
    asked, the agent waits, or the run ends, resumable, once nothing else can move.
    """

    limits: str  # `engine.limits`: ask, wait or end
    roster: Roster
    steps: AgentSteps
    requests: HumanRequests
    detector: DeadlockDetector
    journal: Journal
    background: Background
    clock: Clock
    ids: Ids
    leads: bool  # the engine leads the run; one that a client outside leads is not ended
    _asking: dict[str, _Asking] = field(default_factory=dict)  # by provider
    _ending: dict[str, HeldBy] = field(default_factory=dict)  # agents that wait for the run's end
    # Of the agents that are held.
    _patience: dict[str, asyncio.Timeout] = field(default_factory=dict)
    # Set by who owns the run.
    end_run: Callable[[str], None] = lambda _: None

    def __post_init__(self) -> None:
        self.detector.on_look = self._look

    async def outlast(self, record: AgentRecord, by: HeldBy, tries: int) -> bool:
        """Hold an agent until it may retry its turn; False if it must fail. May outlast the run."""
        way = END if self.limits == ASK and not self.requests.policy.interactive else self.limits
        if way == END and not self.leads:
            return False
        await self._tell(record, by, way)
        is_over, patience = False, asyncio.timeout(None)
        self._patience[record.agent_id] = patience
        try:
            async with patience:
                is_over = await self._wait(record, by, way, tries)
        except TimeoutError:
            if not patience.expired():
                raise
            is_over = True
        finally:
            del self._patience[record.agent_id]
        if is_over:
            self.steps.stage(record, released(record))
        return is_over

    def release(self, agent_id: str) -> None:
        """Let a held agent continue at once: a person chose another model for it."""
        if (patience := self._patience.get(agent_id)) is not None:
            patience.reschedule(asyncio.get_running_loop().time())

    async def _wait(self, record: AgentRecord, by: HeldBy, way: str, tries: int) -> bool:
        if way == ASK:
            way = await self._ask(record, by)
        if way == WAIT:
            await self.clock.sleep(by.seconds(self.clock.time(), tries))
        elif way == END:
            if not self.leads:
                return False
            await self._until_ended(record, by)
        return True

    async def _tell(self, record: AgentRecord, by: HeldBy, way: str) -> None:
        provider = record.descriptor.provider
        text = f"held by {by.on} ({provider}: {by.error.message}); {_MEANWHILE[way]}"
        self.journal.note("notice", record.agent_id, level="warning", text=text)
        is_waiting = record.state in WAITING
        moved = self.steps.move(record, AgentState.RUNNING, "held") if is_waiting else ()
        record.waiting_on = by.on
        held = AgentHeld(waiting_on=by.on, reason=by.error.message, until=by.until)
        await self.steps.write(record, *moved, held)

    async def _ask(self, record: AgentRecord, by: HeldBy) -> str:
        """Return a person's choice: to try again, to WAIT, or to END the run.

        One answer covers all held agents of a provider. If the vendor names a time, the next try
        needs no answer. If nobody answers in time, the run ends.
        """
        asking = self._asking.setdefault(record.descriptor.provider, _Asking())
        before = asking.answers
        async with asking.lock:
            if asking.answers == before:
                answer = await self._answer(record, by)
                asking.way = END if answer is None else _ANSWERS.get("".join(answer.choices), "")
                asking.answers += 1
            return asking.way

    async def _answer(self, record: AgentRecord, by: HeldBy) -> Answer | None:
        provider, request = record.descriptor.provider, self.ids.request()
        needs_login = by.error.kind is ErrorKind.AUTH_FAILURE
        cure = "Log in again, then try again." if needs_login else "Try again, or wait."
        question = Question(
            text=f"{provider} answers no more: {by.error.message}. It is held by {by.on}. {cure}",
            options=(TRY_AGAIN, WAIT_ON, END_RUN),
        )
        timer = None
        if by.until is not None:
            work = self._answer_at(by.until, request)
            timer = self.background.start(work, name="the end of a limit")
        try:
            answer, _ = await self.requests.question(record, request, question)
        finally:
            if timer is not None:
                timer.cancel()
        return answer

    async def _answer_at(self, until: float, request: str) -> None:
        await self.clock.sleep(max(until - self.clock.time(), LEAST_SECONDS))
        self.requests.resolve(request, "question", {"choices": [], "text": None}, by="reset")

    async def _until_ended(self, record: AgentRecord, by: HeldBy) -> None:
        self._ending[record.agent_id] = by
        try:
            self._look()
            await asyncio.get_running_loop().create_future()
        finally:
            self._ending.pop(record.agent_id, None)
            self._look()

    def _look(self) -> None:
        """End the run if agents wait for its end and nobody else can move."""
        if not self._ending or any(map(self._moves, self.roster.records())):
            return
        held = [
            f"{self.roster.get(agent).descriptor.name} is held by {by.on}: {by.error.message}"
            for agent, by in self._ending.items()
        ]
        self.end_run("; ".join(held))

    def _moves(self, record: AgentRecord) -> bool:
        if record.has_ended or record.agent_id in self._ending:
            return False
        waits = self.detector.graph.waits_of(record.agent_id)
        return all(wait.key.ready() for wait in waits)


def released(record: AgentRecord) -> AgentHeld:
    """Let nothing hold an agent any more; return the write."""
    record.waiting_on = None
    return AgentHeld(waiting_on=None)
