"""Decides whether a model names the session, and when that is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable

    from prsm_core.config import Settings
    from prsm_core.domain.writes import SessionNamed
    from prsm_core.engine.agents.naming import Naming
    from prsm_core.engine.agents.opening import ContextParts
    from prsm_core.engine.providers.model_choice import ModelChoice
    from prsm_core.engine.state import AgentRecord
    from prsm_core.kit.background import Background


class SessionNames:
    """Owns the one question about a session's name."""

    def __init__(
        self, settings: Settings, background: Background, of: Callable[[], ContextParts]
    ) -> None:
        self._settings, self._background, self._of = settings.sessions, background, of
        self._naming: tuple[Naming, asyncio.Task[None]] | None = None

    def begin(
        self,
        master: AgentRecord,
        own: ModelChoice,
        write: Callable[[SessionNamed], Awaitable[None]],
        *,
        is_first: bool,
    ) -> None:
        """Have a model name the session, if this is its first run and the settings want it.

        So it is asked once, whatever becomes of the engine; a resume does not ask again.
        """
        if self._settings.auto_name != "model" or not is_first:
            return
        from prsm_core.engine.agents.naming import Naming  # few sessions

        naming = Naming(master, own, self._of(), write)
        task = self._background.start(naming.run(), name="naming the session")
        self._naming = naming, task

    def leave(self) -> None:
        """Let the name be: the run ends, and does not wait."""
        if self._naming is not None:
            naming, task = self._naming
            naming.leave()
            task.cancel()
