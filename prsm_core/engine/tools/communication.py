"""Tools by which agents talk: ask_parent, respond_to_child, wait_for_message, send_child_prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prsm_core.domain.agents import AgentState
from prsm_core.domain.messages import MessageType
from prsm_core.engine.state import PROMPTING, OpenQuestion
from prsm_core.engine.turns.calls import Reply, Wait
from prsm_core.errors import MessageRoutingError

if TYPE_CHECKING:
    from prsm_core.domain.messages import RoutedMessage
    from prsm_core.domain.tools import ToolOutcome
    from prsm_core.engine.state import AgentRecord
    from prsm_core.engine.turns.calls import Call


async def ask_parent(call: Call) -> Reply:
    """Send a QUESTION to the parent and wait for its ANSWER."""
    manager, record = call.manager, call.record
    parent = manager.roster.get(record.descriptor.parent_id or "")
    if parent.is_over:
        raise _parent_ended()
    manager.runtime.router.check(parent.agent_id)
    correlation_id = manager.runtime.ids.ulid()
    question = manager.message(
        record,
        MessageType.QUESTION,
        parent.agent_id,
        {"text": call.args["question"]},
        correlation_id,
    )
    parent.questions[correlation_id] = OpenQuestion(question)
    try:
        await call.open(question)
        answer = await _await_answer(call, parent, correlation_id)
    finally:
        parent.questions.pop(correlation_id, None)
    if answer is None:
        raise _parent_ended()
    if "error" in answer.payload:
        raise MessageRoutingError(
            "your parent ended its turn twice without an answer",
            hint="decide yourself and say so in your summary",
            code=str(answer.payload["error"]),
        )
    return Reply({"answer": answer.payload["text"]})


async def _await_answer(
    call: Call, parent: AgentRecord, correlation_id: str
) -> RoutedMessage | None:
    def fits(message: RoutedMessage) -> bool:
        return message.type is MessageType.ANSWER and message.correlation_id == correlation_id

    wait = Wait(
        state=AgentState.WAITING_FOR_PARENT,
        on="parent",
        targets=lambda: (parent.agent_id,),
        ready=lambda: parent.is_over or call.has_unread(fits),
    )
    return await call.receive(wait, fits, otherwise=lambda: parent.is_over)


def _parent_ended() -> MessageRoutingError:
    return MessageRoutingError(
        "your parent has finished and answers no more questions",
        hint="decide yourself and say so in your summary",
        code="parent_ended",
    )


async def respond_to_child(call: Call) -> Reply:
    """Send the ANSWER to a child's open question, once."""
    manager, record = call.manager, call.record
    child = manager.roster.resolve(call.args["child_id"], record.children)
    if child.is_over:
        raise _child_ended(child)
    correlation_id = call.args["correlation_id"]
    question = record.questions.get(correlation_id)
    if question is None or question.message.source != child.agent_id:
        raise MessageRoutingError(
            f"{child.descriptor.name} has no open question {correlation_id!r}",
            hint="it was answered already, or the id is wrong; wait_for_message shows questions",
            code="unknown_correlation_id",
        )
    del record.questions[correlation_id]
    answer = manager.message(
        record,
        MessageType.ANSWER,
        child.agent_id,
        {"text": call.args["response"]},
        correlation_id,
    )
    await call.open(answer)
    return Reply({"delivered": True})


async def send_child_prompt(call: Call) -> Reply:
    """Queue a prompt for a live child."""
    manager = call.manager
    child = manager.roster.resolve(call.args["child_id"], call.record.children)
    if child.is_over:
        raise _child_ended(child)
    manager.runtime.router.check(child.agent_id)
    prompt = manager.message(
        call.record, MessageType.USER_PROMPT, child.agent_id, {"text": call.args["prompt"]}
    )
    await call.open(prompt)
    return Reply({"delivered": True})


def _child_ended(child: AgentRecord) -> MessageRoutingError:
    return MessageRoutingError(
        f"{child.descriptor.name} has ended",
        hint="restart_child gives it a new task",
        code="agent_ended",
    )


async def wait_for_message(call: Call) -> Reply | ToolOutcome:
    """Return the oldest question, result or prompt, waiting for it; or what a token stands for."""
    manager, record, turn = call.manager, call.record, call.session.turn
    if turn is None:
        raise RuntimeError("a call outside a turn")
    seconds = call.args.get("timeout") or call.args.get("timeout_seconds") or None
    if "token" in call.args:
        outcome = await turn.long_calls.resume(call, call.args["token"], seconds)
        if outcome is not None:
            return outcome
    if _another_waits(call):
        raise MessageRoutingError(
            "another wait_for_message of yours waits already",
            hint="one is enough: it returns messages of every child",
            code="already_waiting",
        )
    message = await call.receive(
        _any_message(call, seconds),
        lambda m: m.type in PROMPTING and record.is_current(m),
        otherwise=lambda: bool(record.reminders) or _nobody_left(call),
        seconds=seconds,
    )
    if message is not None:
        return Reply({**describe_message(call, message), "progress": _progress(record)})
    question = record.take_reminder()
    if question is not None:
        again = describe_message(call, question.message)
        return Reply({**again, "reminder": True, "progress": _progress(record)})
    if _nobody_left(call):
        children = [manager.roster.get(c) for c in record.children]
        states = [{"agent_id": c.agent_id, "state": c.state.value} for c in children]
        return Reply({"type": "nothing_left", "children": states, "progress": _progress(record)})
    turn.long_calls.expire(call.id)
    return Reply({"type": "pending", "token": call.id, "progress": _progress(record)})


def _any_message(call: Call, seconds: float | None) -> Wait:
    """Return the wait for any message: of the parent, or of a live child."""
    return Wait(
        state=AgentState.WAITING_FOR_CHILD,
        on="a message",
        targets=call.session.inbox.senders,
        ready=lambda: seconds is not None or call.session.inbox.has_news(),
    )


def _another_waits(call: Call) -> bool:
    """Whether an earlier wait_for_message of the turn is still open."""
    turn = call.session.turn
    for other in turn.calls.open.values() if turn is not None else ():
        if other is call:
            return False
        if other.name == call.name:
            return True
    return False


def _nobody_left(call: Call) -> bool:
    """Whether neither a parent nor a live child can send anything."""
    record = call.record
    return record.descriptor.parent_id is None and not record.live_children


def describe_message(call: Call, message: RoutedMessage) -> dict[str, Any]:
    """Return a message as the answer of a wait; a question counts as delivered from now on."""
    if message.type is MessageType.QUESTION:
        call.record.note_delivered(message)
        return {
            "type": "question",
            "from": message.source,
            "name": _name(call, message),
            "correlation_id": message.correlation_id,
            "text": message.payload["text"],
        }
    if message.type is MessageType.TASK_RESULT:
        result = message.payload
        answer = {
            "type": "task_result",
            "from": message.source,
            "name": _name(call, message),
            "success": result["success"],
            "summary": result["summary"],
        }
        if result["error"] is not None:
            answer["error"] = result["error"]
        if result["success"]:
            answer["evidence"] = result["evidence"]
        lists = ("evidence_gaps", "evidence_by")
        answer |= {name: result[name] for name in lists if result.get(name)}
        return answer
    told = {"type": "user_prompt", "from": message.source or "user"}
    if message.source is not None:
        told["name"] = _name(call, message)
    return {**told, "text": message.payload["text"]}


def _name(call: Call, message: RoutedMessage) -> str:
    return call.manager.roster.get(message.source or "").descriptor.name


def _progress(record: AgentRecord) -> list[dict[str, Any]]:
    """Return, once, the latest progress of each child since the last answer."""
    latest = [{"from": child, **said} for child, said in record.progress.items()]
    record.progress.clear()
    return latest
