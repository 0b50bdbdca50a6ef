"""Stale lives: what an ended life of an agent writes, is sent and calls once the next one runs.

Whatever is late bears a mark, so that any effect of it can be found in the log.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from prsm_core.domain.permissions import Deny, PermissionRequest, Question
from prsm_core.domain.projection import made_of
from prsm_core.domain.writes import (
    AgentEnded,
    AgentRestarted,
    AgentSpawned,
    AgentsResumed,
    MessageSent,
)
from prsm_core.errors import FencedError, PrsmError

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Coroutine, Iterable, Mapping

    from prsm_core.domain.events import Event
    from prsm_core.domain.messages import RoutedMessage
    from prsm_core.domain.steps import Step
    from prsm_core.engine.engine import OrchestrationEngine
    from prsm_core.interfaces.clock import Clock
    from prsm_core.interfaces.provider import AgentHost, SessionRequest
    from prsm_testing.sim.faults import FaultDice
    from prsm_testing.sim.rules import Findings
    from prsm_testing.sim.store import SimStore

MARK = "of a stale life"
KEPT = 20  # steps and messages of an agent
QUEUE = 1000  # of what is about to come late
MEAN_S = 2.0  # how late they come, on average

_CALLS: tuple[tuple[str, Mapping[str, Any]], ...] = (
    ("spawn_child", {"prompt": MARK}),
    ("ask_parent", {"question": MARK}),
    ("report_progress", {"status": MARK}),
    ("ask_user", {"question": MARK}),
    ("run_bash", {"command": f"ls {MARK}"}),
    ("task_complete", {"summary": MARK}),
)


class StaleLives:
    """Keeps what each life did, has some agents live again, and lets what they did come late.

    One disturbs the agents of one engine: that and its store are set once they are made.
    """

    engine: OrchestrationEngine
    store: SimStore

    def __init__(
        self, faults: FaultDice, findings: Findings, dice: random.Random, clock: Clock
    ) -> None:
        self._faults = faults
        self._findings = findings
        self._dice = dice
        self._clock = clock
        self._steps = defaultdict[str, deque["Step"]](lambda: deque(maxlen=KEPT))
        self._letters = defaultdict[str, deque["RoutedMessage"]](lambda: deque(maxlen=KEPT))
        self._works: asyncio.Queue[Callable[[], Coroutine[Any, Any, None]]] = asyncio.Queue(QUEUE)
        self._written = 0

    async def run(self) -> None:
        """Let it come late, for as long as the engine is used."""
        async with asyncio.TaskGroup() as group:
            while True:
                _ = group.create_task((await self._works.get())())

    def applied(self, step: Step) -> None:
        """Keep a step and its messages.

        An end may be followed by a new life, and that by what is stale.
        """
        resumed = step.find(AgentsResumed)
        for each, life in () if resumed is None else resumed.lives.items():
            if self._faults.strikes("stale", 0.7):
                self._works.put_nowait(partial(self._come_late, each, life))
        agent_id = step.agent_id
        if agent_id is None or step.find(AgentSpawned) is not None:
            return
        if step.find(AgentEnded) is not None and self._faults.strikes("stale", 0.25):
            self._works.put_nowait(partial(self._revive, agent_id))
        is_restart = step.find(AgentRestarted) is not None
        if is_restart and self._faults.strikes("stale", 0.7):
            self._works.put_nowait(partial(self._come_late, agent_id, step.incarnation))
        self._steps[agent_id].append(step)
        for sent in step.all(MessageSent):
            self._letters[sent.message.target].append(sent.message)

    async def _revive(self, agent_id: str) -> None:
        """Give an ended agent a new life, as a person may; the run ends with its master."""
        await self._pause()
        manager = self.engine.manager
        try:
            if manager.roster.get(agent_id).descriptor.parent_id is not None:
                await manager.restart_agent(agent_id, "once more")
        except PrsmError:
            return  # it lives again already, its parent has ended, or nothing is left to spend

    async def _come_late(self, agent_id: str, life: int) -> None:
        """Let something of the lives before this one come late, a few times."""
        old = [step for step in self._steps[agent_id] if step.incarnation < life]
        letters = [m for m in self._letters[agent_id] if m.incarnation < life]
        for _ in range(self._dice.randint(1, 4)):
            await self._pause()
            if letters and self._dice.random() < 0.4:
                self._send(self._dice.choice(letters))
            elif old:
                await self._write(self._dice.choice(old))

    async def _pause(self) -> None:
        await self._clock.sleep(self._dice.expovariate(1 / MEAN_S))

    def _send(self, message: RoutedMessage) -> None:
        """Put a message for an ended life into its agent's mailbox, as if it had been delayed."""
        router = self.engine.router
        router.send(message)
        self._findings.check(
            "incarnations",
            message not in router.unread(message.target),
            f"the mailbox took a {message.type.value} for life {message.incarnation}",
        )

    async def _write(self, step: Step) -> None:
        """Write a step once more, or as one that has only now reached the store."""
        is_known = self._dice.random() < 0.3
        if not is_known:
            self._written += 1
            step = replace(step, step_id=f"{step.step_id}:late{self._written}")
        try:
            committed = await self.store.commit(step)
        except PrsmError as error:
            holds = isinstance(error, FencedError) or self.store.crashed.is_set()
        else:
            holds = is_known and committed.duplicate
        what = f"{made_of(step).names} of life {step.incarnation}"
        self._findings.check("incarnations", holds, f"{what} was not fenced off in the next one")


async def call_late(
    host: AgentHost, request: SessionRequest, dice: random.Random, findings: Findings
) -> None:
    """Do one thing over the host of an ended life; it must come to nothing."""
    roll = dice.random()
    if roll < 0.5:
        what, arguments = dice.choice(_CALLS)
        patience_s = 5.0 if dice.random() < 0.2 else None
        outcome = await host.call_tool(what, arguments, patience_s=patience_s)
        holds = outcome.is_error
    elif roll < 0.9:
        what, command = "a permission", dice.choice(("ls", "git push", "rm -r /"))
        asked = PermissionRequest(agent_id=request.agent_id, tool="Bash", cwd=request.cwd)
        verdict = await host.authorize(replace(asked, command=f"{command} '{MARK}'"))
        holds = isinstance(verdict, Deny)
    else:
        what, holds = "a question", True  # it is not asked: the log tells
        await host.ask_user(Question(text=MARK))
    findings.check("incarnations", holds, f"{what} of a stale life of {request.name} had an effect")


def check_marks(events: Iterable[Event], findings: Findings) -> None:
    """Check that no event tells of what came late."""
    marked = [event.type for event in events if MARK in str(event.data)]
    findings.check("incarnations", not marked, f"of a stale life came {', '.join(marked[:5])}")
