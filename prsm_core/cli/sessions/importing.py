"""Takes a session in from a file: one that was exported, or a transcript of a vendor's agent.

Tells the conversation of a vendor's own agent as a session that is over, of one agent.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from prsm_core.cli.places import workspace_ledger
from prsm_core.cli.saying import say
from prsm_core.cli.sessions.exporting import FORMAT, VERSION
from prsm_core.cli.sessions.transcripts import Transcript, read_transcript
from prsm_core.config import private_dir
from prsm_core.config.secrets import environment_secrets
from prsm_core.domain.agents import AgentDescriptor, AgentResult, AgentRole, AgentState, Grant
from prsm_core.domain.ids import Ids
from prsm_core.domain.steps import Step
from prsm_core.domain.turns import AgentMessage, AgentToolCall, StopReason, TurnResult
from prsm_core.domain.usage import Spent
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
from prsm_core.kit.reading import read_object
from prsm_core.kit.regular import read_whole, read_within
from prsm_core.kit.sanitize import sanitize
from prsm_core.kit.temporary import temporary_folder
from prsm_core.permissions.redaction import Redactor
from prsm_core.store import SqliteStore
from prsm_core.store.migrations import NEWEST
from prsm_core.store.session_rows import TABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from prsm_core.cli.sessions.transcripts import Said
    from prsm_core.domain.steps import Write

MOST_BYTES = 512 << 20  # of a file that is taken in: it is held whole, some times over
_CURE = "export it with `prsm export SESSION --format json`"
_ROLES = {"manager": "master", "unified": "master"}  # as the specification once called them


async def import_session(workspace: str, file: str, *, as_json: bool) -> None:
    """Take the session of a file into the ledger of the workspace.

    Raises:
        PrsmError: the file cannot be read, is no export, or one that the ledger cannot hold.
    """
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
    """Return the JSON of a file; "-" is stdin."""
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
        what = "events of a session, which lack its rows" if _are_events(lines) else "not JSON"
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


def _are_events(lines: Sequence[Mapping[str, Any]]) -> bool:
    return bool(lines) and lines[0].keys() >= {"seq", "session", "type"}


def _checked(value: Any, file: str) -> Mapping[str, Any]:
    """Return the rows of an export; raises ConfigError for what is none, by its name."""
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
    """Return an agent with the names that roles and states have now, also of earlier formats.

    A state stays what it was: an agent that ran when it was exported is `interrupted` here.
    """
    role, state = (str(agent.get(name)).lower() for name in ("role", "state"))
    return {**agent, "role": _ROLES.get(role, role), "state": state}


def _new_ids() -> Callable[[str], str]:
    """Return what makes ids of the kind that a table has."""
    ids = Ids(time.time)
    kinds = {"agents": ids.agent, "requests": ids.request}
    return lambda table: kinds.get(table, ids.ulid)()


_NAME = "master"


async def retell(transcript: Transcript, new_id: Callable[[str], str]) -> Mapping[str, Any]:
    """Return the conversation as the copy of a session; secrets of the environment are left out.

    It is made by steps in a ledger of its own, as a run would make it.
    """
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
    """One conversation as the steps of a run."""

    def __init__(self, transcript: Transcript, new_id: Callable[[str], str]) -> None:
        self._redactor = Redactor(environment_secrets(os.environ))
        self._from = transcript
        self._task = str(self._redact(transcript.task)) or "a conversation"
        self.session, self._run = new_id("meta"), new_id("runs")
        self._agent, self._turn = new_id("agents"), new_id("turns")
        self._began, self._ended = transcript.said[0].at, transcript.said[-1].at

    def _redact(self, value: Any) -> Any:
        return self._redactor.value(value)

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
