"""One headless turn: one process of Gemini CLI, what it says, and what its hooks ask."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from prsm_core import (
    AgentError,
    Allow,
    ErrorKind,
    LineTooLongError,
    Notice,
    ProcessError,
    ProviderEvent,
    ProviderNotAvailableError,
    StopReason,
    TurnEnded,
)
from prsm_core.kit import deadline, proxy_missing, readable_tail, wait_for_exit
from prsm_gemini.errors import NOISE, answered, ended, failed
from prsm_gemini.events import Translator
from prsm_gemini.tools import COMPLETE, permission_request

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from prsm_core import (
        AgentHost,
        McpEndpoint,
        Process,
        ProviderServices,
        SessionRequest,
    )

Json = Mapping[str, Any]

START_SECONDS = 60.0  # until it tells of its session; it takes two where nothing is wrong
CONNECT_SECONDS = 60.0  # until its proxy has connected
STOP_GRACE = 1.0
_YES = json.dumps({"decision": "allow"})


class HeadlessTurn:
    """Runs one process to its end; answers its hooks."""

    def __init__(
        self,
        request: SessionRequest,
        host: AgentHost,
        services: ProviderServices,
        endpoint: McpEndpoint | None,
    ) -> None:
        self._request = request
        self._host = host
        self._services = services
        self._endpoint = endpoint
        self._translator = Translator(host.is_orchestration, request.mcp_servers)
        self._process: Process | None = None
        self._allowed: Counter[str] = Counter()
        self._may_begin = False  # the hooks run, and the tools are there
        self._broken: Exception | AgentError | None = None
        self._stopping = asyncio.Event()

    async def run(self, process: Process, prompt: str) -> AsyncGenerator[ProviderEvent, None]:
        """Give it the prompt and yield what comes of it; the last event is the TurnEnded.

        Raises ProviderNotAvailableError when it cannot use PRSM's tools or hooks.
        """
        self._process = process
        if self._stopping.is_set():
            process.kill()
        feeder = self._services.start_soon(self._feed, process, prompt, name="gemini prompt")
        timer = self._services.clock.call_later(START_SECONDS, self._not_begun)
        try:
            async with aclosing(self._events(process)) as events:
                async for event in events:
                    yield event
            code = await self._exit_code(process)
        finally:
            timer.cancel()
            feeder.cancel()
            process.kill()
        for event in self._translator.finish():
            yield event
        for event in self._translator.failed_servers(process.stderr_tail):
            yield event
        yield self._end(code, process.stderr_tail)

    async def stop(self) -> None:
        """End the process; `run` then ends as aborted."""
        self._stopping.set()
        if self._process is not None:
            await self._process.stop(STOP_GRACE)

    async def _feed(self, process: Process, prompt: str) -> None:
        try:
            await process.write(prompt.encode(errors="replace"))
        except ProcessError:
            return  # it has ended, which tells why
        process.close_stdin()

    def _not_begun(self) -> None:
        if not self._translator.begun:
            self._break(
                AgentError(
                    kind=ErrorKind.TIMEOUT,
                    message=f"gemini did not begin within {START_SECONDS:.0f} seconds",
                    retryable=True,
                )
            )

    async def _events(self, process: Process) -> AsyncGenerator[ProviderEvent, None]:
        try:
            async for line in process.lines():
                for event in self._translator.feed(line):
                    self._check(event)
                    yield event
                if self._translator.result is not None or self._broken is not None:
                    return
        except LineTooLongError as error:
            self._break(AgentError(kind=ErrorKind.UNKNOWN, message=error.message))

    async def _exit_code(self, process: Process) -> int | None:
        """Return the exit code; None of a process that had to be ended."""
        code = await wait_for_exit(process, self._services)
        if code is None:
            await process.wait()
        return code

    def _check(self, event: ProviderEvent) -> None:
        """Stop what runs unasked: Gemini takes a hook that cannot be run for a yes."""
        if isinstance(event, Notice):
            return
        if not self._may_begin:
            self._break(
                ProviderNotAvailableError(
                    "gemini does not run its hooks, so nobody would be asked before a tool runs",
                    hint="Look for `hooksConfig` in the system settings of Gemini CLI, or use "
                    "the backend acp.",
                )
            )
        elif unasked := self._translator.ran - self._allowed:
            names = ", ".join(sorted(unasked))
            message = f"gemini ran {names} without asking; it was stopped"
            self._break(AgentError(kind=ErrorKind.UNKNOWN, message=message))

    def _break(self, why: Exception | AgentError) -> None:
        if self._broken is None:
            self._broken = why
        if self._process is not None:
            self._process.kill()

    def _end(self, code: int | None, stderr: str) -> TurnEnded:
        if isinstance(self._broken, Exception):
            raise self._broken
        if self._broken is not None:
            return TurnEnded(StopReason.ERROR, self._broken)
        if self._translator.succeeded:
            return TurnEnded(StopReason.END_TURN)
        if self._stopping.is_set():
            return TurnEnded(StopReason.ABORTED)
        if self._translator.result is None and self._translator.error is None:
            return TurnEnded(StopReason.ERROR, ended(code, stderr))
        reason = self._translator.failure or readable_tail(stderr, NOISE)
        if (stopped := answered(reason)) is not None:
            return TurnEnded(stopped)
        return TurnEnded(StopReason.ERROR, failed(reason, code, stderr))

    async def on_hook(self, event: Json) -> str:
        """Answer an event of a hook; see HookGate."""
        name = event.get("hook_event_name")
        if name == "BeforeAgent":
            return await self._begin()
        if name == "BeforeTool":
            return await self._before_tool(event)
        if name == "AfterTool" and event.get("tool_name") == COMPLETE:
            return _after_complete(event)
        return refusal(f"PRSM does not know the event {name}")

    async def _begin(self) -> str:
        """Let the turn begin once PRSM's tools are connected."""
        if self._endpoint is not None:
            try:
                async with deadline(self._services, CONNECT_SECONDS):
                    await self._endpoint.until_connected()
            except TimeoutError:
                missing = proxy_missing("gemini", CONNECT_SECONDS)
                self._break(missing)
                return refusal(missing.message)
        self._may_begin = True
        return _YES

    async def _before_tool(self, event: Json) -> str:
        name, arguments = str(event.get("tool_name", "")), event.get("tool_input")
        context = event.get("mcp_context")
        request = permission_request(
            self._request.agent_id,
            name,
            arguments if isinstance(arguments, Mapping) else {},
            self._request.cwd,
            context if isinstance(context, Mapping) else {},
        )
        verdict = await self._host.authorize(request)
        if not isinstance(verdict, Allow):
            return refusal(verdict.reason)
        self._allowed[name] += 1
        return _YES


def _after_complete(event: Json) -> str:
    """End the turn after an accepted task_complete; its answer stays in the conversation."""
    response = event.get("tool_response")
    told = response if isinstance(response, Mapping) else {}
    if told.get("error"):
        return _YES
    return json.dumps({"continue": False, "stopReason": str(told.get("returnDisplay") or "done")})


def refusal(reason: str) -> str:
    """Return the answer of a hook that refuses."""
    return json.dumps({"decision": "deny", "reason": reason})
