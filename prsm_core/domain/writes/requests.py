"""Requests to a person, and what a person has granted: the first answer wins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from prsm_core.domain.rows import Insert, Update
from prsm_core.domain.steps import Telling, Write
from prsm_core.domain.writes.agents import AgentEnded
from prsm_core.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from prsm_core.domain.rows import Ledger, Row
    from prsm_core.domain.steps import HumanRequest, Step

_ASKED = {"permission": "permission_requested", "question": "question_asked"}


class RequestOpened(Write, frozen=True, kw_only=True):
    """A permission request or question that waits for a person; its payload is what is told."""

    texts = ("request",)

    request: HumanRequest

    def rows(self, step: Step) -> Iterable[Row]:
        row = {"session_id": step.session_id, **asdict(self.request), "state": "open"}
        return (Insert("requests", row),)

    def events(self, step: Step) -> Iterable[Telling]:
        request = self.request
        return (Telling(_ASKED[request.kind], request.payload, step.agent_id, request.opened_at),)


class RequestResolved(Write, frozen=True, kw_only=True):
    """The end of a request; the first one wins."""

    texts = ("answer", "by", "via", "check")

    request_id: str
    kind: str  # permission | question
    answer: Mapping[str, Any]
    by: str  # user | policy | timeout | agent_ended | headless | on_ask
    via: str = ""  # from where the answer came
    check: str | None = None  # of a plugin that asked

    def rows(self, step: Step) -> Iterable[Row]:
        """Return the answer. At an agent's end an earlier one of a person just stands."""
        is_end = step.find(AgentEnded) is not None
        known = {"request_id": self.request_id, "session_id": step.session_id}

        def refuse(ledger: Ledger) -> StoreError | None:
            if ledger.look("requests", known, "state") is None:
                return StoreError(f"there is no request {self.request_id}", code="unknown_request")
            if is_end:
                return None
            return StoreError(
                f"request {self.request_id} was answered before",
                hint="the first answer counts",
                code="already_resolved",
            )

        answer = {"state": "resolved", "answer": self.answer, "resolved_by": self.by}
        return (Update("requests", {**known, "state": "open"}, answer, refusal=refuse),)

    def events(self, step: Step) -> Iterable[Telling]:
        data: dict[str, Any] = {"request": self.request_id, "by": self.by, "via": self.via}
        if self.kind == "permission":
            data["verdict"] = self.answer.get("verdict", "deny")
            if self.check is not None:
                data["check"] = self.check
            return step.telling("permission_resolved", data)
        data["answer"] = self.answer or None
        return step.telling("question_answered", data)


class Granted(Write, frozen=True, kw_only=True):
    """What a person allowed for the agent and all below it."""

    texts = ("grant",)
    is_of_run = True

    grant: Mapping[str, Any]

    def rows(self, step: Step) -> Iterable[Row]:
        row = {
            "session_id": step.session_id,
            "agent_id": step.agent_id,
            "data": self.grant,
            "created_at": step.at,
        }
        return (Insert("grants", row),)
