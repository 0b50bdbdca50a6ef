"""The vendor's own calls of one turn: told to readers, to the broker and to the watch for circles.

So is the plan that the model keeps by such calls.

The permission broker hears what became of each, so that repeats are seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.domain.permissions import PermissionRequest
from prsm_core.domain.turns import CUT_MARK, cut_result
from prsm_core.permissions import outcome_of
from prsm_core.permissions.results import DENIED

PLAN_LIMIT = 100  # entries that are told
ENTRY_LIMIT = 1000  # characters of each

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from prsm_core.domain.turns import PlanUpdated, ToolCallFinished, ToolCallStarted
    from prsm_core.engine.ports import Life
    from prsm_core.engine.turns.fold import TurnFold
    from prsm_core.engine.turns.parts import TurnParts
    from prsm_core.engine.turns.stuck_watch import StuckWatch
    from prsm_core.permissions import Outcome


class VendorCalls:
    """Owns what is known of the open calls of one turn: what each asks for, and since when."""

    __slots__ = (
        "_broker",
        "_fold",
        "_journal",
        "_life",
        "_open",
        "_plan",
        "_quiet",
        "_standing",
        "_stuck",
    )

    def __init__(self, life: Life, fold: TurnFold, stuck: StuckWatch, parts: TurnParts) -> None:
        self._life = life
        self._fold = fold
        self._stuck = stuck
        self._broker = parts.broker
        self._quiet = parts.quiet
        self._standing = parts.standing
        self._journal = parts.journal
        self._plan: list[dict[str, str]] = []
        self._open: dict[str, tuple[PermissionRequest, int]] = {}

    async def started(self, event: ToolCallStarted) -> None:
        """Take note of a call that has begun."""
        request = self._request(event)
        self._open[event.call_id] = request, self._broker.mark()
        if self._broker.may_write(request, self._standing.context(self._life)):
            self._quiet.began(self._quiet.of(self._life.record.descriptor, request, event.call_id))
        await self._journal.fact(
            "tool_call_started",
            self._life.record.agent_id,
            call=event.call_id,
            tool=event.tool,
            arguments=dict(event.arguments),
            orchestration=False,
            response=self._fold.responses,
        )

    async def ended(self, event: ToolCallFinished) -> None:
        """Take note of how a call has ended; the fold has it already."""
        if (call := self._fold.calls.get(event.call_id)) is not None:
            self._stuck.ended(call, denied=event.status == "denied")
        request, since = self._open.pop(event.call_id, (None, 0))
        if request is not None:
            self._quiet.ended(self._quiet.of(self._life.record.descriptor, request, event.call_id))
            self._tell_broker(request, event, since)
        await self._journal.fact(
            "tool_call_finished",
            self._life.record.agent_id,
            call=event.call_id,
            status=event.status,
            result=None if event.result is None else cut_result(event.result),
            error=event.error,
            duration_s=self._fold.call_seconds(event.call_id),
            exit_code=event.exit_code,
        )

    async def planned(self, event: PlanUpdated) -> None:
        """Tell the model's plan, cut, unless it is what it was."""
        plan = [
            {"text": entry.text[:ENTRY_LIMIT], "status": entry.status}
            for entry in event.entries[:PLAN_LIMIT]
        ]
        if (more := len(event.entries) - len(plan)) > 0:
            plan.append({"text": f"… {more} more", "status": "pending"})
        if plan != self._plan:
            self._plan = plan
            agent = self._life.record.agent_id
            await self._journal.fact("plan_updated", agent, entries=plan)

    def _request(self, event: ToolCallStarted) -> PermissionRequest:
        """Return what a permission for the call is asked by."""
        descriptor = self._life.record.descriptor
        return PermissionRequest(
            agent_id=descriptor.agent_id,
            tool=event.tool,
            arguments=event.arguments,
            cwd=_text(event.arguments, "cwd") or descriptor.cwd,
            command=_text(event.arguments, "command") if event.tool == "Bash" else None,
            paths=_paths(event.arguments),
        )

    def turn_over(self) -> None:
        """Take note that nothing more is told of the turn's calls: none runs any more."""
        agent = self._life.record.agent_id
        self._broker.turn_over(agent)
        self._quiet.turn_over(agent)

    def _tell_broker(self, request: PermissionRequest, event: ToolCallFinished, since: int) -> None:
        """Tell how a call has ended; what comes after the agent's own end counts no more."""
        if not self._life.is_over:
            context = self._standing.context(self._life)
            self._broker.ended(request, context, _outcome(event), since)


def _outcome(event: ToolCallFinished) -> Outcome | None:
    """Return how a call has ended, None where not all of its output was told."""
    if event.status == "denied":
        return DENIED
    if event.result is None or not event.is_whole or event.result.endswith(CUT_MARK):
        return None
    succeeded = event.status == "completed"
    return outcome_of(succeeded=succeeded, texts=(event.result,), error=event.error)


def _text(arguments: Mapping[str, Any], name: str) -> str | None:
    value = arguments.get(name)
    return value if isinstance(value, str) else None


def _paths(arguments: Mapping[str, Any]) -> tuple[str, ...]:
    told = arguments.get("paths")
    return tuple(map(str, told)) if isinstance(told, (list, tuple)) else ()
