"""The quiet moment: which calls may write to files now, and the moment in which none does.

A call that only reads is unknown here. One that may write enters the gate once it is permitted and
leaves when it ends. Whoever holds the gate makes new calls wait, and waits for running ones. Calls
that still run then are named, as a tree that changes while it is read is no moment of anything.

A call that waits for a person's permission is not at the gate and delays nobody.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import field
from msgspec.structs import replace

from prsm_core.domain.record import Record
from prsm_core.kit.clocks import first_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from prsm_core.domain.agents import AgentDescriptor
    from prsm_core.domain.permissions import PermissionRequest
    from prsm_core.interfaces.clock import Clock

QUIET_SECONDS = 10.0  # how long a hold waits for calls that run
GATE_SECONDS = 60.0  # how long new calls wait for a snapshot at most
HOLD_SECONDS = 600.0  # how long for a person, who restores


class WritingCall(Record, frozen=True, kw_only=True):
    """A call that may write to files."""

    agent: str  # the agent's id
    name: str  # what the agent is called
    call: str | None  # None: its provider names it only once it runs, or never
    tool: str
    command: str | None = None
    paths: tuple[str, ...] = ()
    arguments: Mapping[str, Any] = field(default_factory=dict)
    cwd: str = "."
    since: float = 0.0  # seconds of the engine's clock
    owned: tuple[str, ...] | None = None  # files it alone writes, and no others; None: any

    def __str__(self) -> str:
        what = self.command or " ".join((self.tool, *self.paths))
        return f"{self.name}: {what}"


class CallWatch(Protocol):
    """Follows the calls that may write."""

    async def before(self, call: WritingCall) -> None:
        """Look at what a permitted call may write, before it runs."""

    def begins(self, call: WritingCall) -> None:
        """Note a call that runs from now on."""

    def is_named(self, old: WritingCall, new: WritingCall) -> None:
        """Note the name of a running call."""

    def owns(self, call: WritingCall, owned: tuple[str, ...]) -> None:
        """Note the files, absolute, that this call alone writes, and no others."""

    def ends(self, call: WritingCall, *, has_run: bool) -> None:
        """Note a call that runs no more, or waits for a permission after all."""


class Hold:
    """One hold of the gate: new calls wait until its release, or for a limited time."""

    def __init__(self, quiet: QuietMoment, clock: Clock, limit: float) -> None:
        self._quiet = quiet
        self._clock = clock
        self._timer = clock.call_later(limit, self._give_up)
        self.disturbing: tuple[WritingCall, ...] = ()  # calls that may have written meanwhile
        self._wanted: Callable[[], object] | None = None
        self.is_closed = True  # False: new calls go by, though somebody still looks

    async def settle(self, seconds: float = QUIET_SECONDS) -> tuple[WritingCall, ...]:
        """Wait up to `seconds` for running calls; return those that still run."""
        quiet = self._quiet
        await first_of(self._clock, seconds, quiet.none_runs.wait)
        self.disturbing += tuple(call for call in quiet.running if call not in self.disturbing)
        return self.disturbing

    def when_wanted(self, tell: Callable[[], object]) -> None:
        """Call `tell`, maybe at once, when a call waits at the gate or writes without asking."""
        self._wanted = tell
        if self._quiet.is_wanted:
            tell()

    def wanted(self) -> None:
        """Report that a call waits at the gate, or writes without asking."""
        if self._wanted is not None:
            self._wanted()

    def was_not_disturbed(self, call: WritingCall) -> None:
        """Note that a call reported as begun waits for its permission after all."""
        begun = call.agent, call.tool, call.since
        self.disturbing = tuple(
            one for one in self.disturbing if (one.agent, one.tool, one.since) != begun
        )

    def release(self) -> None:
        """Let new calls in. No-op the second time."""
        self._timer.cancel()
        self._quiet.released(self)

    def _give_up(self) -> None:
        self.is_closed = False
        self._quiet.opened()


class QuietMoment:
    """Owns the gate, and the calls that may write: those asked about, and running ones.

    A provider may report a call's beginning before it asks for the permission, after it, or without
    ever asking, and may name the call late. So a call is known by its name if it has one, else by
    its tool and command.
    """

    def __init__(self, clock: Clock) -> None:
        self.watch: CallWatch | None = None
        self._clock = clock
        self._running: list[WritingCall] = []  # oldest first
        self._asked: list[WritingCall] = []
        self._holds: list[Hold] = []
        self._waiting: dict[asyncio.Future[bool], str] = {}  # at the gate, with their agents
        self.none_runs = asyncio.Event()
        self.none_runs.set()

    def of(
        self, agent: AgentDescriptor, request: PermissionRequest, call: str | None = None
    ) -> WritingCall:
        """Return the call of a request; `call` is its id if the request has none."""
        command = request.command
        if command is None and isinstance(told := request.arguments.get("command"), str):
            command = told
        return WritingCall(
            agent=agent.agent_id,
            name=agent.name,
            call=call or request.call_id,
            tool=request.tool,
            command=command,
            paths=request.paths,
            arguments=request.arguments,
            cwd=request.cwd,
            since=self._clock.now(),
        )

    @property
    def running(self) -> tuple[WritingCall, ...]:
        """The calls that may write now, oldest first."""
        return tuple(self._running)

    def asks(self, call: WritingCall) -> None:
        """Note that a permission is asked for; the call does not run until it is given."""
        if (known := _find(self._running, call)) is not None:
            self._leave(known, has_run=False)
            for hold in self._holds:
                hold.was_not_disturbed(known)
        self._asked.append(call)

    async def enter(self, call: WritingCall) -> bool:
        """Let a permitted call in once nobody holds the gate; False if its turn is over.

        Files are looked at last, before the call runs: what changed while it waited is not its own.
        """
        while True:
            if not await self._wait_at_gate(call.agent):
                return False
            if self.watch is not None:
                await self.watch.before(call)
            if not self._is_closed:
                break
        asked = _find(self._asked, call)
        if asked is not None:
            self._asked.remove(asked)
        self._run(call if asked is None else _named_like(call, asked))
        return True

    async def _wait_at_gate(self, agent: str) -> bool:
        loop = asyncio.get_running_loop()
        while self._is_closed:
            waiter: asyncio.Future[bool] = loop.create_future()
            self._waiting[waiter] = agent
            self._tell_wanted()
            try:
                if not await waiter:
                    return False
            finally:
                del self._waiting[waiter]
        return True

    def refused(self, call: WritingCall) -> None:
        """Note that an asked call does not run."""
        if (asked := _find(self._asked, call)) is not None:
            self._asked.remove(asked)
        elif (known := _find(self._running, call)) is not None:
            self._leave(known)

    def began(self, call: WritingCall) -> None:
        """Note a call that its provider reports as begun, asked about or not."""
        if (asked := _find(self._asked, call)) is not None:
            self._asked[self._asked.index(asked)] = _named_like(asked, call)
        elif (known := _find(self._running, call)) is not None:
            named = _named_like(known, call)
            self._running[self._running.index(known)] = named
            if self.watch is not None:
                self.watch.is_named(known, named)
        else:
            self._run(call)

    def owns(self, call: WritingCall, owned: tuple[str, ...]) -> None:
        """Note the files, absolute, that a running call is about to write, alone."""
        if self.watch is not None and (known := _find(self._running, call)) is not None:
            self.watch.owns(known, owned)

    def ended(self, call: WritingCall) -> None:
        """Note that a call has ended; an unknown one is ignored."""
        self.refused(call)

    def turn_over(self, agent: str) -> None:
        """Note that nothing of an agent's turn runs any more, not even at the gate."""
        if not (self._asked or self._running or self._waiting):
            return
        self._asked = [one for one in self._asked if one.agent != agent]
        for call in [one for one in self._running if one.agent == agent]:
            self._leave(call)
        for waiter, owner in self._waiting.items():
            if owner == agent and not waiter.done():
                waiter.set_result(False)

    def close_gate(self, limit: float = GATE_SECONDS) -> Hold:
        """Hold the gate until the hold is released, or for `limit` seconds."""
        hold = Hold(self, self._clock, limit)
        self._holds.append(hold)
        return hold

    @asynccontextmanager
    async def hold(
        self, seconds: float = QUIET_SECONDS, *, limit: float = GATE_SECONDS
    ) -> AsyncIterator[Hold]:
        """Hold the gate for the block, which begins when no call runs or after `seconds`."""
        hold = self.close_gate(limit)
        try:
            await hold.settle(seconds)
            yield hold
        finally:
            hold.release()

    def released(self, hold: Hold) -> None:
        """Forget a hold; see `Hold.release`."""
        if hold in self._holds:
            self._holds.remove(hold)
            self.opened()

    def opened(self) -> None:
        """Let waiting calls in if nobody holds the gate any more."""
        if not self._is_closed:
            for waiter in self._waiting:
                if not waiter.done():
                    waiter.set_result(True)

    @property
    def is_wanted(self) -> bool:
        """Whether a call waits at the gate, or runs."""
        return bool(self._waiting or self._running)

    def _tell_wanted(self) -> None:
        for hold in self._holds:
            hold.wanted()

    @property
    def _is_closed(self) -> bool:
        return any(hold.is_closed for hold in self._holds)

    def _run(self, call: WritingCall) -> None:
        self._running.append(call)
        self.none_runs.clear()
        self._tell_wanted()
        if self.watch is not None:
            self.watch.begins(call)
        for hold in self._holds:
            hold.disturbing += (call,)  # although the gate is held

    def _leave(self, call: WritingCall, *, has_run: bool = True) -> None:
        self._running.remove(call)
        if self.watch is not None:
            self.watch.ends(call, has_run=has_run)
        if not self._running:
            self.none_runs.set()


def _find(calls: list[WritingCall], wanted: WritingCall) -> WritingCall | None:
    mine = [one for one in calls if one.agent == wanted.agent]
    named = [one for one in mine if one.call is not None and one.call == wanted.call]
    return next(iter(named or [one for one in mine if _may_be(one, wanted)]), None)


def _may_be(one: WritingCall, other: WritingCall) -> bool:
    is_unnamed = one.call is None or other.call is None
    return is_unnamed and (one.tool, one.command) == (other.tool, other.command)


def _named_like(known: WritingCall, told: WritingCall) -> WritingCall:
    return replace(
        known,
        call=known.call if known.call is not None else told.call,
        arguments=known.arguments or told.arguments,
    )
