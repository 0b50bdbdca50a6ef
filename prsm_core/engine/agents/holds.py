"""Hold agents that lack a login or hit a limit: a person or time can cure that."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import Struct, field

from prsm_core.domain.agents import AgentState
from prsm_core.domain.permissions import Question
from prsm_core.domain.record import Record
from prsm_core.domain.turns import ErrorKind
from prsm_core.domain.writes import AgentHeld
from prsm_core.lifecycle import WAITING

if TYPE_CHECKING:
    from collections.abc import Callable

    from prsm_core.domain.ids import Ids
    from prsm_core.domain.permissions import Answer
    from prsm_core.domain.turns import AgentError
    from prsm_core.engine.journal.unit import AgentSteps, Journal
    from prsm_core.engine.requests import HumanRequests
    from prsm_core.engine.state import AgentRecord, Roster
    from prsm_core.interfaces.clock import Clock
    from prsm_core.kit.background import Background
    from prsm_core.messaging.deadlock import DeadlockDetector

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
        self.journal.warn(record.agent_id, text)
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
