"""What a ledger means, written from its rules alone: the oracle of what stores do.

It shares nothing with what stores apply: neither the projection nor the rows, guards and events of
the writes, of which it reads the fields and the names only. A step is applied to a copy of the
state, and the copy kept if nothing is wrong with it.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.store.ledger_births import BirthsMeant
from tests.store.ledger_files import FilesMeant
from tests.store.ledger_seen import call_told, told_of
from tests.store.ledger_state import (
    OVER,
    Agent,
    Letter,
    Request,
    State,
    Turn,
    call_of,
    in_order,
    status_of,
    sum_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from prsm_core.domain.steps import Step, Write

OF_RUN = {
    *("AgentSpawned", "MessageSent", "Granted", "SessionNamed", "SnapshotTaken", "Told"),
    *("RunStarted", "RunResumed", "RunFinished", "AgentsResumed"),
    *("FileChanged", "ChangesDecided"),
}
OF_THE_LIVING = {"AgentSpawned", "AgentEnded", "ResultClaimed", "TurnOpened", "CallOpened"}
OF_THE_LIVING |= {"ReceivesUndone"}
TO_THE_ENDED = {"task_result", "kill_signal"}

FENCED = "FencedError fenced"
BAD_CHANGE = "InvalidTransitionError invalid_transition"
CONFLICT = "StoreError conflict"


class Verdict(NamedTuple):
    """What becomes of a step: refused for one of these reasons, or done, and what is told."""

    refusals: frozenset[str] = frozenset()
    events: tuple[Any, ...] = ()
    is_repeated: bool = False


class LedgerModel:
    """The ledger of one session."""

    def __init__(self, session: str = "s1") -> None:
        self.session = session
        self.state = State()
        self.events: list[dict[str, Any]] = []
        self._steps: dict[str, tuple[list[str], tuple[Any, ...]]] = {}

    def commit(self, step: Step) -> Verdict:
        """Apply a step, wholly or not at all."""
        facts = list(dict.fromkeys(name for name in map(name_of, step.writes) if name != "Told"))
        if step.step_id in self._steps:
            first, events = self._steps[step.step_id]
            if first != facts:
                return Verdict(frozenset({"StoreError step_id_reused"}))
            return Verdict(events=events, is_repeated=True)
        act = _Act(deepcopy(self.state), step)
        act.apply()
        if act.wrong:
            return Verdict(frozenset(act.wrong))
        if act.closed_before is not None:
            return Verdict(events=self._steps[act.closed_before][1], is_repeated=True)
        self.state = act.state
        events = tuple(
            {**event, "seq": seq, "run": step.run_id, "session": step.session_id}
            for seq, event in enumerate(act.told, len(self.events) + 1)
        )
        self.events += events
        self._steps[step.step_id] = facts, events
        return Verdict(events=events)

    def look(self) -> dict[str, Any]:
        """Return what a reader of the ledger sees, as `seen` reduces it."""
        state = self.state
        return {
            "agents": [self._agent(id_, agent) for id_, agent in state.agents.items()],
            "inbox": [
                (letter.message.message_id, letter.target, letter.life)
                for letter in state.letters.values()
                if not letter.is_read and letter.life == state.agents[letter.target].life
            ],
            "notes": [agent.notes for agent in state.agents.values()],
            "requests": [one.request.request_id for one in state.requests.values() if one.is_open],
            "events": self.events,
            "changes": state.changes,
            "calls": [
                [call_told(turn, call) for turn in agent.turns for call in in_order(turn)]
                for agent in state.agents.values()
            ],
            "session": (*list(state.runs.items())[-1], len(self.events), state.name)
            if state.runs
            else None,
        }

    def _agent(self, id_: str, agent: Agent) -> dict[str, Any]:
        own = [event for event in self.events if event["agent"] == id_]
        tools = [event["data"]["tool"] for event in own if event["type"] == "tool_call_started"]
        closed = [turn for turn in agent.turns if turn.closed_by is not None]
        return {
            "name": agent.name,
            "parent": agent.parent,
            "model": (agent.provider, agent.model),
            "prompt": agent.prompt,
            "labels": agent.labels,
            "modes": agent.modes,
            "state": agent.state,
            "life": agent.life,
            "waiting_on": agent.waiting_on,
            "result": agent.result,
            "thread": agent.thread,
            "next_turn": agent.next_turn,
            "head": agent.head,
            "started_at": agent.turns[0].started_at if agent.turns else None,
            "ended_at": agent.ended_at,
            "tokens": sum_of(turn.tokens for turn in closed),
            "cost": sum_of(turn.cost for turn in closed),
            "untold": sum(turn.cost is None for turn in closed),
            "last_tool": tools[-1] if tools else None,
            "last_event_at": own[-1]["ts"],
        }


class _Act(FilesMeant, BirthsMeant):
    """One step on its way: the state it would leave, what it tells, and what is wrong with it."""

    def __init__(self, state: State, step: Step) -> None:
        self.state = state
        self.step = step
        self.wrong: set[str] = set()
        self.told: list[dict[str, Any]] = []
        self.closed_before: str | None = None

    def apply(self) -> None:
        """Apply all writes, in order."""
        names = [name_of(write) for write in self.step.writes]
        if not self._may(names):
            return
        for write in self.step.writes:
            getattr(self, name_of(write))(write)
        if self.step.agent_id in self.state.agents:
            if "AgentEnded" in names and not self.own.is_over:
                self.wrong.add("StoreError not_ended")
            if "AgentRestarted" in names and self.own.is_over:
                self.wrong.add("StoreError not_restarted")

    def _may(self, names: Sequence[str]) -> bool:
        """Whether somebody may write this now: the run, or an agent in its present life."""
        step = self.step
        if step.agent_id is None:
            if not OF_RUN.issuperset(names):
                self.wrong.add("StoreError unknown_agent")
        elif any(
            name_of(write) == "AgentSpawned" and write.agent.agent_id == step.agent_id  # type: ignore[attr-defined]
            for write in step.writes
        ):
            return True
        elif step.agent_id not in self.state.agents:
            self.wrong.add("StoreError unknown_agent")
        else:
            life = self.own.life + ("AgentRestarted" in names)
            if step.incarnation < life:
                self.wrong.add(FENCED)
            elif step.incarnation > life:
                self.wrong.add("StoreError bad_incarnation")
            elif self.own.is_over and OF_THE_LIVING.intersection(names):
                self.wrong.add(FENCED)
        return not self.wrong

    @property
    def own(self) -> Agent:
        """The agent whose step this is."""
        return self.state.agents[str(self.step.agent_id)]

    def tell(
        self, kind: str, /, *, about: str | None = None, at: float | None = None, **data: Any
    ) -> None:
        """Note an event about an agent, the step's own if no other is named."""
        agent, when = about or self.step.agent_id, self.step.at if at is None else at
        agent = None if about == self.NOBODY else agent
        self.told.append({"type": kind, "agent": agent, "ts": when, "data": data})

    def RunStarted(self, write: Any) -> None:  # noqa: N802 - by the names of the writes
        """Begin a run; the session keeps its first task."""
        if self.step.run_id in self.state.runs:
            self.wrong.add(CONFLICT)
        self.state.runs[self.step.run_id] = "running"
        self.state.task = self.state.task or write.task
        self.tell("run_started", task=write.task, workspace=write.workspace)

    def RunResumed(self, write: Any) -> None:  # noqa: N802
        """Let a run that was cut off run again, once for each time."""
        run, state = self.step.run_id, self.state
        is_over = state.runs.get(run, "failed") in OVER
        if is_over or state.epochs.get(run, 1) != write.epoch - 1:
            self.wrong.add("StoreError not_resumable")
        state.runs[run], state.epochs[run] = "running", write.epoch
        self.tell("run_resumed", epoch=write.epoch)

    def RunFinished(self, write: Any) -> None:  # noqa: N802
        """End the run, once."""
        if self.state.runs.get(self.step.run_id) != "running":
            self.wrong.add("StoreError not_running")
        self.state.runs[self.step.run_id] = write.status
        said = {"status": write.status, "summary": write.summary, "error": write.error}
        ends = {"exit_code": write.exit_code, "problems": list(write.problems)}
        self.tell("run_finished", **said, **write.used, **ends)

    def SessionNamed(self, write: Any) -> None:  # noqa: N802
        """Name the session, of which nothing is told."""
        if not self.state.runs and not write.keeps_other:
            self.wrong.add("StoreError unknown_session")
        if not write.keeps_other or self.state.name is None:
            self.state.name = write.name

    def Told(self, write: Any) -> None:  # noqa: N802
        """Tell what stands for itself."""
        self.tell(write.kind, at=write.at, **write.data)

    def StateChanged(self, write: Any) -> None:  # noqa: N802
        """Go from the state there is to another one; only a restart leads out of an end."""
        if write.source.value != self.own.state:
            self.wrong.add(BAD_CHANGE)
        leaves = self.own.is_over and write.target.value not in OVER
        if leaves and not any(name_of(one) == "AgentRestarted" for one in self.step.writes):
            self.wrong.add(FENCED)
        if write.target.value not in OVER:
            self.own.ended_at = None
        elif not self.own.is_over:
            self.own.ended_at = self.step.at
        self.own.state, self.own.waiting_on = write.target.value, write.waiting_on
        data = {"from": write.source.value, "to": write.target.value, "reason": write.reason}
        self.tell("agent_state_changed", **data, waiting_on=write.waiting_on)

    def AgentEnded(self, write: Any) -> None:  # noqa: N802
        """Keep the one result."""
        self.own.result = write.result

    ResultClaimed = AgentEnded

    def AgentRestarted(self, write: Any) -> None:  # noqa: N802
        """Begin the next life; one that was cut off hands its mail on."""
        if not self.own.is_over:
            self._hand_on(str(self.step.agent_id), self.step.incarnation)
        self.own.life = self.step.incarnation
        if not write.is_resume:
            self.own.result = self.own.waiting_on = self.own.notes = None
        if write.prompt is not None:
            self.own.prompt = write.prompt

    def AgentsResumed(self, write: Any) -> None:  # noqa: N802
        """Begin the next lives of agents that were cut off, which hand their mail on."""
        for agent_id, life in write.lives.items():
            agent = self.state.agents.get(agent_id)
            if agent is None:
                self.wrong.add("StoreError unknown_agent")
            elif life != agent.life + 1:
                self.wrong.add(FENCED if life <= agent.life else "StoreError bad_incarnation")
            elif agent.is_over:
                self.wrong.add("StoreError has_ended")
            else:
                self._hand_on(agent_id, life)

    def _hand_on(self, agent_id: str, life: int) -> None:
        """Let what the present life of an agent has not read be the next one's."""
        agent = self.state.agents[agent_id]
        for letter in self.state.letters.values():
            if (letter.target, letter.life, letter.is_read) == (agent_id, agent.life, False):
                letter.life = life
        agent.life = life

    def ModelSwitched(self, write: Any) -> None:  # noqa: N802
        """Take another model, to which the old one's thread means nothing."""
        self.own.provider, self.own.model, self.own.thread = write.provider, write.model, None
        told = {"model": write.model, "reasoning_effort": write.reasoning_effort}
        self.tell("agent_model_changed", provider=write.provider, **told)

    def ModeSwitched(self, write: Any) -> None:  # noqa: N802
        """Live in another mode, which is told where people see another one."""
        self.own.modes = (write.mode.value, write.granted.value)
        if write.source is not write.target:
            told = {"from": write.source.value, "to": write.target.value}
            self.tell("agent_mode_changed", mode=write.mode.value, **told)

    def AgentHeld(self, write: Any) -> None:  # noqa: N802
        """Wait for a login or a limit, or for that no more."""
        self.own.waiting_on = write.waiting_on
        told = {"reason": write.reason, "until": write.until}
        self.tell("agent_held", waiting_on=write.waiting_on, **told)

    def AgentNoted(self, write: Any) -> None:  # noqa: N802
        """Keep what is known of the life, also of one that nobody runs."""
        agent = self.own if write.agent_id is None else self.state.agents[write.agent_id]
        agent.notes = write.notes

    def ThreadKept(self, write: Any) -> None:  # noqa: N802
        """Keep what resumes the agent at its vendor, if anything still does."""
        self.own.thread = write.thread

    def MessageSent(self, write: Any) -> None:  # noqa: N802
        """Put a message where its target finds it; no later life of the target does."""
        message, target = write.message, self.state.agents.get(write.message.target)
        if target is None:
            self.wrong.add("MessageRoutingError unknown_agent")
        elif target.is_over and message.type.value not in TO_THE_ENDED:
            self.wrong.add("MessageRoutingError agent_ended")
        elif target.life != message.incarnation:
            self.wrong.add("MessageRoutingError stale")
        if message.message_id in self.state.letters:
            self.wrong.add(CONFLICT)
        letter = Letter(message, message.target, message.incarnation)
        self.state.letters[message.message_id] = letter
        said = {"from": message.source, "to": message.target, "mid": message.message_id}
        kind, about = message.type.value, message.correlation_id
        self.tell("message_routed", about=message.source, kind=kind, correlation_id=about, **said)

    def MessagesConsumed(self, write: Any) -> None:  # noqa: N802
        """Read messages."""
        self._read(write.messages)

    def ReceivesUndone(self, write: Any) -> None:  # noqa: N802
        """Have what some calls have used be unread again, by the present life."""
        for call, ids in write.received.items():
            for id_ in ids:
                letter = self.state.letters.get(id_)
                is_own = letter is not None and letter.target == self.step.agent_id
                if letter is None or not is_own or letter.read_by != call:
                    self.wrong.add("StoreError not_consumed")
                else:
                    letter.is_read, letter.read_by, letter.life = False, None, self.own.life
        self.tell("receives_undone", turn=write.turn_id, calls=list(write.received))

    def _read(self, ids: Iterable[str], by: str | None = None) -> None:
        """Read what was sent to this life of this agent and was not read before."""
        for id_ in ids:
            letter = self.state.letters.get(id_)
            is_own = letter is not None and letter.target == self.step.agent_id
            if letter is None or not is_own or letter.is_read or letter.life != self.own.life:
                self.wrong.add("StoreError not_consumable")
            else:
                letter.is_read, letter.read_by = True, by

    def TurnOpened(self, write: Any) -> None:  # noqa: N802
        """Open the agent's next turn."""
        if write.number != self.own.next_turn:
            self.wrong.add("StoreError turn_number")
        if write.session_label != f"{self.step.session_id}/{self.own.name}":
            self.wrong.add("StoreError unknown_session")
        if write.parent_turn_id is not None and write.parent_turn_id not in self.state.turns:
            self.wrong.add("StoreError unknown_turn")
        started_at = write.started_at_ms / 1000
        owner, number = str(self.step.agent_id), write.number
        turn = Turn(write.turn_id, owner, number, write.parent_turn_id, started_at)
        self.state.turns[turn.id] = turn
        self.own.turns.append(turn)
        self.own.next_turn = number + 1
        self._read(write.consumed)
        self.tell("turn_started", turn=turn.id, n=number)

    def _turn(self, id_: str) -> Turn | None:
        """Return a turn of the agent; one of others is none."""
        turn = self.state.turns.get(id_)
        if turn is None or turn.agent != self.step.agent_id:
            self.wrong.add("StoreError unknown_turn")
            return None
        return turn

    def CallOpened(self, write: Any) -> None:  # noqa: N802
        """Open a call in a turn that runs."""
        turn, call = self._turn(write.turn_id), write.call
        if turn is None:
            return
        if turn.closed_by is not None:
            self.wrong.add("StoreError turn_closed")
        if call.id in turn.calls:
            self.wrong.add(CONFLICT)
        turn.calls[call.id] = call_of(call, is_ours=True)
        data = {"call": call.id, "tool": call.tool_name, "arguments": dict(call.params)}
        of = {"response": write.response, "turn": turn.id}
        self.tell("tool_call_started", orchestration=True, **of, **data)

    def CallClosed(self, write: Any) -> None:  # noqa: N802
        """Keep the answer of a call, once; its turn may be over."""
        turn = self._turn(write.turn_id)
        call = None if turn is None else turn.calls.get(write.call_id)
        if call is None or call.is_answered:
            if turn is not None:
                self.wrong.add("StoreError call_not_open")
            return
        has_failed = write.status == "failed"
        call.status, call.result, call.is_answered = write.status, write.result, True
        call.error = write.result if has_failed else None
        self._read(write.consumed, write.call_id)
        self.tell(
            "tool_call_finished",
            call=write.call_id,
            status=write.status,
            result=None if has_failed else write.result,
            error=call.error,
            duration_s=write.duration_s,
            exit_code=write.exit_code,
            turn=write.turn_id,
        )

    def EffectNoted(self, write: Any) -> None:  # noqa: N802
        """Note what a call has done, once by each name; whose turn it is does not matter."""
        effect = write.effect
        key = (effect.turn_id, effect.call_id, effect.name)
        if effect.turn_id not in self.state.turns or key in self.state.effects:
            self.wrong.add(CONFLICT)
        self.state.effects[key] = effect.ref

    def TurnMetered(self, write: Any) -> None:  # noqa: N802
        """Keep what the turn has used so far; one that is over says so itself."""
        turn = self.state.turns.get(write.turn_id)
        if turn is None or turn.agent != self.step.agent_id or turn.closed_by is not None:
            return
        turn.tokens, turn.cost = write.spent.usage.total_tokens, write.spent.cost_usd

    def TurnClosed(self, write: Any) -> None:  # noqa: N802
        """End a turn, once, with what it used and what it says of its calls."""
        turn, result = self._turn(write.turn_id), write.result
        if turn is None:
            return
        if turn.closed_by is not None:
            self.closed_before = turn.closed_by
            return
        if len({message.id for message in result.messages}) < len(result.messages):
            self.wrong.add(CONFLICT)
        turn.closed_by, turn.status = self.step.step_id, status_of(result)
        turn.tokens, turn.cost = result.usage.total_tokens, result.cost_usd
        for told in result.tool_calls:
            there = turn.calls.get(told.id)
            told_call = call_of(told, is_ours=told.orchestration)
            if there is None:
                turn.calls[told.id] = told_call
            else:  # what was stored before the agent saw it is the truth
                there.sequence = told.sequence
                if not there.is_answered:
                    there.status, there.result = told_call.status, told_call.result
                    there.error, there.is_answered = told_call.error, told_call.is_answered
        self.own.head = turn.id
        self.own.thread = self.own.thread if write.resume_token is None else write.resume_token
        self.tell(
            "turn_finished",
            turn=turn.id,
            stop_reason=result.stop_reason.value,
            cost_usd=result.cost_usd,
        )

    def RequestOpened(self, write: Any) -> None:  # noqa: N802
        """Have something wait for a person."""
        request = write.request
        if request.request_id in self.state.requests:
            self.wrong.add(CONFLICT)
        self.state.requests[request.request_id] = Request(request)
        kinds = {"permission": "permission_requested", "question": "question_asked"}
        self.tell(kinds[request.kind], at=request.opened_at, **request.payload)

    def RequestResolved(self, write: Any) -> None:  # noqa: N802
        """Answer it, once; the end of its agent comes too late for what was answered."""
        request = self.state.requests.get(write.request_id)
        is_end = any(name_of(each) == "AgentEnded" for each in self.step.writes)
        if request is None:
            self.wrong.add("StoreError unknown_request")
        elif not request.is_open and not is_end:
            self.wrong.add("StoreError already_resolved")
        else:
            request.is_open = False
        data = {"request": write.request_id, "by": write.by, "via": write.via}
        self.tell("permission_resolved", verdict=write.answer["verdict"], **data)

    def Granted(self, write: Any) -> None:  # noqa: N802
        """Keep what a person allows: no port of every store reads it."""

    def SnapshotTaken(self, write: Any) -> None:  # noqa: N802
        """Tell of it."""
        self.tell("snapshot_taken", about=write.snapshot.agent_id, **told_of(write.snapshot))


def knows(kind: str) -> bool:
    """Return whether the model says what a kind of write means."""
    return hasattr(_Act, kind)


def name_of(write: Write) -> str:
    """Return the kind of a write; one with a mistake planted into it is of the kind it spoils."""
    return next(
        kind.__name__ for kind in type(write).__mro__ if kind.__module__.startswith("prsm_core.")
    )
