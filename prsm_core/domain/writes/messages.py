"""Messages between agents: sent once, consumed once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import asdict

from prsm_core.domain.messages import MessageType
from prsm_core.domain.rows import Insert, Update, refusing
from prsm_core.domain.steps import Write
from prsm_core.errors import MessageRoutingError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from prsm_core.domain.messages import RoutedMessage
    from prsm_core.domain.rows import Ledger, Row, Values
    from prsm_core.domain.steps import Step, Telling

_TO_ENDED = frozenset({MessageType.TASK_RESULT, MessageType.KILL_SIGNAL})


class MessageSent(Write, frozen=True, kw_only=True):
    """A message in its target's inbox."""

    texts = ("message",)
    is_of_run = True

    message: RoutedMessage

    def guard(self, step: Step, ledger: Ledger) -> None:
        message = self.message
        target = ledger.agent(message.target)
        if target is None:
            raise MessageRoutingError(
                f"there is no agent {message.target} in session {step.session_id}",
                code="unknown_agent",
            )
        if target.state.is_terminal and message.type not in _TO_ENDED:
            raise MessageRoutingError(
                f"agent {message.target} has ended ({target.state})",
                hint="restart it to send it a new prompt",
                code="agent_ended",
            )
        if message.incarnation != target.incarnation:
            raise MessageRoutingError(
                f"message {message.message_id} is for incarnation {message.incarnation} of agent"
                f" {message.target}, which is at {target.incarnation}",
                code="stale",
            )

    def rows(self, step: Step) -> Iterable[Row]:
        row = asdict(self.message) | {"type": str(self.message.type)}
        return (Insert("inbox", {"session_id": step.session_id, **row}),)

    def events(self, step: Step) -> Iterable[Telling]:
        message = self.message
        data = {
            "mid": message.message_id,
            "kind": str(message.type),
            "from": message.source,
            "to": message.target,
            "correlation_id": message.correlation_id,
        }
        return step.telling("message_routed", data, message.source)


class MessagesConsumed(Write, frozen=True, kw_only=True):
    """Messages that the agent has read."""

    messages: tuple[str, ...]

    def rows(self, step: Step) -> Iterable[Row]:
        return consumed(step, self.messages, step.step_id)


def consumed(step: Step, message_ids: Sequence[str], by: str) -> list[Row]:
    """Return messages to this life of the step's agent as used by a turn, a call or a step."""
    unread = {"target": step.agent_id, "incarnation": step.incarnation, "consumed_by": None}
    problem = f"is no unconsumed message of agent {step.agent_id}"
    return [
        _marked(one, unread, {"consumed_by": by}, problem, "not_consumable") for one in message_ids
    ]


def unread(step: Step, message_ids: Sequence[str], by: str) -> list[Row]:
    """Return messages that a call of the step's agent has used as unread by its present life."""
    used = {"target": step.agent_id, "consumed_by": by}
    anew = {"consumed_by": None, "incarnation": step.incarnation}
    problem = f"was not consumed by call {by} of agent {step.agent_id}"
    return [_marked(one, used, anew, problem, "not_consumed") for one in message_ids]


def _marked(message_id: str, where: Values, values: Values, problem: str, code: str) -> Update:
    refusal = refusing(f"message {message_id} {problem}", code)
    return Update("inbox", {"message_id": message_id, **where}, values, refusal)
