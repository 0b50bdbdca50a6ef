"""What an agent is told between its turns: a reminder, what it has not read, what it forgot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.domain.agents import AgentState
from prsm_core.domain.messages import MessageType
from prsm_core.domain.writes import MessageSent
from prsm_core.engine.state import PROMPTING
from prsm_core.engine.turns.calls import Wait
from prsm_core.engine.turns.context import Prompt, render_messages, render_repeat

if TYPE_CHECKING:
    from prsm_core.domain.messages import RoutedMessage
    from prsm_core.engine.ports import Steps
    from prsm_core.engine.state import AgentRecord, Roster
    from prsm_core.messaging.router import MessageRouter

MESSAGES_IN_A_PROMPT = 100


class Inbox:
    """Turns what an agent has in its mailbox, and what it owes, into prompts."""

    def __init__(
        self, record: AgentRecord, *, roster: Roster, router: MessageRouter, steps: Steps
    ) -> None:
        self._record = record
        self._roster = roster
        self._router = router
        self._steps = steps

    def senders(self) -> tuple[str, ...]:
        """Return the agents that may send this one a message: its live children and its parent."""
        children, parent = self._record.live_children, self._record.descriptor.parent_id
        return tuple(children) if parent is None else (*children, parent)

    def has_news(self) -> bool:
        """Whether a wait for any message would end now."""
        record = self._record
        return (
            bool(record.reminders)
            or self._router.has_unread(record.agent_id, self._prompts)
            or (record.descriptor.parent_id is None and not record.live_children)
        )

    def wait(self) -> Wait:
        """Return the implicit wait_for_message of an agent between turns."""
        return Wait(
            state=AgentState.WAITING_FOR_CHILD,
            on="a message",
            targets=self.senders,
            ready=self.has_news,
        )

    def take_reminder(self) -> Prompt | None:
        """Return, once, a question that must be shown again."""
        question = self._record.take_reminder()
        return None if question is None else self._repeat(question.message)

    def take_unread(self) -> Prompt | None:
        """Return unread messages as a prompt; those beyond the limit come with the next one."""
        claimed = self._router.claim_all(self._record.agent_id, self._prompts, MESSAGES_IN_A_PROMPT)
        if not claimed:
            return None
        for message in claimed:
            if message.type is MessageType.QUESTION:
                self._record.note_delivered(message)
        text = render_messages(claimed, self._roster.names())
        return Prompt(text=text, consumed=tuple(m.message_id for m in claimed))

    def take_forgotten(self) -> Prompt | None:
        """Return, once, a question that the model has been shown and has not answered."""
        for question in self._record.questions.values():
            if question.delivered and not question.repeated:
                question.repeated = True
                return self._repeat(question.message)
        return None

    async def refuse_questions(self) -> None:
        """Tell those whose question was delivered, repeated, and never answered."""
        record = self._record
        for correlation_id, question in tuple(record.questions.items()):
            asker = question.message.source
            if not question.repeated or asker is None:
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

    def _prompts(self, message: RoutedMessage) -> bool:
        """Whether a message is one that begins a turn, and still matters."""
        return message.type in PROMPTING and self._record.is_current(message)

    def _repeat(self, message: RoutedMessage) -> Prompt:
        return Prompt(text=render_repeat(message, self._roster.names()))
