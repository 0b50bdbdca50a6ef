"""One headless turn: one process of Gemini CLI, what its hooks ask, and how it failed."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Mapping
from contextlib import aclosing, suppress
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
from prsm_core.kit import (
    Exit,
    as_object,
    first_of,
    one_line,
    proxy_missing,
    read_pause,
    readable_tail,
)
from prsm_gemini.events import Translator
from prsm_gemini.tools import COMPLETE, permission_request

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from prsm_core import AgentHost, McpEndpoint, Process, ProviderServices, SessionRequest

Json = Mapping[str, Any]

START_SECONDS = 60.0  # until it announces its session, which usually takes two
CONNECT_SECONDS = 60.0  # until its proxy has connected
STOP_GRACE = 1.0
_YES = json.dumps({"decision": "allow"})

# Gemini exits with the HTTP status, of which the system keeps eight bits.
_STATUSES = (400, 401, 403, 404, 408, 429, 500, 502, 503, 504)
_BY_EXIT_CODE = {status & 0xFF: status for status in _STATUSES}
_EXITS = {
    41: (ErrorKind.AUTH_FAILURE, "gemini is not logged in"),
    42: (ErrorKind.UNKNOWN, "gemini refused the session"),
    53: (ErrorKind.UNKNOWN, "gemini reached its own limit of turns"),
    55: (ErrorKind.UNKNOWN, "gemini does not trust the folder"),
}
_API_ERROR = re.compile(r"\[API Error: (.*?)\](?:\n|$)", re.DOTALL)
_STATUS = re.compile(r"\b(?:status|code): (\d{3})\b")
_RETRY_MS = re.compile(r"\bretryDelayMs: (\d+(?:\.\d+)?)")
_OVERFLOW = ("exceeds the maximum number of tokens", "context window", "input token count")

# What Gemini says once it has asked again and got no usable answer.
_EMPTY = ("The model returned an empty ", "The model returned reasoning thoughts but no final ")
_CUT = "Model response was truncated because it exceeded the token limit"
NOISE = re.compile(
    r"^at \S|^\W*$|Ripgrep is not available|YOLO mode is enabled|256-color|True color|"
    r"^Error executing tool |Loaded cached credentials|MCP issues detected"
)


class HeadlessTurn:
    """Runs one process to its end and answers its hooks."""

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
        """Give the process the prompt and yield its events; raise ProviderNotAvailableError."""
        self._process = process
        if self._stopping.is_set():
            process.kill()
        feeder = self._services.start_soon(self._feed, process, prompt, name="gemini prompt")
        timer = self._services.clock.call_later(START_SECONDS, self._not_begun)
        try:
            async with aclosing(self._events(process)) as events:
                async for event in events:
                    yield event
            code = (await Exit.of(process, self._services)).code
            if code is None:  # it had to be ended
                await process.wait()
        finally:
            timer.cancel()
            feeder.cancel()
            process.kill()
        servers = self._translator.failed_servers(process.stderr_tail)
        for event in (*self._translator.finish(), *servers):
            yield event
        yield self._end(code, process.stderr_tail)

    async def stop(self) -> None:
        """End the process. `run` then ends as aborted."""
        self._stopping.set()
        if self._process is not None:
            await self._process.stop(STOP_GRACE)

    async def _feed(self, process: Process, prompt: str) -> None:
        with suppress(ProcessError):  # if it has ended, its end tells why
            await process.write(prompt.encode(errors="replace"))
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

    def _check(self, event: ProviderEvent) -> None:
        """Stop Gemini if it acts unasked: it takes a hook that cannot be run for a yes."""
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
        if self._endpoint is not None and not await first_of(
            self._services.clock, CONNECT_SECONDS, self._endpoint.until_connected
        ):
            missing = proxy_missing("gemini", CONNECT_SECONDS)
            self._break(missing)
            return refusal(missing.message)
        self._may_begin = True
        return _YES

    async def _before_tool(self, event: Json) -> str:
        name = str(event.get("tool_name", ""))
        request = permission_request(
            self._request.agent_id,
            name,
            as_object(event.get("tool_input")),
            self._request.cwd,
            as_object(event.get("mcp_context")),
        )
        verdict = await self._host.authorize(request)
        if not isinstance(verdict, Allow):
            return refusal(verdict.reason)
        self._allowed[name] += 1
        return _YES


def _after_complete(event: Json) -> str:
    """End the turn after an accepted task_complete. Its answer stays in the conversation."""
    response = as_object(event.get("tool_response"))
    if response.get("error"):
        return _YES
    reason = str(response.get("returnDisplay") or "done")
    return json.dumps({"continue": False, "stopReason": reason})


def refusal(reason: str) -> str:
    """Return the answer of a hook that refuses."""
    return json.dumps({"decision": "deny", "reason": reason})


def answered(message: str) -> StopReason | None:
    """Return how a turn ended that Gemini calls failed, if its answer was only empty or cut."""
    if message.startswith(_CUT):
        return StopReason.MAX_TOKENS
    return StopReason.END_TURN if message.startswith(_EMPTY) else None


def failed(message: str, code: int | None, stderr: str) -> AgentError:
    """Return the error of a turn from a result's or an error event's message."""
    match = _API_ERROR.search(message)
    text = match[1] if match else message
    body = _body(text)
    text = str(body.get("message") or text)
    is_of_api = bool(match or body)
    status = _status(body, code, stderr) if is_of_api else None
    kind, retryable = _kind(status, text, is_stream=not is_of_api)
    return AgentError(
        kind=kind,
        message=one_line(text),
        retryable=retryable,
        retry_after_s=_retry_after(text, stderr) if retryable else None,
    )


def ended(code: int | None, stderr: str) -> AgentError:
    """Return the error of a process that ended, or had to be ended, without a result."""
    kind, reason = _EXITS.get(code or 0, (ErrorKind.UNKNOWN, ""))
    what = reason or f"gemini ended without a result ({Exit(code)})"
    cause = readable_tail(stderr, NOISE).rpartition("\n")[2]
    message = f"{what}: {cause}" if cause else what
    return AgentError(kind=kind, message=message, retryable=Exit(code).was_killed and not reason)


def _body(text: str) -> Mapping[str, Any]:
    try:
        return as_object(as_object(json.loads(text)).get("error"))
    except (ValueError, RecursionError):
        return {}


def _status(body: Mapping[str, Any], code: int | None, stderr: str) -> int | None:
    if isinstance(body.get("code"), int):
        return int(body["code"])
    if code in _BY_EXIT_CODE:
        return _BY_EXIT_CODE[code]
    statuses = _STATUS.findall(stderr)
    return int(statuses[-1]) if statuses else None


def _kind(status: int | None, text: str, *, is_stream: bool) -> tuple[ErrorKind, bool]:
    if any(words in text for words in _OVERFLOW):
        return ErrorKind.CONTEXT_OVERFLOW, False
    if status in (401, 403):
        return ErrorKind.AUTH_FAILURE, False
    if status == 429:
        return ErrorKind.RATE_LIMIT, True
    if status is None:
        return ErrorKind.MODEL_ERROR, True if is_stream else "fetch failed" in text
    return ErrorKind.MODEL_ERROR, status >= 500 or status == 408


def _retry_after(text: str, stderr: str) -> float | None:
    if (pause := read_pause(text)) is not None:
        return pause
    pauses = _RETRY_MS.findall(stderr)
    return float(pauses[-1]) / 1000 if pauses else None
