"""Lanes: an agent's steps, one after the other where one may have to be written in pieces."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

Lane: TypeAlias = asyncio.Future[None]


class Lanes:
    """Owns the order of an agent's steps while one is written that may have to be taken apart.

    Steps of an agent are handed to the store in the order in which they were made, and written so.
    One that carries others is written again, in pieces, when the ledger refuses it as a whole;
    what its agent does meanwhile must come after all of them. A place in the line is taken at
    once, before anything waits.
    """

    def __init__(self) -> None:
        self._last: dict[str | None, Lane] = {}

    @property
    def taken(self) -> Iterable[str | None]:
        """The agents of which something must be written before all else of them."""
        return self._last.keys()

    def is_taken(self, agent_id: str | None) -> bool:
        """Whether something of this agent must be written before all else of it."""
        return agent_id in self._last

    def enter(self, agent_id: str | None) -> tuple[Lane | None, Lane]:
        """Take the next place; return what must be over first, and what `leave` ends."""
        before = self._last.get(agent_id)
        own = self._last[agent_id] = asyncio.get_running_loop().create_future()
        return before, own

    def leave(self, agent_id: str | None, own: Lane) -> None:
        """Let the next one in."""
        own.set_result(None)
        if self._last[agent_id] is own:
            del self._last[agent_id]
