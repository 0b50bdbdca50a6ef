"""The text of a turn: what the conversation does not hold, then the message; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core import quote_conversation

if TYPE_CHECKING:
    from prsm_core import AssembledContext

GO_ON = "Continue where the conversation stopped."


def turn_text(context: AssembledContext) -> str | None:
    """Return the prompt of a turn, or None when the conversation only goes on."""
    message = context.current_message.content if context.current_message else None
    if not context.history:
        return message
    told = quote_conversation((m.role, m.content) for m in context.history)
    return f"{told}\n\n{message or GO_ON}"
