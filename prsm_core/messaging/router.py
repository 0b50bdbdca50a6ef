"""Routes committed messages to a mailbox per agent; a claim is final once its step commits."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec import Struct

from prsm_core.domain.messages import MessageType
from prsm_core.errors import MessageRoutingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from prsm_core.domain.messages import RoutedMessage

    Match = Callable[[RoutedMessage], bool]

MAILBOX_LIMIT = 20_000  # messages; a sender beyond it gets an error, nobody else waits


class Mailbox(Struct, eq=False):
    """What one life of an agent may still read, and who waits for more."""

    incarnation: int
    messages: dict[str, RoutedMessage] = {}  # unconsumed, in order
    claimed: set[str] = set()
    waiters: tuple[asyncio.Future[None], ...] = ()  # hardly ever more than one
    sleepers: int = 0  # waits that have not gone on yet, woken or not
    has_had_letters: bool = False  # of agents that are neither parent nor child

    def sleep(self) -> asyncio.Future[None]:
        """Return what is done at the next change; whoever awaits it rises again."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiters = (*self.waiters, waiter)
        self.sleepers += 1
        return waiter

    def rise(self, waiter: asyncio.Future[None]) -> None:
        """Take note that whoever slept goes on, woken or not."""
        self.sleepers -= 1
        if waiter in self.waiters:
            self.waiters = tuple([one for one in self.waiters if one is not waiter])

    def wake(self) -> None:
        """Let all that sleep look again."""
        waiters, self.waiters = self.waiters, ()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


_CLOSED = Mailbox(incarnation=0)  # in place of one that is not there: it stays empty


class MessageRouter:
    """Owns the mailboxes."""

    def __init__(self, *, limit: int = MAILBOX_LIMIT) -> None:
        self._boxes: dict[str, Mailbox] = {}
        self._limit = limit

    def register_agent(self, agent_id: str, incarnation: int = 1) -> None:
        """Open an empty mailbox; a new incarnation starts without the old one's messages."""
        old = self._boxes.get(agent_id, _CLOSED)
        self._boxes[agent_id] = Mailbox(incarnation=incarnation)
        old.wake()

    def unregister_agent(self, agent_id: str) -> None:
        """Close the mailbox; its unread messages are gone and its waiters are woken."""
        self._boxes.pop(agent_id, _CLOSED).wake()

    def mailbox(self, agent_id: str) -> Mailbox | None:
        """Return the agent's mailbox as it is now, to sleep at; None where it has none."""
        return self._boxes.get(agent_id)

    def is_registered(self, agent_id: str) -> bool:
        """Return whether the agent can be sent messages."""
        return agent_id in self._boxes

    def check(self, agent_id: str) -> None:
        """Raise MessageRoutingError unless a message to the agent would be accepted now."""
        box = self._boxes.get(agent_id)
        if box is None:
            raise MessageRoutingError(
                f"no agent {agent_id} can be sent a message: it is unknown or has ended",
                hint="get_children_status lists your children and their states",
                code="unknown_agent",
            )
        if len(box.messages) >= self._limit:
            raise MessageRoutingError(
                f"the mailbox of agent {agent_id} is full ({self._limit} messages)",
                hint="wait until it has read some",
                code="mailbox_full",
            )

    def send(self, message: RoutedMessage) -> None:
        """Put a committed message into its mailbox, unless it was for an older life."""
        box = self._boxes.get(message.target)
        if box is None or message.incarnation < box.incarnation:
            return
        box.messages[message.message_id] = message
        box.has_had_letters |= message.type is MessageType.PEER
        box.wake()

    def claim(self, agent_id: str, match: Match) -> RoutedMessage | None:
        """Claim and return the oldest unclaimed message that matches, or None."""
        return next(iter(self.claim_all(agent_id, match, 1)), None)

    def claim_all(self, agent_id: str, match: Match, limit: int) -> list[RoutedMessage]:
        """Claim and return up to `limit` unclaimed messages that match, oldest first."""
        box = self._boxes.get(agent_id, _CLOSED)
        claimed: list[RoutedMessage] = []
        for message_id, message in box.messages.items():
            if len(claimed) == limit:
                break
            if message_id not in box.claimed and match(message):
                claimed.append(message)
        for message in claimed:
            box.claimed.add(message.message_id)
        return claimed

    def unclaim(self, agent_id: str, message_ids: Iterable[str]) -> None:
        """Give claimed messages back; they keep their place."""
        box = self._boxes.get(agent_id, _CLOSED)
        for message_id in message_ids:
            box.claimed.discard(message_id)
        box.wake()

    def consumed(self, agent_id: str, message_ids: Iterable[str]) -> None:
        """Forget messages whose consumption was committed."""
        box = self._boxes.get(agent_id, _CLOSED)
        for message_id in message_ids:
            box.messages.pop(message_id, None)
            box.claimed.discard(message_id)

    def restore(self, agent_id: str, messages: Iterable[RoutedMessage]) -> None:
        """Hold what the ledger has unread, in its order: some of it was consumed and is undone."""
        box = self._boxes.get(agent_id)
        if box is None:
            return
        there = {one.message_id: one for one in messages if one.incarnation >= box.incarnation}
        box.messages = {**there, **box.messages}
        box.wake()

    def unread(self, agent_id: str) -> tuple[RoutedMessage, ...]:
        """Return the unclaimed messages, oldest first."""
        box = self._boxes.get(agent_id, _CLOSED)
        return tuple(m for key, m in box.messages.items() if key not in box.claimed)

    def count_unread(self, agent_id: str, match: Match) -> int:
        """Return how many unclaimed messages match."""
        box = self._boxes.get(agent_id, _CLOSED)
        return sum(key not in box.claimed and match(m) for key, m in box.messages.items())

    def has_unread(self, agent_id: str, match: Match) -> bool:
        """Return whether an unclaimed message matches."""
        box = self._boxes.get(agent_id, _CLOSED)
        for message_id, message in box.messages.items():  # a loop: each wait looks here
            if message_id not in box.claimed and match(message):
                return True
        return False

    def has_had_letters(self, agent_id: str) -> bool:
        """Return whether this life of the agent was ever sent any: most never are."""
        return self._boxes.get(agent_id, _CLOSED).has_had_letters

    def held(self, agent_id: str, match: Match) -> list[RoutedMessage]:
        """Return the messages that match and wait in the agent's mailbox, claimed or not."""
        return [m for m in self._boxes.get(agent_id, _CLOSED).messages.values() if match(m)]

    def holds(self, agent_id: str, message_id: str | None) -> bool:
        """Return whether a message waits in the agent's mailbox, claimed or not."""
        return message_id in self._boxes.get(agent_id, _CLOSED).messages

    def wake(self, agent_id: str) -> None:
        """Make the agent's waits look again (another agent's state changed)."""
        self._boxes.get(agent_id, _CLOSED).wake()

    def is_awaited(self, agent_id: str) -> bool:
        """Return whether a wait of the agent sleeps until the next change, or is just woken."""
        return self._boxes.get(agent_id, _CLOSED).sleepers > 0

    async def changed(self, agent_id: str) -> None:
        """Return after the next change that the agent's waits may care for."""
        box = self._boxes.get(agent_id)
        if box is None:
            return
        waiter = box.sleep()
        try:
            await waiter
        finally:
            box.rise(waiter)
