"""Tells the conversation of a vendor's own agent as a session that is over, of one agent."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prsm_core.config.secrets import environment_secrets
from prsm_core.domain.agents import AgentDescriptor, AgentResult, AgentRole, AgentState, Grant
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
from prsm_core.kit.temporary import temporary_folder
from prsm_core.permissions.redaction import Redactor
from prsm_core.store import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from prsm_core.cli.sessions.transcripts import Said, Transcript
    from prsm_core.domain.steps import Write

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
        """Return JSON values without secrets."""
        return self._redactor.value(value)

    def steps(self) -> Iterator[Step]:
        """Yield the steps in their order."""
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
