"""A provider, the model server its CLI talks to, and what the model was told."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prsm_claude.provider import build
from prsm_testing.doubles import LocalServices, RecordingHost, open_services, session_request
from prsm_testing.model_server import ModelServer

if TYPE_CHECKING:
    from pathlib import Path

    from prsm_claude.provider import ClaudeProvider

KEY = "secret-loopback-key"


@dataclass
class Played:
    """A provider whose CLI plays a scenario."""

    provider: ClaudeProvider
    server: ModelServer
    services: LocalServices
    cwd: Path

    def session(self, host=None, **changes):
        return self.provider.open_session(
            session_request(self.cwd, **changes), host or RecordingHost()
        )

    @property
    def last(self):
        return self.server.requests[-1]

    def outputs(self, call):
        """What the last request holds as outputs of a scripted call."""
        found = self.last.conversation.outputs
        return [text for call_id, _, text in found if call_id.startswith(f"call_{call}__")]

    def prompts(self):
        """The prompts in the last request, without what the CLI adds itself."""
        said = self.last.conversation.user
        return [text.strip() for text in said if not text.startswith("<system-reminder>")]

    def tools(self):
        """The names of the tools that the last request offers."""
        return {tool.get("name") for tool in self.last.body.get("tools", ())}


@asynccontextmanager
async def open_stage(command, scenario, folder, **settings):
    """Yield a provider whose CLI plays the scenario; LOOPBACK_KEY holds its key."""
    cwd, home = folder / "work", folder / "home"
    for path in (cwd, home):
        path.mkdir(exist_ok=True)
    async with ModelServer(scenario) as server, open_services(folder / "state") as services:
        given = {
            "command": command,
            "base_url": server.root_url,
            "api_key_env": "LOOPBACK_KEY",
            # The CLI sources the profile of the user's shell before every command.
            "env": {"HOME": str(home)},
            **settings,
        }
        stage = Played(build(given, services), server, services, cwd)
        try:
            yield stage
        finally:
            await stage.provider.aclose()
    assert server.failures == []


def call(name, call_id=None, **arguments):
    """Return a tool call of a scenario."""
    return {"tool": name, "arguments": arguments, **({"id": call_id} if call_id else {})}
