"""The wait for any message: of the parent, of a live child, or of a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from prsm_core.domain.agents import AgentState
from prsm_core.domain.record import Record

if TYPE_CHECKING:
    from prsm_core.domain.messages import RoutedMessage
    from prsm_core.engine.state import AgentRecord
    from prsm_core.messaging.router import MessageRouter


def has_news(record: AgentRecord, router: MessageRouter) -> bool:
    """Whether a wait for any message would end now."""
    return router.has_unread(record.agent_id, record.is_prompted_by) or record.waits_in_vain()


def any_message(record: AgentRecord, router: MessageRouter, *, timed: bool = False) -> AnyMessage:
    """Return the wait for any message; one that is `timed` ends by itself."""
    return AnyMessage(record, router, timed)


class AnyMessage(Record, frozen=True, eq=False):
    """A MessageWait; smaller than one that is made of functions, and many agents wait like this."""

    state: ClassVar[AgentState] = AgentState.WAITING_FOR_CHILD
    on: ClassVar[str] = "a message"

    _record: AgentRecord
    _router: MessageRouter
    _is_timed: bool

    def targets(self) -> tuple[str, ...]:
        """Return who can end it."""
        return self._record.senders()

    def ready(self) -> bool:
        """Whether something ends it now, or will in any case."""
        return self._is_timed or has_news(self._record, self._router)

    def fits(self, message: RoutedMessage) -> bool:
        """Whether a message ends it."""
        return self._record.is_prompted_by(message)

    def is_vain(self) -> bool:
        """Whether it is over without one."""
        return self._record.waits_in_vain()
