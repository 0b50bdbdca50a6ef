"""What an agent may wait for: a message, or something else."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, TypeAlias

from prsm_core.domain.agents import AgentState
from prsm_core.domain.messages import MessageType
from prsm_core.domain.record import Record
from prsm_core.messaging.waits import WaitFor

if TYPE_CHECKING:
    from collections.abc import Callable

    from prsm_core.domain.messages import RoutedMessage
    from prsm_core.engine.state import AgentRecord
    from prsm_core.messaging.router import MessageRouter


class AnyMessage(Record, frozen=True, eq=False):
    """A wait that a message ends, kept small because many agents wait so."""

    state: ClassVar[AgentState] = AgentState.WAITING_FOR_CHILD
    on: ClassVar[str] = "a message"

    _record: AgentRecord
    _router: MessageRouter
    _is_timed: bool = False  # it ends by itself

    def targets(self) -> tuple[str, ...]:
        """Return who can end it."""
        return self._record.senders()

    def ready(self) -> bool:
        """Whether something ends it now, or is certain to."""
        news = self._router.has_unread(self._record.agent_id, self.fits)
        return self._is_timed or news or self.is_vain()

    def fits(self, message: RoutedMessage) -> bool:
        """Whether a message ends it."""
        return self._record.is_prompted_by(message)

    def is_vain(self) -> bool:
        """Whether it ends without one: a question is shown again, or no message can come."""
        record = self._record
        is_alone = record.descriptor.parent_id is None and not record.live_children
        return bool(record.notes.reminders) or is_alone


class AllResults(AnyMessage, frozen=True, eq=False):
    """The wait for all children's results; anything to act on ends it earlier."""

    on: ClassVar[str] = "all results"

    def fits(self, message: RoutedMessage) -> bool:
        """Whether a message ends it: any but a result."""
        return message.type is not MessageType.TASK_RESULT and self._record.is_prompted_by(message)

    def is_vain(self) -> bool:
        """Whether no child is left, or a question is shown again."""
        return bool(self._record.notes.reminders) or not self._record.live_children


class WaitOf(Record, frozen=True, kw_only=True, eq=False):
    """A wait made of functions."""

    state: AgentState
    on: str
    targets: Callable[[], tuple[str, ...]]
    ready: Callable[[], bool]


class MessageWaitOf(WaitOf, frozen=True, kw_only=True, eq=False):
    """A wait made of functions that a message ends."""

    fits: Callable[[RoutedMessage], bool]
    is_vain: Callable[[], bool]


MessageWait: TypeAlias = AnyMessage | MessageWaitOf
Wait: TypeAlias = AnyMessage | WaitOf


def edge_of(wait: Wait) -> WaitFor:
    """Return a wait as an edge of the wait graph."""
    return WaitFor(wait.targets(), key=wait)
