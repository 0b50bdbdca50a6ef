"""The text of a turn: what the conversation does not hold, then the message; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prsm_core.domain.turns import AgentMessage, AssembledContext

GO_ON = "Continue where the conversation stopped."


def turn_text(context: AssembledContext) -> str | None:
    """Return the prompt of a turn, or None when the conversation only goes on."""
    message = context.current_message.content if context.current_message else None
    if not context.history:
        return message
    return (
        "<conversation_so_far>\n"
        f"{_rendered(context.history)}\n"
        "</conversation_so_far>\n\n"
        f"{message or GO_ON}"
    )


def _rendered(history: Sequence[AgentMessage]) -> str:
    return "\n\n".join(f"[{message.role}]\n{message.content}" for message in history)
