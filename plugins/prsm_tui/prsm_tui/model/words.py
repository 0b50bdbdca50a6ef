"""States, amounts and times in a few characters; no meaning is in a sign or a colour alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core import Provenance
from prsm_core.kit import format_duration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_core import Spent
    from prsm_tui.model.agents import Agent

STATES: Mapping[str, tuple[str, str]] = {  # a sign and a word
    "pending": (".", "waits for a slot"),
    "starting": (".", "starts"),
    "running": (">", "works"),
    "waiting_for_parent": ("<", "asks its parent"),
    "waiting_for_child": ("=", "waits"),
    "waiting_for_expert": ("=", "waits"),
    "completed": ("x", "done"),
    "failed": ("!", "failed"),
    "killed": ("-", "killed"),
    "interrupted": ("/", "interrupted"),
}


def state_of(agent: Agent, *, asks: bool) -> tuple[str, str]:
    """Return a sign and a word for what an agent does; `asks`: a person is asked."""
    if asks and agent.is_live:
        return "?", "needs you"
    return STATES.get(agent.state, ("·", agent.state))


def amount(number: int) -> str:
    """Return a count of tokens in at most five characters: `980`, `1.2k`, `34k`, `1.2M`."""
    if number < 1000:
        return str(number)
    for size, letter in ((1_000, "k"), (1_000_000, "M"), (1_000_000_000, "G")):
        if number < size * 1000:
            short = f"{number / size:.1f}" if number < size * 10 else f"{number // size}"
            return short + letter
    return f"{number // 1_000_000_000}G"


def tokens(spent: Spent) -> str:
    """Return what was used: `~` before what is estimated, `+?` behind what lacks turns, `?`."""
    known = spent.usage.known_total
    if known is None:
        return "?"
    mark = "~" if spent.tokens_from is Provenance.ESTIMATED else ""
    return f"{mark}{amount(known)}{'+?' if spent.turns_without_tokens else ''}"


def cost(spent: Spent) -> str:
    """Return what it cost, with the marks of `tokens`."""
    if spent.cost_usd is None:
        return "?"
    mark = "~" if spent.cost_from is Provenance.ESTIMATED else ""
    dollars = spent.cost_usd
    text = f"${dollars:.2f}" if dollars >= 1 or dollars == 0 else f"${dollars:.3f}"
    return f"{mark}{text}{'+?' if spent.turns_without_cost else ''}"


def window(agent: Agent) -> str:
    """Return how full the model's window is: `34%`, or the tokens where its size is not told."""
    told = agent.context or {}
    used, size = told.get("used"), told.get("window")
    if not isinstance(used, int):
        return "?"
    return f"{used / size:.0%}" if isinstance(size, int) and size else amount(used)


def age(seconds: float) -> str:
    """Return how long ago something was, in a word: `now`, `5m`, `3h`, `12d`."""
    for size, letter in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{int(seconds // size)}{letter}"
    return "now"


def since(seconds: float | None) -> str:
    """Return a time: `32s`, `?` for none."""
    return "?" if seconds is None else format_duration(seconds)
