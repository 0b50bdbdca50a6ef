"""Messages between agents of a run that need be neither parent nor child."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.domain.agents import AgentState
from prsm_core.domain.messages import MessageType
from prsm_core.engine.state import Wait
from prsm_core.interfaces.tool import PeerMessage, PeerNow
from prsm_core.kit.sanitize import sanitize

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prsm_core.domain.messages import RoutedMessage
    from prsm_core.engine.ports import Receiving, Steps
    from prsm_core.engine.state import AgentRecord, Roster
    from prsm_core.engine.turns.call import Toolbox
    from prsm_core.messaging.router import MessageRouter


class Peers:
    """Lets agents write to each other; see the port `Peers`."""

    def __init__(self, roster: Roster, router: MessageRouter, steps: Steps) -> None:
        self._roster = roster
        self._router = router
        self._steps = steps

    def begins(self, record: AgentRecord, tools: Toolbox) -> None:
        """Take note of what a new life can do with messages of peers."""
        record.takes_messages = tools.takes_messages
        record.sends_messages = tools.sends_messages

    def now(self) -> Sequence[PeerNow]:
        """Return the agents that have not ended, oldest first."""
        return tuple(_now(record) for record in self._roster.records() if not record.is_over)

    def message(
        self, sender: AgentRecord, to: str, text: str, beside: Sequence[RoutedMessage] = ()
    ) -> RoutedMessage:
        """Build a message to the live agent of this id or name; nothing is written yet."""
        living = [one.agent_id for one in self._roster.records() if not one.is_over]
        target = self._roster.resolve(to, [one for one in living if one != sender.agent_id])
        self._router.check(target.agent_id)
        said = {"text": sanitize(text)}
        return self._steps.message(sender, MessageType.PEER, target.agent_id, said)

    async def next(self, call: Receiving, seconds: float | None) -> PeerMessage | None:
        """Take the oldest unread message of a peer, waiting for it."""
        agent_id = call.record.agent_id
        if seconds is not None and seconds <= 0:
            message = self._router.claim(agent_id, _is_peers)
            if message is not None:
                call.consumed.append(message.message_id)
        else:
            wait = Wait(
                state=AgentState.WAITING_FOR_CHILD,
                on="what another agent writes",
                targets=lambda: self._senders(call.record),
                ready=lambda: (
                    seconds is not None
                    or self._router.has_unread(agent_id, _is_peers)
                    or not self._senders(call.record)
                ),
            )
            message = await call.receive(
                wait,
                _is_peers,
                otherwise=lambda: not self._senders(call.record),
                seconds=seconds,
            )
        return None if message is None else self._told(message)

    def _senders(self, record: AgentRecord) -> tuple[str, ...]:
        return tuple(
            one.agent_id
            for one in self._roster.records()
            if one is not record and one.sends_messages and not one.is_over
        )

    def _told(self, message: RoutedMessage) -> PeerMessage:
        sender = message.source or ""
        known = self._roster.find(sender)
        return PeerMessage(
            message_id=message.message_id,
            sender=sender,
            name=sender if known is None else known.descriptor.name,
            text=message.payload["text"],
            sent_at=message.created_at,
        )


def _is_peers(message: RoutedMessage) -> bool:
    return message.type is MessageType.PEER


def _now(record: AgentRecord) -> PeerNow:
    agent = record.descriptor
    return PeerNow(
        agent_id=record.agent_id,
        name=agent.name,
        role=agent.role,
        state=record.state,
        labels=agent.labels,
    )
