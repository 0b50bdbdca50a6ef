"""The wait for any message: of the parent, of a live child, or of a person."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from prsm_core.domain.agents import AgentState
from prsm_core.engine.state import Wait

if TYPE_CHECKING:
    from prsm_core.engine.state import AgentRecord
    from prsm_core.messaging.router import MessageRouter


def has_news(record: AgentRecord, router: MessageRouter) -> bool:
    """Whether a wait for any message would end now."""
    return router.has_unread(record.agent_id, record.is_prompted_by) or record.waits_in_vain()


def any_message(record: AgentRecord, router: MessageRouter, *, timed: bool = False) -> Wait:
    """Return the wait for any message; one that is `timed` ends by itself."""
    return Wait(
        state=AgentState.WAITING_FOR_CHILD,
        on="a message",
        targets=lambda: record.senders,
        ready=_at_once if timed else partial(has_news, record, router),
    )


def _at_once() -> bool:
    return True
