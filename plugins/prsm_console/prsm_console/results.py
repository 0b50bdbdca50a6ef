"""How agents have ended, for programs that embed PRSM: the wait for it always ends.

A result is read from the events of the session: it is the same over an engine in this process and
over one in another.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from prsm_core import AgentResult, AgentState
from prsm_core.kit import first_of
from prsm_core.terminal import SystemClock

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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

    An agent that has not ended after `timeout_s` seconds gets a failed result and goes on: the
    `error_kind` is `timeout` (`closed` where the session was closed before), the summary what the
    agent said last. A kill has the kind `killed`; of other failures the events tell no kind.

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
        self._texts: list[str] = []  # of the newest turn
        self._claims: dict[str, Mapping[str, Any]] = {}  # by call
        self._claim: Mapping[str, Any] | None = None
        self._state: Mapping[str, Any] = {}

    @property
    def has_ended(self) -> bool:
        return bool(self._state) and AgentState(self._state["to"]).is_terminal

    def read(self, event: Event) -> None:
        data = event.data
        match event.type:
            case "agent_spawned":
                self._begin(event)
            case "agent_state_changed":
                if self.has_ended:  # it lives again
                    self._begin(event)
                self._state, self._ended = data, event.ts
            case "turn_started":
                self._texts.clear()
            case "message_completed" if data["role"] == "assistant" and data["text"]:
                self._texts.append(data["text"])
            case "tool_call_started" if data["orchestration"] and data["tool"] == "task_complete":
                self._claims[data["call"]] = data["arguments"]
            case "tool_call_finished" if data["status"] == "completed":
                self._claim = self._claims.get(data["call"], self._claim)

    def _begin(self, event: Event) -> None:
        self._began = event.ts
        self._texts, self._claims, self._claim = [], {}, None

    def result(self, error: str, kind: str | None) -> AgentResult:
        """Return how the life has ended; a failure for this reason where it has not."""
        state, took = self._state, round(max(0.0, self._ended - self._began), 3)
        if not self.has_ended or state["to"] != AgentState.COMPLETED:
            if self.has_ended:
                error = state["reason"]
                kind = "killed" if state["to"] == AgentState.KILLED else None
            return AgentResult(
                agent_id=self._agent_id,
                success=False,
                summary="\n".join(self._texts),
                error=error,
                error_kind=kind,
                duration=took,
            )
        claim = self._claim or {"summary": self._texts[-1] if self._texts else ""}
        return AgentResult(
            agent_id=self._agent_id,
            success=True,
            summary=claim["summary"].strip(),
            artifacts=tuple(claim.get("artifacts") or ()),
            duration=took,
            evidence=state["evidence"],
            evidence_gaps=tuple(state["evidence_gaps"]),
            evidence_by=tuple(state.get("evidence_by") or ()),
        )
