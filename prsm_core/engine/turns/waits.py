"""The wait for any message: of the parent, of a live child, or of a person."""

from __future__ import annotations

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
        targets=record.senders,
        ready=_at_once if timed else _News(record, router),
    )


class _News:
    """Asks for news of one agent; smaller than a function that knows it, and many agents wait."""

    __slots__ = ("_record", "_router")

    def __init__(self, record: AgentRecord, router: MessageRouter) -> None:
        self._record = record
        self._router = router

    def __call__(self) -> bool:
        return has_news(self._record, self._router)


def _at_once() -> bool:
    return True
