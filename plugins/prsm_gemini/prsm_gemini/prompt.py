"""The text of a headless turn: what the session does not hold, then the message; pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prsm_core import quote_conversation

if TYPE_CHECKING:
    from prsm_core import AssembledContext

GO_ON = "Continue where the conversation stopped."
# Gemini puts the file that is called so, or most like it, into the prompt.
_MENTION = re.compile(r"(?<!\\)@(?=[^\s,;!?()\[\]{}])")
# What begins so is a command, or nothing that Gemini reads back when it resumes.
_NO_PROMPT = ("/", "?", "<session_context>", "<hook_context>")
_FIRST = "The message:"
_ESCAPED = "(In this message \\@ stands for @ alone.)"


def turn_text(context: AssembledContext, lost: str | None) -> str:
    """Return the prompt of a turn.

    Args:
        context: The turn.
        lost: The text of an earlier turn that the session does not hold, because it failed.
    """
    message = context.current_message.content if context.current_message else None
    parts = [lost] if lost and lost != message else []
    if context.history:
        parts.append(quote_conversation((m.role, m.content) for m in context.history))
    if message or not lost:
        parts.append(message or GO_ON)
    return "\n\n".join(parts)


def escaped(text: str) -> str:
    """Return a text in which Gemini sees no command and no file to read."""
    plain = _MENTION.sub(r"\\@", text)
    if plain != text:
        plain = f"{plain}\n\n{_ESCAPED}"
    return f"{_FIRST}\n{plain}" if plain.lstrip().startswith(_NO_PROMPT) else plain
