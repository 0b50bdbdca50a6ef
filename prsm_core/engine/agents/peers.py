"""Messages between agents of a run that are not parent and child."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec import Struct, field

from prsm_core.domain.agents import AgentState
from prsm_core.domain.messages import MessageType
from prsm_core.engine.state import is_peer
from prsm_core.engine.turns.waits import MessageWaitOf
from prsm_core.errors import MessageRoutingError
from prsm_core.interfaces.tool import PeerMessage, PeerNow
from prsm_core.kit.sanitize import sanitize
from prsm_core.messaging.waits import ANYONE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prsm_core.domain.messages import RoutedMessage
    from prsm_core.engine.journal.unit import AgentSteps, Journal
    from prsm_core.engine.state import AgentRecord, Roster
    from prsm_core.engine.turns.call import Call, Toolbox
    from prsm_core.messaging.deadlock import DeadlockDetector
    from prsm_core.messaging.router import MessageRouter

TEXT_LIMIT = 16 * 1024  # bytes of one message, in UTF-8
UNREAD_LIMIT = 100  # messages of peers that one agent has not read
UNREAD_BYTES = 128 * 1024  # of their texts: an agent may be prompted with all at once
_NEAR = 3  # names that a refusal suggests


class Peers(Struct, eq=False):
    """Owns who may write to any other agent and who waits for that, for the wait graph."""

    roster: Roster
    router: MessageRouter
    detector: DeadlockDetector
    steps: AgentSteps
    journal: Journal
    # Has a blocked agent wait for who has begun since, too.
    wait_anew: Callable[[str], None]
    # Those that may write to any other agent, or spawn one that may.
    senders: dict[str, AgentRecord] = field(default_factory=dict)
    # Whose wait has ended in a knot; see `may_give_up`.
    _gave_up: set[str] = field(default_factory=set)
    # Who waits for what these write; a wait that is done ends without a message.
    _listening: dict[str, list[asyncio.Event]] = field(default_factory=dict)

    def begins(self, record: AgentRecord, tools: Toolbox) -> Toolbox:
        """Note what a new life can do with messages of peers; return its tools."""
        record.peers = self.senders
        record.takes_messages = tools.takes_messages
        record.sends_messages = tools.sends_messages
        self._gave_up.discard(record.agent_id)
        if record.is_over or not (tools.sends_messages or tools.brings_senders):
            return tools
        was_nobody = not self.senders
        self.senders[record.agent_id] = record
        self.detector.may_write(tuple(self.senders))
        for agent_id in self.detector.graph.blocked if was_nobody else ():
            self.wait_anew(agent_id)
        return tools

    def falls_silent(self, record: AgentRecord) -> None:
        """Note that an agent writes nothing any more."""
        self._gave_up.discard(record.agent_id)
        if self.senders.pop(record.agent_id, None) is None:
            return
        for agent_id in self._listening:
            self.router.wake(agent_id)  # perhaps nobody is left who could write to it
        self.detector.may_write(tuple(self.senders))

    def may_give_up(self, record: AgentRecord) -> bool:
        """Whether an agent's wait in a knot may end without a message: not twice in a row."""
        return record.agent_id in self._listening and record.agent_id not in self._gave_up

    def is_given_up(self, agent_id: str) -> bool:
        """Whether the waits of an agent are about to end without a message."""
        return any(wait.is_set() for wait in self._listening.get(agent_id, ()))

    def give_up(self, record: AgentRecord) -> None:
        """End an agent's waits without a message: all who could write wait themselves."""
        self._gave_up.add(record.agent_id)
        for wait in self._listening[record.agent_id]:
            wait.set()
        self.router.wake(record.agent_id)

    def now(self) -> Sequence[PeerNow]:
        """Return the live agents, oldest first."""
        return tuple(
            PeerNow(
                agent_id=record.agent_id,
                name=record.descriptor.name,
                role=record.descriptor.role,
                state=record.state,
                labels=record.descriptor.labels,
            )
            for record in self.roster.records()
            if self._is_there(record)
        )

    def _is_there(self, record: AgentRecord) -> bool:
        return not record.is_over and self.router.is_registered(record.agent_id)

    def message(
        self, sender: AgentRecord, to: str, text: str, beside: Sequence[RoutedMessage] = ()
    ) -> RoutedMessage:
        """Build a message to a live agent, by id or name. Writes nothing.

        Messages `beside` it in the same step count as unread already. Raises MessageRoutingError
        for an agent that cannot read it, and for a blank or too long text.
        """
        said = sanitize(text)
        if not said.strip():
            raise MessageRoutingError("the message is blank", hint="say something", code="blank")
        if (size := _size(said)) > TEXT_LIMIT:
            raise MessageRoutingError(
                f"the message has {size} bytes; {TEXT_LIMIT} are the most",
                hint="write what is long into a file, and say where it is",
                code="message_too_long",
            )
        said = self.journal.redact(said)
        target = self._target(sender, to)
        self._check_room(target, said, [one for one in beside if one.target == target.agent_id])
        return self.steps.message(sender, MessageType.PEER, target.agent_id, {"text": said})

    def _target(self, sender: AgentRecord, to: str) -> AgentRecord:
        wanted = sanitize(to)
        found = self.roster.find(wanted) or next(
            (one for one in self.roster.records() if one.descriptor.name == wanted), None
        )
        if found is sender:
            why, code = "is you yourself", "own_message"
        elif found is not None and found.is_over:
            wanted, why, code = found.descriptor.name, "has ended", "agent_ended"
        elif found is None or not self._is_there(found):
            why, code = "is no agent of this run", "unknown_agent"
        else:
            return found
        names = [
            record.descriptor.name
            for record in self.roster.records()
            if record is not sender and self._is_there(record)
        ]
        from difflib import get_close_matches

        near = get_close_matches(wanted, names, n=_NEAR, cutoff=0.3) or names[:_NEAR]
        hint = f"agents that you can write to: {', '.join(near) or 'none'}"
        if len(near) < len(names):
            hint += f", and {len(names) - len(near)} more"
        raise MessageRoutingError(f"{wanted[:80]!r} {why}", hint=hint, code=code)

    def _check_room(self, target: AgentRecord, text: str, beside: Sequence[RoutedMessage]) -> None:
        self.router.check(target.agent_id)
        unread = [*self.router.held(target.agent_id, is_peer), *beside]
        size = _size(text) + sum(_size(one.payload["text"]) for one in unread)
        if len(unread) < UNREAD_LIMIT and size <= UNREAD_BYTES:
            return
        name = target.descriptor.name
        raise MessageRoutingError(
            f"the mailbox of {name} is full: it has not read {len(unread)} messages of peers",
            hint=f"wait until {name} has read some",
            code="mailbox_full",
        )

    async def next(self, call: Call, seconds: float | None) -> PeerMessage | None:
        """Take the oldest message of a peer, waiting up to `seconds`; None if none can come."""
        record = call.record
        if seconds is not None and seconds <= 0:
            message = self.router.claim(record.agent_id, is_peer)
            if message is not None:
                call.consumed = (*call.consumed, message.message_id)
        else:
            message = await self._receive(call, seconds)
        return None if message is None else self._told(message)

    async def _receive(self, call: Call, seconds: float | None) -> RoutedMessage | None:
        record, given_up, has_unread = call.record, asyncio.Event(), self.router.has_unread

        def is_in_vain() -> bool:
            # Or no agent but this one may write to it, or spawn one that does.
            return given_up.is_set() or len(self.senders) <= (record.agent_id in self.senders)

        wait = MessageWaitOf(
            state=AgentState.WAITING_FOR_CHILD,
            on="what another agent writes",
            targets=lambda: (ANYONE,),
            ready=lambda: (
                seconds is not None or has_unread(record.agent_id, is_peer) or is_in_vain()
            ),
            fits=is_peer,
            is_vain=is_in_vain,
        )
        waits = self._listening.setdefault(record.agent_id, [])
        waits.append(given_up)
        try:
            message = await call.receive(wait, seconds=seconds)
        finally:
            waits.remove(given_up)
            if not waits:
                del self._listening[record.agent_id]
        if message is not None:
            self._gave_up.discard(record.agent_id)
        return message

    def _told(self, message: RoutedMessage) -> PeerMessage:
        sender = message.source or ""
        known = self.roster.find(sender)
        return PeerMessage(
            message_id=message.message_id,
            sender=sender,
            name=sender if known is None else known.descriptor.name,
            text=message.payload["text"],
            sent_at=message.created_at,
        )


def _size(text: str) -> int:
    return len(text.encode())
