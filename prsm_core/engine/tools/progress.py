"""Tools about the agent's own work: report_progress, task_complete, ask_user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prsm_core.domain.agents import AgentResult, AgentState
from prsm_core.domain.messages import MessageType
from prsm_core.domain.permissions import Question
from prsm_core.domain.record import Record
from prsm_core.domain.tools import ToolOutcome
from prsm_core.domain.writes import ResultClaimed, Told
from prsm_core.engine.requests import (
    NO_ANSWER,
    NOBODY_CHOSE,
    ON_ASK,
    WHY_UNANSWERED,
    answer_of,
)
from prsm_core.engine.state import Level
from prsm_core.engine.tools.communication import describe_message
from prsm_core.engine.turns.call import Reply
from prsm_core.errors import MessageRoutingError, OrchestrationError, ToolInputError
from prsm_core.kit.quotation import quote

if TYPE_CHECKING:
    from collections.abc import Callable

    from prsm_core.domain.ids import Ids
    from prsm_core.domain.permissions import Answer
    from prsm_core.engine.agents.ends import AgentEnds
    from prsm_core.engine.agents.user_prompts import Prompting
    from prsm_core.engine.journal.unit import AgentSteps
    from prsm_core.engine.requests import HumanRequests
    from prsm_core.engine.state import AgentRecord, Roster
    from prsm_core.engine.turns.call import Call
    from prsm_core.messaging.router import MessageRouter
    from prsm_core.permissions import PermissionBroker

REPORTED = "reported"  # the kind of a failure that an agent reports itself
_HOLDING = frozenset({MessageType.USER_PROMPT, MessageType.PEER})


class Progress(Record, frozen=True, kw_only=True):
    """Handles what an agent says of its own work."""

    ends: AgentEnds
    silent: Callable[[AgentRecord], None]  # takes note that an agent writes nothing any more
    steering: Prompting
    steps: AgentSteps
    roster: Roster
    router: MessageRouter
    requests: HumanRequests
    broker: PermissionBroker
    ids: Ids
    workspace: str

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
                agent_id=record.agent_id,
                success=True,
                summary=summary,
                artifacts=tuple(artifacts),
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
