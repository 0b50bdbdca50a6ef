"""The ACP backend: one process and one private home per agent. Gemini asks before it acts."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec import structs
from prsm_acp import AcpConfig, AcpProvider, Launch, McpPlace, find_manifest

from prsm_gemini import home as homes
from prsm_gemini.home import DEFAULT_MODEL, Home

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from prsm_acp import Manifest

    from prsm_core import McpEndpoint, ProviderServices, SessionRequest
    from prsm_gemini.config import GeminiConfig


class GeminiAcp(AcpProvider):
    """`gemini --acp`, whose own files say what an agent has and when to ask."""

    def __init__(self, config: GeminiConfig, services: ProviderServices) -> None:
        self._gemini = config
        self._own_tools: dict[str, tuple[str, ...]] = {}  # PRSM's, by the agent that opens
        command = (*config.command, "--acp")
        acp = AcpConfig(section="gemini", command=command, models=config.models)
        super().__init__(acp, manifest(), services)
        self.capabilities = structs.replace(
            self.capabilities, parameters=homes.PARAMETERS, skills=homes.SKILLS
        )

    @contextmanager
    def knowing(self, agent_id: str, own_tools: Iterable[str]) -> Iterator[None]:
        """Remember the names of an agent's PRSM tools for `launch`."""
        self._own_tools[agent_id] = tuple(own_tools)
        try:
            yield
        finally:
            self._own_tools.pop(agent_id, None)

    def launch(
        self, request: SessionRequest | None, home: Path, endpoint: McpEndpoint | None
    ) -> Launch:
        """Prepare the home and return how a process is started; see AcpProvider."""
        config, place = self._gemini, Home(home)
        homes.make_ready(place, homes.login_folder(config, os.environ))
        model = request.model if request is not None else DEFAULT_MODEL
        own = self._own_tools.get(request.agent_id, ()) if request is not None else ()
        files = homes.files(config, os.environ, place, request, endpoint, own)
        return Launch(
            argv=(*homes.argv(config, model, place), "--acp"),
            cwd=request.cwd if request is not None else str(home),
            env=self.environment() | homes.private_env(place, self.services.environment),
            files={**files, place.temp / ".keep": ""},  # the folder must be there
        )

    def environment(self) -> dict[str, str]:
        """Return the variables that every process gets; see AcpProvider."""
        return homes.env(self._gemini, os.environ)


def manifest() -> Manifest:
    """Return Gemini's manifest, as its private files change it."""
    known = find_manifest("gemini")
    # The limit on calls does not apply to a server of the settings file.
    quirks = replace(known.quirks, cuts_calls_s=None)
    return replace(known, mcp=McpPlace.LAUNCH, quirks=quirks)
