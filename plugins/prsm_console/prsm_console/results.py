"""How agents have ended, for who embeds PRSM in something: a wait for that always ends.

It uses an AppHandle and nothing else, as `streams` do. A result is read from the events of the
session, so that it is the same over an engine in this process and over one in another.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from prsm_core import AgentResult, AgentState
from prsm_core.kit import first_of
from prsm_core.terminal import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from prsm_core import AppHandle, Clock, Event

WAIT_SECONDS = 7260.0  # a minute more than an agent may reason, if nobody sets another limit


async def wait_for_result(
    app: AppHandle, agent: str, *, timeout_s: float = WAIT_SECONDS, clock: Clock | None = None
) -> AgentResult:
    """Return how the agent of this name or id ends, or has ended; see `wait_for_multiple`."""
    [result] = await wait_for_multiple(app, [agent], timeout_s=timeout_s, clock=clock)
    return result


async def wait_for_multiple(
    app: AppHandle,
    agents: Sequence[str],
    *,
    timeout_s: float = WAIT_SECONDS,
    clock: Clock | None = None,
) -> list[AgentResult]:
    """Return how several agents end, or have ended, in the order given.

    It takes `timeout_s` seconds at most. Of an agent that has not ended by then there is a failed
    result: its `error` says so, its `error_kind` is `timeout`, its summary what it said last. So
    there is where the session is closed before (`closed`). The agent itself is not touched. A kill
    has the kind `killed`; of other failures the events tell no kind.

    Raises MessageRoutingError: there is no such agent.
    """
    view = await app.view()
    ids = [view.tree.find(agent).id for agent in agents]
    lives = {agent_id: _Life(agent_id) for agent_id in ids}

    async def follow() -> None:
        async with aclosing(app.events()) as events:  # type: ignore[type-var]
            async for event in events:
                if event.agent in lives:
                    lives[event.agent].read(event)
                is_new = event.seq is not None and event.seq >= view.seq
                if is_new and all(life.has_ended for life in lives.values()):
                    return

    in_time = await first_of(clock or SystemClock(), timeout_s, follow) if ids else True
    error, kind = f"no result within {timeout_s:g} s", "timeout"
    if in_time:
        error, kind = "the session was closed", "closed"
    return [lives[agent_id].result(error, kind) for agent_id in ids]


class _Life:
    """What the events tell of an agent's newest life."""

    def __init__(self, agent_id: str) -> None:
        self._agent_id = agent_id
        self._began = self._ended = 0.0
        self._said: list[str] = []  # in the newest turn
        self._claims: dict[str, Mapping[str, Any]] = {}  # by call
        self._claim: Mapping[str, Any] | None = None
        self._state: Mapping[str, Any] = {}
        self._readers: Mapping[str, Callable[[Event], None]] = {
            "agent_spawned": self._begin,
            "agent_state_changed": self._change,
            "turn_started": lambda _: self._said.clear(),
            "message_completed": self._say,
            "tool_call_started": self._call,
            "tool_call_finished": self._answer,
        }

    @property
    def has_ended(self) -> bool:
        """Whether this life is over."""
        return bool(self._state) and AgentState(self._state["to"]).is_terminal

    def read(self, event: Event) -> None:
        """Take note of an event of the agent."""
        reader = self._readers.get(event.type)
        if reader is not None:
            reader(event)

    def result(self, error: str, kind: str) -> AgentResult:
        """Return how it has ended; a failure for this reason where it has not."""
        said, state = "\n".join(self._said), self._state
        if not self.has_ended:
            return self._failure(said, error, kind)
        if state["to"] != AgentState.COMPLETED:
            killed = "killed" if state["to"] == AgentState.KILLED else None
            return self._failure(said, state["reason"], killed)
        claim = self._claim or {"summary": self._said[-1] if self._said else ""}
        return AgentResult(
            agent_id=self._agent_id,
            success=True,
            summary=claim["summary"].strip(),
            artifacts=tuple(claim.get("artifacts") or ()),
            duration=self._seconds,
            evidence=state["evidence"],
            evidence_gaps=tuple(state["evidence_gaps"]),
            evidence_by=tuple(state.get("evidence_by") or ()),
        )

    def _failure(self, said: str, error: str, kind: str | None) -> AgentResult:
        return AgentResult(
            agent_id=self._agent_id,
            success=False,
            summary=said,
            error=error,
            error_kind=kind,
            duration=self._seconds,
        )

    @property
    def _seconds(self) -> float:
        return round(max(0.0, self._ended - self._began), 3)

    def _begin(self, event: Event) -> None:
        self._began = event.ts
        self._said, self._claims, self._claim = [], {}, None

    def _change(self, event: Event) -> None:
        if self.has_ended:  # it lives again
            self._begin(event)
        self._state, self._ended = event.data, event.ts

    def _say(self, event: Event) -> None:
        if event.data["role"] == "assistant" and event.data["text"]:
            self._said.append(event.data["text"])

    def _call(self, event: Event) -> None:
        if event.data["orchestration"] and event.data["tool"] == "task_complete":
            self._claims[event.data["call"]] = event.data["arguments"]

    def _answer(self, event: Event) -> None:
        if event.data["call"] in self._claims and event.data["status"] == "completed":
            self._claim = self._claims[event.data["call"]]
