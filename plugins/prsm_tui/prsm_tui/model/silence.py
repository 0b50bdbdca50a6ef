"""Whether anything is heard of a run that is open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.kit import format_duration

if TYPE_CHECKING:
    from prsm_tui.model.session import Session

SILENCE_SECONDS = 30.0  # without any event


class Silence:
    """Knows since when a session is silent that should not be; what is too long is told once."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._heard = -1
        self._since = 0.0
        self.is_long = False  # and told

    def news(self, now: float) -> str:
        """Return what is to be told of a silence that has become too long; blank: nothing.

        No event is missed while no run is open, or while somebody is asked.
        """
        session, run = self._session, self._session.run
        if session.heard != self._heard or session.requests or run is None or not run.is_open:
            self._heard, self._since, self.is_long = session.heard, now, False
        silent = now - self._since
        if silent < SILENCE_SECONDS or self.is_long:
            return ""
        self.is_long = True
        return f"nothing was heard from the agents for {format_duration(silent)}"
