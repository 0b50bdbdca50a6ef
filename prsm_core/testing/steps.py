"""Steps: builds the durable steps of one session, for tests of stores and of what reads them."""

from __future__ import annotations

from itertools import count
from typing import Any

from prsm_core.domain.agents import AgentDescriptor, AgentResult, AgentRole, AgentState, Grant
from prsm_core.domain.events import Event
from prsm_core.domain.messages import MessageType, RoutedMessage
from prsm_core.domain.steps import (
    AgentEndStep,
    CallClose,
    CallCloseStep,
    CallOpenStep,
    ControlStep,
    HumanRequest,
    SpawnStep,
    StateChange,
    TurnCloseStep,
    TurnOpenStep,
)
from prsm_core.domain.turns import AgentMessage, AgentToolCall, StopReason, TurnResult
from prsm_core.domain.usage import TokenUsage

PENDING, KILLED = AgentState.PENDING, AgentState.KILLED


class Steps:
    """Builds the steps of one session; ids count up, agents are known by their names."""

    def __init__(self, session: str = "s1") -> None:
        self.session = session
        self.run = f"{session}-run"
        self._numbers = count(1)

    def id(self, prefix: str) -> str:
        """Return a new id."""
        return f"{self.session}-{prefix}-{next(self._numbers):06d}"

    def agent(self, name: str) -> str:
        """Return the id of the agent called `name`."""
        return f"{self.session}-{name}"

    def _base(self, name: str | None, fields: dict[str, Any]) -> dict[str, Any]:
        return {
            "step_id": self.id("step"),
            "session_id": self.session,
            "run_id": self.run,
            "agent_id": None if name is None else self.agent(name),
            **fields,
        }

    def event(self, name: str | None = None, text: str = "") -> Event:
        """Return a notice."""
        return Event(
            type="notice",
            session=self.session,
            run=self.run,
            ts=1000.0,
            agent=None if name is None else self.agent(name),
            data={"level": "info", "text": text},
        )

    def message(
        self, source: str, target: str, kind: MessageType = MessageType.QUESTION, **fields: Any
    ) -> RoutedMessage:
        """Return a message between two agents."""
        return RoutedMessage(
            **{
                "message_id": self.id("message"),
                "type": kind,
                "source": self.agent(source),
                "target": self.agent(target),
                "payload": {"text": "which one?"},
                **fields,
            }
        )

    def spawn(self, name: str, parent: str | None = None, **fields: Any) -> SpawnStep:
        """Spawn an agent; the step is its own."""
        agent = AgentDescriptor(
            agent_id=self.agent(name),
            name=name,
            session_id=self.session,
            run_id=self.run,
            role=AgentRole.WORKER if parent else AgentRole.MASTER,
            provider="script",
            model="default",
            prompt="do it",
            system_prompt="you are an agent",
            cwd="/work",
            tools=frozenset({"Read", "Grep"}),
            grant=Grant(tools=frozenset({"Read", "Grep", "Edit"})),
            parent_id=None if parent is None else self.agent(parent),
            depth=0 if parent is None else 1,
            created_at=1000.0,
        )
        return SpawnStep(**self._base(name, {"agent": agent, **fields}))

    def open_turn(self, name: str, number: int = 1, **fields: Any) -> TurnOpenStep:
        """Open a turn."""
        defaults = {
            "turn_id": self.id("turn"),
            "number": number,
            "parent_turn_id": None,
            "session_label": f"{self.session}/{name}",
            "model": "default",
            "provider": "script",
            "role": "worker",
            "toolset_name": "worker",
            "tools_available": ("Read", "Grep"),
            "permissions_granted": ("Read",),
            "workspace_path": "/work",
            "started_at_ms": 1_000_000,
        }
        return TurnOpenStep(**self._base(name, {**defaults, **fields}))

    def call(self, call_id: str, **fields: Any) -> AgentToolCall:
        """Return a running orchestration call."""
        defaults = {
            "id": call_id,
            "tool_name": "ask_parent",
            "params": {"question": "which one?"},
            "status": "running",
            "started_at": 1_000_100,
            "sequence": 0,
            "orchestration": True,
        }
        return AgentToolCall(**{**defaults, **fields})

    def open_call(
        self, turn: TurnOpenStep, call: AgentToolCall, name: str, **fields: Any
    ) -> CallOpenStep:
        """Open an orchestration call in a turn of the agent."""
        return CallOpenStep(**self._base(name, {"turn_id": turn.turn_id, "call": call, **fields}))

    def close_call(
        self, turn: TurnOpenStep, call_id: str, name: str, consumed: tuple[str, ...] = ()
    ) -> CallCloseStep:
        """Answer a call."""
        close = CallClose(
            turn_id=turn.turn_id,
            call_id=call_id,
            status="completed",
            result="the answer",
            consumed=consumed,
            at_ms=1_000_200,
        )
        return CallCloseStep(**self._base(name, {"close": close}))

    def result(self, **fields: Any) -> TurnResult:
        """Return the result of a turn: a prompt, an answer, 15 tokens."""
        said = [("user", "do it"), ("assistant", "done")]
        defaults = {
            "messages": tuple(
                AgentMessage(
                    id=f"m{number}",
                    role=role,
                    content=content,
                    sequence=number,
                    created_at=1_000_000 + number,
                )
                for number, (role, content) in enumerate(said)
            ),
            "tool_calls": (),
            "usage": TokenUsage(input_tokens=10, output_tokens=5, total_tokens=15),
            "stop_reason": StopReason.END_TURN,
            "duration_ms": 500,
        }
        return TurnResult(**{**defaults, **fields})

    def close_turn(self, turn: TurnOpenStep, name: str, **fields: Any) -> TurnCloseStep:
        """Close a turn."""
        defaults = {
            "turn_id": turn.turn_id,
            "parent_turn_id": turn.parent_turn_id,
            "session_label": turn.session_label,
            "result": self.result(),
            "completed_at_ms": 1_000_500,
        }
        return TurnCloseStep(**self._base(name, {**defaults, **fields}))

    def end(
        self, name: str, source: AgentState = PENDING, target: AgentState = KILLED, **fields: Any
    ) -> AgentEndStep:
        """End an agent."""
        defaults = {
            "result": AgentResult(agent_id=self.agent(name), success=False, summary="ended"),
            "changes": (StateChange(source=source, target=target),),
        }
        return AgentEndStep(**self._base(name, {**defaults, **fields}))

    def control(self, name: str | None, act: str, **fields: Any) -> ControlStep:
        """Do something else."""
        return ControlStep(**self._base(name, {"act": act, **fields}))

    def restart(self, name: str, incarnation: int, **fields: Any) -> ControlStep:
        """Restart a killed agent as its new incarnation."""
        changes = (StateChange(source=KILLED, target=PENDING),)
        return self.control(
            name, "restart", **{"incarnation": incarnation, "changes": changes, **fields}
        )

    def run_started(self) -> ControlStep:
        """Start the run."""
        return self.control(None, "run_started", data={"task": "a task", "workspace": "/work"})

    def request(self, name: str) -> HumanRequest:
        """Return a new permission request of the agent."""
        return HumanRequest(
            request_id=self.id("request"),
            agent_id=self.agent(name),
            kind="permission",
            payload={"tool": "Bash", "command": "make"},
            opened_at=1000.0,
        )
