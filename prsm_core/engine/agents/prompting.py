"""A person's prompt to an agent that runs: queued, put into its turn, or in the turn's place.

The message is in the ledger before anything is done with it, so that no way of delivery can lose
it: what could not be injected is read at the agent's next wait or turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.domain.messages import MessageType
from prsm_core.domain.writes import MessageSent
from prsm_core.errors import ConfigError, MessageRoutingError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prsm_core.engine.agents.saying import Saying
    from prsm_core.engine.agents.steering import Steering
    from prsm_core.engine.ports import Steps
    from prsm_core.engine.state import AgentRecord, Roster
    from prsm_core.messaging.router import MessageRouter
    from prsm_core.permissions import PermissionBroker

DELIVERIES = ("inject", "queue", "interrupt")


class Prompting:
    """Puts what persons say to agents where they read it."""

    def __init__(
        self,
        roster: Roster,
        router: MessageRouter,
        steps: Steps,
        saying: Saying,
        steering: Steering,
        broker: PermissionBroker,
        workspace: str,
    ) -> None:
        self._roster = roster
        self._router = router
        self._steps = steps
        self._broker = broker
        self._saying = saying
        self._steering = steering
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
        turn = self._steering.busy_turn(record)
        if turn is None or delivery == "queue" or turn.is_external:
            return "queued"
        if delivery == "inject":
            wanted = message.message_id
            taken = await self._steering.give(record, turn, lambda m: m.message_id == wanted)
            return "injected" if taken else "queued"
        turn.interrupt()
        return "interrupting"


def _check_lives(record: AgentRecord) -> None:
    if record.is_over:
        raise MessageRoutingError(
            f"{record.descriptor.name} has ended",
            hint="a restart gives it a new task",
            code="agent_ended",
        )
