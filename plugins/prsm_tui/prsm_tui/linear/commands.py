"""What may be typed behind a slash in the linear mode."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_tui.commands import COMMANDS, Command

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_OWN: Mapping[str, Command] = {
    "help": Command("/help", "these commands"),
    "agents": Command("/agents", "all agents, each with its number, its state and what it used"),
    "open": Command("/open AGENT", "select an agent, by number or name; `session`: what is none's"),
    "needs": Command("/needs [NUMBER]", "go to what waits for you, the oldest first; answer there"),
    "back": Command("/back", "leave what waits open, and go on typing to the agent"),
    "show": Command("/show NUMBER", "all of a tool call, or of a thought"),
    "history": Command("/history", "what the selected agent said before"),
    "deliver": Command("/deliver HOW", "how prompts are delivered: inject, queue or interrupt"),
}
PAGES = ("budget", "models", "providers", "policy", "settings")  # which are told as lines
_SHARED = ("kill", "restart", "stop", *PAGES, "mode", "fork", "quit")
LINEAR: Mapping[str, Command] = {**_OWN, **{name: COMMANDS[name] for name in _SHARED}}


def help_lines() -> Sequence[str]:
    """Return the commands as lines."""
    return [f"help: {command.usage}: {command.does}" for command in LINEAR.values()]
