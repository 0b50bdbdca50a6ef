"""The headless backend: one process per turn, one private home per agent.

The text of a headless turn: what the session does not hold, then the message; pure.
"""

from __future__ import annotations

import hashlib
import os
import re
import uuid
from contextlib import AsyncExitStack, aclosing
from typing import TYPE_CHECKING

from prsm_core import (
    AgentError,
    ErrorKind,
    OrchestrationError,
    ProcessError,
    ProviderEvent,
    ProviderNotAvailableError,
    ProviderSession,
    StopReason,
    TurnEnded,
    quote_conversation,
)
from prsm_gemini import home as homes
from prsm_gemini.chat import Chat, text_of
from prsm_gemini.home import Home
from prsm_gemini.turn import HeadlessTurn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from prsm_core import (
        AgentHost,
        AssembledContext,
        Box,
        HookGate,
        McpEndpoint,
        Process,
        ProviderServices,
        SessionRequest,
    )
    from prsm_gemini.config import GeminiConfig

    Json = Mapping[str, Any]


class HeadlessSession(ProviderSession):
    """An agent's conversation, which Gemini keeps in the agent's home between the processes."""

    def __init__(
        self,
        request: SessionRequest,
        host: AgentHost,
        config: GeminiConfig,
        services: ProviderServices,
        gate: HookGate,
    ) -> None:
        self._request = request
        self._host = host
        self._config = config
        self._services = services
        self._home = agent_home(services.state_dir, request.agent_id)
        self._gate = gate
        self._turn: HeadlessTurn | None = None
        self._sent: str | None = None  # the last prompt, which a failed turn may have lost
        self.resume_token = request.resume_token

    async def open(self) -> None:
        """Look whether it can begin; no process is started yet.

        Raises ProviderNotAvailableError when the key is not set, or with the code `resume_failed`
        when the conversation to go on with is not there.
        """
        homes.api_key(self._config, os.environ)
        if self.resume_token and not await self._chat(self.resume_token).messages():
            raise ProviderNotAvailableError(
                f"gemini does not know the session {self.resume_token} any more",
                hint="The conversation is rebuilt from the ledger.",
                code="resume_failed",
            )

    async def close(self) -> None:
        """End what runs."""
        await self.interrupt()

    async def interrupt(self) -> None:
        """End the running turn; see ProviderSession."""
        if self._turn is not None:
            await self._turn.stop()

    async def run_turn(self, context: AssembledContext) -> AsyncIterator[ProviderEvent]:
        """Run one turn; see ProviderSession.

        Raises ProviderNotAvailableError when Gemini cannot be started, or runs without PRSM's
        tools or hooks.
        """
        if self._turn is not None:
            raise OrchestrationError(f"{self._request.name}: a turn is running already")
        async with AsyncExitStack() as stack:
            endpoint = None
            if self._host.tools:
                endpoint = await stack.enter_async_context(self._host.mcp_endpoint())
            turn = HeadlessTurn(self._request, self._host, self._services, endpoint)
            stack.callback(self._turn_over, turn)
            self._turn = turn
            hook_env = await self._gate.admit(turn)
            try:
                process, prompt = await self._start(context, endpoint, hook_env)
            except ProcessError as error:
                yield _not_started(error)
                return
            async with aclosing(turn.run(process, prompt)) as stream:
                async for event in stream:
                    yield event

    def _turn_over(self, turn: HeadlessTurn) -> None:
        self._gate.dismiss(turn)
        self._turn = None

    async def _start(
        self,
        context: AssembledContext,
        endpoint: McpEndpoint | None,
        hook_env: Mapping[str, str],
    ) -> tuple[Process, str]:
        """Start the process of a turn, and return it with its prompt."""
        known = await self._chat(self.resume_token).messages() if self.resume_token else []
        self._sent = text = turn_text(context, self._lost(known))
        if known and self.resume_token:
            await self._chat(self.resume_token).mend()
            session = ("--resume", self.resume_token)
        else:  # Gemini does not resume a session of which nothing was kept
            self.resume_token = str(uuid.uuid4())
            session = ("--session-id", self.resume_token)
        await self._prepare(endpoint, hook_env)
        argv = homes.argv(self._config, self._request.model, self._home)
        process = await self._services.start_process(
            [*argv, "-o", "stream-json", "--approval-mode", "default", *session],
            name="gemini",
            cwd=self._request.cwd,
            env={
                **homes.env(self._config, os.environ),
                **homes.private_env(self._home, self._services.environment),
                **self._request.variables,
            },
            box=self._box(endpoint),
        )
        return process, escaped(text)

    def _box(self, endpoint: McpEndpoint | None) -> Box | None:
        """Return the box with the agent's private folder and its ways to the tools and checks."""
        box, shown = self._request.box, {} if endpoint is None else endpoint.shown
        return box and box.opened(str(self._home.root), shown={**shown, **self._gate.shown})

    def _lost(self, known: Sequence[Json]) -> str | None:
        """Return the last prompt where a failed turn has taken it out of the conversation."""
        sent = escaped(self._sent or "").strip()
        return None if any(text_of(m).strip() == sent for m in known) else self._sent

    async def _prepare(self, endpoint: McpEndpoint | None, hook_env: Mapping[str, str]) -> None:
        config, home, request = self._config, self._home, self._request
        own = [tool.name for tool in self._host.tools]
        variables = self._services.environment
        texts = homes.files(config, os.environ, home, request, endpoint, own, hook_env, variables)
        has_tools = endpoint is not None
        texts[home.vendor / "GEMINI.md"] = homes.role_file(request, has_tools=has_tools)
        await homes.prepare(home, texts, homes.login_folder(config, os.environ))

    def _chat(self, session_id: str) -> Chat:
        return Chat(self._home.vendor, session_id)


def agent_home(state_dir: Path, agent_id: str) -> Home:
    """Return the home of an agent, the same one after a restart."""
    is_plain = agent_id.isascii() and agent_id.isalnum()  # then it goes with the agent's session
    name = agent_id if is_plain else hashlib.sha256(agent_id.encode()).hexdigest()[:32]
    return Home(state_dir / "agents" / name)


def _not_started(error: ProcessError) -> TurnEnded:
    failed = AgentError(kind=ErrorKind.UNKNOWN, message=error.message)
    return TurnEnded(StopReason.ERROR, failed)


GO_ON = "Continue where the conversation stopped."
# Gemini puts the file that is called so, or most like it, into the prompt.
_MENTION = re.compile(r"(?<!\\)@(?=[^\s,;!?()\[\]{}])")
# What begins so is a command, or nothing that Gemini reads back when it resumes.
_NO_PROMPT = ("/", "?", "<session_context>", "<hook_context>")
_FIRST = "The message:"
_ESCAPED = "(In this message \\@ stands for @ alone.)"


def turn_text(context: AssembledContext, lost: str | None) -> str:
    """Return the prompt of a turn.

    Args:
        context: The turn.
        lost: The text of an earlier turn that the session does not hold, because it failed.
    """
    message = context.current_message.content if context.current_message else None
    parts = [lost] if lost and lost != message else []
    if context.history:
        parts.append(quote_conversation((m.role, m.content) for m in context.history))
    if message or not lost:
        parts.append(message or GO_ON)
    return "\n\n".join(parts)


def escaped(text: str) -> str:
    """Return a text in which Gemini sees no command and no file to read."""
    plain = _MENTION.sub(r"\\@", text)
    if plain != text:
        plain = f"{plain}\n\n{_ESCAPED}"
    return f"{_FIRST}\n{plain}" if plain.lstrip().startswith(_NO_PROMPT) else plain
