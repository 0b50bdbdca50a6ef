"""Rebuilding a conversation from the ledger, for a vendor that does not hold it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prsm_core.domain.turns import AgentMessage
from prsm_core.kit.quotation import encode_data, quote, quote_word

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

MESSAGES = frozenset({"user_message", "text", "tool_call"})  # the kinds of entries that become one
CALL_LIMIT = 1000  # characters of a call's arguments, and of its result, in a rebuilt history
_UNKNOWN = "no result is recorded: its effect is unknown"


def rebuilt_history(
    entries: Iterable[Mapping[str, Any]], new_id: Callable[[], str]
) -> tuple[AgentMessage, ...]:
    """Return a conversation, as `views.conversation` gives it, as messages for another model.

    What was called stands in the text with its outcome: a model that does not know of its
    children would spawn them again. Each entry of a kind in MESSAGES becomes one message.
    """
    return tuple(
        AgentMessage(
            id=new_id(), role=role, content=text, sequence=number, created_at=int(at * 1000)
        )
        for number, (role, text, at) in enumerate(_told(list(entries)), 1)
    )


def _told(entries: list[Mapping[str, Any]]) -> Iterator[tuple[str, str, float]]:
    results = {entry["call"]: entry for entry in entries if entry["kind"] == "tool_result"}
    for entry in entries:
        match entry["kind"]:
            case "user_message":
                yield "user", entry["text"], entry["at"]
            case "text":
                yield "assistant", entry["text"], entry["at"]
            case "tool_call":
                yield "assistant", _call(entry, results.get(entry["call"])), entry["at"]


def _call(call: Mapping[str, Any], result: Mapping[str, Any] | None) -> str:
    arguments = _cut(encode_data(call["arguments"]))
    outcome = _UNKNOWN if result is None else f"{result['status']}:\n{quote(_cut(result['text']))}"
    return f"[I called {quote_word(call['tool'])} with {arguments}; {outcome}]"


def _cut(text: str) -> str:
    return text if len(text) <= CALL_LIMIT else f"{text[:CALL_LIMIT]} …"
