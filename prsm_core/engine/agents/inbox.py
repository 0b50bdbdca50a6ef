"""What agents are told between turns: a reminder, what they have not read, what they forgot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.domain.messages import MessageType
from prsm_core.domain.writes import MessageSent
from prsm_core.engine.turns.context import Prompt, render_messages, render_repeat
from prsm_core.engine.turns.waits import any_message

if TYPE_CHECKING:
    from prsm_core.domain.messages import RoutedMessage
    from prsm_core.engine.agents.peers import Peers
    from prsm_core.engine.ports import Steps
    from prsm_core.engine.state import AgentRecord, Roster, Wait
    from prsm_core.messaging.router import MessageRouter

MESSAGES_IN_A_PROMPT = 100


class Inbox:
    """Turns what agents have in their mailboxes, and what they owe, into prompts."""

    def __init__(self, roster: Roster, router: MessageRouter, steps: Steps, peers: Peers) -> None:
        self._roster = roster
        self._router = router
        self._steps = steps
        self._peers = peers

    def wait(self, record: AgentRecord) -> Wait:
        """Return the implicit wait_for_message of an agent between turns."""
        return any_message(record, self._router)

    async def changed(self, record: AgentRecord) -> None:
        """Return after the next change that the agent's waits may care for."""
        await self._router.changed(record.agent_id)

    def wake(self, record: AgentRecord) -> None:
        """Have an agent's waits look again."""
        self._router.wake(record.agent_id)

    def leave(self, record: AgentRecord) -> None:
        """Take note that an agent answers and writes nothing any more: others look again."""
        self._peers.falls_silent(record)
        for child in record.children:
            self._router.wake(child)

    def take_reminder(self, record: AgentRecord) -> Prompt | None:
        """Return, once, a question that must be shown again."""
        question = record.take_reminder()
        return None if question is None else self._repeat(question.message)

    def take_unread(self, record: AgentRecord) -> Prompt | None:
        """Return unread messages as a prompt; those beyond the limit come with the next one."""
        is_wanted = record.is_prompted_by
        claimed = self._router.claim_all(record.agent_id, is_wanted, MESSAGES_IN_A_PROMPT)
        if not claimed:
            return None
        for message in claimed:
            if message.type is MessageType.QUESTION:
                record.note_delivered(message)
        text = render_messages(claimed, self._roster.names())
        return Prompt(text=text, consumed=tuple(m.message_id for m in claimed))

    def take_forgotten(self, record: AgentRecord) -> Prompt | None:
        """Return, once, a question that the model has been shown and has not answered."""
        repeated = record.notes.repeated
        for about, question in record.questions.items():
            if question.delivered and about not in repeated:
                record.note(repeated=(*record.open_among(repeated), about))
                return self._repeat(question.message)
        return None

    async def refuse_questions(self, record: AgentRecord) -> None:
        """Tell those whose question was delivered, repeated, and never answered."""
        for correlation_id, question in tuple(record.questions.items()):
            asker = question.message.source
            if correlation_id not in record.notes.repeated or asker is None:
                continue
            del record.questions[correlation_id]
            if self._roster.get(asker).is_over:
                continue
            refusal = self._steps.message(
                record,
                MessageType.ANSWER,
                asker,
                {"error": "parent_did_not_answer"},
                correlation_id,
            )
            await self._steps.write(record, MessageSent(message=refusal))

    def _repeat(self, message: RoutedMessage) -> Prompt:
        return Prompt(text=render_repeat(message, self._roster.names()))
