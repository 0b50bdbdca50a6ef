"""The router: one mailbox per agent, selective receives, claims that become final or are undone."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from prsm_core.domain.messages import MessageType, RoutedMessage
from prsm_core.errors import MessageRoutingError
from prsm_core.messaging.router import MessageRouter

KINDS = (MessageType.QUESTION, MessageType.ANSWER, MessageType.TASK_RESULT)


def message(number, kind=MessageType.USER_PROMPT, target="a", **fields):
    return RoutedMessage(message_id=str(number), type=kind, source="s", target=target, **fields)


def anything(_):
    return True


@pytest.fixture
def router():
    router = MessageRouter()
    router.register_agent("a")
    return router


def test_a_claim_takes_the_oldest_that_matches_and_leaves_the_others(router):
    router.send(message(1))
    router.send(message(2, MessageType.ANSWER, correlation_id="x"))
    router.send(message(3, MessageType.ANSWER, correlation_id="y"))
    assert router.claim("a", lambda m: m.correlation_id == "y").message_id == "3"
    assert [m.message_id for m in router.unread("a")] == ["1", "2"]
    assert router.claim("a", anything).message_id == "1"


async def test_closing_a_mailbox_forgets_its_messages_and_wakes_who_sleeps_at_it(router):
    router.send(message(1))
    slept = asyncio.ensure_future(router.changed("a"))
    await asyncio.sleep(0)
    router.unregister_agent("a")
    await slept
    assert not router.is_registered("a")
    router.send(message(2))
    assert router.unread("a") == ()
    assert router.claim("a", anything) is None
    await router.changed("a")


def test_a_claim_that_is_given_back_keeps_its_place(router):
    for number in (1, 2):
        router.send(message(number))
    assert router.claim("a", anything).message_id == "1"
    assert router.claim("a", anything).message_id == "2"
    router.unclaim("a", ["1"])
    assert [m.message_id for m in router.unread("a")] == ["1"]
    assert router.claim("a", anything).message_id == "1"
    router.consumed("a", ["1"])
    router.unclaim("a", ["1"])
    assert router.unread("a") == ()


def test_an_unknown_recipient_is_an_error():
    with pytest.raises(MessageRoutingError, match="no agent b") as caught:
        MessageRouter().check("b")
    assert caught.value.code == "unknown_agent"


def test_a_full_mailbox_is_an_error_for_the_sender():
    router = MessageRouter(limit=2)
    router.register_agent("a")
    for number in (1, 2):
        router.check("a")
        router.send(message(number))
    with pytest.raises(MessageRoutingError, match="full") as caught:
        router.check("a")
    assert caught.value.code == "mailbox_full"
    oldest = router.claim("a", anything)
    assert oldest is not None
    router.consumed("a", [oldest.message_id])
    router.check("a")


def test_what_is_said_of_unknown_agents_is_ignored():
    router = MessageRouter()
    router.unclaim("a", ["1"])
    router.consumed("a", ["1"])
    router.wake("a")
    router.unregister_agent("a")


class Mailbox(RuleBasedStateMachine):
    """Against a list: each message is delivered once, in order per match, or given back."""

    @initialize()
    def open(self):
        self.router = MessageRouter()
        self.router.register_agent("a")
        self.next = 0
        self.unread = []  # in order of sending
        self.claimed = []
        self.gone = set()

    @rule(kind=st.sampled_from(KINDS))
    def send(self, kind):
        self.next += 1
        sent = message(self.next, kind)
        self.router.send(sent)
        self.unread.append(sent)

    @rule(kind=st.sampled_from(KINDS))
    def claim(self, kind):
        found = self.router.claim("a", lambda m: m.type is kind)
        expected = next((m for m in self.unread if m.type is kind), None)
        assert found is expected
        if found is not None:
            self.unread.remove(found)
            self.claimed.append(found)

    @precondition(lambda self: self.claimed)
    @rule(which=st.integers(0, 50))
    def give_back(self, which):
        claimed = self.claimed.pop(which % len(self.claimed))
        self.router.unclaim("a", [claimed.message_id])
        self.unread.append(claimed)
        self.unread.sort(key=lambda m: int(m.message_id))

    @precondition(lambda self: self.claimed)
    @rule(which=st.integers(0, 50))
    def consume(self, which):
        claimed = self.claimed.pop(which % len(self.claimed))
        self.router.consumed("a", [claimed.message_id])
        self.gone.add(claimed.message_id)

    @invariant()
    def the_unread_are_as_expected(self):
        assert list(self.router.unread("a")) == self.unread
        assert not self.gone & {m.message_id for m in self.router.unread("a")}


TestMailbox = Mailbox.TestCase
TestMailbox.settings = settings(max_examples=50, stateful_step_count=40, deadline=None)
