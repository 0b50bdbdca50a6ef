"""Playback for tests: which step of a scenario answers a request, whatever its wire format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prsm_demo.script.playback import Conversation, Player, Reply, pieces

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Conversation", "Player", "Reply", "pieces", "strings"]


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
