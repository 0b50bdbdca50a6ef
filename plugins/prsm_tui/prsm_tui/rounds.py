"""The one reader of the list of sessions: it looks again and again, as long as the list is shown.

What waits in a session waits longer while a person is there: each that asks is told so.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from prsm_core import PrsmError
from prsm_tui.pump import said

if TYPE_CHECKING:
    from collections.abc import Callable

    from prsm_core import Hub
    from prsm_tui.model.sessions import Sessions

LOOK_SECONDS = 2.0  # between two looks while the list is shown
SELDOM_SECONDS = 10.0  # while a session is
PEEKED = 12  # entries of a master's history


class Rounds:
    """Owns the reading of the list."""

    def __init__(
        self, hub: Hub, sessions: Sessions, changed: Callable[[], None], *, answers: bool
    ) -> None:
        self._hub, self._sessions, self._changed, self._answers = hub, sessions, changed, answers
        self._soon = asyncio.Event()
        self.is_shown = True
        self.problem = ""  # why the list could not be read

    def soon(self) -> None:
        """Look again at once."""
        self._soon.set()

    async def follow(self) -> None:
        """Keep the list, until cancelled."""
        while True:
            self._soon.clear()
            await self._look()
            self._changed()
            wait = LOOK_SECONDS if self.is_shown else SELDOM_SECONDS
            try:
                async with asyncio.timeout(wait):
                    await self._soon.wait()
            except TimeoutError:
                continue

    async def peek(self) -> None:
        """Look at the session that is chosen, if it has gone on."""
        chosen = self._sessions.wants_peek()
        if chosen is None:
            return
        try:
            entries = await self._hub.peek(chosen.id, limit=PEEKED)
        except PrsmError as error:  # it may have been deleted just now
            self.problem = said(error)
            entries = ()
        self._sessions.take_peek(chosen.id, chosen.last_seq, entries)

    async def _look(self) -> None:
        try:
            self._sessions.take(await self._hub.sessions())
            self.problem = ""
            await self.peek()
            if self._answers:
                await self._attend()
        except PrsmError as error:
            self.problem = said(error)

    async def _attend(self) -> None:
        """Say to each session that asks that a person is there."""
        for one in self._sessions.listed:
            if one.waits and one.is_owned:
                # Its owner may have gone meanwhile: the next look says so.
                with suppress(PrsmError):
                    async with self._hub.attach(one.id) as app:
                        await app.requests.attend()
