"""A provider whose model does what the task lists: `say hello; spawn hang; hang`.

The task of a child is written with & in place of ; and a check asks about every Read. `send` is
`spawn` that waits for the child and says what it said.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

from prsm_core import (
    Allow,
    Ask,
    AssistantMessage,
    PermissionCheckSpec,
    PermissionRequest,
    Provider,
    ProviderSession,
    ProviderSpec,
    ProviderStatus,
    Question,
    StopReason,
    TextDelta,
    TokenUsage,
    TurnEnded,
    UsageReported,
    hookimpl,
)


class PuppetSession(ProviderSession):
    def __init__(self, request, host):
        self.request = request
        self.host = host
        self.stopped = asyncio.Event()

    async def interrupt(self):
        self.stopped.set()

    async def run_turn(self, context):
        for act in context.current_message.content.split(";"):
            verb, _, rest = act.strip().partition(" ")
            if verb == "begin":
                yield TextDelta(rest)
            elif verb == "hang":
                await self.stopped.wait()
                self.stopped.clear()
                yield TurnEnded(StopReason.ABORTED)
                return
            elif verb == "use":
                yield UsageReported(TokenUsage(total_tokens=int(rest)), cost_usd=0.5)
            elif (said := await self.act(verb, rest)) is not None:
                yield AssistantMessage(said)
        yield TurnEnded(StopReason.END_TURN)

    async def act(self, verb, rest):
        """Do one thing; return what the agent says of it."""
        match verb:
            case "say":
                return rest
            case "read":
                return "allowed" if await self.may_read() else "denied"
            case "run":
                return "allowed" if await self.may_run(rest) else "denied"
            case "choose":
                answer = await self.host.ask_user(Question(text=rest, options=("red", "blue")))
                return f"chose {answer.choices} {answer.text}"
            case "spawn":
                await self.host.call_tool("spawn_child", {"prompt": rest.replace("&", ";")})
            case "send":  # a child, and say what it said
                child = {"prompt": rest.replace(" & ", "; "), "wait": True}
                done = await self.host.call_tool("spawn_child", child)
                return done.data["result"]["summary"]
            case "finish":
                finished = {"summary": "done", "artifacts": rest.split()}
                await self.host.call_tool("task_complete", finished)
        return None

    async def may_run(self, command):
        request = PermissionRequest(
            agent_id=self.request.agent_id, tool="Bash", command=command, cwd=self.request.cwd
        )
        return isinstance(await self.host.authorize(request), Allow)

    async def may_read(self):
        request = PermissionRequest(
            agent_id=self.request.agent_id,
            tool="Read",
            arguments={"file_path": "secret.txt"},
            cwd=self.request.cwd,
            paths=("secret.txt",),
        )
        return isinstance(await self.host.authorize(request), Allow)


class PuppetProvider(Provider):
    def __init__(self, settings, services):
        pass

    async def probe(self):
        return ProviderStatus(available=True)

    @asynccontextmanager
    async def open_session(self, request, host):
        yield PuppetSession(request, host)


async def ask_about_reads(request, context):
    return Ask("every read is asked about") if request.tool == "Read" else None


@hookimpl
def prsm_providers():
    yield ProviderSpec(name="puppet", summary="Does what it is told.", factory=PuppetProvider)


@hookimpl
def prsm_permission_checks():
    yield PermissionCheckSpec(name="reads", summary="", priority=1, check=ask_about_reads)
