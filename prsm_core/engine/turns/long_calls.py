"""Calls of a client that cuts them off: the work goes on, and a token gives its answer later.

A client says how long it waits for an answer. What takes longer is answered `pending` with a
token; `wait_for_message` with that token gives what the call itself would have given. The call
has its effect once, whatever becomes of the client's connection: one that broke may make the same
call again and gets the answer of the first.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from prsm_core.domain.agents import AgentState
from prsm_core.engine.turns.waits import WaitOf
from prsm_core.errors import MessageRoutingError, OrchestrationError
from prsm_core.kit.clocks import first_of
from prsm_core.kit.outcomes import success

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prsm_core.domain.tools import ToolOutcome
    from prsm_core.engine.ports import Wait
    from prsm_core.engine.turns.call import Call, Mended
    from prsm_core.engine.turns.calls import TurnCalls
    from prsm_core.interfaces.clock import Clock
    from prsm_core.kit.background import Background

WAIT_TOOL = "wait_for_message"


class _LongCall(Struct, eq=False):
    """A call that outlives the client's patience; `outcome` is set once it has ended."""

    token: str
    key: str  # tool and arguments
    task: asyncio.Task[None] | None = None
    outcome: ToolOutcome | None = None
    is_carried: bool = False  # a client waits for its answer now
    is_pending: bool = False  # a client knows the token
    is_given: bool = False

    @contextmanager
    def carried(self) -> Iterator[None]:
        """Count as awaited by a client."""
        self.is_carried = True
        try:
            yield
        finally:
            self.is_carried = False

    @property
    def is_abandoned(self) -> bool:
        """Whether its client left without an answer and without the token."""
        return not (self.is_carried or self.is_pending or self.is_given)


class LongCalls:
    """Owns the calls of one turn that a client may leave before they end."""

    __slots__ = (
        "_background",
        "_calls",
        "_clock",
        "_expired",
        "_known",
    )

    def __init__(self, background: Background, clock: Clock, calls: TurnCalls) -> None:
        self._background = background
        self._clock = clock
        self._calls = calls
        self._known: dict[str, _LongCall] = {}
        self._expired: set[str] = set()  # waits that ended by their own timeout

    async def run(
        self, name: str, mended: Mended, call_id: str | None, patience_s: float
    ) -> ToolOutcome:
        """Run a call; answer `pending` with a token when `patience_s` seconds have passed."""
        arguments = mended.arguments
        if name == WAIT_TOOL and "token" in arguments:  # the work is another call's
            wanted = arguments.get("timeout") or arguments.get("timeout_seconds") or patience_s
            limited = {**arguments, "timeout": min(wanted, patience_s)}
            return await self._calls.run(name, limited, call_id, mended.notice)
        key = json.dumps([name, arguments], sort_keys=True)
        call = next((c for c in self._known.values() if c.is_abandoned and c.key == key), None)
        if call is None:
            call = self._start(name, mended, call_id, key)
        with call.carried():
            ended = await self._ended_within(call, patience_s)
        if not ended:
            await self._calls.parts.journal.hold()
            call.is_pending = True
            return pending(call.token)
        return self._give(call)

    async def resume(self, follower: Call, token: str, seconds: float | None) -> ToolOutcome | None:
        """Return the answer of an earlier call, waiting for it at most `seconds`.

        None when the token is that of a wait whose own timeout ended it: then wait anew. An
        answer that was given before is marked `again`. Raises MessageRoutingError for an unknown
        token, and where the answer is being waited for already.
        """
        if token in self._expired:
            return None
        call = self._known.get(token)
        if call is None:
            raise MessageRoutingError(
                f"there is no call {token!r} that you could wait for",
                hint="a token holds until its turn ends; leave it out to wait for any message",
                code="unknown_token",
            )
        if call.is_carried:
            raise MessageRoutingError(
                f"another wait_for_message of yours waits for call {token!r} already",
                hint="one is enough: it returns the answer",
                code="already_waiting",
            )
        with call.carried():
            ended = call.outcome is not None or await self._follow(follower, call, seconds)
        return self._give(call) if ended else pending(token)

    def expire(self, token: str) -> None:
        """Remember a wait that its own timeout has ended."""
        self._expired.add(token)

    def _start(self, name: str, mended: Mended, call_id: str | None, key: str) -> _LongCall:
        token = self._calls.unique_id(call_id)
        while token in self._known:  # the same call delivered twice in one moment
            token = self._calls.unique_id(f"{token}#again")
        call = _LongCall(token, key)

        async def work() -> None:
            call.outcome = await self._calls.run(name, mended.arguments, token, mended.notice)

        call.task = self._background.start(work(), name=f"long call {name}")
        self._known[token] = call
        return call

    async def _ended_within(self, call: _LongCall, seconds: float | None) -> bool:
        task = call.task
        if task is None:
            raise RuntimeError("the call was not started")
        return await first_of(self._clock, seconds, lambda: asyncio.wait({task}))

    async def _follow(self, follower: Call, call: _LongCall, seconds: float | None) -> bool:
        """Await a call from within another, which waits for just what that one waits for."""
        leader = self._calls.opened(call.token)

        def its_wait() -> Wait | None:
            return None if leader is None or leader.closed else leader.wait

        def targets() -> tuple[str, ...]:
            wait = its_wait()
            return () if wait is None else wait.targets()

        def ready() -> bool:
            wait = its_wait()
            return seconds is not None or wait is None or wait.ready()

        now = its_wait()
        state = AgentState.WAITING_FOR_CHILD if now is None else now.state
        wait = WaitOf(state=state, on="an earlier call", targets=targets, ready=ready)
        return await follower.wait_while(wait, lambda: self._ended_within(call, None), seconds)

    def _give(self, call: _LongCall) -> ToolOutcome:
        outcome = call.outcome
        if outcome is None:  # its task was cancelled with the engine
            raise OrchestrationError("the call was cut off", code="turn_over")
        if call.is_given:
            again = success({**outcome.data, "again": True})
            return replace(again, is_error=outcome.is_error, images=outcome.images)
        call.is_given = True
        if not call.is_pending:
            del self._known[call.token]  # nobody knows a token of it
        return outcome


def pending(token: str) -> ToolOutcome:
    """Return the answer to a client that will not wait longer."""
    hint = f"not ready yet: call {WAIT_TOOL} with this token for the answer"
    return success({"type": "pending", "token": token, "hint": hint})
