"""Summaries: which part of a conversation is summarised, how, and what stands for it afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.domain.record import Record
from prsm_core.domain.turns import AgentMessage
from prsm_core.engine.context.layers import clipped, newest
from prsm_core.engine.context.tokens import count_tokens, history_tokens, message_tokens
from prsm_core.kit.quotation import RULE, quote, quote_conversation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

SYSTEM_PROMPT = f"""\
You summarise the conversation of a coding agent. The agent goes on with your summary instead of \
the conversation, so it must hold all that is still of use: the task and every wish and \
decision, word for word where words matter; what was done, with the names of files, commands and \
agents; what was found out; what is open, and what comes next. Leave out what no longer matters. \
You have no tools. Answer with the summary alone.
{RULE}"""
MAX_TOKENS = 4000  # of a summary
_SHARE = 8  # it is an eighth of the room at most
_WORDS_PER_TOKEN = 0.5
_BEFORE = "Your summary of what came before:"
_ASK = "Summarise this conversation, in {words} words at most."
_STANDS_FOR = "A summary stands here for the conversation so far:"
_CURRENT = "The prompt that you are working on is kept as it was; much of it may be done:"


class Split(Record, frozen=True):
    """The messages that a summary is to stand for, and the newest ones, which stay."""

    older: tuple[AgentMessage, ...]
    kept: tuple[AgentMessage, ...]


def split(messages: Sequence[AgentMessage], room: int) -> Split:
    """Return the newest messages that fit into `room` tokens, and all before them.

    Where all fit none is kept: it is the rest of the context that is too much, and something has
    to go.
    """
    kept = newest(messages, room)
    older = tuple(messages[: len(messages) - len(kept)])
    return Split(older, kept) if older else Split(kept, ())


def summary_tokens(room: int) -> int:
    """Return how long a summary may be in a context that has so much room."""
    return max(1, min(MAX_TOKENS, room // _SHARE))


def parts(messages: Sequence[AgentMessage], room: int) -> Iterator[tuple[AgentMessage, ...]]:
    """Yield the messages in order, as many at a time as one request can hold.

    `room` is the summariser's, in tokens. What does not fit alone is cut.
    """
    left = room - count_tokens(SYSTEM_PROMPT) - count_tokens(_ask(room)) - 2 * summary_tokens(room)
    part: list[AgentMessage] = []
    for message in messages:
        fitting = clipped(message, left)
        if fitting is None:
            continue  # not even a word of it
        if part and history_tokens(part) + message_tokens(fitting) > left:
            yield tuple(part)
            part = []
        part.append(fitting)
    if part:
        yield tuple(part)


def request_text(before: str | None, part: Sequence[AgentMessage], room: int) -> str:
    """Return what the summariser is asked: a part of the conversation, and what it has so far."""
    told = quote_conversation((message.role, message.content) for message in part)
    texts = [told, _ask(room)]
    return "\n\n".join(texts if before is None else [f"{_BEFORE}\n{quote(before)}", *texts])


def _ask(room: int) -> str:
    return _ASK.format(words=max(50, int(summary_tokens(room) * _WORDS_PER_TOKEN)))


def stands_for(
    summary: str, prompt: str | None, new_id: Callable[[], str], at_ms: int
) -> tuple[AgentMessage, ...]:
    """Return the messages that a conversation begins with once it was compacted."""
    texts = [] if prompt is None else [f"{_CURRENT}\n{prompt}"]
    texts.append(f"{_STANDS_FOR}\n{summary}")
    return tuple(
        AgentMessage(id=new_id(), role="system", content=text, sequence=n, created_at=at_ms)
        for n, text in enumerate(texts, 1)
    )
