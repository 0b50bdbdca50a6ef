"""The human desk: permission requests and questions that wait for a person.

Every request has an id, an event, a deadline and one end: an answer, the agent's death, or the
deadline (then it is denied, or has no answer). Without a person it ends at once, by the rule the
user chose, and the run remembers that something was refused for lack of one.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from prsm_core.domain.permissions import Answer
from prsm_core.domain.steps import HumanRequest, Resolution
from prsm_core.engine.clocks import first_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_core.domain.permissions import Ask, PermissionRequest, Question
    from prsm_core.engine.journal import Journal
    from prsm_core.engine.records import AgentRecord
    from prsm_core.interfaces.clock import Clock

ALLOWING = frozenset({"once", "always", "allow_rule"})
OFFERED = ("once", "always", "deny")
NO_HUMAN = "no person is attached to this run; do without it or finish with what you have"


class Commit(Protocol):
    """How the desk writes: AgentManager.control."""

    async def __call__(self, record: AgentRecord, act: str, **fields: Any) -> None:
        """Commit a ControlStep of this agent."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HumanPolicy:
    """Whether a person is there, and what stands in for one."""

    interactive: bool
    on_ask: str = "deny"  # allow | deny
    timeout_s: float = 3600.0


@dataclass(slots=True)
class _Open:
    record: AgentRecord
    kind: str
    answer: dict[str, Any] | None = None
    by: str = ""
    done: asyncio.Event = field(default_factory=asyncio.Event)

    def settle(self, answer: dict[str, Any], by: str) -> bool:
        if self.answer is not None:
            return False
        self.answer, self.by = answer, by
        self.done.set()
        return True


class HumanDesk:
    """Owns the open requests of a run."""

    def __init__(self, policy: HumanPolicy, clock: Clock, journal: Journal, commit: Commit) -> None:
        self._policy = policy
        self._clock = clock
        self._journal = journal
        self._commit = commit
        self._open: dict[str, _Open] = {}
        self.refused = False  # something was refused for lack of a person

    async def permission(
        self, record: AgentRecord, request_id: str, request: PermissionRequest, ask: Ask
    ) -> tuple[str, str]:
        """Have a person decide; return the chosen option and who chose it."""
        options = tuple(option for option in OFFERED if option in {*ask.options, "deny"})
        asked = self._journal.event(
            "permission_requested",
            record.agent_id,
            request=request_id,
            tool=request.tool,
            command=request.command,
            paths=list(request.paths),
            reason=ask.reason,
            options=list(options),
        )
        stand_in = None if self._policy.interactive else self._stand_in(options)
        answer, by = await self._ask(record, request_id, "permission", asked, stand_in)
        return answer.get("verdict", "deny"), by

    async def question(
        self, record: AgentRecord, request_id: str, question: Question
    ) -> tuple[Answer | None, str]:
        """Ask a person; None means that nobody answered, the second value says why."""
        asked = self._journal.event(
            "question_asked",
            record.agent_id,
            request=request_id,
            question=question.text,
            options=list(question.options),
        )
        stand_in: tuple[dict[str, Any], str] | None = None
        if not self._policy.interactive:
            stand_in = ({}, "headless")
        answer, by = await self._ask(record, request_id, "question", asked, stand_in)
        if not answer:
            return None, by
        return Answer(choices=tuple(answer["choices"]), text=answer["text"]), by

    def resolve(self, request_id: str, kind: str, answer: dict[str, Any], by: str = "user") -> bool:
        """Answer an open request; False when it is unknown, of another kind, or answered."""
        request = self._open.get(request_id)
        if request is None or request.kind != kind:
            return False
        return request.settle(answer, by)

    def close_agent(self, agent_id: str) -> None:
        """End the open requests of an agent that has ended."""
        for request in tuple(self._open.values()):
            if request.record.agent_id == agent_id:
                request.settle({}, "agent_ended")

    def _stand_in(self, options: tuple[str, ...]) -> tuple[dict[str, Any], str]:
        if self._policy.on_ask == "allow" and "once" in options:
            return {"verdict": "once"}, "on_ask"
        return {"verdict": "deny"}, "headless"

    async def _ask(
        self,
        record: AgentRecord,
        request_id: str,
        kind: str,
        asked: Any,
        stand_in: tuple[dict[str, Any], str] | None,
    ) -> tuple[Mapping[str, Any], str]:
        row = HumanRequest(
            request_id=request_id,
            agent_id=record.agent_id,
            kind=kind,
            payload=dict(asked.data),
            opened_at=asked.ts,
        )
        request = _Open(record, kind)
        if stand_in is not None:
            request.settle(*stand_in)
            self.refused = self.refused or stand_in[1] == "headless"
        self._open[request_id] = request
        try:
            await self._commit(record, "request", requests=(row,), events=(asked,))
            if not await first_of(self._clock, self._policy.timeout_s, request.done.wait):
                request.settle({}, "timeout")
            await self._record_end(record, request_id, request)
        finally:
            del self._open[request_id]
        return request.answer or {}, request.by

    async def _record_end(self, record: AgentRecord, request_id: str, request: _Open) -> None:
        answer = request.answer or {}
        if request.kind == "permission":
            verdict = answer.get("verdict", "deny")
            event = self._journal.event(
                "permission_resolved",
                record.agent_id,
                request=request_id,
                verdict=verdict,
                by=request.by,
            )
        else:
            event = self._journal.event(
                "question_answered",
                record.agent_id,
                request=request_id,
                answer=answer or None,
                by=request.by,
            )
        end = Resolution(request_id=request_id, answer=answer, by=request.by)
        await self._commit(record, "resolve", resolutions=(end,), events=(event,))
