"""The text of a turn: what the thread does not hold, then the message. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.kit import quote_conversation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prsm_core import AssembledContext

# The thread lacks its answer and says "the user interrupted the previous turn on purpose".
COMPLETED_NOTE = "Your task_complete was accepted, and nothing was interrupted. Its answer: "
_GO_ON = "Continue where the conversation stopped."

Said = tuple[str, str]  # role and content of a message


def turn_text(context: AssembledContext, said: Sequence[Said] = ()) -> str | None:
    """Return the prompt of a turn, or None if the thread only goes on.

    `said` are the messages of the session that no thread holds.
    """
    message = prompt_of(context)
    earlier = [*((m.role, m.content) for m in context.history), *said]
    if not earlier:
        return message
    return f"{quote_conversation(earlier)}\n\n{message or _GO_ON}"


def prompt_of(context: AssembledContext) -> str | None:
    """Return the message that a turn begins with."""
    return context.current_message.content if context.current_message else None
