"""MemoryLedger: the tables of a MemoryStore, and what each kind of step writes to them.

It keeps the values it is given, neither copied nor encoded. A step that fails is taken back.
"""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from prsm_core.domain.events import LIVE_TYPES
from prsm_core.domain.messages import MessageType
from prsm_core.domain.steps import (
    AgentEndStep,
    CallCloseStep,
    CallOpenStep,
    Committed,
    ControlStep,
    SpawnStep,
    TurnCloseStep,
    TurnOpenStep,
)
from prsm_core.errors import FencedError, InvalidTransitionError, MessageRoutingError, StoreError
from prsm_core.testing.memory_rows import (
    AgentEntry,
    CallEntry,
    MessageEntry,
    RequestEntry,
    RunEntry,
    SessionEntry,
    TurnEntry,
    Undo,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prsm_core.domain.agents import AgentState
    from prsm_core.domain.events import Event
    from prsm_core.domain.messages import RoutedMessage
    from prsm_core.domain.steps import CallClose, Resolution, Step

_AFTER_END = (TurnCloseStep, CallCloseStep, ControlStep)
_TO_ENDED = frozenset({MessageType.TASK_RESULT, MessageType.KILL_SIGNAL})


class MemoryLedger:
    """Owns the tables; every act is synchronous and whole."""

    def __init__(self) -> None:
        self.sessions: dict[str, SessionEntry] = {}
        self.runs: dict[str, RunEntry] = {}
        self.agents: dict[str, AgentEntry] = {}
        self.turns: dict[str, TurnEntry] = {}
        self.messages: dict[str, MessageEntry] = {}
        self.requests: dict[str, RequestEntry] = {}
        self.events: defaultdict[str, list[Event]] = defaultdict(list)  # seq is the index + 1
        self._labels: dict[str, str] = {}  # ledger session -> agent
        self._steps: dict[str, tuple[str, type[Step], tuple[Event, ...]]] = {}
        self._undo = Undo()

    def commit(self, step: Step) -> Committed:
        """Apply a step or nothing of it; a known one returns its first result."""
        known = self._steps.get(step.step_id)
        if known is not None:
            return self._first_result(step, *known)
        agent = self._fenced(step)
        if isinstance(step, TurnCloseStep):
            first = self._closing_step(step)
            if first is not None:
                _, _, events = self._steps[first]
                return Committed(step_id=step.step_id, events=events, duplicate=True)
        self._undo = Undo()
        try:
            self._write(step, agent)
            self._send(step)
            self._check_events(step)
        except BaseException:
            self._undo.roll_back()
            raise
        events = self._number(step.events)
        self._steps[step.step_id] = (step.session_id, type(step), events)
        return Committed(step_id=step.step_id, events=events)

    def append(self, events: Sequence[Event]) -> tuple[Event, ...]:
        """Append events that no step causes."""
        _check_stored(events)
        return self._number(events)

    def _first_result(
        self, step: Step, session_id: str, kind: type[Step], events: tuple[Event, ...]
    ) -> Committed:
        if (session_id, kind) != (step.session_id, type(step)):
            raise StoreError(
                f"step {step.step_id} was already committed as a {kind.__name__} of session"
                f" {session_id}",
                code="step_id_reused",
            )
        return Committed(step_id=step.step_id, events=events, duplicate=True)

    def _check_events(self, step: Step) -> None:
        for event in step.events:
            if event.session != step.session_id:
                raise StoreError(
                    f"step {step.step_id} has an event of session {event.session}",
                    code="wrong_session",
                )
        _check_stored(step.events)

    def _number(self, events: Sequence[Event]) -> tuple[Event, ...]:
        numbered = []
        for event in events:
            log = self.events[event.session]
            event = event.at(len(log) + 1)
            log.append(event)
            numbered.append(event)
        return tuple(numbered)

    def _fenced(self, step: Step) -> AgentEntry | None:
        """Return the agent a step belongs to, None for an act of the run or a new agent."""
        if step.agent_id is None:
            if step.changes or not isinstance(step, ControlStep | SpawnStep) or _restarts(step):
                raise StoreError(f"step {step.step_id} names no agent", code="unknown_agent")
            return None
        if isinstance(step, SpawnStep) and step.agent_id == step.agent.agent_id:
            return None
        agent = self._find_agent(step.agent_id, step.session_id)
        if agent is None:
            raise StoreError(f"there is no agent {step.agent_id}", code="unknown_agent")
        expected = agent.incarnation + _restarts(step)
        if step.incarnation < expected:
            raise FencedError(
                f"step {step.step_id} is of incarnation {step.incarnation}; agent"
                f" {step.agent_id} is at {agent.incarnation}"
            )
        if step.incarnation > expected:
            raise StoreError(
                f"agent {step.agent_id} is only at incarnation {agent.incarnation}",
                code="bad_incarnation",
            )
        if agent.state.is_terminal and not isinstance(step, _AFTER_END):
            raise _ended(step.agent_id, agent.state)
        return agent

    def _find_agent(self, agent_id: str | None, session_id: str) -> AgentEntry | None:
        agent = self.agents.get(agent_id or "")
        return agent if agent is not None and agent.descriptor.session_id == session_id else None

    def _spawn(self, step: SpawnStep) -> None:
        new = step.agent
        if new.session_id != step.session_id:
            raise StoreError(
                f"agent {new.agent_id} is of session {new.session_id}", code="wrong_session"
            )
        if new.parent_id is not None:
            parent = self._find_agent(new.parent_id, new.session_id)
            if parent is None:
                raise StoreError(f"there is no parent agent {new.parent_id}", code="unknown_agent")
            if parent.state.is_terminal:
                raise _ended(new.parent_id, parent.state)
        agent = AgentEntry(new, new.state, new.incarnation, new.prompt)
        self._undo.insert(self.agents, new.agent_id, agent)
        self._undo.insert(self._labels, agent.label, new.agent_id)

    def _change_state(self, step: Step, agent: AgentEntry, before: AgentState) -> None:
        state = before
        for change in step.changes:
            if change.source is not state:
                raise InvalidTransitionError("agent", state, change.target)
            state = change.target
        if before.is_terminal and not state.is_terminal and not _restarts(step):
            raise _ended(step.agent_id, before)
        if isinstance(step, AgentEndStep) and not state.is_terminal:
            raise StoreError(f"step {step.step_id} leaves the agent {state}", code="not_ended")
        if _restarts(step) and state.is_terminal:
            raise StoreError(f"step {step.step_id} leaves the agent {state}", code="not_restarted")
        if step.changes:
            ended = (agent.ended_at or _time_of(step)) if state.is_terminal else None
            self._undo.set(
                agent, state=state, waiting_on=step.changes[-1].waiting_on, ended_at=ended
            )

    def _write(self, step: Step, agent: AgentEntry | None) -> None:
        if isinstance(step, SpawnStep):
            self._spawn(step)
            if step.agent_id is None:
                return
            agent = agent or self.agents[step.agent_id]
        if agent is None:
            if isinstance(step, ControlStep):
                self._control(step)
            return
        before = agent.state
        self._write_for_agent(step, agent)
        self._change_state(step, agent, before)

    def _write_for_agent(self, step: Step, agent: AgentEntry) -> None:
        match step:
            case SpawnStep():
                pass
            case TurnOpenStep():
                self._open_turn(step, agent)
                self._consume(step, step.consumed, step.turn_id)
            case CallOpenStep():
                turn = self._own_turn(step.turn_id, step.agent_id)
                if turn.result is not None:
                    raise StoreError(f"turn {step.turn_id} is closed", code="turn_closed")
                self._undo.insert(turn.calls, step.call.id, CallEntry(step.call))
            case CallCloseStep():
                self._close_call(step, step.close)
            case TurnCloseStep():
                self._close_turn(step, agent)
            case AgentEndStep():
                self._end(step, agent)
            case ControlStep():
                self._control(step)
                self._control_agent(step, agent)
            case _:
                raise StoreError(f"{type(step).__name__} is no kind of step", code="unknown_step")

    def _open_turn(self, step: TurnOpenStep, agent: AgentEntry) -> None:
        if step.number != agent.next_turn:
            raise StoreError(
                f"agent {step.agent_id} is at turn {agent.next_turn}, not {step.number}",
                code="turn_number",
            )
        _check_label(step.session_label, agent)
        if step.parent_turn_id is not None and step.parent_turn_id not in self.turns:
            raise StoreError(f"there is no turn {step.parent_turn_id}", code="unknown_turn")
        self._undo.insert(
            self.turns, step.turn_id, TurnEntry(step=step, agent_id=agent.descriptor.agent_id)
        )
        self._undo.set(agent, next_turn=step.number + 1)

    def _own_turn(self, turn_id: str, agent_id: str | None) -> TurnEntry:
        turn = self.turns.get(turn_id)
        if turn is None or turn.agent_id != agent_id:
            raise StoreError(f"agent {agent_id} has no turn {turn_id}", code="unknown_turn")
        return turn

    def _close_call(self, step: Step, close: CallClose) -> None:
        entry = self._own_turn(close.turn_id, step.agent_id).calls.get(close.call_id)
        if entry is None or entry.close is not None or entry.call.completed_at is not None:
            raise StoreError(
                f"turn {close.turn_id} has no open call {close.call_id}", code="call_not_open"
            )
        self._undo.set(entry, close=close)
        self._consume(step, close.consumed, close.call_id)

    def _closing_step(self, step: TurnCloseStep) -> str | None:
        """Return the step that closed the turn before, if one did; check the turn's place."""
        turn = self._own_turn(step.turn_id, step.agent_id)
        if turn.step.parent_turn_id != step.parent_turn_id:
            raise StoreError(
                f"turn {step.turn_id} was opened under {turn.step.parent_turn_id}",
                code="wrong_parent",
            )
        return turn.closed_by

    def _close_turn(self, step: TurnCloseStep, agent: AgentEntry) -> None:
        turn = self.turns[step.turn_id]
        ids = [message.id for message in step.result.messages]
        if len(set(ids)) < len(ids):
            raise StoreError(f"turn {step.turn_id} has a message twice", code="conflict")
        _check_label(step.session_label, agent)
        self._undo.set(turn, result=step.result, closed_by=step.step_id)
        self._undo.set(agent, head_turn_id=step.turn_id)
        if step.resume_token is not None:
            self._undo.set(agent, resume_token=step.resume_token)

    def _end(self, step: AgentEndStep, agent: AgentEntry) -> None:
        self._undo.set(agent, result=step.result)
        if step.close is not None:
            self._close_call(step, step.close)
        for resolution in step.resolutions:
            # A person may have answered a moment ago; that answer stands, and the end is an end.
            self._resolve(step, resolution)

    def _control(self, step: ControlStep) -> None:
        """Write what a control step holds whether it belongs to an agent or to the run."""
        if step.act == "run_started":
            self._start_run(step)
        elif step.act == "run_finished":
            self._finish_run(step)
        for request in step.requests:
            if request.agent_id not in self.agents:
                raise StoreError(f"there is no agent {request.agent_id}", code="conflict")
            entry = RequestEntry(request, step.session_id)
            self._undo.insert(self.requests, request.request_id, entry)
        for resolution in step.resolutions:
            if not self._resolve(step, resolution):
                raise StoreError(
                    f"request {resolution.request_id} was answered before", code="already_resolved"
                )

    def _start_run(self, step: ControlStep) -> None:
        task, workspace = step.data.get("task") or "", step.data.get("workspace") or ""
        if step.session_id not in self.sessions:
            session = SessionEntry(task, workspace, _time_of(step))
            self._undo.insert(self.sessions, step.session_id, session)
        self._undo.insert(self.runs, step.run_id, RunEntry(step.run_id, step.session_id))

    def _finish_run(self, step: ControlStep) -> None:
        status, run = step.data.get("status"), self.runs.get(step.run_id)
        if not isinstance(status, str):
            raise StoreError("run_finished needs a status", code="no_status")
        if run is None or (run.session_id, run.status) != (step.session_id, "running"):
            raise StoreError(f"run {step.run_id} is not running", code="not_running")
        self._undo.set(run, status=status)

    def _resolve(self, step: Step, resolution: Resolution) -> bool:
        entry = self.requests.get(resolution.request_id)
        if entry is None or entry.session_id != step.session_id:
            raise StoreError(f"there is no request {resolution.request_id}", code="unknown_request")
        if entry.resolution is not None:
            return False
        self._undo.set(entry, resolution=resolution)
        return True

    def _control_agent(self, step: ControlStep, agent: AgentEntry) -> None:
        match step.act:
            case "restart":
                self._restart(step, agent)
            case "finishing" if step.result is None:
                raise StoreError("finishing needs a result", code="no_result")
            case "finishing" if agent.state.is_terminal:
                raise _ended(step.agent_id, agent.state)
            case "finishing":
                self._undo.set(agent, result=step.result)
            case "model":
                descriptor = replace(agent.descriptor, **step.data)
                self._undo.set(agent, descriptor=descriptor, resume_token=None)
            case "resume_token":
                self._undo.set(agent, resume_token=step.data["token"])
        self._consume(step, step.consumed, step.step_id)

    def _restart(self, step: ControlStep, agent: AgentEntry) -> None:
        new = step.incarnation
        self._undo.set(agent, incarnation=new, result=None, waiting_on=None)
        if step.prompt is not None:
            self._undo.set(agent, prompt=step.prompt)
        if agent.state.is_terminal:
            return  # what it left unread when it ended stays with the incarnation that ended
        for entry in self.messages.values():
            if entry.message.target == step.agent_id and entry.consumed_by is None:
                self._undo.set(entry, incarnation=new)

    def _send(self, step: Step) -> None:
        for message in step.messages:
            self._check_target(step.session_id, message)
            entry = MessageEntry(message, step.session_id, message.incarnation)
            self._undo.insert(self.messages, message.message_id, entry)

    def _check_target(self, session_id: str, message: RoutedMessage) -> None:
        target = self._find_agent(message.target, session_id)
        if target is None:
            raise MessageRoutingError(f"there is no agent {message.target}", code="unknown_agent")
        if target.state.is_terminal and message.type not in _TO_ENDED:
            raise MessageRoutingError(f"agent {message.target} has ended", code="agent_ended")
        if message.incarnation != target.incarnation:
            raise MessageRoutingError(
                f"message {message.message_id} is for incarnation {message.incarnation} of agent"
                f" {message.target}, which is at {target.incarnation}",
                code="stale",
            )

    def _consume(self, step: Step, message_ids: Sequence[str], consumed_by: str) -> None:
        for message_id in message_ids:
            entry = self.messages.get(message_id)
            own = entry is not None and entry.message.target == step.agent_id
            if entry is None or not own or entry.consumed_by is not None:
                raise StoreError(
                    f"message {message_id} is no unconsumed message of agent {step.agent_id}",
                    code="not_consumable",
                )
            self._undo.set(entry, consumed_by=consumed_by)


def _restarts(step: Step) -> bool:
    return isinstance(step, ControlStep) and step.act == "restart"


def _ended(agent_id: str | None, state: AgentState) -> FencedError:
    return FencedError(f"agent {agent_id} has ended ({state})", hint="Restart it to go on.")


def _time_of(step: Step) -> float:
    """Return the engine's time of a step, which is that of its last event."""
    return step.events[-1].ts if step.events else time.time()


def _check_label(label: str, agent: AgentEntry) -> None:
    if label != agent.label:
        raise StoreError(f"{label} is not the ledger session of the agent", code="unknown_session")


def _check_stored(events: Sequence[Event]) -> None:
    for event in events:
        if event.type in LIVE_TYPES:
            raise StoreError(f"{event.type} events are live only", code="live_event")
