"""A provider session whose turns are one `codex exec` each: nothing of it is kept by Codex."""

from __future__ import annotations

import contextlib
import uuid
from typing import TYPE_CHECKING, Any

from prsm_codex import command, hooks, native
from prsm_codex.app_server import child_home
from prsm_codex.confined import Sandbox
from prsm_codex.deciding import ToolDecider
from prsm_codex.errors import NOISE, agent_error, stop_reason
from prsm_codex.exec_events import ExecTranslator, allowed_key
from prsm_codex.prompt import prompt_of, turn_text
from prsm_codex.stuck import unstick
from prsm_codex.turn import CodexTurn
from prsm_core import (
    AgentError,
    AssistantMessage,
    ErrorKind,
    Notice,
    ProcessError,
    ProviderEvent,
    PrsmError,
    StopReason,
    TurnEnded,
    deadline,
    proxy_missing,
)
from prsm_core.kit import (
    TurnSession,
    ended_how,
    read_object,
    readable_tail,
    wait_for_exit,
    was_killed,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from prsm_codex.config import CodexConfig
    from prsm_codex.features import Features
    from prsm_codex.prompt import Said
    from prsm_core import (
        AgentHost,
        AssembledContext,
        HookGate,
        McpEndpoint,
        Process,
        ProviderServices,
        SessionRequest,
    )

_STOP_GRACE = 1.0  # an ephemeral run keeps nothing that could be written half
_CONNECT_SECONDS = 10.0  # Codex has started the required server before it begins the turn
_GO_ON = "Begin."


class ExecSession(TurnSession[CodexTurn]):
    """One agent.

    Each turn tells again what was said before it; the outputs of earlier calls are lost, so that
    after a turn which did not end well, and after task_complete, the session has to be rebuilt.
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
            request,
            host,
            services,
            orchestration=frozenset(f"mcp__{command.TOOL_SERVER}__{t.name}" for t in host.tools),
            key=lambda _, wanted: allowed_key(wanted.tool, wanted.arguments),
            sandbox=Sandbox.of(request, config, services),
            setting="`backend: app-server` and `enforcement: approval` of the provider",
            escalated=lambda: None,
        )

    def new_turn(self) -> CodexTurn:
        """Return what keeps a turn; see TurnSession."""
        turn = CodexTurn()
        turn.begin("")  # what the process does is of this turn, whatever Codex calls it
        turn.sent = True
        return turn

    def passed(self, event: ProviderEvent) -> None:
        """Keep what was said: the next turn tells it again."""
        if isinstance(event, AssistantMessage) and event.text:
            self._said.append(("assistant", event.text))

    def closed(self, turn: CodexTurn) -> None:
        """Let go of a turn; see TurnSession."""
        turn.close()

    async def close(self) -> None:
        """End what runs."""
        await self.interrupt()

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
                await self._talk(turn, translator, process, text)
            finally:
                process.kill()
                self._gate.dismiss(self)

    async def refused(self, turn: CodexTurn, error: PrsmError) -> None:
        """End a turn whose process could not be started or talked with."""
        why = AgentError(kind=ErrorKind.UNKNOWN, message=f"codex: {error.message}")
        await self._finish(turn, self._translator, why)

    @contextlib.contextmanager
    def _layer(self, home: Path) -> Iterator[str | None]:
        """Lend out the settings that no command line can take, as a file; return its name."""
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
        """Return the names of the variables that its shells have."""
        return [*self.services.environment, *self._request.variables]

    async def _start(self, home: Path, env: dict[str, str], argv: Sequence[str]) -> Process:
        env |= await self._gate.admit(self) if self._features.hooked else {}
        env |= self._endpoint.env if self._endpoint else {}
        env |= self._request.variables
        return await self.services.start_process(
            native.unwrapped(argv), name="codex exec", cwd=str(home), env=env
        )

    async def _talk(
        self, turn: CodexTurn, translator: ExecTranslator, process: Process, text: str
    ) -> None:
        with contextlib.suppress(ProcessError):  # how it ended says why it does not read
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
        code = await self._exit_code(process, translator)
        error = translator.error or _ended(translator, code, process.stderr_tail, bad_lines)
        await self._finish(turn, translator, error)

    async def _exit_code(self, process: Process, translator: ExecTranslator) -> int:
        """Return the exit code; 0 of a process that lingers after the end of its turn.

        Raises ProcessError when it went on without having told an end.
        """
        code = await wait_for_exit(process, self.services)
        if code is None and not translator.is_over:
            raise ProcessError("codex exec closed its output and went on running")
        return code or 0

    async def _take(
        self, turn: CodexTurn, translator: ExecTranslator, line: Mapping[str, Any]
    ) -> None:
        events = translator.feed(line)
        if self._features.hooked:
            self._require_leave(translator)
        if line.get("type") == "turn.started":
            await self._require_tools()
        if translator.completing and not turn.completing:
            turn.completing = "task_complete"  # the hook lets nothing run from now on
            turn.cancel_decisions()
        await turn.put(events)

    def _require_leave(self, translator: ExecTranslator) -> None:
        """Raise ProcessError when Codex runs what the hook was not asked about."""
        for key in translator.began:
            if key == "WebSearch":
                continue  # it runs at the vendor, and is not asked
            if not self._decider.allowed.get(key):
                raise ProcessError("codex exec ran a call that nobody had been asked about")
            self._decider.allowed[key].pop()
        translator.began.clear()

    async def _require_tools(self) -> None:
        if self._endpoint is None:
            return
        try:
            async with deadline(self.services, _CONNECT_SECONDS):
                await self._endpoint.until_connected()
        except TimeoutError:
            raise proxy_missing("codex exec", _CONNECT_SECONDS) from None

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
        """End the turn; whether the session can go on depends on what would be lost."""
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
    """Return why a run has failed that did not say so itself; None for a success."""
    if translator.completed and code == 0:
        return None
    tail = readable_tail(stderr, NOISE).splitlines()
    told = agent_error({"message": tail[-1]}) if tail else None
    if told is not None and told.kind is not ErrorKind.UNKNOWN:
        return told
    skipped = f"; {bad_lines} of its lines were not understood" if bad_lines else ""
    how = f": {ended_how(code)}" if code else " without a result (exit code 0)"
    message = f"codex exec ended{how}{skipped}" + (f": {tail[-1]}" if tail else "")
    return AgentError(kind=ErrorKind.UNKNOWN, message=message, retryable=was_killed(code))
