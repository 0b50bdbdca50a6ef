"""A provider session whose turns are one `codex exec` each. Codex keeps nothing of it."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from prsm_codex import command, hooks
from prsm_codex.app_server import child_home, unstick, unwrapped
from prsm_codex.command import TOOL_SERVER
from prsm_codex.confined import Sandbox
from prsm_codex.errors import NOISE, agent_error, stop_reason
from prsm_codex.events import KEPT_COUNTS, counts_of, finished_call, tool_of
from prsm_codex.turn import CodexTurn, ToolDecider, prompt_of, turn_text
from prsm_core import (
    AgentError,
    AssistantMessage,
    ErrorKind,
    Notice,
    ProcessError,
    Provenance,
    ProviderEvent,
    PrsmError,
    StopReason,
    TokenUsage,
    ToolCallStarted,
    TurnEnded,
    UsageReported,
)
from prsm_core.kit import (
    Exit,
    TurnSession,
    as_object,
    first_of,
    one_line,
    proxy_missing,
    read_object,
    readable_tail,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from prsm_codex.config import CodexConfig, Features
    from prsm_codex.turn import Said
    from prsm_core import (
        AgentHost,
        AssembledContext,
        McpEndpoint,
        McpServer,
        Process,
        ProviderServices,
        SessionRequest,
    )
    from prsm_core.kit import HookGate

_STOP_GRACE = 1.0  # an ephemeral run keeps nothing that could be written half
_CONNECT_SECONDS = 10.0  # Codex has started the required server before it begins the turn
_GO_ON = "Begin."
_SERVERS_FAILED = "required MCP servers failed to initialize: "

Json = Mapping[str, Any]
# What `codex exec` calls items and fields that the app-server has, too.
_AS_APP_SERVER = {
    "command_execution": "commandExecution",
    "file_change": "fileChange",
    "web_search": "webSearch",
    "mcp_tool_call": "mcpToolCall",
    "aggregated_output": "aggregatedOutput",
    "exit_code": "exitCode",
}


class ExecSession(TurnSession[CodexTurn]):
    """One agent.

    Each turn repeats what was said before it. The outputs of earlier calls are lost, so the session
    is rebuilt after a turn that failed, and after task_complete.
    """

    def __init__(
        self,
        request: SessionRequest,
        host: AgentHost,
        config: CodexConfig,
        features: Features,
        services: ProviderServices,
        gate: HookGate,
        endpoint: McpEndpoint | None,
    ) -> None:
        super().__init__(request.name, services)
        self._request = request
        self._config = config
        self._features = features
        self._gate = gate
        self._endpoint = endpoint
        self._said: list[Said] = []
        self._process: Process | None = None
        self._translator = ExecTranslator()  # of the turn
        self._decider = ToolDecider(
            session=request,
            host=host,
            services=services,
            orchestration=frozenset(f"mcp__{command.TOOL_SERVER}__{t.name}" for t in host.tools),
            key=lambda _, wanted: allowed_key(wanted.tool, wanted.arguments),
            sandbox=Sandbox.of(request, config, services),
            setting="`backend: app-server` and `enforcement: approval` of the provider",
            escalated=lambda: None,
        )

    def new_turn(self) -> CodexTurn:
        """Return what keeps a turn; see TurnSession."""
        turn = CodexTurn()
        turn.begin("")  # all that the process does belongs to this turn
        turn.sent = True
        return turn

    def passed(self, event: ProviderEvent) -> None:
        """Keep what was said for the next turn."""
        if isinstance(event, AssistantMessage) and event.text:
            self._said.append(("assistant", event.text))

    def closed(self, turn: CodexTurn) -> None:
        """Let go of a turn; see TurnSession."""
        turn.close()

    async def on_hook(self, event: Mapping[str, Any]) -> str:
        """Decide about a call of the running turn."""
        return hooks.answer(await self._decider.decide(self.turn, {**event, "turn_id": None}))

    async def begin(self, turn: CodexTurn, context: AssembledContext) -> None:
        """Run the process of a turn; see TurnSession."""
        text = turn_text(context, self._said) or _GO_ON
        self._said += [(m.role, m.content) for m in context.history]
        self._said += [("user", prompt)] if (prompt := prompt_of(context)) else []
        translator = self._translator = ExecTranslator()
        if self._features.too_old:
            await turn.put([Notice("warning", self._features.too_old_text)])
        if self._features.untrusted:
            await turn.put([Notice("warning", self._features.untrusted_text)])
        home, env = child_home(self._config, self.services)
        if (notice := await unstick(home, self.services)) is not None:
            await turn.put([notice])
        error = await self._run(turn, translator, home, env, context, text)
        while lost := lost_servers(self._request.mcp_servers, error):
            # The model was not asked yet: Codex waits for its servers first.
            servers = self._request.mcp_servers
            others = {name: server for name, server in servers.items() if name not in lost}
            self._request = replace(self._request, mcp_servers=others)
            texts = (
                f"The MCP server {name} is not there: Codex could not start it" for name in lost
            )
            await turn.put([Notice("warning", one_line(text)) for text in texts])
            error = await self._run(turn, translator, home, env, context, text)
        await self._finish(turn, translator, error)

    async def _run(
        self,
        turn: CodexTurn,
        translator: ExecTranslator,
        home: Path,
        env: dict[str, str],
        context: AssembledContext,
        text: str,
    ) -> AgentError | None:
        with self._layer(home) as profile:
            argv = command.exec_argv(
                self._config,
                self._request,
                self._features,
                self._endpoint,
                self._variables(),
                profile,
                command.effort_of(context),
            )
            process = self._process = await self._start(home, env, argv)
            try:
                if turn.stopping:
                    process.kill()
                return await self._talk(turn, translator, process, text)
            finally:
                process.kill()
                self._gate.dismiss(self.on_hook)

    async def refused(self, turn: CodexTurn, error: PrsmError) -> None:
        """End a turn whose process could not be started or talked with."""
        why = AgentError(kind=ErrorKind.UNKNOWN, message=f"codex: {error.message}")
        await self._finish(turn, self._translator, why)

    @contextlib.contextmanager
    def _layer(self, home: Path) -> Iterator[str | None]:
        """Lend out the settings that no command line can take, as a file; yield its name."""
        text = command.layer(self._request, self._features, self._variables())
        if text is None:
            yield None
            return
        name = f"turn-{uuid.uuid4()}"
        path = home / f"{name}.config.toml"
        path.touch(mode=0o600, exist_ok=False)
        try:
            path.write_text(text, encoding="utf-8", errors="replace")
            yield name
        finally:
            path.unlink(missing_ok=True)

    def _variables(self) -> list[str]:
        return [*self.services.environment, *self._request.variables]

    async def _start(self, home: Path, env: dict[str, str], argv: Sequence[str]) -> Process:
        env |= await self._gate.admit(self.on_hook) if self._features.hooked else {}
        env |= self._endpoint.env if self._endpoint else {}
        env |= self._request.variables
        return await self.services.start_process(
            unwrapped(argv), name="codex exec", cwd=str(home), env=env
        )

    async def _talk(
        self, turn: CodexTurn, translator: ExecTranslator, process: Process, text: str
    ) -> AgentError | None:
        with contextlib.suppress(ProcessError):  # its end says why it does not read
            await process.write(text.encode())
        process.close_stdin()
        bad_lines = 0
        async for raw in process.lines():
            try:
                line = read_object(raw)
            except ValueError:
                bad_lines += 1
                continue
            await self._take(turn, translator, line)
            if translator.is_over:
                break
        code = (await Exit.of(process, self.services)).code
        if code is None and not translator.is_over:
            raise ProcessError("codex exec closed its output and went on running")
        # A process that lingers after the end of its turn has no code.
        return translator.error or _ended(translator, code or 0, process.stderr_tail, bad_lines)

    async def _take(
        self, turn: CodexTurn, translator: ExecTranslator, line: Mapping[str, Any]
    ) -> None:
        events = translator.feed(line)
        if self._features.hooked:
            self._require_leave(translator)
        if line.get("type") == "turn.started":
            await self._require_tools()
        if translator.completing and not turn.completing:
            turn.completing = "task_complete"  # from now on the hook lets nothing run
            turn.cancel_decisions()
        await turn.put(events)

    def _require_leave(self, translator: ExecTranslator) -> None:
        """Raise ProcessError if Codex runs what the hook was not asked about."""
        for key in translator.began:
            if key == "WebSearch":
                continue  # it runs at the vendor and does not ask
            if not self._decider.allowed.get(key):
                raise ProcessError("codex exec ran a call that nobody had been asked about")
            self._decider.allowed[key].pop()
        translator.began.clear()

    async def _require_tools(self) -> None:
        if self._endpoint is not None and not await first_of(
            self.services.clock, _CONNECT_SECONDS, self._endpoint.until_connected
        ):
            raise proxy_missing("codex exec", _CONNECT_SECONDS)

    async def ask_to_end(self, turn: CodexTurn) -> None:
        """End the process; see TurnSession."""
        if self._process is not None:
            await self._process.stop(_STOP_GRACE)

    async def unconfirmed(self, turn: CodexTurn) -> None:
        """End a turn whose process does not end."""
        await self._finish(turn, ExecTranslator(), None)

    async def _finish(
        self, turn: CodexTurn, translator: ExecTranslator, error: AgentError | None
    ) -> None:
        """End the turn. The session can only go on if no outputs are lost."""
        reason = StopReason.END_TURN
        if turn.stopping:
            reason, error = StopReason.ABORTED, None
        elif turn.completing:
            error = None
        elif error is not None:
            reason = stop_reason(error)
        lost = translator.has_acted and reason is not StopReason.END_TURN
        if lost or turn.completing:
            self.reusable = False
        await turn.put([*translator.finish(), TurnEnded(reason, error)])


def _ended(translator: ExecTranslator, code: int, stderr: str, bad_lines: int) -> AgentError | None:
    """Return why a run failed that did not say so itself; None for a success."""
    if translator.completed and code == 0:
        return None
    tail = readable_tail(stderr, NOISE).splitlines()
    error = agent_error({"message": tail[-1]}) if tail else None
    if error is not None and error.kind is not ErrorKind.UNKNOWN:
        return error
    skipped = f"; {bad_lines} of its lines were not understood" if bad_lines else ""
    how = f": {Exit(code)}" if code else " without a result (exit code 0)"
    message = f"codex exec ended{how}{skipped}" + (f": {tail[-1]}" if tail else "")
    return AgentError(kind=ErrorKind.UNKNOWN, message=message, retryable=Exit(code).was_killed)


def lost_servers(servers: Mapping[str, McpServer], error: AgentError | None) -> list[str]:
    """Return the servers that failed to start, if none is required. PRSM has Codex require all."""
    failures = error.message.partition(_SERVERS_FAILED)[2] if error is not None else ""
    lost = [name for name in servers if f"; {name}: " in f"; {failures}"]
    return [] if any(servers[name].required for name in lost) else lost


class ExecTranslator:
    """Turns the lines of one turn into events, and remembers how it ended.

    Lines about an item after its end, or about the turn after its end, are dropped.

    began: The keys of the vendor's own calls that have begun.
    """

    def __init__(self) -> None:
        self._thread = ""
        self._thinking: list[str] = []
        self._open: dict[str, str] = {}  # ids of the vendor's own calls, by item
        self._done: set[str] = set()  # items that have ended
        self._handlers: dict[str, Callable[[Json], list[ProviderEvent]]] = {
            "thread.started": self._thread_started,
            "item.started": self._item_started,
            "item.completed": self._item_completed,
            "turn.completed": self._turn_completed,
            "turn.failed": self._turn_failed,
            "error": _error,
        }
        self.began: list[str] = []
        self.has_acted = False  # a call was made: the turn cannot be repeated
        self.completing = False  # task_complete was answered
        self.completed = False
        self.error: AgentError | None = None

    @property
    def is_over(self) -> bool:
        """Whether the turn has ended."""
        return self.completed or self.error is not None

    def feed(self, line: Json) -> list[ProviderEvent]:
        """Return the events of a line. An unknown one has none."""
        handler = self._handlers.get(str(line.get("type")))
        return handler(line) if handler and not self.is_over else []

    def finish(self) -> list[ProviderEvent]:
        """Forget the calls of a turn that has ended; return thinking that no message followed."""
        self._open.clear()
        thoughts = self._thoughts()
        return [AssistantMessage("", thinking=thoughts)] if thoughts else []

    def _thoughts(self) -> str | None:
        text = "\n\n".join(self._thinking)
        self._thinking.clear()
        return text or None

    def _thread_started(self, line: Json) -> list[ProviderEvent]:
        self._thread = str(line.get("thread_id"))
        return []

    def _item_started(self, line: Json) -> list[ProviderEvent]:
        item = _item(line)
        tool = _tool(item)
        self.has_acted |= item.get("type") == "mcpToolCall"
        return self._begin(str(item.get("id")), tool) if tool else []

    def _begin(self, item_id: str, tool: tuple[str, dict[str, Any]]) -> list[ProviderEvent]:
        if item_id in self._open or item_id in self._done:
            return []  # a repetition, or too late
        self.has_acted = True
        self.began.append(allowed_key(*tool))
        call_id = self._open[item_id] = f"{self._thread}/{item_id}"  # items count from 0 each turn
        return [ToolCallStarted(call_id, *tool)]

    def _item_completed(self, line: Json) -> list[ProviderEvent]:
        item = _item(line)
        item_id, kind, tool = str(item.get("id")), item.get("type"), _tool(item)
        if item_id in self._done:
            return []  # a repetition
        if kind == "agent_message":
            text = str(item.get("text") or "")
            return [AssistantMessage(text, thinking=self._thoughts())] if text else []
        if kind == "reasoning":
            self._thinking.append(str(item.get("text") or ""))
        elif kind == "error":
            return [Notice("warning", one_line(str(item.get("message") or "")))]
        elif tool is not None:
            begun = self._begin(item_id, tool)
            self._done.add(item_id)
            return [*begun, finished_call(self._open.pop(item_id), item)]
        elif kind == "mcpToolCall":
            self.has_acted = True
            done = item.get("tool") == "task_complete" and item.get("status") == "completed"
            self.completing |= done
        return []

    def _turn_completed(self, line: Json) -> list[ProviderEvent]:
        self.completed = True
        counts = counts_of(line.get("usage"), KEPT_COUNTS)
        if not counts:
            return []
        if counts.keys() >= {"input_tokens", "output_tokens"}:
            counts["total_tokens"] = counts["input_tokens"] + counts["output_tokens"]
        return [UsageReported(TokenUsage(**counts), provenance=Provenance.REPORTED)]

    def _turn_failed(self, line: Json) -> list[ProviderEvent]:
        self.error = agent_error(as_object(line.get("error")))
        return []


def _error(line: Json) -> list[ProviderEvent]:
    message = str(line.get("message") or "")
    if not message.startswith("Reconnecting"):
        return []  # the turn's end tells it
    return [Notice("warning", one_line(f"Codex tries again: {message}"))]


def allowed_key(tool: str, arguments: Json) -> str:
    """Return the key of a call that both the hook and the lines tell: its command, or tool."""
    return f"Bash {arguments.get('command')}" if tool == "Bash" else tool


def _item(line: Json) -> Json:
    """Return the item of a line in the words of the app-server."""
    item = as_object(line.get("item"))
    kind = str(item.get("type"))
    fields = {_AS_APP_SERVER.get(key, key): value for key, value in item.items()}
    return {**fields, "type": _AS_APP_SERVER.get(kind, kind)}


def _tool(item: Json) -> tuple[str, dict[str, Any]] | None:
    """Return the tool of the vendor's own that an item is about, and its arguments."""
    is_ours = item["type"] == "mcpToolCall" and item.get("server") == TOOL_SERVER
    return None if is_ours else tool_of(item)
