"""A session as far as its log was played: a picture of it is made from its events alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from prsm_core.domain.agents import AgentResult, AgentState
from prsm_core.domain.steps import HumanRequest
from prsm_core.domain.usage import Provenance, Spent, TokenUsage
from prsm_core.interfaces.store import AgentRow, OpenCalls, OpenTurn, Picture, RunRow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from prsm_core.domain.agents import AgentDescriptor
    from prsm_core.domain.events import Event

_COUNTS = TokenUsage.__struct_fields__
_KINDS = {"permission_requested": "permission", "question_asked": "question"}


@dataclass(slots=True)
class _Agent:
    """An agent, by what was told of it so far."""

    descriptor: AgentDescriptor
    waiting_on: str | None = None
    result: AgentResult | None = None
    spent: Spent = field(default_factory=Spent)
    turns: int = 0
    head: str | None = None
    started_at: float | None = None
    ended_at: float | None = None
    last_tool: str | None = None
    last_at: float = 0.0
    context: Any = None
    turn: OpenTurn | None = None
    said: int = 0  # messages of the model in that turn
    calls: OpenCalls = field(default_factory=OpenCalls)


class Played:
    """The newest event that was played, and what all up to it tell.

    What no event tells, such as what an agent may do, is as the ledger has it now.
    """

    def __init__(self, rows: Iterable[AgentRow]) -> None:
        self.seq = 0
        self.at = 0.0
        self.run: RunRow | None = None
        self.runs: set[str] = set()  # that have begun
        self.requests: dict[str, HumanRequest] = {}
        self.outcomes: dict[str, Mapping[str, Any]] = {}
        self._known = {row.descriptor.agent_id: row.descriptor for row in rows}
        self._agents: dict[str, _Agent] = {}
        self._takers: Mapping[str, Callable[[Event], None]] = {
            "run_started": self._run_started,
            "run_resumed": self._run_resumed,
            "run_finished": self._run_finished,
            "agent_spawned": self._spawned,
            "agent_labels_changed": self._relabelled,
            "agent_model_changed": self._model_changed,
            "agent_state_changed": self._changed,
            "agent_held": self._held,
            "turn_started": self._turn_started,
            "turn_finished": self._turn_finished,
            "message_completed": self._message,
            "tool_call_started": self._call_started,
            "tool_call_finished": self._call_finished,
            "permission_requested": self._asked,
            "question_asked": self._asked,
            "permission_resolved": self._answered,
            "question_answered": self._answered,
        }

    def take(self, event: Event) -> None:
        """Play the next event."""
        self.seq, self.at = event.seq or self.seq, event.ts
        taker = self._takers.get(event.type)
        if taker is not None:
            taker(event)
        if event.agent in self._agents:
            self._agents[event.agent].last_at = event.ts

    @property
    def spent(self) -> Spent:
        """What all turns that have ended used."""
        return sum((agent.spent for agent in self._agents.values()), Spent())

    @property
    def turns(self) -> int:
        """How many turns were begun."""
        return sum(agent.turns for agent in self._agents.values())

    @property
    def names(self) -> Mapping[str, str]:
        """The agents so far, by id."""
        return {id_: agent.descriptor.name for id_, agent in self._agents.items()}

    def picture(self) -> Picture:
        """Return the session as of the newest event."""
        agents = self._agents.values()
        return Picture(
            seq=self.seq,
            run=self.run,
            agents=[_row(agent) for agent in agents],
            requests=list(self.requests.values()),
            unread=(),  # no event has their texts
            turns=[
                OpenTurn(
                    agent_id=agent.turn.agent_id,
                    turn_id=agent.turn.turn_id,
                    number=agent.turn.number,
                    calls=agent.calls.in_order(),
                )
                for agent in agents
                if agent.turn is not None
            ],
            contexts={id_: agent.context for id_, agent in self._agents.items()},
        )

    def since(
        self, agent: str, turn_id: str, seq: int, redact: Callable[[Any], Any]
    ) -> dict[str, Any]:
        """Return what a turn has said beyond its events: in a log, nothing; see Speaking."""
        at = self._agents[agent].said + 1
        return {"message": at, "text": "", "thinking": "", "at": 0, "unwritten": []}

    def _run_started(self, event: Event) -> None:
        self.runs.add(event.run or "")
        self.run = RunRow(
            run_id=event.run or "", task=event.data["task"], status="running", started_at=event.ts
        )

    def _run_resumed(self, _: Event) -> None:
        self._end_run("running", None, {})

    def _run_finished(self, event: Event) -> None:
        self._end_run(event.data["status"], event.ts, event.data)

    def _end_run(self, status: str, at: float | None, told: Mapping[str, Any]) -> None:
        if (run := self.run) is not None:
            self.run = replace(
                run,
                status=status,
                finished_at=at,
                summary=told.get("summary") or "",
                error=told.get("error"),
            )

    def _spawned(self, event: Event) -> None:
        known = self._known.get(event.agent or "")
        if known is not None:
            told = {name: event.data[name] for name in ("provider", "model", "prompt")}
            told["labels"] = event.data.get("labels") or {}
            born = replace(known, **told, state=AgentState.PENDING, incarnation=1)
            self._agents[known.agent_id] = _Agent(born)

    def _relabelled(self, event: Event) -> None:
        agent = self._agents.get(event.agent or "")
        if agent is not None:
            agent.descriptor = replace(agent.descriptor, labels=event.data["labels"])

    def _model_changed(self, event: Event) -> None:
        agent = self._agents.get(event.agent or "")
        if agent is not None:
            agent.descriptor = replace(agent.descriptor, **event.data)

    def _held(self, event: Event) -> None:
        if (agent := self._agents.get(event.agent or "")) is not None:
            agent.waiting_on = event.data["waiting_on"]

    def _changed(self, event: Event) -> None:
        agent = self._agents.get(event.agent or "")
        if agent is None:
            return
        state, data = AgentState(event.data["to"]), event.data
        agent.descriptor = replace(agent.descriptor, state=state)
        agent.waiting_on = data.get("waiting_on")
        agent.result = agent.ended_at = None
        if state.is_terminal:
            agent.ended_at = event.ts
            agent.turn = None
            agent.result = AgentResult(
                agent_id=event.agent or "",
                success=state is AgentState.COMPLETED,
                summary="",
                evidence=data.get("evidence") or "claimed",
                evidence_gaps=tuple(data.get("evidence_gaps") or ()),
                evidence_by=tuple(data.get("evidence_by") or ()),
            )

    def _turn_started(self, event: Event) -> None:
        agent = self._agents.get(event.agent or "")
        if agent is not None:
            agent.turns += 1
            agent.started_at = agent.started_at or event.ts
            number, turn = event.data["n"], event.data["turn"]
            agent.turn = OpenTurn(agent_id=event.agent or "", turn_id=turn, number=number)
            agent.said, agent.calls = 0, OpenCalls()

    def _message(self, event: Event) -> None:
        agent = self._agents.get(event.agent or "")
        if agent is not None and event.data["role"] == "assistant":
            agent.said += 1

    def _turn_finished(self, event: Event) -> None:
        agent = self._agents.get(event.agent or "")
        if agent is None:
            return
        data = event.data
        told, sources = data.get("usage") or {}, data.get("provenance") or {}
        agent.spent += Spent.of_turn(
            TokenUsage(**{name: told.get(name) for name in _COUNTS}),
            data.get("cost_usd"),
            *(Provenance(sources.get(name, "unknown")) for name in ("tokens", "cost")),
        )
        agent.context, agent.head = data.get("context"), data["turn"]
        agent.turn, agent.calls = None, OpenCalls()

    def _call_started(self, event: Event) -> None:
        agent = self._agents.get(event.agent or "")
        if agent is not None:
            agent.last_tool = event.data["tool"]
            agent.calls.take(event)

    def _call_finished(self, event: Event) -> None:
        agent = self._agents.get(event.agent or "")
        if agent is not None:
            agent.calls.take(event)

    def _asked(self, event: Event) -> None:
        id_ = event.data["request"]
        self.requests[id_] = HumanRequest(
            request_id=id_,
            agent_id=event.agent or "",
            kind=_KINDS[event.type],
            payload=event.data,
            opened_at=event.ts,
        )

    def _answered(self, event: Event) -> None:
        self.requests.pop(event.data["request"], None)
        self.outcomes[event.data["request"]] = event.data


def _row(agent: _Agent) -> AgentRow:
    spent = agent.spent
    return AgentRow(
        descriptor=agent.descriptor,
        waiting_on=agent.waiting_on,
        result=agent.result,
        resume_token=None,
        usage=spent.usage,
        cost_usd=spent.cost_usd,
        next_turn=agent.turns + 1,
        head_turn_id=agent.head,
        started_at=agent.started_at,
        ended_at=agent.ended_at,
        last_tool=agent.last_tool,
        last_event_at=agent.last_at,
        usage_provenance=spent.tokens_from,
        cost_provenance=spent.cost_from,
        turns_without_usage=spent.turns_without_tokens,
        turns_without_cost=spent.turns_without_cost,
    )
