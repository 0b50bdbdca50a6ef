"""The `script` provider: agents whose every word and deed stands in a scenario.

It plays on the real engine, for demonstrations and for tests of what an agent might do. A run
uses it only when it is named: no script stands in for a model unasked.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prsm_core import (
    ConfigError,
    Provider,
    ProviderCapabilities,
    ProviderNotAvailableError,
    ProviderStatus,
)
from prsm_demo.script.place import Shelf
from prsm_demo.script.playback import Player
from prsm_demo.script.reading import SCRIPT_KEYS, check_keys
from prsm_demo.script.scenario import Scenario
from prsm_demo.script.session import ScriptSession

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from prsm_core import AgentHost, ProviderServices, SessionRequest

DEMO = "builtin:demo"
_LEVELS = ("call", "native", "rebuild")
_BUNDLED = {DEMO: Path(__file__).parent / "scenario.yaml"}


def build(settings: Mapping[str, Any], services: ProviderServices) -> ScriptProvider:
    """Build the provider from its section.

    `scenario` is a file, `builtin:demo`, or a mapping; `resume` is how an agent goes on after the
    engine's death: call, native or rebuild.
    """
    check_keys(settings, ("scenario", "resume"), "providers.script")
    resume = settings.get("resume", _LEVELS[0])
    if resume not in _LEVELS:
        raise ConfigError(
            f"providers.script.resume: {resume!r} is no level", hint=f"One of {', '.join(_LEVELS)}."
        )
    load = partial(open_player, settings.get("scenario"))
    return ScriptProvider(load, services, resume=resume)


def open_player(source: object) -> Player:
    """Return a player at the beginning of a scenario; raise ConfigError where there is none."""
    if source is None:
        raise ConfigError(
            "no scenario is set",
            hint=f"name one in providers.script.scenario, as {DEMO} is, or try: prsm demo",
        )
    if isinstance(source, dict):
        return Player(Scenario.from_mapping(source, keys=SCRIPT_KEYS))
    name = str(source)
    if name.startswith("builtin:") and name not in _BUNDLED:
        raise ConfigError(f"there is no scenario {name}", hint=f"bundled: {', '.join(_BUNDLED)}")
    path = _BUNDLED.get(name) or Path(name).expanduser()
    return Player(Scenario.load(path, keys=SCRIPT_KEYS))


class ScriptProvider(Provider):
    """Plays one scenario; its place in it outlives the process, at the levels call and native."""

    def __init__(
        self, load: Callable[[], Player], services: ProviderServices, *, resume: str = "call"
    ) -> None:
        self._load = load
        self._services = services
        self._player: Player | None = None
        self._sessions: set[ScriptSession] = set()
        self._shelf = None
        if resume != "rebuild":
            self._shelf = Shelf(services.state_dir / "threads", services.redact)
        self.capabilities = ProviderCapabilities(
            enforcement="approval",
            resume=resume,
            shell_reads=True,
            tokens_told="step",
            images=True,
        )

    @asynccontextmanager
    async def open_session(
        self, request: SessionRequest, host: AgentHost
    ) -> AsyncIterator[ScriptSession]:
        """Open an agent's session; see Provider."""
        try:
            player = self._opened()
        except ConfigError as error:
            raise ProviderNotAvailableError(
                f"script: {error.message}", hint=error.hint or "Mend the scenario."
            ) from error
        shelf, takes_answers = self._shelf, self.capabilities.resume == "call"
        if shelf is not None and request.resume_token is not None:
            player.join(shelf.join(request.resume_token))
        session = ScriptSession(
            request, host, player, self._services, shelf=shelf, takes_answers=takes_answers
        )
        self._sessions.add(session)
        try:
            yield session
        finally:
            self._sessions.discard(session)
            await session.close()

    async def probe(self) -> ProviderStatus:
        """Look whether the scenario can be played; see Provider."""
        try:
            self._opened()
        except ConfigError as error:
            hint = error.hint or "Mend the scenario."
            return ProviderStatus(available=False, reason=error.message, hint=hint)
        return ProviderStatus(available=True)

    async def aclose(self) -> None:
        """End the turns that still run; see Provider."""
        for session in tuple(self._sessions):
            await session.close()

    def _opened(self) -> Player:
        if self._player is None:
            self._player = self._load()
        return self._player
