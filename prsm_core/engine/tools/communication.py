"""Tools by which agents talk: to each other, to a person, and about their own work."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Any

from prsm_core.domain.agents import AgentResult, AgentState
from prsm_core.domain.messages import MessageType
from prsm_core.domain.permissions import Question
from prsm_core.domain.record import Record
from prsm_core.domain.tools import ToolOutcome, encode_data
from prsm_core.domain.writes import ResultClaimed, Told
from prsm_core.engine.requests import NO_ANSWER, NOBODY_CHOSE, ON_ASK, WHY_UNANSWERED, answer_of
from prsm_core.engine.state import Level
from prsm_core.engine.turns.call import Reply
from prsm_core.engine.turns.waits import AllResults, AnyMessage
from prsm_core.errors import MessageRoutingError, OrchestrationError, ToolInputError
from prsm_core.kit.quotation import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from prsm_core.domain.ids import Ids
    from prsm_core.domain.messages import RoutedMessage
    from prsm_core.domain.permissions import Answer
    from prsm_core.domain.steps import Write
    from prsm_core.engine.agents.manager import AgentEnds
    from prsm_core.engine.agents.user_prompts import Prompting
    from prsm_core.engine.journal.unit import AgentSteps
    from prsm_core.engine.requests import HumanRequests
    from prsm_core.engine.state import AgentRecord, Roster
    from prsm_core.engine.turns.call import Call
    from prsm_core.messaging.router import MessageRouter
    from prsm_core.permissions import PermissionBroker


# Bytes of an answer that holds several messages: the others stay unread. Codex cuts the middle out
# of an answer of more than 12,000, and so a result that is never told again.
ROOM = 10_000
MESSAGES_IN_AN_ANSWER = 100


REPORTED = "reported"  # the kind of a failure that an agent reports itself
_HOLDING = frozenset({MessageType.USER_PROMPT, MessageType.PEER})


class Communication(Record, frozen=True, kw_only=True):
    """Handles what agents say to each other, to people, and of their own work."""

    roster: Roster
    router: MessageRouter
    steps: AgentSteps
    ids: Ids
    ends: AgentEnds
    silent: Callable[[AgentRecord], None]  # takes note that an agent writes nothing any more
    steering: Prompting
    requests: HumanRequests
    broker: PermissionBroker
    workspace: str

    async def ask_parent(self, call: Call) -> Reply:
        """Send a QUESTION to the parent and wait for its ANSWER."""
        parent = self.roster.get(call.record.descriptor.parent_id or "")
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
        outcome = await call.calls.turn.earlier.resume(call, call.args["token"], _seconds(call))
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

    async def report_progress(self, call: Call) -> Reply:
        """Keep the agent's latest progress for its parent's next answer; wakes no one."""
        record = call.record
        if call.is_again:  # it was told by the step that began the call
            return Reply({"ok": True})
        said = {"status": call.args["status"], "percent": call.args.get("percent")}
        record.note(progress=said, reports=record.notes.reports + 1)
        if record.descriptor.parent_id is not None:
            parent = self.roster.get(record.descriptor.parent_id)
            parent.heard_of(record.agent_id, said)
        call.begin(Told(kind="progress_reported", data=said))
        return Reply({"ok": True})

    async def task_complete(self, call: Call) -> Reply:
        """Weigh the claim, settle the agent, then answer; its end waits for its children's."""
        record = call.record
        summary = call.args["summary"].strip()
        if not summary:
            raise ToolInputError(
                "summary is blank",
                hint="say what you did and how you checked it",
                code="blank_summary",
            )
        if not call.args.get("success", True):
            return await self._report_failure(call, summary)
        artifacts, commands = call.args.get("artifacts", ()), call.args.get("commands", ())
        if artifacts or commands or not call.life.has_only_talked:  # the ledger is looked at
            await call.open()
        elif record.wants_tree:  # which is merged meanwhile
            call.begin()
        self._refuse_unread_prompts(call)
        evidence = await call.life.weigh(artifacts, commands)
        await self.steering.settled(record.agent_id)
        self._refuse_unheard(call)
        self._refuse_unread_prompts(call)  # it came meanwhile
        result = evidence.on(
            AgentResult(
                agent_id=record.agent_id, success=True, summary=summary, artifacts=tuple(artifacts)
            )
        )
        reply = _accepted(result)
        outcome = ToolOutcome.of(reply.data, ends_turn=True)
        call.calls.complete(call.id)
        if record.live_children:
            await self._claim(call, result, outcome)
            return reply
        await self.ends.end_agent(
            record,
            AgentState.COMPLETED,
            result,
            reason="task_complete",
            besides=call.opens(),
            answer=call.close_with(outcome),
            needs=call.opening,
        )
        return reply

    async def _report_failure(self, call: Call, why: str) -> Reply:
        """Fail the agent with its own words: no gate runs, and nothing of it is merged."""
        record = call.record
        await call.open()  # its children, which end first, must not end before the call began
        await self.steering.settled(record.agent_id)
        self._refuse_unheard(call)
        self._refuse_unread_prompts(call)
        reply = Reply({"accepted": True}, ends_turn=True)
        call.calls.complete(call.id)
        await self.ends.fail_agent(
            record,
            why,
            REPORTED,
            summary=why,
            answer=call.close_with(ToolOutcome.of(reply.data, ends_turn=True)),
            needs=call.opening,
        )
        return reply

    async def _claim(self, call: Call, result: AgentResult, outcome: ToolOutcome) -> None:
        """Store the result; the session settles it when the last child has ended."""
        record = call.record
        record.claimed_result = result

        def tell() -> None:
            for child in record.children:
                self.router.wake(child)  # their questions have no one to answer them now
            self.silent(record)

        opening = call.opens()
        claimed = ResultClaimed(result=result)
        step = self.steps.build(record, *opening, claimed, call.close_with(outcome))
        try:
            await self.steps.commit(step, then=tell, needs=call.opening)
        except Exception:
            call.reopen(opening)  # nothing was written: the refusal is its answer
            raise

    def _refuse_unread_prompts(self, call: Call) -> None:
        router, agent_id, prompts = self.router, call.record.agent_id, call.record.is_prompted_by
        unread = [m for m in router.unread(agent_id) if m.type in _HOLDING and prompts(m)]
        if not unread:
            return
        hint = "call wait_for_message to take it, follow it, then call task_complete again"
        if "wait_for_message" not in call.calls.tools.names:  # then the refusal itself delivers it
            router.claim(agent_id, lambda m: m is unread[0])
            call.consumed = (*call.consumed, unread[0].message_id)
            hint = "follow it, then call task_complete again"
        told = describe_message(call.record, self.roster, unread[0])
        who = told.get("name", "the user")
        what = "instruction" if unread[0].type is MessageType.USER_PROMPT else "message"
        raise MessageRoutingError(
            f"a new {what} waits for you; {who} writes:\n{quote(told['text'])}",
            hint=hint,
            code="unread_prompt",
        )

    def _refuse_unheard(self, call: Call) -> None:
        """Refuse an end, once, that the model decided before it heard all it was told."""
        turn = call.calls.turn
        if call.response >= turn.heard_from:
            return
        turn.heard_from = 0
        raise MessageRoutingError(
            "you were told something while you answered",
            hint="it stands before this: follow it, then call task_complete again",
            code="unheard_prompt",
        )

    async def ask_user(self, call: Call) -> Reply:
        """Ask the person who watches, or a stand-in; raise if nobody answers."""
        question = Question(
            text=call.args["question"],
            options=tuple(call.args.get("options", ())),
            multiple=call.args.get("multiple", False),
            call_id=call.id,
        )
        answer, by = await ask_person(call, self.requests, self.ids, question)
        if answer is None:
            reason = WHY_UNANSWERED.get(by, NO_ANSWER)
            raise OrchestrationError(
                f"no answer: {reason}", hint="decide yourself and say so", code="no_answer"
            )
        said = {"choices": list(answer.choices), "text": answer.text}
        if by == ON_ASK:
            return Reply({**said, "notice": NOBODY_CHOSE})
        self.broker.changed_by_hand(call.record.descriptor.cwd, self.workspace)
        return Reply(said)


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
    latest = [{"from": child, **said} for child, said in record.progress.items()]
    if latest:
        heard = {child: roster.get(child).notes.reports for child in record.progress}
        record.note(heard={**record.notes.heard, **heard})
        record.progress = {}
    return latest


async def ask_person(
    call: Call, requests: HumanRequests, ids: Ids, question: Question
) -> tuple[Answer | None, str]:
    """Return a person's answer and its source; an answer to an earlier engine counts."""
    asked, replied = call.recall("request"), call.recall("answer")
    if replied is not None:
        said = replied.data or {}
        return answer_of(said), str(said.get("by", ""))
    request = ids.request() if asked is None else asked.ref or ""
    await (call.land() if call.opened else call.open())
    return await call.ask(requests.question(call.record, request, question, call))


def _accepted(result: AgentResult) -> Reply:
    data: dict[str, Any] = {"accepted": True}
    if result.evidence != Level.CLAIMED or result.evidence_gaps:
        data["evidence"] = result.evidence
    if result.evidence_gaps:
        data["evidence_gaps"] = list(result.evidence_gaps)
    if result.evidence_by:
        data["evidence_by"] = list(result.evidence_by)
    return Reply(data, ends_turn=True)
