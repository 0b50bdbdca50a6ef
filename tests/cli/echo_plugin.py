"""A provider whose model does what the task says, and a check that asks about every Read."""

from __future__ import annotations

import asyncio
import sys
from contextlib import asynccontextmanager
from pathlib import Path

from prsm_core import (
    AgentError,
    Allow,
    Ask,
    AssistantMessage,
    ErrorKind,
    Frontend,
    FrontendSpec,
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

STUBBORN = """
import signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
with open(sys.argv[1], "w") as pipe:
    print("begun", file=pipe, flush=True)
    while True:
        signal.pause()
"""


class EchoSession(ProviderSession):
    def __init__(self, request, host, services):
        self.request = request
        self.host = host
        self.services = services

    async def run_turn(self, context):
        task = context.current_message.content
        yield TextDelta("echo")
        if "crash" in task:
            raise RuntimeError("the model exploded")
        if "hang" in task:
            yield AssistantMessage("hanging")
            await asyncio.Event().wait()
        if "withstand" in task:
            await self.withstand(task.split()[-1])
        if "ask" in task and not await self.is_allowed():
            error = AgentError(kind=ErrorKind.UNKNOWN, message="not allowed")
            yield TurnEnded(StopReason.ERROR, error)
            return
        if "choose" in task:
            answer = await self.host.ask_user(Question(text="Which?", options=("red", "blue")))
            task = f"chose {answer.choices}"
        yield AssistantMessage(f"echo: {task}")
        yield UsageReported(TokenUsage(input_tokens=3, output_tokens=2))
        yield TurnEnded(StopReason.END_TURN)

    async def withstand(self, pipe):
        """Start a program that ignores TERM and holds `pipe`; do not end when told to."""
        argv = [sys.executable, "-c", STUBBORN, pipe]
        await self.services.start_process(argv, name="stubborn")
        # Who is told to end while the program starts would never say so: it is waited for this.
        Path(pipe).open("w").write("it waits\n")  # noqa: ASYNC230, SIM115 - a test reads
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                Path(pipe).open("w").write("told to end\n")  # noqa: ASYNC230, SIM115 - a test reads

    async def is_allowed(self):
        request = PermissionRequest(
            agent_id=self.request.agent_id,
            tool="Read",
            arguments={"file_path": "secret.txt"},
            cwd=self.request.cwd,
            paths=("secret.txt",),
        )
        return isinstance(await self.host.authorize(request), Allow)


class EchoProvider(Provider):
    def __init__(self, settings, services):
        self.settings = settings
        self.services = services

    async def probe(self):
        for model in self.settings.get("models", ()):
            if model.startswith("/"):  # a pipe to tell that the probe does not end
                Path(model).open("w").write("probing\n")  # noqa: ASYNC230, SIM115 - a test reads
                await asyncio.Event().wait()
        if "broken" in self.settings.get("models", ()):
            return ProviderStatus(available=False, reason="not logged in", hint="log in")
        return ProviderStatus(available=True, version="1.0", tested="1.x", gaps=("the network",))

    @asynccontextmanager
    async def open_session(self, request, host):
        yield EchoSession(request, host, self.services)


async def ask_about_reads(request, context):
    return Ask("every read is asked about") if request.tool == "Read" else None


@hookimpl
def prsm_providers():
    yield ProviderSpec(name="echo", summary="Repeats the task.", factory=EchoProvider)


@hookimpl
def prsm_permission_checks():
    yield PermissionCheckSpec(name="reads", summary="", priority=1, check=ask_about_reads)


class PlainFrontend(Frontend):
    def __init__(self, settings):
        self.settings = settings

    async def run(self, app):
        run = await app.runs.start(app.options.task)
        result = await run.result()
        print(f"plain: {result.summary} {self.settings}")  # noqa: T201 - what a frontend is for
        return 42


class IdleFrontend(Frontend):
    """Starts nothing."""

    def __init__(self, settings):
        """Take no settings."""

    async def run(self, app):
        return 0


@hookimpl
def prsm_frontends():
    yield FrontendSpec(
        name="plain", summary="", interactive=False, priority=0, factory=PlainFrontend
    )
    yield FrontendSpec(name="idle", summary="", interactive=False, priority=0, factory=IdleFrontend)
