"""The one reader of a session: it keeps the model, and says when something has changed.

Deltas are taken as they come, which costs microseconds; how often that is drawn is the screen's.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, cast

from prsm_core import PrsmError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from prsm_core import AppHandle, Event
    from prsm_tui.model.session import Session

SPENT_SECONDS = 2.0  # between two looks at what was used, while something is
NAME_SECONDS = 3.0  # between two looks at what the session is called
BEAT_SECONDS = 1.0  # between two signs that a person is there
_OFTEN = 20  # looks at it, in which a model has its minute; then they are as many times as rare
_BURST = 200  # events after which others get their turn


class Pump:
    """Owns the reading of one session."""

    def __init__(self, app: AppHandle, session: Session, changed: Callable[[], None]) -> None:
        self._app = app
        self._session = session
        self._changed = changed
        self.why_over: str | None = None  # nothing more will come

    async def follow(self) -> None:
        """Keep the model until the session is closed, or its owner has gone; then say so."""
        self._session.note("error", f"nothing more comes: {await self.read()}", 0.0)
        self._changed()

    async def read(self) -> str:
        """Keep the model until the session is closed, or its owner has gone; return which."""
        events = cast("AsyncGenerator[Event, None]", self._app.events(after=self._session.seq))
        try:
            async with aclosing(events):
                burst = 0
                async for event in events:
                    self._session.apply(event)
                    self._changed()
                    burst += 1
                    if burst % _BURST == 0:
                        await asyncio.sleep(0)
            self.why_over = "the session was closed"
        except PrsmError as error:
            self.why_over = said(error)
        return self.why_over

    async def keep_spent(self) -> None:
        """Ask what was used, while turns run or one has ended; what nobody tells stays unknown."""
        while self.why_over is None:
            run = self._session.run
            if self._session.is_spent_old or (run is not None and run.is_open):
                try:
                    self._session.take_tree(await self._app.agents.tree())
                except PrsmError:
                    return  # its owner has gone: the reader of events says so
                self._changed()
            await asyncio.sleep(SPENT_SECONDS)

    async def keep_name(self) -> None:
        """Ask what the session is called, again while a run is open: a model may name it then."""
        asked_of, asked = "", 0
        while self.why_over is None:
            run = self._session.run
            state = "" if run is None else f"{run.id} {run.status}"
            if state != asked_of or (run is not None and run.is_open):
                asked_of, asked = state, 0 if state != asked_of else asked + 1
                try:
                    is_new = self._session.take_name(await self._app.sessions.list())
                except PrsmError:
                    return  # its owner has gone: the reader of events says so
                if is_new:
                    self._changed()
            await asyncio.sleep(NAME_SECONDS if asked < _OFTEN else _OFTEN * NAME_SECONDS)

    async def attend(self) -> None:
        """Say that a person is there, for as long as one is."""
        while self.why_over is None:
            try:
                await self._app.requests.attend()
            except PrsmError:
                return  # its owner has gone: the reader of events says so
            await asyncio.sleep(BEAT_SECONDS)


def said(error: Exception) -> str:
    """Return an error in words, with what to do about it."""
    message = getattr(error, "message", None) or str(error) or type(error).__name__
    hint = getattr(error, "hint", None)
    return f"{message}; {hint}" if hint else message
