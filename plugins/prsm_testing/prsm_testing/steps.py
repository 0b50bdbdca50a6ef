"""Steps: builds the durable steps of one session, for tests of stores and of what reads them."""

from __future__ import annotations

from itertools import count
from typing import Any

from prsm_core.domain.agents import AgentDescriptor, AgentResult, AgentRole, AgentState, Grant
from prsm_core.domain.changes import Author, FileChange
from prsm_core.domain.events import Event
from prsm_core.domain.messages import MessageType, RoutedMessage
from prsm_core.domain.sessions import SessionSnapshot
from prsm_core.domain.steps import HumanRequest, Step, Write
from prsm_core.domain.turns import AgentMessage, AgentToolCall, StopReason, TurnResult
from prsm_core.domain.usage import TokenUsage
from prsm_core.domain.writes import (
    AgentEnded,
    AgentRestarted,
    AgentSpawned,
    CallClosed,
    CallOpened,
    FileChanged,
    MessagesConsumed,
    MessageSent,
    RequestOpened,
    RequestResolved,
    RunStarted,
    StateChanged,
    Told,
    TurnClosed,
    TurnOpened,
)

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

    def step(self, name: str | None, *writes: Write, **fields: Any) -> Step:
        """Return a step of the agent called `name`, or of the run."""
        defaults = {
            "step_id": self.id("step"),
            "session_id": self.session,
            "run_id": self.run,
            "agent_id": None if name is None else self.agent(name),
            "at": 1000.0,
            "writes": writes,
        }
        return Step(**{**defaults, **fields})

    def event(self, name: str | None = None, text: str = "") -> Event:
        """Return a notice that no step causes."""
        return Event(
            type="notice",
            session=self.session,
            run=self.run,
            ts=1000.0,
            agent=None if name is None else self.agent(name),
            data={"level": "info", "text": text},
        )

    def changed(self, change_id: str, name: str | None = None, **fields: Any) -> FileChanged:
        """Return that a file is another, by an agent, or from outside."""
        authors = () if name is None else (Author(self.agent(name), "c1"),)
        defaults = {
            "id": change_id,
            "scan": "s1",
            "path": "src/a.py",
            "folder": "/work",
            "kind": "added",
            "new_mode": "100644",
            "after": "0" * 40,
            "added": 2,
            "removed": 0,
            "how": "outside" if name is None else "sole",
            "authors": authors,
        }
        return FileChanged(change=FileChange(**{**defaults, **fields}))

    def told(self, text: str = "") -> Told:
        """Return a notice as a step tells it."""
        return Told(kind="notice", data={"level": "info", "text": text})

    def sent(self, *messages: RoutedMessage) -> tuple[Write, ...]:
        """Return what sends messages."""
        return tuple(MessageSent(message=message) for message in messages)

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

    def descriptor(self, name: str, parent: str | None = None, **fields: Any) -> AgentDescriptor:
        """Return an agent that is about to be spawned."""
        defaults = {
            "agent_id": self.agent(name),
            "name": name,
            "session_id": self.session,
            "run_id": self.run,
            "role": AgentRole.WORKER if parent else AgentRole.MASTER,
            "provider": "script",
            "model": "default",
            "prompt": "do it",
            "system_prompt": "you are an agent",
            "cwd": "/work",
            "tools": frozenset({"Read", "Grep"}),
            "grant": Grant(tools=frozenset({"Read", "Grep", "Edit"})),
            "parent_id": None if parent is None else self.agent(parent),
            "depth": 0 if parent is None else 1,
            "created_at": 1000.0,
        }
        return AgentDescriptor(**{**defaults, **fields})

    def spawn(self, name: str, parent: str | None = None, **fields: Any) -> Step:
        """Spawn an agent; the step is its own."""
        return self.step(name, AgentSpawned(agent=self.descriptor(name, parent, **fields)))

    def turn(self, name: str, number: int = 1, **fields: Any) -> TurnOpened:
        """Return the opening of a turn."""
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
        return TurnOpened(**{**defaults, **fields})

    def open_turn(self, name: str, number: int = 1, *, incarnation: int = 1, **fields: Any) -> Step:
        """Open a turn."""
        return self.step(name, self.turn(name, number, **fields), incarnation=incarnation)

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

    def open_call(self, turn: TurnOpened, call: AgentToolCall, name: str, **fields: Any) -> Step:
        """Open an orchestration call in a turn of the agent."""
        return self.step(name, CallOpened(turn_id=turn.turn_id, call=call), **fields)

    def answer(self, turn: TurnOpened, call_id: str, **fields: Any) -> CallClosed:
        """Return the answer of a call."""
        defaults = {
            "turn_id": turn.turn_id,
            "call_id": call_id,
            "status": "completed",
            "result": "the answer",
            "at_ms": 1_000_200,
        }
        return CallClosed(**{**defaults, **fields})

    def close_call(
        self,
        turn: TurnOpened,
        call_id: str,
        name: str,
        consumed: tuple[str, ...] = (),
        **fields: Any,
    ) -> Step:
        """Answer a call."""
        return self.step(name, self.answer(turn, call_id, consumed=consumed), **fields)

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

    def close(self, turn: TurnOpened, **fields: Any) -> TurnClosed:
        """Return the end of a turn."""
        defaults = {
            "turn_id": turn.turn_id,
            "parent_turn_id": turn.parent_turn_id,
            "session_label": turn.session_label,
            "result": self.result(),
            "completed_at_ms": 1_000_500,
        }
        return TurnClosed(**{**defaults, **fields})

    def close_turn(
        self, turn: TurnOpened, name: str, *, incarnation: int = 1, **fields: Any
    ) -> Step:
        """Close a turn."""
        return self.step(name, self.close(turn, **fields), incarnation=incarnation)

    def change(self, source: AgentState, target: AgentState, **fields: Any) -> StateChanged:
        """Return a change of state."""
        return StateChanged(source=source, target=target, **fields)

    def end(
        self,
        name: str,
        *writes: Write,
        source: AgentState = PENDING,
        target: AgentState = KILLED,
        result: AgentResult | None = None,
        **fields: Any,
    ) -> Step:
        """End an agent."""
        ended = AgentResult(agent_id=self.agent(name), success=False, summary="ended")
        end = AgentEnded(result=result or ended)
        return self.step(name, end, *writes, self.change(source, target), **fields)

    def restart(
        self, name: str, incarnation: int, *writes: Write, prompt: str | None = None
    ) -> Step:
        """Restart an agent as its new incarnation; `writes` replace the change from killed."""
        changes = writes or (self.change(KILLED, PENDING),)
        return self.step(name, AgentRestarted(prompt=prompt), *changes, incarnation=incarnation)

    def consume(self, name: str, *messages: str, **fields: Any) -> Step:
        """Consume messages."""
        return self.step(name, MessagesConsumed(messages=messages), **fields)

    def run_started(self, **fields: Any) -> Step:
        """Start the run."""
        return self.step(None, RunStarted(task="a task", workspace="/work"), **fields)

    def request(self, name: str, **fields: Any) -> HumanRequest:
        """Return a new permission request of the agent; it is told with its id."""
        request_id = fields.get("request_id") or self.id("request")
        told = fields.get("payload", {"tool": "Bash", "command": "make"})
        defaults = {
            "agent_id": self.agent(name),
            "kind": "permission",
            "opened_at": 1000.0,
        }
        own = {"request_id": request_id, "payload": {"request": request_id, **told}}
        return HumanRequest(**{**defaults, **fields, **own})

    def snapshot(self, name: str = "w1", **fields: Any) -> SessionSnapshot:
        """Return a snapshot of files before a prompt to the agent."""
        defaults = {
            "snapshot_id": self.id("snapshot"),
            "last_commit": 1,
            "taken_at": 1000.0,
            "kind": "prompt",
            "folder": "/w",
            "tree": "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
            "branch": "main",
            "agent_id": self.agent(name),
            "unquiet": ("w2: make",),
        }
        return SessionSnapshot(**{**defaults, **fields})

    def ask(self, name: str, request: HumanRequest) -> Step:
        """Open a request."""
        return self.step(name, RequestOpened(request=request))

    def resolved(self, request_id: str, verdict: str = "once", by: str = "user") -> RequestResolved:
        """Return the answer to a permission request."""
        answer = {"verdict": verdict}
        return RequestResolved(request_id=request_id, kind="permission", answer=answer, by=by)
