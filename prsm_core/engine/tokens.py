"""Count tokens, and fit conversations into a model's window.

Vendors have tokenizers that nobody else has. So PRSM counts by one rule that errs on the safe side:
three bytes of UTF-8 are a token. English and code have about four, Chinese and Japanese three, only
dense data fewer. If a vendor reports how full its window is, that counts instead.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from msgspec.structs import replace

from prsm_core.domain.record import Record
from prsm_core.domain.tools import encode_data
from prsm_core.domain.turns import AgentMessage
from prsm_core.kit.quotation import quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from prsm_core.domain.tools import ToolSpec


BYTES_PER_TOKEN = 3
IMAGE_TOKENS = 1600  # of a large one, which vendors scale down to so much
MESSAGE_TOKENS = 8  # what stands around a message: its role, the ends of its lines


def count_tokens(text: str) -> int:
    """Return a text's tokens: a third of its bytes in UTF-8, rounded up."""
    if text.isascii():
        return -(-len(text) // BYTES_PER_TOKEN)
    return -(-len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN)


def message_tokens(message: AgentMessage) -> int:
    """Return the tokens of a message in a rebuilt conversation, where it is quoted."""
    return MESSAGE_TOKENS + count_tokens(quote(message.content))


def history_tokens(messages: Iterable[AgentMessage]) -> int:
    """Return the tokens of a rebuilt conversation."""
    return sum(map(message_tokens, messages))


def tool_tokens(tools: Iterable[ToolSpec]) -> int:
    """Return the tokens of tools' descriptions."""
    told = ((tool.name, tool.description, tool.input_schema) for tool in tools)
    return sum(count_tokens(encode_data(one)) for one in told)


class Room(Record, frozen=True):
    """A model's window in tokens, and how many of them PRSM fills; the rest is for the answer."""

    window: int
    fill: int

    @classmethod
    def of(cls, window: int, share: float, response: int | None = None) -> Room:
        """Return the room of a window to fill by `share`, leaving space for a set `response`."""
        fill = int(window * share)
        if response is not None:
            fill = min(fill, window - response)
        return cls(window, max(1, fill))


CUT = " … [the rest is left out: it does not fit]"
_LEFT_OUT = "[{count} messages stood here; they are left out, since they do not fit.]"


class Conversation(Record, frozen=True):
    """A head that stands for what was compacted, and all messages since."""

    head: tuple[AgentMessage, ...] = ()
    messages: tuple[AgentMessage, ...] = ()

    @property
    def all(self) -> tuple[AgentMessage, ...]:
        """The whole conversation, in order."""
        return (*self.head, *self.messages)


class Fitted(Record, frozen=True):
    """What of a conversation fits, and how many messages are left out or cut."""

    messages: tuple[AgentMessage, ...]
    left_out: int = 0
    is_cut: bool = False  # a message of the head is there in part


def fit(conversation: Conversation, room: int) -> Fitted:
    """Return what fits into `room` tokens: everything, or the head and the newest messages.

    Messages are left out whole; only the last message of a head that does not fit may be cut.
    Without room for even a mark the result is empty.
    """
    whole = conversation.all
    if not whole or history_tokens(whole) <= room:
        return Fitted(whole)
    mark = _mark(whole, len(whole))
    rest = room - message_tokens(mark)
    if rest < 0:
        return Fitted((), len(whole))
    head, is_cut = _fit_head(conversation.head, rest)
    kept = newest(conversation.messages, rest - history_tokens(head))
    left_out = len(whole) - len(head) - len(kept)
    if not left_out:
        return Fitted((*head, *kept), 0, is_cut)
    return Fitted((*head, _mark(whole, left_out), *kept), left_out, is_cut)


def newest(messages: Sequence[AgentMessage], room: int) -> tuple[AgentMessage, ...]:
    """Return the newest messages in a row that fit together, in order."""
    first = len(messages)
    while first and (size := message_tokens(messages[first - 1])) <= room:
        first, room = first - 1, room - size
    return tuple(messages[first:])


def clipped(message: AgentMessage, room: int) -> AgentMessage | None:
    """Return a message, cut if it does not fit into `room` tokens; None if nothing would fit."""
    if message_tokens(message) <= room:
        return message

    def cut(length: int) -> AgentMessage:
        return replace(message, content=message.content[:length] + CUT)

    lengths = range(1, min(len(message.content), max(0, room) * BYTES_PER_TOKEN) + 1)
    kept = bisect_right(lengths, room, key=lambda length: message_tokens(cut(length)))
    return cut(kept) if kept else None


def _fit_head(head: Sequence[AgentMessage], room: int) -> tuple[tuple[AgentMessage, ...], bool]:
    kept: list[AgentMessage] = []
    for message in head:
        part = clipped(message, room)
        if part is not message:
            return ((*kept, part), True) if part is not None else (tuple(kept), False)
        kept.append(message)
        room -= message_tokens(message)
    return tuple(kept), False


def _mark(messages: Sequence[AgentMessage], count: int) -> AgentMessage:
    first = messages[0]
    return AgentMessage(
        id=f"{first.id}:left_out",
        role="system",
        content=_LEFT_OUT.format(count=count),
        sequence=0,
        created_at=first.created_at,
    )
