"""Stops an agent that runs the same command over and over."""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b

LIMIT = 3
MEMORY = 10_000  # different commands remembered per agent; the oldest is forgotten


class BashRepeatGuard:
    """Counts identical commands per agent, whatever tool runs them and whatever became of them."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._counts: dict[str, OrderedDict[bytes, int]] = {}

    def is_repeated(self, agent_id: str, command: str) -> bool:
        """Count the command; return whether the agent has now asked for it too often."""
        counts = self._counts.setdefault(agent_id, OrderedDict())
        key = blake2b(command.strip().encode("utf-8", "surrogatepass"), digest_size=16).digest()
        counts[key] = counts.get(key, 0) + 1
        counts.move_to_end(key)
        if len(counts) > MEMORY:
            counts.popitem(last=False)
        return counts[key] > self._limit

    def forget(self, agent_id: str) -> None:
        """Forget an agent that has ended."""
        self._counts.pop(agent_id, None)
