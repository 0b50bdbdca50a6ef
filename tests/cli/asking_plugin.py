"""A provider whose agents ask whether they may run each line of their task, and say the answers."""

from __future__ import annotations

from contextlib import asynccontextmanager

from prsm_core import (
    Allow,
    AssistantMessage,
    PermissionRequest,
    Provider,
    ProviderSession,
    ProviderSpec,
    ProviderStatus,
    StopReason,
    TurnEnded,
    hookimpl,
)


class AskingSession(ProviderSession):
    def __init__(self, request, host):
        self.request = request
        self.host = host

    async def run_turn(self, context):
        for command in context.current_message.content.splitlines():
            request = PermissionRequest(
                agent_id=self.request.agent_id,
                tool="Bash",
                arguments={"command": command},
                cwd=self.request.cwd,
                command=command,
            )
            may = isinstance(await self.host.authorize(request), Allow)
            yield AssistantMessage(f"{command}: {'runs' if may else 'refused'}")
        yield TurnEnded(StopReason.END_TURN)


class AskingProvider(Provider):
    def __init__(self, settings, services):
        """Take no settings."""

    async def probe(self):
        return ProviderStatus(available=True)

    @asynccontextmanager
    async def open_session(self, request, host):
        yield AskingSession(request, host)


@hookimpl
def prsm_providers():
    yield ProviderSpec(name="asking", summary="Asks for commands.", factory=AskingProvider)
