"""The person who watches: kills, prompts and restarts agents, and answers what is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prsm_core.engine.agents.prompting import DELIVERIES
from prsm_core.errors import PrsmError

if TYPE_CHECKING:
    import random

    from prsm_core.engine.engine import OrchestrationEngine
    from prsm_core.engine.state import AgentRecord
    from prsm_core.interfaces.clock import Clock
    from prsm_testing.sim.shape import Shape

LOOKS_EVERY = 30.0  # virtual seconds, on average


class Person:
    """Meddles a few times, and answers questions for as long as the run lasts."""

    def __init__(
        self, engine: OrchestrationEngine, shape: Shape, dice: random.Random, clock: Clock
    ) -> None:
        self._engine = engine
        self._dice = dice
        self._clock = clock
        self._acts = shape.meddling
        self._answers = shape.interactive

    async def run(self) -> None:
        """Act until cancelled; what the engine refuses is no harm done."""
        while self._acts > 0 or self._answers:
            await self._clock.sleep(self._dice.expovariate(1 / LOOKS_EVERY))
            try:
                await self._act()
            except PrsmError:
                continue

    async def _act(self) -> None:
        if self._answers:
            self._answer()
        records = list(self._engine.manager.roster.records())
        if self._acts <= 0 or not records:
            return
        self._acts -= 1
        await self._meddle(self._dice.choice(records))

    def _answer(self) -> None:
        for request in self._engine.requests.waiting():
            if self._dice.random() < 0.5:
                answer: dict[str, Any] = {"verdict": self._dice.choice(("once", "deny"))}
                if request.kind == "question":
                    answer = {"choices": [], "text": "do as you like"}
                self._engine.requests.resolve(request.request_id, request.kind, answer)

    async def _meddle(self, record: AgentRecord) -> None:
        manager, roll = self._engine.manager, self._dice.random()
        is_master = record.descriptor.parent_id is None
        if roll < 0.4 and (not is_master or roll < 0.03):
            await manager.kill_agent(record.agent_id, "killed by the user")
        elif roll < 0.8:
            delivery = self._dice.choice(DELIVERIES)
            await self._engine.prompting.prompt(record.agent_id, "hurry up", delivery)
        elif not is_master:
            await manager.restart_agent(record.agent_id, "try again")
