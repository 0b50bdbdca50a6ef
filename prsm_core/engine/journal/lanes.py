"""Lanes: an agent's steps, one after the other where one may have to be written in pieces."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class Place:
    """A place in a line. What waits for it is made once somebody does: mostly nobody does."""

    __slots__ = ("_is_left", "_next", "agent_id", "before")

    def __init__(self, agent_id: str | None, before: Place | None) -> None:
        self.agent_id = agent_id  # whose line it is in
        self.before = before  # the place that is left first; None if there is none
        self._is_left = False
        self._next: asyncio.Future[None] | None = None  # what the one behind it waits for

    def leave(self) -> None:
        """Let the next one in."""
        self._is_left = True
        self.before = None
        if self._next is not None:
            self._next.set_result(None)

    async def over(self) -> None:
        """Return once it was left; one alone, who comes next, may wait for that."""
        if not self._is_left:
            self._next = asyncio.get_running_loop().create_future()
            await self._next


class Lanes:
    """Owns the order of an agent's steps while one is written that may have to be taken apart.

    Steps of an agent are handed to the store in the order in which they were made, and written so.
    One that carries others is written again, in pieces, when the ledger refuses it as a whole;
    what its agent does meanwhile must come after all of them. A place in the line is taken at
    once, before anything waits.
    """

    def __init__(self) -> None:
        self._last: dict[str | None, Place] = {}

    @property
    def taken(self) -> Iterable[str | None]:
        """The agents of which something must be written before all else of them."""
        return self._last.keys()

    def is_taken(self, agent_id: str | None) -> bool:
        """Whether something of this agent must be written before all else of it."""
        return agent_id in self._last

    def enter(self, agent_id: str | None) -> Place:
        """Take the next place in an agent's line."""
        place = self._last[agent_id] = Place(agent_id, self._last.get(agent_id))
        return place

    def leave(self, place: Place) -> None:
        """Let the next one in."""
        place.leave()
        if self._last[place.agent_id] is place:
            del self._last[place.agent_id]
