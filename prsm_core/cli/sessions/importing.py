"""Takes a session in from a file: one that was exported, or a transcript of a vendor's agent.

A conversation as Claude Code or Codex keeps it, JSON lines of their own, becomes a session of one
agent that is over. Only what was said, called and answered is taken. Whatever else a line tells is
left out, and so are lines of other kinds. Any of it may be missing or of another kind: the file may
be of a later version of theirs, or made by hand.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from prsm_core.cli.places import workspace_ledger
from prsm_core.cli.saying import say
from prsm_core.cli.sessions.exporting import FORMAT, VERSION
from prsm_core.config import private_dir
from prsm_core.config.secrets import environment_secrets
from prsm_core.domain.agents import AgentDescriptor, AgentResult, AgentRole, AgentState, Grant
from prsm_core.domain.ids import Ids
from prsm_core.domain.record import Record
from prsm_core.domain.steps import Step, Write
from prsm_core.domain.turns import AgentMessage, AgentToolCall, StopReason, TurnResult
from prsm_core.domain.usage import Spent, TokenUsage
from prsm_core.domain.writes import (
    AgentEnded,
    AgentSpawned,
    RunFinished,
    RunStarted,
    StateChanged,
    ThreadKept,
    Told,
    TurnClosed,
    TurnOpened,
)
from prsm_core.errors import ConfigError
from prsm_core.kit.reading import as_object, read_object, token_count
from prsm_core.kit.regular import read_whole, read_within
from prsm_core.kit.sanitize import sanitize
from prsm_core.kit.temporary import temporary_folder
from prsm_core.permissions.redaction import Redactor
from prsm_core.store import SqliteStore
from prsm_core.store.migrations import NEWEST
from prsm_core.store.session_rows import TABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    Line = Mapping[str, Any]  # of a transcript

MOST_BYTES = 512 << 20  # of a file that is taken in: it is held whole, some times over
_CURE = "export it with `prsm export SESSION --format json`"
_ROLES = {"manager": "master", "unified": "master"}  # as the specification once called them


async def import_session(workspace: str, file: str, *, as_json: bool) -> None:
    """Take the session of a file into the ledger of the workspace."""
    found, new_id = await asyncio.to_thread(_read, file), _new_ids()
    is_foreign = isinstance(found, Transcript)
    copy = await retell(found, new_id) if is_foreign else _checked(found, file)
    path = workspace_ledger(workspace)
    private_dir(path.parent)
    async with await SqliteStore.open(path) as store:
        session = await store.put_copy(copy, new_id)
    if as_json:
        click.echo(json.dumps({"session": session, "was": copy["meta"][0]["session_id"]}))
        return
    say(f"imported session {session}: agents: {len(copy['agents'])}, events: {len(copy['events'])}")
    if (was := copy["meta"][0]["session_id"]) != session:
        say(f"prsm: note: {was} is there already, so it got ids of its own", err=True)
    if grants := len(copy["grants"]):
        text = f"it carries {grants} permissions that were given for good; a resume honours them"
        say(f"prsm: warning: {text}", err=True)


def _read(file: str) -> Any:
    try:
        if file == "-":
            data = read_within(sys.stdin.buffer, MOST_BYTES)
        else:
            data = read_whole(file, MOST_BYTES)
    except OSError as error:
        where = "name a file that you may read, or - for what another command writes"
        raise ConfigError(f"{file}: cannot be read: {error.strerror}", hint=where) from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: is not UTF-8 text", hint=_CURE, code="foreign") from error
    try:
        value = json.loads(text)
    except RecursionError as error:
        raise ConfigError(f"{file}: is nested too deep", hint=_CURE, code="foreign") from error
    except ValueError as error:
        lines = _lines(data, file)
        if (transcript := read_transcript(lines)) is not None:
            return transcript
        are_events = lines and lines[0].keys() >= {"seq", "session", "type"}
        what = "events of a session, which lack its rows" if are_events else "not JSON"
        raise ConfigError(f"{file}: is {what}: {error}", hint=_CURE, code="foreign") from error
    if isinstance(value, dict) and "format" not in value:  # a transcript may have one line only
        return read_transcript(_lines(data, file)) or value
    return value


def _lines(data: bytes, file: str) -> list[Mapping[str, Any]]:
    """Return the JSON objects of a file that has one a line, as they can be kept.

    The last line may be torn, of a process that was killed; whatever else is left out is told. A
    line ends with a line feed alone: what else ends lines of text stands in JSON as it is.
    """
    found: list[Mapping[str, Any]] = []
    odd: list[int] = []
    *lines, last = data.split(b"\n")
    for number, line in enumerate((*lines, last), 1):
        if line.strip():
            try:
                found.append(sanitize(read_object(line)))
            except ValueError:
                odd.append(number)
    if odd and odd[-1] == len(lines) + 1:
        odd.pop()
    if found and odd:
        where = f"lines of it are no JSON objects, and left out: {len(odd)}, the first is {odd[0]}"
        say(f"prsm: note: {file}: {where}", err=True)
    return found


def _checked(value: Any, file: str) -> Mapping[str, Any]:
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        said = value.get("format") if isinstance(value, dict) else None
        what = f"JSON of the format {said!r}" if said else "JSON, but no session of prsm"
        raise ConfigError(f"{file}: is {what}", hint=_CURE, code="foreign")
    newest = (VERSION, NEWEST)
    versions = [value.get(name) for name in ("version", "ledger")]
    if not all(isinstance(each, int) for each in versions):
        raise ConfigError(f"{file}: tells no version of its format", hint=_CURE, code="foreign")
    if any(int(each or 0) > known for each, known in zip(versions, newest, strict=True)):
        raise ConfigError(
            f"{file}: was exported by a newer prsm ({value.get('prsm')})",
            hint="upgrade prsm-core",
            code="newer_export",
        )
    copy = {table: value.get(table, []) for table in TABLES}
    for table, rows in copy.items():
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise ConfigError(f"{file}: {table} is no list of rows", hint=_CURE, code="bad_copy")
    return {**copy, "agents": [_named_as_now(row) for row in copy["agents"]]}


def _named_as_now(agent: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an agent with today's names of roles and states, whose state stays what it was."""
    role, state = (str(agent.get(name)).lower() for name in ("role", "state"))
    return {**agent, "role": _ROLES.get(role, role), "state": state}


def _new_ids() -> Callable[[str], str]:
    ids = Ids(time.time)
    kinds = {"agents": ids.agent, "requests": ids.request}
    return lambda table: kinds.get(table, ids.ulid)()


_NAME = "master"


async def retell(transcript: Transcript, new_id: Callable[[str], str]) -> Mapping[str, Any]:
    """Return the conversation as a run would have made it, without the environment's secrets."""
    if not transcript.said:
        raise ConfigError("the transcript has no message", code="foreign")
    told = _Told(transcript, new_id)
    folder = await asyncio.to_thread(temporary_folder, "prsm-import-")
    try:
        async with await SqliteStore.open(Path(folder.name) / "ledger.db") as store:
            for step in told.steps():
                await store.commit(step)
            return await store.copy(told.session)
    finally:
        await asyncio.to_thread(folder.cleanup)


class _Told:
    def __init__(self, transcript: Transcript, new_id: Callable[[str], str]) -> None:
        self._redact = Redactor(environment_secrets(os.environ)).value
        self._from = transcript
        self._task = str(self._redact(transcript.task)) or "a conversation"
        self.session, self._run = new_id("meta"), new_id("runs")
        self._agent, self._turn = new_id("agents"), new_id("turns")
        self._began, self._ended = transcript.said[0].at, transcript.said[-1].at

    def steps(self) -> Iterator[Step]:
        cwd = self._from.cwd
        yield self._step("start", None, self._began, RunStarted(task=self._task, workspace=cwd))
        yield self._step("spawn", self._agent, self._began, AgentSpawned(agent=self._descriptor()))
        yield self._step("open", self._agent, self._began, *self._opening())
        for number, said in enumerate(self._from.said):
            yield self._step(f"said{number}", self._agent, said.at, *self._telling(said))
        yield self._step("close", self._agent, self._ended, *self._closing())
        spent = Spent.of_turn(self._from.usage, None)
        used = {"duration_s": self._ended - self._began, "usage": spent.usage.to_dict()}
        finished = RunFinished(status="completed", summary=self._summary(), used=used)
        yield self._step("finish", None, self._ended, finished)

    def _step(self, name: str, agent: str | None, at: float, *writes: Write) -> Step:
        return Step(
            step_id=f"{self._agent}:1:{name}",
            session_id=self.session,
            run_id=self._run,
            agent_id=agent,
            at=at,
            writes=writes,
        )

    def _descriptor(self) -> AgentDescriptor:
        return AgentDescriptor(
            agent_id=self._agent,
            name=_NAME,
            session_id=self.session,
            run_id=self._run,
            role=AgentRole.MASTER,
            provider=self._from.provider,
            model=self._from.model,
            prompt=self._task,
            system_prompt="",
            cwd=self._from.cwd,
            tools=frozenset(),
            grant=Grant(tools=frozenset()),
            created_at=self._began,
        )

    def _opening(self) -> Iterator[Write]:
        pending, starting, running = AgentState.PENDING, AgentState.STARTING, AgentState.RUNNING
        yield StateChanged(source=pending, target=starting, reason="imported")
        yield StateChanged(source=starting, target=running, reason="imported")
        yield TurnOpened(
            turn_id=self._turn,
            number=1,
            parent_turn_id=None,
            session_label=f"{self.session}/{_NAME}",
            model=self._from.model,
            provider=self._from.provider,
            role=AgentRole.MASTER.value,
            toolset_name=self._from.provider,
            tools_available=(),
            permissions_granted=(),
            workspace_path=self._from.cwd,
            started_at_ms=_ms(self._began),
        )

    def _telling(self, said: Said) -> Iterator[Write]:
        if said.kind == "call":
            started = {"call": said.call, "tool": said.tool, "orchestration": False}
            arguments = self._redact(dict(said.arguments))
            yield Told(kind="tool_call_started", data={**started, "arguments": arguments})
        elif said.kind == "result":
            text = self._redact(said.text)
            yield Told(
                kind="tool_call_finished",
                data={
                    "call": said.call,
                    "status": "failed" if said.is_error else "completed",
                    "result": None if said.is_error else text,
                    "error": text if said.is_error else None,
                },
            )
        else:
            data = {"turn": self._turn, "role": said.kind, "text": self._redact(said.text)}
            thinking = {"thinking": self._redact(said.thinking)} if said.thinking else {}
            yield Told(kind="message_completed", data={**data, **thinking})

    def _closing(self) -> Iterator[Write]:
        if self._from.thread:
            yield ThreadKept(thread=self._from.thread)
        yield TurnClosed(
            turn_id=self._turn,
            parent_turn_id=None,
            session_label=f"{self.session}/{_NAME}",
            result=TurnResult(
                messages=tuple(self._messages()),
                tool_calls=tuple(self._calls()),
                usage=self._from.usage,
                stop_reason=StopReason.END_TURN,
                duration_ms=_ms(self._ended - self._began),
            ),
            completed_at_ms=_ms(self._ended),
        )
        result = AgentResult(agent_id=self._agent, success=True, summary=self._summary())
        running, completed = AgentState.RUNNING, AgentState.COMPLETED
        yield StateChanged(source=running, target=completed, reason="imported")
        yield AgentEnded(result=result)

    def _messages(self) -> Iterator[AgentMessage]:
        for number, said in enumerate(self._from.said, 1):
            if said.kind in {"user", "assistant"}:
                yield AgentMessage(
                    id=f"m{number}",
                    role=said.kind,
                    content=str(self._redact(said.text)),
                    sequence=number,
                    created_at=_ms(said.at),
                    thinking=self._redact(said.thinking),
                )

    def _calls(self) -> Iterator[AgentToolCall]:
        answers = {said.call: said for said in self._from.said if said.kind == "result"}
        seen: set[str] = set()
        for number, said in enumerate(self._from.said, 1):
            if said.kind != "call" or said.call in seen:
                continue
            seen.add(said.call)
            answer = answers.get(said.call)
            text = None if answer is None else str(self._redact(answer.text))
            has_failed = answer is None or answer.is_error
            yield AgentToolCall(
                id=said.call,
                tool_name=said.tool,
                params=self._redact(dict(said.arguments)),
                status="failed" if has_failed else "completed",
                started_at=_ms(said.at),
                sequence=number,
                result=None if has_failed else text,
                error=(text or "it has no answer") if has_failed else None,
                completed_at=_ms(said.at if answer is None else answer.at),
            )

    def _summary(self) -> str:
        texts = [said.text for said in self._from.said if said.kind == "assistant" and said.text]
        return str(self._redact(texts[-1])) if texts else ""


def _ms(seconds: float) -> int:
    return int(seconds * 1000)


_CONTEXT = ("<", "# AGENTS.md")  # how a message begins that Codex, not the person, has written
_CALLS = {"function_call": "arguments", "custom_tool_call": "input", "local_shell_call": "action"}
_ANSWERS = frozenset({"function_call_output", "custom_tool_call_output"})


class Said(Record, frozen=True, kw_only=True):
    """A message, a call of a tool, or its answer."""

    kind: str  # user | assistant | call | result
    at: float  # Unix seconds
    text: str = ""
    thinking: str | None = None
    call: str = ""
    tool: str = ""
    arguments: Mapping[str, Any] = {}
    is_error: bool = False


class Transcript(Record, frozen=True, kw_only=True):
    """One conversation of a vendor's own agent."""

    provider: str  # claude | codex
    thread: str  # the vendor's id of it
    cwd: str
    model: str
    said: tuple[Said, ...]
    usage: TokenUsage

    @property
    def task(self) -> str:
        """What the person said first."""
        return next((each.text for each in self.said if each.kind == "user"), "")


def read_transcript(lines: Sequence[Line]) -> Transcript | None:
    """Return the conversation; None where the lines are of neither."""
    if any("sessionId" in line and isinstance(line.get("message"), dict) for line in lines):
        return _claude(lines)
    if any(line.get("type") == "session_meta" for line in lines):
        return _codex(lines)
    return None


def _claude(lines: Sequence[Line]) -> Transcript:
    own = [
        line
        for line in lines
        if str(line.get("type")) in {"user", "assistant"}
        and isinstance(line.get("message"), dict)
        and not line.get("isSidechain")
        and not line.get("isMeta")
    ]
    used: dict[str, Mapping[str, Any]] = {}  # by message: each of its lines tells it again
    model = "default"
    for line in own:
        message = line["message"]
        model = str(message.get("model") or model)
        if isinstance(message.get("usage"), dict):
            used[str(message.get("id"))] = message["usage"]
    first = next((line for line in own if line.get("cwd")), {})
    return Transcript(
        provider="claude",
        thread=str(next((line["sessionId"] for line in own if line.get("sessionId")), "")),
        cwd=str(first.get("cwd") or "."),
        model=model,
        said=tuple(each for line in own for each in _claude_said(line)),
        usage=TokenUsage(
            input_tokens=_sum(used, "input_tokens"),
            output_tokens=_sum(used, "output_tokens"),
            cached_input_tokens=_sum(used, "cache_read_input_tokens"),
            cache_write_tokens=_sum(used, "cache_creation_input_tokens"),
        ),
    )


def _sum(used: Mapping[str, Line], name: str) -> int | None:
    counts = [token_count(each.get(name)) for each in used.values()]
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _claude_said(line: Line) -> Iterator[Said]:
    at, role, content = _at(line), str(line["type"]), line["message"].get("content")
    parts = content if isinstance(content, list) else [content]
    for each in parts:
        part = {"type": "text", "text": each} if isinstance(each, str) else as_object(each)
        match part.get("type"):
            case "text" if part.get("text"):
                yield Said(kind=role, at=at, text=str(part["text"]))
            case "thinking" if part.get("thinking"):
                yield Said(kind="assistant", at=at, thinking=str(part["thinking"]))
            case "tool_use":
                given = part.get("input")
                arguments = given if isinstance(given, dict) else {"input": given}
                name, call = str(part.get("name")), str(part.get("id"))
                yield Said(kind="call", at=at, call=call, tool=name, arguments=arguments)
            case "tool_result":
                yield Said(
                    kind="result",
                    at=at,
                    call=str(part.get("tool_use_id")),
                    text=_text(part.get("content")),
                    is_error=bool(part.get("is_error")),
                )


def _codex(lines: Sequence[Line]) -> Transcript:
    meta = next(_payload(line) for line in lines if line.get("type") == "session_meta")
    model = "default"
    total: Line = {}
    said: list[Said] = []
    for line in lines:
        payload = _payload(line)
        if line.get("type") == "turn_context":
            model = str(payload.get("model") or model)
        elif line.get("type") == "event_msg" and payload.get("type") == "token_count":
            total = as_object(as_object(payload.get("info")).get("total_token_usage")) or total
        elif line.get("type") == "response_item":
            said += _codex_said(payload, _at(line))
    counts = {
        "input_tokens": "input_tokens",
        "output_tokens": "output_tokens",
        "cached_input_tokens": "cached_input_tokens",
        "reasoning_tokens": "reasoning_output_tokens",
        "total_tokens": "total_tokens",
    }
    return Transcript(
        provider="codex",
        thread=str(meta.get("id") or ""),
        cwd=str(meta.get("cwd") or "."),
        model=model,
        said=tuple(said),
        usage=TokenUsage(**{ours: token_count(total.get(of)) for ours, of in counts.items()}),
    )


def _codex_said(item: Line, at: float) -> Iterator[Said]:
    kind, role = str(item.get("type")), str(item.get("role"))
    call = str(item.get("call_id") or item.get("id") or "")
    if kind == "message" and role in {"user", "assistant"}:
        text = _text(item.get("content"))
        if text and not (role == "user" and text.startswith(_CONTEXT)):
            yield Said(kind=role, at=at, text=text)
    elif kind == "reasoning" and (thought := _text(item.get("summary"))):
        yield Said(kind="assistant", at=at, thinking=thought)
    elif kind in _CALLS:
        tool = str(item.get("name") or "shell")
        arguments = _arguments(item.get(_CALLS[kind]))
        yield Said(kind="call", at=at, call=call, tool=tool, arguments=arguments)
    elif kind in _ANSWERS:
        yield Said(kind="result", at=at, call=call, text=_text(item.get("output")))


def _payload(line: Line) -> Line:
    return as_object(line.get("payload"))


def _arguments(given: Any) -> Mapping[str, Any]:
    """Return arguments that may be JSON text, and may be none of it."""
    if isinstance(given, str):
        try:
            given = sanitize(json.loads(given))
        except (ValueError, RecursionError):  # a tool with a grammar of its own
            return {"input": given}
    return given if isinstance(given, dict) else {"input": given}


def _text(content: Any) -> str:
    if isinstance(content, list):
        texts = (as_object(part).get("text") for part in content)
        return "\n".join(text for text in texts if isinstance(text, str))
    if content is None or isinstance(content, str):
        return content or ""
    return json.dumps(content, ensure_ascii=False)


def _at(line: Line) -> float:
    try:
        return max(0.0, datetime.fromisoformat(str(line.get("timestamp"))).timestamp())
    except (ValueError, OverflowError):  # of a year that no clock here has
        return 0.0
