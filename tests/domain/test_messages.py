"""Messages between agents have the specified kinds."""

from __future__ import annotations

from prsm_core.domain.messages import MessageType, RoutedMessage


def test_there_are_the_specified_kinds_of_message():
    assert {kind.name for kind in MessageType} == {
        "QUESTION",
        "ANSWER",
        "PROGRESS_UPDATE",
        "TASK_RESULT",
        "EXPERT_REQUEST",
        "EXPERT_RESPONSE",
        "SPAWN_REQUEST",
        "KILL_SIGNAL",
        "USER_PROMPT",
        "PEER",
    }


def test_a_message_of_a_person_has_no_source_and_addresses_the_first_incarnation():
    message = RoutedMessage(
        message_id="m", type=MessageType.USER_PROMPT, source=None, target="master"
    )
    assert (message.incarnation, message.correlation_id, dict(message.payload)) == (1, None, {})
