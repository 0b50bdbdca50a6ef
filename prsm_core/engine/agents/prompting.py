"""A person's prompt to an agent that runs: queued, put into its turn, or in the turn's place.

The message is in the ledger before anything is done with it, so that no way of delivery can lose
it: what could not be injected is read at the agent's next wait or turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.domain.messages import MessageType
from prsm_core.domain.writes import MessagesConsumed, MessageSent
from prsm_core.engine.turns.context import render_messages
from prsm_core.errors import ConfigError, MessageRoutingError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prsm_core.domain.messages import RoutedMessage
    from prsm_core.engine.agents.lives import Lives
    from prsm_core.engine.agents.saying import Saying
    from prsm_core.engine.agents.session import AgentSession
    from prsm_core.engine.ports import Steps
    from prsm_core.engine.state import AgentRecord, Roster
    from prsm_core.engine.turns.run import TurnRun
    from prsm_core.messaging.router import MessageRouter
    from prsm_core.permissions import PermissionBroker

DELIVERIES = ("inject", "queue", "interrupt")


class Prompting:
    """Puts what persons say to agents where they read it."""

    def __init__(
        self,
        roster: Roster,
        lives: Lives[AgentSession],
        router: MessageRouter,
        steps: Steps,
        broker: PermissionBroker,
        saying: Saying,
        workspace: str,
    ) -> None:
        self._roster = roster
        self._lives = lives
        self._router = router
        self._steps = steps
        self._broker = broker
        self._saying = saying
        self._workspace = workspace

    async def prompt(
        self, agent_id: str, text: str, delivery: str, images: Sequence[str] = ()
    ) -> str:
        """Send a person's prompt; return `injected`, `queued` or `interrupting`.

        `inject` puts it into the running turn where the provider can, `interrupt` ends the turn
        and begins the next one with it; an agent that just waits for a message gets it at once
        anyway. Otherwise it is queued: read at the next wait_for_message or the next turn.

        Raises MessageRoutingError for an agent that has ended, ConfigError for an unknown
        delivery, and what `Saying.text` does; then nothing was sent.
        """
        if delivery not in DELIVERIES:
            raise ConfigError(
                f"there is no delivery {delivery!r}", hint=f"use one of {', '.join(DELIVERIES)}"
            )
        record = self._roster.get(agent_id)
        _check_lives(record)
        agent = record.descriptor
        told = self._saying.text(text, images, agent.provider, agent.cwd, agent_id)
        async with told as said:
            _check_lives(record)  # it may have ended meanwhile
            self._router.check(agent_id)
            payload = {"text": said.text}
            message = self._steps.message(None, MessageType.USER_PROMPT, agent_id, payload)
            await self._steps.write(record, MessageSent(message=message), *said.notices)
        # Whoever prompts has perhaps mended something, and says so.
        self._broker.changed_by_hand(record.descriptor.cwd, self._workspace)
        turn = self._busy_turn(record)
        if turn is None or delivery == "queue" or turn.is_external:
            return "queued"
        if delivery == "inject":
            return "injected" if await self._inject(record, turn, message) else "queued"
        turn.interrupt()
        return "interrupting"

    def _busy_turn(self, record: AgentRecord) -> TurnRun | None:
        """Return the running turn of an agent that does not wait for messages already."""
        session = self._lives.session_of(record.agent_id)
        turn = None if session is None else session.turn
        if turn is None or not turn.is_open:
            return None
        waits = any(call.name == "wait_for_message" for call in turn.calls.open)
        return None if waits else turn

    async def _inject(self, record: AgentRecord, turn: TurnRun, message: RoutedMessage) -> bool:
        """Give the message to the vendor's turn; return whether that took it.

        Nobody else can take it then.
        """
        router, wanted = self._router, message.message_id
        if router.claim(record.agent_id, lambda m: m.message_id == wanted) is None:
            return False  # read already
        taken = False
        turn.pause()  # meanwhile its session is needed
        try:
            taken = await turn.steer(render_messages((message,), {}))
        finally:
            turn.go_on()
            if not taken:
                router.unclaim(record.agent_id, (wanted,))
        if taken:
            step = self._steps.build(record, MessagesConsumed(messages=(wanted,)))
            await self._steps.commit(step, consumed=(wanted,))
        return taken


def _check_lives(record: AgentRecord) -> None:
    if record.is_over:
        raise MessageRoutingError(
            f"{record.descriptor.name} has ended",
            hint="a restart gives it a new task",
            code="agent_ended",
        )
