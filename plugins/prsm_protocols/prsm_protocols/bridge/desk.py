"""Answers the requests of one agent: whatever the transport, each id has one effect.

A request is a call of the agent's tools with its own id. Made again while it runs it awaits the
same answer, and later it is given that one. In another engine it is answered from the ledger, where
the call's answer is. Every start of the program has a token of its own, so that nothing of an
earlier start moves the one that runs now.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Any, Protocol

from prsm_core import OrchestrationError, StepEnded, ToolInputError
from prsm_protocols.aism import HELP
from prsm_protocols.bridge.wire import Answer, Request, refusal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from prsm_core import AgentHost, Clock, ProviderServices, ToolOutcome

A_SECOND = 20


class Bucket:
    """Owns what is left of an agent's allowance, which fills again at a steady rate."""

    def __init__(self, clock: Clock, rate: int = A_SECOND) -> None:
        self._clock = clock
        self._rate = rate
        self._left = float(rate)
        self._seen = clock.now()

    def take(self) -> float:
        """Take one; return 0, or the seconds until there is one to take."""
        now = self._clock.now()
        passed = max(now - self._seen, 0.0)
        self._left, self._seen = min(self._rate, self._left + passed * self._rate), now
        if self._left >= 1.0:
            self._left -= 1.0
            return 0.0
        return (1.0 - self._left) / self._rate


MAX_OPEN = 32  # requests of one agent that are being answered
KEPT = 1000  # answers of one agent that are kept for requests made again
MAX_WAIT = 600.0  # seconds for which a program may wait for a message
STATE, SEND, NEXT, MEASURE, DONE = (
    *("state_transition", "message_send", "message_next", "measure", "task_complete"),
)
_MISSING = {
    STATE: "no protocol holds for this agent",
    SEND: "this agent has no tool to send messages with",
    NEXT: "this agent has no tool to take messages with",
    MEASURE: "this agent has no tool to measure with",
}


class Ear(Protocol):
    """Who runs the program, and hears of what it did."""

    async def moved(self, here: Mapping[str, Any]) -> None:
        """Take note of the state that the agent is in now; it is committed."""

    async def completed(self, summary: str) -> None:
        """Take note that the agent is done; it is committed."""

    async def alive(self) -> None:
        """Let the engine know that the program lives."""

    async def step(self, event: StepEnded) -> None:
        """Let the engine know that a call waits."""


class Desk:
    """Owns what one agent has asked, and was answered, in this engine.

    Attributes:
        beat: When the program last showed that it lives, by the engine's clock.
        waiting: How many requests wait for a message: who waits is not silent.
    """

    def __init__(
        self, agent_id: str, host: AgentHost, services: ProviderServices, *, rate: int = A_SECOND
    ) -> None:
        self.agent_id = agent_id
        self.beat = services.clock.now()
        self.waiting = 0
        self._host = host
        self._services = services
        self._bucket = Bucket(services.clock, rate)
        self._token = ""
        self._ear: Ear | None = None
        self._open: dict[str, asyncio.Future[Answer]] = {}
        self._given: OrderedDict[str, Answer] = OrderedDict()
        self._taken: deque[dict[str, Any]] = deque()  # messages taken in this state
        self._again: deque[dict[str, Any]] = deque()  # … that an earlier start may not have heeded
        self._moving = asyncio.Lock()
        self._deeds: Mapping[str, Callable[[Request], Awaitable[Answer]]] = {
            "state": self._state,
            "send": self._send,
            "next": self._next,
            "measure": self._measure,
            "heartbeat": self._heartbeat,
            "complete": self._complete,
            "help": self._help,
        }

    def admit(self, ear: Ear) -> str:
        """Let a start of the program in, and no earlier one any more; return its token.

        The messages that an earlier one took in the state that it did not leave come again.
        """
        self._token, self._ear = secrets.token_hex(16), ear
        self._again, self._taken = deque((*self._taken, *self._again)), deque()
        self.beat = self._services.clock.now()
        return self._token

    def dismiss(self) -> None:
        """Let nobody in."""
        self._token, self._ear = "", None

    def recall(self, messages: Iterable[dict[str, Any]]) -> None:
        """Have messages come again that an earlier engine gave out in the present state."""
        self._again.extend(messages)

    def undelivered(self, answer: Answer) -> None:
        """Take back a message whose receiver was gone: the next one to ask gets it."""
        message = (answer.result or {}).get("message")
        if message is not None and message in self._taken:
            self._taken.remove(message)
            self._again.append(message)
            self._given.pop(answer.id, None)

    def check(self, request: Request) -> None:
        """Raise OrchestrationError for a request that is not this program's."""
        is_own = hmac.compare_digest(request.token.encode(), self._token.encode())
        if request.agent != self.agent_id or not self._token or not is_own:
            raise OrchestrationError(
                "the token is not the one of this agent's program, as it was last started",
                hint="take AGENT_ID and PRSM_TOKEN from the environment that you were started with",
                code="bad_token",
            )

    async def answer(self, request: Request) -> Answer:
        """Return the answer to a request, which has its effect once; errors are answers, too."""
        try:
            self.check(request)
            self._limit(request)
        except OrchestrationError as error:
            return refusal(request.id, error)
        self.beat = self._services.clock.now()
        if (given := self._given.get(request.id)) is not None:
            return given
        running = self._open.get(request.id)
        if running is None:
            running = self._open[request.id] = asyncio.get_running_loop().create_future()
            self._services.start_soon(self._serve, request, running, name=f"aism {request.do}")
        return await asyncio.shield(running)

    def _limit(self, request: Request) -> None:
        if seconds := self._bucket.take():
            raise OrchestrationError(
                "too many requests: 20 a second are answered",
                hint=f"wait {seconds:.2f} s and make it again",
                code="rate_limited",
            )
        if len(self._open) >= MAX_OPEN and request.id not in self._open:
            raise OrchestrationError(
                f"{MAX_OPEN} requests of this agent are being answered already",
                hint="wait for their answers first",
                code="rate_limited",
            )

    async def _serve(self, request: Request, running: asyncio.Future[Answer]) -> None:
        """Have a request answered, also where whoever asked has gone."""
        try:
            answer = await self._done(request)
            self._given[request.id] = answer
            while len(self._given) > KEPT:
                self._given.popitem(last=False)
            if not running.done():
                running.set_result(answer)
        finally:
            self._open.pop(request.id, None)
            running.cancel()  # unless it is done: the engine closes

    async def _done(self, request: Request) -> Answer:
        try:
            if (deed := self._deeds.get(request.do)) is not None:
                return await deed(request)
            hint = f"do one of {', '.join(self._deeds)}"
            raise ToolInputError(f"there is no {request.do!r} to do", hint=hint)
        except OrchestrationError as error:
            return refusal(request.id, error)

    async def _call(self, request: Request, tool: str, args: Mapping[str, Any]) -> ToolOutcome:
        if tool in _MISSING and not self._has(tool):
            raise OrchestrationError(
                _MISSING[tool],
                hint="start it with a protocol: prsm run --label protocol=NAME",
                code="no_protocol",
            )
        return await self._host.call_tool(tool, args, call_id=request.id)

    def _has(self, tool: str) -> bool:
        return any(spec.name == tool for spec in self._host.tools)

    async def _state(self, request: Request) -> Answer:
        moves = {name: value for name, value in request.args.items() if name in {"to", "context"}}
        async with self._moving:  # what is told of moves is told in the ledger's order
            outcome = await self._call(request, STATE, moves)
            await self._heed(outcome)
        return _as_answer(request, outcome)

    async def _heed(self, outcome: ToolOutcome) -> None:
        """Have a move heard of, also one that was made since the time of a state was over."""
        data = None if outcome.is_error else outcome.data
        if isinstance(data, dict) and data.get("moved"):
            self._taken.clear()  # who leaves a state has heeded what it took there
            if self._ear is not None:
                await self._ear.moved(data)

    async def _send(self, request: Request) -> Answer:
        args = {key: request.args.get(key, "") for key in ("to", "text")}
        return _as_answer(request, await self._call(request, SEND, args))

    async def _next(self, request: Request) -> Answer:
        if self._again:
            old = {**self._again.popleft(), "again": True}
            self._taken.append(old)
            return Answer(id=request.id, ok=True, result={"message": old})
        seconds = _seconds(request.args.get("seconds", 0))
        answer = _as_answer(request, await self._waited(request, seconds))
        if (message := (answer.result or {}).get("message")) is not None:
            self._taken.append(message)
        return answer

    async def _waited(self, request: Request, seconds: float) -> ToolOutcome:
        """Take a message; the engine is told where that waits, so that the agent counts as idle."""
        if seconds == 0:
            return await self._call(request, NEXT, {"seconds": 0})
        self.waiting += 1
        try:
            async with asyncio.TaskGroup() as group:
                call = group.create_task(self._call(request, NEXT, {"seconds": seconds}))
                await asyncio.sleep(0)  # in its first step it reaches the host
                if not call.done() and self._ear is not None:
                    await self._ear.step(StepEnded())
        except ExceptionGroup as group:
            raise group.exceptions[0] from None  # that of the one call
        finally:
            self.waiting -= 1
            self.beat = self._services.clock.now()
        return call.result()

    async def _measure(self, request: Request) -> Answer:
        names = {"name", "value", "data"}
        args = {name: value for name, value in request.args.items() if name in names}
        return _as_answer(request, await self._call(request, MEASURE, args))

    async def _heartbeat(self, request: Request) -> Answer:
        if self._ear is not None:
            await self._ear.alive()
        return Answer(id=request.id, ok=True, result={})

    async def _complete(self, request: Request) -> Answer:
        summary = request.args.get("summary")
        if not isinstance(summary, str) or not summary.strip():
            raise ToolInputError("a summary is missing", hint="say in a sentence what was done")
        outcome = await self._call(request, DONE, {"summary": summary})
        if not outcome.is_error and self._ear is not None:
            await self._ear.completed(summary)
        return _as_answer(request, outcome)

    async def _help(self, request: Request) -> Answer:
        lines = [HELP]
        if self._has(STATE):
            outcome = await self._call(request, STATE, {})
            if not outcome.is_error:
                lines.append(told_state(outcome.data or {}))
        return Answer(id=request.id, ok=True, result={"text": "\n".join(lines)})

    async def look(self) -> Mapping[str, Any] | None:
        """Return the state that the agent is in, as the tool tells it; None without a protocol.

        Raises OrchestrationError where the tool refuses: its protocol cannot be read.
        """
        if not self._has(STATE):
            return None
        call_id = f"look-{secrets.token_hex(8)}"  # the id of another engine has its old answer
        async with self._moving:
            outcome = await self._host.call_tool(STATE, {}, call_id=call_id)
            await self._heed(outcome)
        if outcome.is_error:
            raise _error_of(outcome)
        return outcome.data or {}


def told_state(here: Mapping[str, Any]) -> str:
    """Return a state and the moves out of it, in words."""
    moves = [str(move["to"]) for move in here.get("moves", ())]
    open_moves = f"its open moves: {', '.join(moves)}" if moves else "no move leads out of it"
    return f"You are in state '{here.get('state', '')}'; {open_moves}."


def _seconds(given: Any) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= MAX_WAIT:
        raise ToolInputError(
            f"one can wait for 0 to {MAX_WAIT:g} seconds, not {given!r}", hint="wait again after it"
        )
    return float(given)


def _as_answer(request: Request, outcome: ToolOutcome) -> Answer:
    if outcome.is_error:
        return refusal(request.id, _error_of(outcome))
    data = outcome.data if isinstance(outcome.data, dict) else {"text": outcome.text}
    return Answer(id=request.id, ok=True, result=data)


def _error_of(outcome: ToolOutcome) -> OrchestrationError:
    told = outcome.data.get("error") if isinstance(outcome.data, dict) else None
    if not isinstance(told, dict):
        return OrchestrationError(outcome.text, hint="see `aism help`")
    return OrchestrationError(
        str(told.get("message")), hint=told.get("hint"), code=told.get("code") or "refused"
    )
