"""Tools about the agent's own work: report_progress, task_complete, ask_user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prsm_core.domain.agents import AgentResult, AgentState
from prsm_core.domain.messages import MessageType
from prsm_core.domain.permissions import Question
from prsm_core.domain.writes import ResultClaimed, Told
from prsm_core.engine.evidence.evidence import Level
from prsm_core.engine.requests.human import NO_ANSWER, NOBODY_CHOSE, ON_ASK, WHY_UNANSWERED
from prsm_core.engine.tools.communication import describe_message
from prsm_core.engine.turns.calls import Reply
from prsm_core.errors import MessageRoutingError, OrchestrationError, ToolInputError
from prsm_core.kit.outcomes import success
from prsm_core.kit.quotation import quote

if TYPE_CHECKING:
    from prsm_core.domain.tools import ToolOutcome
    from prsm_core.engine.turns.calls import Call


async def report_progress(call: Call) -> Reply:
    """Keep the agent's latest progress for its parent's next answer; wakes no one."""
    record, manager = call.record, call.manager
    said = {"status": call.args["status"], "percent": call.args.get("percent")}
    if record.descriptor.parent_id is not None:
        manager.roster.get(record.descriptor.parent_id).progress[record.agent_id] = said
    await call.open(told=(Told(kind="progress_reported", data=said),))
    return Reply({"ok": True})


async def task_complete(call: Call) -> Reply:
    """Weigh the claim, settle the agent, then answer; its end waits for that of its children."""
    record, manager = call.record, call.manager
    summary = call.args["summary"].strip()
    if not summary:
        raise ToolInputError(
            "summary is blank", hint="say what you did and how you checked it", code="blank_summary"
        )
    await call.open()
    _refuse_unread_prompts(call)
    artifacts, commands = call.args.get("artifacts", ()), call.args.get("commands", ())
    evidence = await call.session.proof.weigh(artifacts, commands)
    _refuse_unread_prompts(call)  # it came meanwhile
    result = AgentResult(
        agent_id=record.agent_id,
        success=True,
        summary=summary,
        artifacts=tuple(artifacts),
        evidence=evidence.level.value,
        evidence_gaps=evidence.gaps,
        evidence_by=evidence.by,
    )
    reply = _accepted(result)
    outcome = success(reply.data, ends_turn=True)
    if call.session.turn is not None:
        call.session.turn.calls.complete(call.id)
    if record.live_children:
        await _claim(call, result, outcome)
        return reply
    await manager.end_agent(
        record,
        AgentState.COMPLETED,
        result,
        reason="task_complete",
        answer=call.close_with(outcome),
    )
    return reply


def _accepted(result: AgentResult) -> Reply:
    data: dict[str, Any] = {"accepted": True}
    if result.evidence != Level.CLAIMED or result.evidence_gaps:
        data["evidence"] = result.evidence
    if result.evidence_gaps:
        data["evidence_gaps"] = list(result.evidence_gaps)
    if result.evidence_by:
        data["evidence_by"] = list(result.evidence_by)
    return Reply(data, ends_turn=True)


async def _claim(call: Call, result: AgentResult, outcome: ToolOutcome) -> None:
    """Store the result; the session settles it when the last child has ended."""
    record, manager = call.record, call.manager
    record.claimed_result = result

    def tell() -> None:
        for child in record.children:
            manager.runtime.router.wake(child)  # their questions have no one to answer them now

    step = manager.build(record, ResultClaimed(result=result), call.close_with(outcome))
    try:
        await manager.commit(step, then=tell)
    except Exception:
        call.reopen()  # nothing was written: the refusal is its answer
        raise


def _refuse_unread_prompts(call: Call) -> None:
    """A prompt that was accepted must be read before the agent may finish."""
    router, agent_id = call.manager.runtime.router, call.record.agent_id
    unread = [m for m in router.unread(agent_id) if m.type is MessageType.USER_PROMPT]
    if not unread:
        return
    hint = "call wait_for_message to take it, follow it, then call task_complete again"
    if call.session.tools.get("wait_for_message") is None:  # then the refusal itself delivers it
        router.claim(agent_id, lambda m: m is unread[0])
        call.consumed.append(unread[0].message_id)
        hint = "follow it, then call task_complete again"
    told = describe_message(call, unread[0])
    who = told.get("name", "the user")
    raise MessageRoutingError(
        f"a new instruction waits for you; {who} writes:\n{quote(told['text'])}",
        hint=hint,
        code="unread_prompt",
    )


async def ask_user(call: Call) -> Reply:
    """Ask the person who watches, or what stands in for one; without an answer, say so."""
    runtime = call.manager.runtime
    question = Question(
        text=call.args["question"],
        options=tuple(call.args.get("options", ())),
        multiple=call.args.get("multiple", False),
    )
    await call.open()
    answer, by = await runtime.desk.question(call.record, runtime.ids.request(), question)
    if answer is None:
        reason = WHY_UNANSWERED.get(by, NO_ANSWER)
        raise OrchestrationError(
            f"no answer: {reason}", hint="decide yourself and say so", code="no_answer"
        )
    said = {"choices": list(answer.choices), "text": answer.text}
    if by == ON_ASK:
        return Reply({**said, "notice": NOBODY_CHOSE})
    runtime.broker.changed_by_hand(call.record.descriptor.cwd, runtime.workspace)
    return Reply(said)
