"""Scenarios for tests, and which step of one answers a request, whatever its wire format.

The format of scenarios is documented in prsm_demo.script.scenario.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prsm_demo.script.playback import Conversation, Player, Reply, pieces
from prsm_demo.script.scenario import Scenario
from prsm_demo.script.steps import Call, HttpError, Lane, Step, StreamError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "Call",
    "Conversation",
    "HttpError",
    "Lane",
    "Player",
    "Reply",
    "Scenario",
    "Step",
    "StreamError",
    "pieces",
    "strings",
]


def strings(value: Any) -> Iterator[str]:
    """Yield every text inside JSON values."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)
