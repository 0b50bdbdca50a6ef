"""What a tool call is about, in one line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from prsm_core.kit import escape_exact, first_line
from prsm_tui.model.blocks import Call
from prsm_tui.model.spoken import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

_TELLING = (
    *("command", "file_path", "path", "pattern", "query", "url"),
    *("question", "response", "status", "summary", "name", "prompt"),
)
_LONGEST = 400  # characters of a subject: it is cut to the screen where it is drawn


def call_of(seq: int | None, at: float, told: Mapping[str, Any]) -> Call:
    """Return a call that begins, by an event or by an entry of a history."""
    arguments = told.get("arguments")
    arguments = arguments if isinstance(arguments, dict) else {}
    return Call(
        seq=seq,
        at=at,
        call=str(told.get("call")),
        tool=escape_exact(str(told.get("tool") or "")),
        subject=subject_of(arguments),
        arguments=_as_text(arguments),
    )


def subject_of(arguments: Mapping[str, Any]) -> str:
    """Return the argument that says best what a call is about; blank for none."""
    texts = {key: value for key, value in arguments.items() if isinstance(value, str) and value}
    telling = [texts[key] for key in _TELLING if key in texts] or list(texts.values())
    return first_line(telling[0], _LONGEST) if telling else ""


def child_of(result: str) -> str | None:
    """Return the agent that a result of `spawn_child` names."""
    try:
        told = json.loads(result)
    except ValueError:
        return None
    agent = told.get("agent_id") if isinstance(told, dict) else None
    return agent if isinstance(agent, str) else None


def _as_text(arguments: Mapping[str, Any]) -> str:
    """Return all arguments, each below its name; texts as they are."""
    parts = [
        f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for name, value in arguments.items()
    ]
    return shown("\n".join(parts))
