"""The headless backend: one process per turn, one private home per agent.

Gemini keeps a conversation in a file with one JSON object a line: a header, messages (the last one
with an id counts), and `$set`s, which may replace all messages. It writes the results of a call
twice, into the call and as a message, and reads both back: unless the file is mended, each call has
two answers. A resume in a later minute begins a second file, which stays empty. There it writes the
results of all calls made together into each of them.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import uuid
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack, aclosing, suppress
from itertools import chain
from typing import TYPE_CHECKING, Any

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
)
from prsm_core.kit import as_object, as_objects, quote_conversation
from prsm_gemini import home as homes
from prsm_gemini.home import Home
from prsm_gemini.turn import HeadlessTurn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from prsm_core import (
        AgentHost,
        AssembledContext,
        Box,
        McpEndpoint,
        Process,
        ProviderServices,
        SessionRequest,
    )
    from prsm_core.kit import HookGate
    from prsm_gemini.config import GeminiConfig


Json = Mapping[str, Any]

_CONTEXT = "<session_context>"
_COPY = ".kept"
GO_ON = "Continue where the conversation stopped."

# Gemini puts the file of that name, or one like it, into the prompt.
_MENTION = re.compile(r"(?<!\\)@(?=[^\s,;!?()\[\]{}])")

# A prompt that begins so is a command, or not read back when Gemini resumes.
_NO_PROMPT = ("/", "?", "<session_context>", "<hook_context>")
_FIRST = "The message:"
_ESCAPED = "(In this message \\@ stands for @ alone.)"


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
        self._sent: str | None = None  # the last prompt; a failed turn may have lost it
        self.resume_token = request.resume_token

    async def open(self) -> None:
        """Check the key and the conversation to resume; raise ProviderNotAvailableError."""
        homes.api_key(self._config, os.environ)
        if self.resume_token and not await self._messages():
            raise ProviderNotAvailableError(
                f"gemini does not know the session {self.resume_token} any more",
                hint="The conversation is rebuilt from the ledger.",
                code="resume_failed",
            )

    async def interrupt(self) -> None:
        """End the running turn; see ProviderSession."""
        if self._turn is not None:
            await self._turn.stop()

    async def run_turn(self, context: AssembledContext) -> AsyncIterator[ProviderEvent]:
        """Run one turn; see ProviderSession.

        Raises ProviderNotAvailableError if Gemini cannot be started or runs without PRSM's tools or
        hooks.
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
            hook_env = await self._gate.admit(turn.on_hook)
            try:
                process, prompt = await self._start(context, endpoint, hook_env)
            except ProcessError as error:
                why = AgentError(kind=ErrorKind.UNKNOWN, message=error.message)
                yield TurnEnded(StopReason.ERROR, why)
                return
            async with aclosing(turn.run(process, prompt)) as stream:
                async for event in stream:
                    yield event

    def _turn_over(self, turn: HeadlessTurn) -> None:
        self._gate.dismiss(turn.on_hook)
        self._turn = None

    async def _start(
        self,
        context: AssembledContext,
        endpoint: McpEndpoint | None,
        hook_env: Mapping[str, str],
    ) -> tuple[Process, str]:
        known = await self._messages() if self.resume_token else []
        self._sent = text = turn_text(context, self._lost(known))
        if known and self.resume_token:
            await asyncio.to_thread(self._chat().mend)
            session = ("--resume", self.resume_token)
        else:  # Gemini does not resume a session of which nothing is left
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
        box, shown = self._request.box, {} if endpoint is None else endpoint.shown
        return box and box.opened(str(self._home.root), shown={**shown, **self._gate.shown})

    def _lost(self, known: Sequence[Json]) -> str | None:
        """Return the last prompt if a failed turn has taken it out of the conversation."""
        sent = escaped(self._sent or "").strip()
        return None if any(text_of(m).strip() == sent for m in known) else self._sent

    async def _prepare(self, endpoint: McpEndpoint | None, hook_env: Mapping[str, str]) -> None:
        config, home, request = self._config, self._home, self._request
        own = [tool.name for tool in self._host.tools]
        variables = self._services.environment
        texts = homes.files(config, os.environ, home, request, endpoint, own, hook_env, variables)
        has_tools = endpoint is not None
        texts[home.vendor / "GEMINI.md"] = homes.role_file(request, has_tools=has_tools)
        login = homes.login_folder(config, os.environ)
        await asyncio.to_thread(homes.prepare, home, texts, login)

    def _chat(self) -> Chat:
        return Chat(self._home.vendor, self.resume_token or "")

    async def _messages(self) -> list[Json]:
        return await asyncio.to_thread(self._chat().messages)


def agent_home(state_dir: Path, agent_id: str) -> Home:
    """Return the home of an agent. It is the same after a restart."""
    is_plain = agent_id.isascii() and agent_id.isalnum()  # then it is removed with the session
    name = agent_id if is_plain else hashlib.sha256(agent_id.encode()).hexdigest()[:32]
    return Home(state_dir / "agents" / name)


def turn_text(context: AssembledContext, lost: str | None) -> str:
    """Return the prompt of a turn, with the text of an earlier turn that was lost."""
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


class Chat:
    """The conversation of one session id on disk; its methods block."""

    def __init__(self, vendor: Path, session_id: str) -> None:
        self._vendor = vendor
        self._session_id = session_id

    def messages(self) -> list[Json]:
        """Return the messages, without those that Gemini adds itself."""
        path = self._path()
        return _spoken(_current(path)[1]) if path else []

    def mend(self) -> None:
        """Make the file fit for a resume. One that is not understood is left alone.

        Remove second answers to a call, and the empty files of resumes. Gemini begins a resume by
        emptying the file, so keep a copy in case it dies just then.
        """
        if (path := self._path()) is None:
            return
        records, current = _current(path)
        messages = [_own_results(message) for message in current]
        calls = chain.from_iterable(message.get("toolCalls") or () for message in messages)
        answered = {str(call.get("id")) for call in calls if call.get("result")}
        left = (_without(message, answered) for message in messages)
        mended = [message for message in left if message is not None]
        if not mended or any("$rewindTo" in record for record in records):
            return
        whole = [_header(records), *mended]
        _write(path.with_suffix(_COPY), whole)
        if mended != _effective(records):
            _write(path, whole)
        for other in self._files():
            other_records, other_messages = _current(other)
            if other != path and other_records and not _spoken(other_messages):
                other.unlink()

    def _path(self) -> Path | None:
        """Return the file of the conversation: the latest with messages in it."""
        files = self._files()
        filled = (path for path in files if _spoken(_current(path)[1]))
        return next(filled, files[0] if files else None)

    def _files(self) -> list[Path]:
        """Return the files, latest first. A name holds the minute of its beginning, and the id."""
        name = f"session-*-{self._session_id[:8]}.jsonl"
        return sorted(self._vendor.glob(f"tmp/*/chats/{name}"), reverse=True)


def _current(path: Path) -> tuple[list[Json], list[Json]]:
    """Return the records of a file, and its messages or, if they are lost, those of its copy."""
    records = _read(path)
    messages = _effective(records)
    if _spoken(messages):
        return records, messages
    return records, _effective(_read(path.with_suffix(_COPY))) or messages


def _read(path: Path) -> list[Json]:
    """Return the records of a file, none if one of them is not understood.

    The last line may be cut off, if its writer was killed. Only a line feed ends a line: JSON may
    hold other line ends, such as U+2028.
    """
    try:
        *lines, last = [line for line in path.read_bytes().split(b"\n") if line.strip()]
        records = [json.loads(line) for line in lines]
    except (OSError, ValueError, RecursionError):
        return []
    with suppress(ValueError, RecursionError):
        records.append(json.loads(last))
    return records if all(map(_is_understood, records)) else []


def _is_understood(record: object) -> bool:
    """Return whether this is an object whose messages, and their calls, are objects."""
    messages = [record, *(_replaced(as_object(record)) or ())]
    calls = [as_object(message).get("toolCalls") or [] for message in messages]
    lists = [messages, *calls]
    return all(isinstance(each, list) and len(as_objects(each)) == len(each) for each in lists)


def _replaced(record: Json) -> list[Any] | None:
    """Return the messages that a `$set` puts in place of all others, if it does."""
    messages = as_object(record.get("$set")).get("messages")
    return messages if isinstance(messages, list) else None


def _write(path: Path, records: Iterable[Json]) -> None:
    beside = path.with_suffix(".new")
    beside.unlink(missing_ok=True)
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        # In ASCII: a text may hold half a surrogate pair, which is no UTF-8.
        file.writelines(json.dumps(record) + "\n" for record in records)
    beside.replace(path)


def _spoken(messages: Iterable[Json]) -> list[Json]:
    """Return messages without those that Gemini adds itself."""
    return [message for message in messages if not text_of(message).startswith(_CONTEXT)]


def text_of(message: Json) -> str:
    """Return the text of a message."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "\n".join(str(part["text"]) for part in _parts(message) if "text" in part)


def _parts(message: Json) -> list[Json]:
    return as_objects(message.get("content"))


def _effective(records: Iterable[Json]) -> list[Json]:
    messages: dict[str, Json] = {}
    for record in records:
        if (replaced := _replaced(record)) is not None:
            messages = {str(message.get("id")): message for message in replaced}
        elif "type" in record:
            messages[str(record.get("id"))] = record
    return list(messages.values())


def _header(records: Iterable[Json]) -> Json:
    """Return the header of a file, with what was set later."""
    header: dict[str, Any] = {}
    for record in records:
        setting = record.get("$set")
        if isinstance(setting, dict):
            header |= {key: value for key, value in setting.items() if key != "messages"}
        elif "type" not in record:
            header = {**record, **header}  # the first value counts, and what was set counts more
    return header


def _own_results(message: Json) -> Json:
    calls = message.get("toolCalls")
    return {**message, "toolCalls": [_with_own(call) for call in calls]} if calls else message


def _with_own(call: Json) -> Json:
    """Return a call with its own results: each answer to it, up to another's."""
    result = call.get("result")
    parts = result if isinstance(result, list) else []
    own, is_own = [], True
    for part in parts:
        if (answered := _answers(as_object(part))) is not None:
            is_own = answered == call.get("id")
        if is_own:
            own.append(part)
    return {**call, "result": own} if own and own != parts else call


def _without(message: Json, answered: set[str]) -> Json | None:
    """Return a message without answers that its calls hold, too; None if nothing is left."""
    parts = _parts(message)
    left = [part for part in parts if _answers(part) not in answered]
    if message.get("type") != "user" or left == parts:
        return message
    return {**message, "content": left} if left else None


def _answers(part: Json) -> str | None:
    answer = part.get("functionResponse")
    return str(answer.get("id")) if isinstance(answer, dict) else None
