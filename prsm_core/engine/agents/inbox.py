"""What agents are told between turns: a reminder, what they have not read, what they forgot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from prsm_core.domain.messages import MessageType
from prsm_core.domain.writes import MessageSent
from prsm_core.engine.turns.context import Prompt, render_messages, render_repeat

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from prsm_core.domain.messages import RoutedMessage
    from prsm_core.engine.agents.peers import Peers
    from prsm_core.engine.journal.steps import AgentSteps
    from prsm_core.engine.spawn.idle import IdleChildren
    from prsm_core.engine.state import AgentRecord, Roster
    from prsm_core.messaging.router import MessageRouter

MESSAGES_IN_A_PROMPT = 100


class Inbox(Struct, eq=False):
    """Turns what agents have in their mailboxes, and what they owe, into prompts."""

    roster: Roster
    router: MessageRouter
    steps: AgentSteps
    peers: Peers
    idle: IdleChildren

    def leave(self, record: AgentRecord) -> None:
        """Take note that an agent answers and writes nothing any more: others look again."""
        self.peers.falls_silent(record)
        for child in record.children:
            self.router.wake(child)

    def take_reminder(self, record: AgentRecord) -> Prompt | None:
        """Return, once, a question that must be shown again."""
        if (question := record.next_reminder()) is None:
            return None
        message = question.message
        return replace(self._repeat(message), reminds=message.correlation_id)

    def take_unread(self, record: AgentRecord) -> Prompt | None:
        """Return unread messages as a prompt; those beyond the limit come with the next one."""
        is_wanted = record.is_prompted_by
        claimed = self.router.claim_all(record.agent_id, is_wanted, MESSAGES_IN_A_PROMPT)
        if not claimed:
            return None
        for message in claimed:
            if message.type is MessageType.QUESTION:
                record.note_delivered(message)
        text = render_messages(claimed, self.roster.names())
        return Prompt(text=text, consumed=tuple(m.message_id for m in claimed))

    def take_forgotten(self, record: AgentRecord) -> Prompt | None:
        """Return, once, a question that the model has been shown and has not answered."""
        repeated = record.notes.repeated
        for about, question in record.questions.items():
            if question.delivered and about not in repeated:
                return replace(self._repeat(question.message), repeats=about)
        return None

    def forget(self, record: AgentRecord, told: Mapping[str, Any]) -> None:
        """Let what an answer has told, that is undone now, be told again."""
        about = told.get("correlation_id")
        if told.get("reminder") and about in record.questions:
            others = tuple(one for one in record.notes.reminders if one != about)
            record.note(reminders=(about, *others))
        heard = dict(record.notes.heard)
        for said in told.get("progress", ()):
            child = said["from"]
            heard[child] = min(heard.get(child, 0), self.roster.get(child).notes.reports - 1)
            if child not in record.progress:
                record.heard_of(child, {key: said[key] for key in said if key != "from"})
        if heard != record.notes.heard:
            record.note(heard=heard)

    def restore(self, record: AgentRecord, messages: Sequence[RoutedMessage]) -> None:
        """Hold again what an agent has not read, some of which it had read before."""
        for message in messages:
            if message.type is MessageType.QUESTION:
                record.note_undelivered(message)
            elif message.type is MessageType.TASK_RESULT and message.source is not None:
                self.idle.hold(self.roster.get(message.source), unread=message.message_id)
        self.router.restore(record.agent_id, messages)

    async def refuse_questions(self, record: AgentRecord) -> None:
        """Tell those whose question was delivered, repeated, and never answered."""
        for correlation_id, question in tuple(record.questions.items()):
            asker = question.message.source
            if correlation_id not in record.notes.repeated or asker is None:
                continue
            record.settled(correlation_id)
            if self.roster.get(asker).is_over:
                continue
            refusal = self.steps.message(
                record,
                MessageType.ANSWER,
                asker,
                {"error": "parent_did_not_answer"},
                correlation_id,
            )
            await self.steps.write(record, MessageSent(message=refusal))

    def _repeat(self, message: RoutedMessage) -> Prompt:
        return Prompt(text=render_repeat(message, self.roster.names()))
