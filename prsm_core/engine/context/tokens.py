"""Tokens: how many a text counts as, and how many of a model's window PRSM fills.

Vendors count with tokenizers of their own, which nobody else has. So what PRSM counts itself goes
by one rule that errs on the safe side: three bytes of UTF-8 are a token. English and code have
about four, Chinese and Japanese three, and only dense data has less. Where a vendor has told how
full its window is, that counts instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.domain.record import Record
from prsm_core.kit.quotation import encode_data, quote

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prsm_core.domain.tools import ToolSpec
    from prsm_core.domain.turns import AgentMessage

BYTES_PER_TOKEN = 3
IMAGE_TOKENS = 1600  # of a large one, which vendors scale down to so much
MESSAGE_TOKENS = 8  # what stands around a message: its role, the ends of its lines


def count_tokens(text: str) -> int:
    """Return how many tokens a text counts as: a third of its bytes in UTF-8, rounded up."""
    if text.isascii():
        return -(-len(text) // BYTES_PER_TOKEN)
    return -(-len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN)


def message_tokens(message: AgentMessage) -> int:
    """Return how many tokens a message of a rebuilt conversation counts as: it is quoted there."""
    return MESSAGE_TOKENS + count_tokens(quote(message.content))


def history_tokens(messages: Iterable[AgentMessage]) -> int:
    """Return how many tokens a rebuilt conversation counts as."""
    return sum(map(message_tokens, messages))


def tool_tokens(tools: Iterable[ToolSpec]) -> int:
    """Return how many tokens the descriptions of tools count as."""
    told = ((tool.name, tool.description, tool.input_schema) for tool in tools)
    return sum(count_tokens(encode_data(one)) for one in told)


class Room(Record, frozen=True):
    """A model's window in tokens, and how many of them PRSM fills; the rest is for its answer."""

    window: int
    fill: int

    @classmethod
    def of(cls, window: int, share: float, response: int | None = None) -> Room:
        """Return the room of a window of which a share may be filled.

        `response` is how long an answer may be, where that is set: at least as much stays free,
        but never all.
        """
        fill = int(window * share)
        if response is not None:
            fill = min(fill, window - response)
        return cls(window, max(1, fill))
