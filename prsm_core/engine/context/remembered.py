"""A conversation as the log has it, since it began, or was last compacted.

Rebuilding a conversation from the ledger, for a vendor that does not hold it.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import chain
from typing import TYPE_CHECKING, Any

from prsm_core.domain.record import Record
from prsm_core.domain.turns import AgentMessage
from prsm_core.engine.context.layers import Conversation
from prsm_core.engine.context.summary import stands_for
from prsm_core.engine.journal.views import conversation
from prsm_core.kit.quotation import encode_data, quote, quote_word

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from prsm_core.domain.events import Event


class Remembered(Record, frozen=True):
    """What an agent said, heard and called, as messages; and the turn that each is of.

    Before its newest compaction there is the head only: the summary, and the prompt that the agent
    was at.
    """

    conversation: Conversation
    turns: tuple[str, ...]  # of `conversation.messages`; blank where it is not known
    summary: str | None = None  # the newest one
    prompt: str | None = None  # the newest that the agent was given

    @property
    def messages(self) -> tuple[AgentMessage, ...]:
        """All messages since the newest compaction."""
        return self.conversation.messages


def remember(
    events: Sequence[Event], new_id: Callable[[], str], without: Collection[str] = ()
) -> Remembered:
    """Return what the events of one agent tell of its conversation, oldest first.

    Prompts `without` which it is wanted are left out by their ids: they are told otherwise.

    It begins with the agent, or with a life that was to know nothing of those before.

    A compaction says how many messages before it were kept as they are (`kept`): it does not name
    them, so that a copy of a session, whose events and turns have other names, reads the same.
    """
    events = _since_it_began(events)
    left_out = _undone(events).union(e.seq for e in events if e.data.get("id") in without)
    entries = [
        entry
        for entry in conversation(events, numbered=True)
        if not entry.get("again") and entry["seq"] not in left_out
    ]
    newest = next((e for e in reversed(events) if is_compaction(e)), None)
    told: Mapping[str, Any] = {} if newest is None else newest.data
    if newest is not None:
        entries = entries[_first_kept(entries, newest.seq or 0, told["kept"]) :]
    prompts = [entry["text"] for entry in entries if entry["kind"] == "user_message"]
    prompt = told.get("prompt")
    messages = [entry for entry in entries if entry["kind"] in MESSAGES]
    at_ms = 0 if newest is None else int(newest.ts * 1000)
    head = () if newest is None else stands_for(told["summary"], prompt, new_id, at_ms)
    return Remembered(
        Conversation(head, rebuilt_history(entries, new_id)),
        tuple(_turns(events, messages)),
        told.get("summary"),
        prompts[-1] if prompts else prompt,
    )


def _since_it_began(events: Sequence[Event]) -> Sequence[Event]:
    begins = (n for n in range(len(events) - 1, -1, -1) if events[n].type == "conversation_begun")
    return events[next(begins, 0) :]


def _undone(events: Sequence[Event]) -> set[int | None]:
    """Return the numbers of the events of calls that count as never made."""
    undone, calls = set[int | None](), dict[str, list[int | None]]()
    for event in events:
        if event.type == "tool_call_started":
            calls[event.data["call"]] = [event.seq]
        elif event.type == "tool_call_finished":
            calls.setdefault(event.data["call"], []).append(event.seq)
        elif event.type == "receives_undone":
            named = event.data.get("calls") or ()
            undone.update(seq for call in named for seq in calls.get(call, ()))
    return undone


def is_compaction(event: Event) -> bool:
    """Return whether an event says that a conversation was compacted."""
    return event.type == "compaction_finished" and event.data.get("error") is None


def _first_kept(entries: Sequence[Mapping[str, Any]], seq: int, kept: int) -> int:
    """Return the index of the first of the `kept` messages before the event `seq`."""
    before = [
        index
        for index, entry in enumerate(entries)
        if entry["seq"] < seq and entry["kind"] in MESSAGES
    ]
    after = (index for index, entry in enumerate(entries) if entry["seq"] >= seq)
    if kept and before:
        return before[-min(kept, len(before))]
    return next(chain(after, (len(entries),)))


def _turns(events: Sequence[Event], messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the turn that each message is of: the newest one that had begun."""
    begun = [(event.seq or 0, event.data["turn"]) for event in events if _begins_turn(event)]
    numbers = [seq for seq, _ in begun]
    places = [bisect_right(numbers, message["seq"]) - 1 for message in messages]
    return [begun[place][1] if place >= 0 else "" for place in places]


def _begins_turn(event: Event) -> bool:
    return event.type == "turn_started"


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
