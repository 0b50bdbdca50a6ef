"""The provider with the real Codex, the model server it talks to, and what the model was told."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prsm_codex.config import CodexConfig
from prsm_codex.hooks import denial
from prsm_codex.provider import CodexProvider, build
from prsm_testing.doubles import LocalServices, RecordingHost, open_services, session_request
from prsm_testing.model_server import ModelServer

from prsm_core.kit.hook_gate import HookGate

if TYPE_CHECKING:
    from pathlib import Path


KEY = "secret-loopback-key"
TRICKY = [
    "printf '%s\\n' \"it's\" $'a\\tb' \\\\ ü | cat",
    "echo 1 &&\necho 2 # three",
    "cat <<'E'\n$HOME `x`\nE",
    "/bin/bash -lc 'echo nested'",
]
KILLS_ITS_SHELL = "import os, signal; os.kill(os.getppid(), signal.SIGKILL)"


@dataclass
class Live:
    """A provider with the real Codex."""

    provider: CodexProvider
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
        """The prompts in the last request, without what Codex adds itself."""
        return [t for t in self.last.conversation.user if not t.startswith("<environment_context>")]

    def tools(self):
        """The names of the tools that the last request offers."""
        return {tool.get("name") for tool in self.last.body["tools"]}


@asynccontextmanager
async def open_live(binary, scenario, state_dir, cwd, make=build, **settings):
    """Yield a provider whose Codex plays the scenario; LOOPBACK_KEY holds its key."""
    async with ModelServer(scenario) as server, open_services(state_dir) as services:
        given = {
            "command": [binary],
            "base_url": server.base_url,
            "api_key_env": "LOOPBACK_KEY",
            **settings,
        }
        live = Live(make(given, services), server, services, cwd)
        try:
            yield live
        finally:
            await live.provider.aclose()
    assert server.failures == []


def call(name, call_id=None, **arguments):
    """Return a tool call of a scenario."""
    return {"tool": name, "arguments": arguments, **({"id": call_id} if call_id else {})}


def gated(provider=CodexProvider, **options):
    """Return how to build a provider whose tool hook asks at another gate."""

    def make(settings, services):
        gate = HookGate(services.state_dir, services, refusal=denial, **options)
        return provider(CodexConfig.from_settings(settings), services, gate=gate)

    return make
