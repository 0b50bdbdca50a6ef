"""Tells the permission broker what became of the vendor's own calls, so that repeats are seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.domain.permissions import PermissionRequest
from prsm_core.domain.turns import CUT_MARK
from prsm_core.permissions import outcome_of
from prsm_core.permissions.results import DENIED

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from prsm_core.domain.turns import ToolCallFinished, ToolCallStarted
    from prsm_core.engine.agents.session import AgentSession
    from prsm_core.permissions import Outcome


class VendorCalls:
    """Owns what is known of the open calls of one turn: what each asks for, and since when."""

    def __init__(self, session: AgentSession) -> None:
        self._session = session
        self._open: dict[str, tuple[PermissionRequest, int]] = {}

    def started(self, event: ToolCallStarted) -> None:
        """Take note of a call that has begun."""
        descriptor = self._session.record.descriptor
        request = PermissionRequest(
            agent_id=descriptor.agent_id,
            tool=event.tool,
            arguments=event.arguments,
            cwd=_text(event.arguments, "cwd") or descriptor.cwd,
            command=_text(event.arguments, "command") if event.tool == "Bash" else None,
            paths=_paths(event.arguments),
        )
        self._open[event.call_id] = request, self._session.manager.runtime.broker.mark()

    def ended(self, event: ToolCallFinished) -> None:
        """Tell how a call has ended; what comes after the agent's own end counts no more."""
        request, since = self._open.pop(event.call_id, (None, 0))
        if request is not None and not self._session.is_over:
            broker, host = self._session.manager.runtime.broker, self._session.host
            broker.ended(request, host.context(), _outcome(event), since)


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
