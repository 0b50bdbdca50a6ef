"""Messages between agents."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

from msgspec import field

from prsm_core.domain.record import Record

if TYPE_CHECKING:
    from collections.abc import Mapping


class MessageType(StrEnum):
    """What agents tell each other, and are told, each of it a fact of the ledger.

    Mailboxes have QUESTION, ANSWER, TASK_RESULT, USER_PROMPT and PEER, from an agent that need be
    neither parent nor child (ADR 117). The others have a fact of their own (ADR 94):
    PROGRESS_UPDATE is `progress_reported`, SPAWN_REQUEST the `agent_spawned` of a call,
    EXPERT_REQUEST that of an expert, whose TASK_RESULT is the EXPERT_RESPONSE, and KILL_SIGNAL the
    change of state to killed.
    """

    QUESTION = "question"
    ANSWER = "answer"
    PROGRESS_UPDATE = "progress_update"
    TASK_RESULT = "task_result"
    EXPERT_REQUEST = "expert_request"
    EXPERT_RESPONSE = "expert_response"
    SPAWN_REQUEST = "spawn_request"
    KILL_SIGNAL = "kill_signal"
    USER_PROMPT = "user_prompt"
    PEER = "peer"


class RoutedMessage(Record, frozen=True, gc=False, kw_only=True):
    """A message in transit; `incarnation` is the target's, an older one is refused.

    Payloads are JSON objects: QUESTION, ANSWER, USER_PROMPT and PEER hold `text`, TASK_RESULT holds
    an `AgentResult` as a dict.
    """

    message_id: str
    type: MessageType
    source: str | None  # None: a person
    target: str
    payload: Mapping[str, Any] = field(default_factory=dict)
    correlation_id: str | None = None
    incarnation: int = 1
    created_at: float = 0.0  # Unix seconds
