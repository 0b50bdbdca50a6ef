"""What is said to a model within its turn: given to the vendor, and consumed once that has it.

A message is in the ledger before anything is done with it, so that no way of delivery can lose it:
what a turn does not take is read at the agent's next wait or turn. While one is being given nobody
else can take it, and neither the turn's last call nor what follows the turn is decided.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from prsm_core.domain.writes import MessagesConsumed
from prsm_core.engine.agents.inbox import MESSAGES_IN_A_PROMPT
from prsm_core.engine.state import is_peer
from prsm_core.engine.turns.context import render_messages
from prsm_core.errors import FencedError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from prsm_core.engine.agents.lives import Lives
    from prsm_core.engine.agents.session import AgentSession
    from prsm_core.engine.ports import Steps
    from prsm_core.engine.state import AgentRecord, Roster
    from prsm_core.engine.turns.run import TurnRun
    from prsm_core.interfaces.provider import ProviderCapabilities
    from prsm_core.kit.background import Background
    from prsm_core.messaging.router import Match, MessageRouter


class Steering:
    """Gives messages to running turns, of each agent one after the other."""

    def __init__(
        self,
        roster: Roster,
        lives: Lives[AgentSession],
        router: MessageRouter,
        steps: Steps,
        background: Background,
        capabilities: Callable[[str], ProviderCapabilities],
    ) -> None:
        self._roster = roster
        self._lives = lives
        self._router = router
        self._steps = steps
        self._background = background
        self._capabilities = capabilities
        self._looking: set[str] = set()  # agents whose turn is about to be given what is unread
        # Held while an agent's vendor is given something, and how many want it.
        self._giving: dict[str, tuple[asyncio.Lock, int]] = {}

    def busy_turn(self, record: AgentRecord) -> TurnRun | None:
        """Return the running turn of an agent that does not wait for messages already."""
        session = self._lives.session_of(record.agent_id)
        turn = None if session is None else session.turn
        if turn is None or not turn.is_open:
            return None
        waits = any(call.name == "wait_for_message" for call in turn.calls.open.values())
        return None if waits else turn

    def look(self, agent_id: str) -> None:
        """Have an agent's running turn given what peers have written, if there is any."""
        record = self._roster.get(agent_id)
        if agent_id in self._looking or record.takes_messages or record.is_over:
            return
        if not self._router.has_unread(agent_id, is_peer):
            return
        turn = self.busy_turn(record)
        can = self._capabilities(record.descriptor.provider).steer
        if not can or turn is None or turn.is_external or not turn.is_running:
            return  # it comes with the next prompt, if the turn does not go on
        self._looking.add(agent_id)
        self._background.launch(self._give_unread(record, turn), name="steering")

    async def _give_unread(self, record: AgentRecord, turn: TurnRun) -> None:
        self._looking.discard(record.agent_id)  # what comes from here on has a look of its own
        try:
            await self.give(record, turn, is_peer)
        except FencedError:
            return  # the agent has ended meanwhile: nobody reads any more

    @asynccontextmanager
    async def _alone(self, agent_id: str) -> AsyncIterator[None]:
        lock, users = self._giving.get(agent_id) or (asyncio.Lock(), 0)
        self._giving[agent_id] = lock, users + 1
        try:
            async with lock:
                yield
        finally:
            lock, users = self._giving.pop(agent_id)
            if users > 1:
                self._giving[agent_id] = lock, users - 1

    async def settled(self, agent_id: str) -> None:
        """Wait for what an agent's vendor is being given: it may come back unread."""
        if agent_id in self._giving:
            async with self._alone(agent_id):
                return

    async def give(self, record: AgentRecord, turn: TurnRun, match: Match) -> bool:
        """Give unread messages to the vendor's turn, in one; return whether that took them."""
        router, agent_id = self._router, record.agent_id
        async with self._alone(agent_id):
            claimed = router.claim_all(agent_id, match, MESSAGES_IN_A_PROMPT)
            if not claimed:
                return False  # read already
            wanted = tuple(message.message_id for message in claimed)
            taken = False
            turn.pause()  # meanwhile its session is needed
            try:
                taken = await turn.steer(render_messages(claimed, self._roster.names()))
            finally:
                turn.go_on()
                if not taken:
                    router.unclaim(agent_id, wanted)
            if taken:
                step = self._steps.build(record, MessagesConsumed(messages=wanted))
                await self._steps.commit(step, consumed=wanted)
        return taken
