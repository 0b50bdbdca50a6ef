"""Tools by which agents talk: ask_parent, respond_to_child, wait_for_message, send_child_prompt."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Any

from prsm_core.domain.agents import AgentState
from prsm_core.domain.messages import MessageType
from prsm_core.domain.record import Record
from prsm_core.domain.sparing import NOTHING
from prsm_core.domain.tools import ToolOutcome, encode_data
from prsm_core.engine.turns.call import Reply
from prsm_core.engine.turns.waits import AllResults, AnyMessage
from prsm_core.errors import MessageRoutingError

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping, Sequence

    from prsm_core.domain.ids import Ids
    from prsm_core.domain.messages import RoutedMessage
    from prsm_core.domain.steps import Write
    from prsm_core.engine.journal.unit import AgentSteps
    from prsm_core.engine.state import AgentRecord, Roster
    from prsm_core.engine.turns.call import Call
    from prsm_core.messaging.router import MessageRouter

# Bytes of an answer that holds several messages: the others stay unread. Codex cuts the middle out
# of an answer of more than 12,000, and so a result that is never told again.
ROOM = 10_000
MESSAGES_IN_AN_ANSWER = 100


class Communication(Record, frozen=True, kw_only=True):
    """Handles messages between agents."""

    roster: Roster
    router: MessageRouter
    steps: AgentSteps
    ids: Ids

    async def ask_parent(self, call: Call) -> Reply:
        """Send a QUESTION to the parent and wait for its ANSWER."""
        record = call.record
        parent = self.roster.get(record.descriptor.parent_id or "")
        asked = call.recall("question")
        if asked is None:
            question = self._question(call, parent)
            correlation_id = question.correlation_id or ""
            parent.asked(question)
        else:  # the parent knows of it, if it was not answered
            question, correlation_id = None, asked.ref or ""
        try:
            if question is not None:
                await call.open(question, noted=call.effect("question", correlation_id))
            answer = await call.receive_from(
                parent,
                lambda m: m.type is MessageType.ANSWER and m.correlation_id == correlation_id,
                lambda: parent.is_over,
                AgentState.WAITING_FOR_PARENT,
                "parent",
            )
        finally:
            if not call.is_left:
                parent.settled(correlation_id)
        if answer is None:
            raise _parent_ended()
        if "error" in answer.payload:
            raise MessageRoutingError(
                "your parent ended its turn twice without an answer",
                hint="decide yourself and say so in your summary",
                code=str(answer.payload["error"]),
            )
        return Reply({"answer": answer.payload["text"]})

    def _question(self, call: Call, parent: AgentRecord) -> RoutedMessage:
        if parent.is_over:
            raise _parent_ended()
        self.router.check(parent.agent_id)
        payload, correlation_id = {"text": call.args["question"]}, self.ids.ulid()
        return self.steps.message(
            call.record, MessageType.QUESTION, parent.agent_id, payload, correlation_id
        )

    async def respond_to_child(self, call: Call) -> Reply:
        """Send the ANSWER to a child's open question, once."""
        record, delivered = call.record, Reply({"delivered": True})
        if call.recall("message") is not None:
            return delivered
        child = self.roster.resolve(call.args["child_id"], record.children)
        if child.is_over:
            raise _child_ended(child)
        correlation_id = call.args["correlation_id"]
        question = record.questions.get(correlation_id)
        if question is None or question.message.source != child.agent_id:
            raise MessageRoutingError(
                f"{child.descriptor.name} has no open question {correlation_id!r}",
                hint="it was answered already, or the id is wrong; wait_for_message shows "
                "questions",
                code="unknown_correlation_id",
            )
        record.settled(correlation_id)
        payload = {"text": call.args["response"]}
        answer = self.steps.message(
            record, MessageType.ANSWER, child.agent_id, payload, correlation_id
        )
        noted = call.effect("message", answer.message_id)
        await call.open(answer, reply=delivered, noted=noted)
        return delivered

    async def send_child_prompt(self, call: Call) -> Reply:
        """Queue a prompt for a live child."""
        delivered = Reply({"delivered": True})
        if call.recall("message") is not None:
            return delivered
        child = self.roster.resolve(call.args["child_id"], call.record.children)
        if child.is_over:
            raise _child_ended(child)
        self.router.check(child.agent_id)
        payload = {"text": call.args["prompt"]}
        prompt = self.steps.message(call.record, MessageType.USER_PROMPT, child.agent_id, payload)
        noted = call.effect("message", prompt.message_id)
        await call.open(prompt, reply=delivered, noted=noted)
        return delivered

    def wait_for_message(self, call: Call) -> Coroutine[Any, Any, Reply | ToolOutcome]:
        """Wait for questions, results and prompts, or for the call of a token."""
        if "token" in call.args:
            return self._resume(call)
        return self._wait(call)

    async def _resume(self, call: Call) -> Reply | ToolOutcome:
        """Wait for the call of a token; for a message if that was an expired wait."""
        earlier = call.calls.turn.earlier
        outcome = await earlier.resume(call, call.args["token"], _seconds(call))
        return await self._wait(call) if outcome is None else outcome

    async def _wait(self, call: Call) -> Reply:
        seconds = _seconds(call)
        if _another_waits(call):
            raise MessageRoutingError(
                "another wait_for_message of yours waits already",
                hint="one is enough: it returns messages of every child",
                code="already_waiting",
            )
        kind = AllResults if call.args.get("all") else AnyMessage
        wait = kind(call.record, self.router, seconds is not None)
        first = self._told(call, await call.receive(wait, seconds=seconds))
        if first is not None:
            return Reply(self._with_others(call, first))
        record, is_over = call.record, wait.is_vain()
        if not is_over:
            call.calls.turn.earlier.expire(call.id)
            told: dict[str, Any] = {"type": "pending", "token": call.id}
        else:
            children = [self.roster.get(c) for c in record.children]
            states = [{"agent_id": c.agent_id, "state": c.state.value} for c in children]
            told = {"type": "nothing_left", "children": states}
        return Reply({**told, "progress": _progress(record, self.roster)})

    def _told(self, call: Call, message: RoutedMessage | None) -> dict[str, Any] | None:
        """Return the first message: what ended the wait, a reminder, or the oldest unread."""
        record = call.record
        if message is not None:
            return describe_message(record, self.roster, message)
        question = record.next_reminder()
        if question is not None:
            call.by_answer = _Reminds(record, question.message.correlation_id)
            again = describe_message(record, self.roster, question.message)
            return {**again, "reminder": True}
        unread = call.take(record.is_prompted_by, 1)
        return describe_message(record, self.roster, unread[0]) if unread else None

    def _with_others(self, call: Call, first: dict[str, Any]) -> dict[str, Any]:
        record, told = call.record, {**first, "progress": _progress(call.record, self.roster)}
        others: list[dict[str, Any]] = []
        taken = call.take(record.is_prompted_by, MESSAGES_IN_AN_ANSWER)
        room = ROOM - _size(told) if taken else ROOM
        for message in taken:
            other = _describe(self.roster, message)
            room -= _size(other)
            if room < 0:
                call.give_back(message)
                break
            _note_shown(record, message)
            others.append(other)
        if others:
            told["others"] = others
        if unread := self.router.count_unread(record.agent_id, record.is_prompted_by):
            told["unread"] = unread
        return told


class _Reminds(Record, frozen=True):
    """Notes, by the step of the answer, that a question is shown again."""

    record: AgentRecord
    about: str | None

    def writes(self) -> Sequence[Write]:
        self.record.was_reminded(self.about)
        return ()

    def take_back(self) -> None:
        """Do nothing, as no write is its own."""


def _seconds(call: Call) -> float | None:
    return call.args.get("timeout") or call.args.get("timeout_seconds") or None


def _parent_ended() -> MessageRoutingError:
    return MessageRoutingError(
        "your parent has finished and answers no more questions",
        hint="decide yourself and say so in your summary",
        code="parent_ended",
    )


def _child_ended(child: AgentRecord) -> MessageRoutingError:
    return MessageRoutingError(
        f"{child.descriptor.name} has ended",
        hint="restart_child gives it a new task",
        code="agent_ended",
    )


def _another_waits(call: Call) -> bool:
    earlier = takewhile(lambda other: other is not call, call.calls.open)
    return any(other.name == call.name for other in earlier)


def describe_message(record: AgentRecord, roster: Roster, message: RoutedMessage) -> dict[str, Any]:
    """Return a message as a wait's answer; a question counts as delivered from now on."""
    _note_shown(record, message)
    return _describe(roster, message)


def _note_shown(record: AgentRecord, message: RoutedMessage) -> None:
    if message.type is MessageType.QUESTION:
        record.note_delivered(message)


def _size(told: Mapping[str, Any]) -> int:
    return len(encode_data(told).encode()) + len(',"others":[]')


def _describe(roster: Roster, message: RoutedMessage) -> dict[str, Any]:
    if message.type is MessageType.QUESTION:
        return {
            "type": "question",
            "from": message.source,
            "name": _name(roster, message),
            "correlation_id": message.correlation_id,
            "text": message.payload["text"],
        }
    if message.type is MessageType.TASK_RESULT:
        result = message.payload
        answer = {
            "type": "task_result",
            "from": message.source,
            "name": _name(roster, message),
            "success": result["success"],
            "summary": result["summary"],
        }
        if result["error"] is not None:
            answer["error"] = result["error"]
        if result["success"]:
            answer["evidence"] = result["evidence"]
        if (tree := result.get("worktree")) is not None:
            answer["worktree"] = {name: value for name, value in tree.items() if value}
        lists = ("evidence_gaps", "evidence_by")
        answer |= {name: result[name] for name in lists if result.get(name)}
        return answer
    told = {"type": message.type.value, "from": message.source or "user"}
    if message.source is not None:
        told["name"] = _name(roster, message)
    return {**told, "text": message.payload["text"]}


def _name(roster: Roster, message: RoutedMessage) -> str:
    return roster.get(message.source or "").descriptor.name


def _progress(record: AgentRecord, roster: Roster) -> list[dict[str, Any]]:
    """Return, once, the latest progress of each child since the last answer."""
    latest = [{"from": child, **said} for child, said in record.progress.items()]
    if latest:
        heard = {child: roster.get(child).notes.reports for child in record.progress}
        record.note(heard={**record.notes.heard, **heard})
        record.progress = NOTHING
    return latest
