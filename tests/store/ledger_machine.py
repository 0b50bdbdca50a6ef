"""Any step, legal or not, is given to stores and to the model: a state machine of Hypothesis."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from msgspec.structs import replace
from prsm_testing.memory_store import MemoryStore
from prsm_testing.steps import Steps

from prsm_core.domain.agents import AgentResult, AgentState, PermissionMode
from prsm_core.domain.changes import Decision
from prsm_core.domain.messages import MessageType
from prsm_core.domain.notes import Notes
from prsm_core.domain.steps import Committed
from prsm_core.domain.turns import AgentMessage, Effect, StopReason
from prsm_core.domain.usage import Spent, TokenUsage
from prsm_core.domain.writes import (
    AgentNoted,
    AgentRelabelled,
    AgentRestarted,
    AgentsResumed,
    ChangesDecided,
    EffectNoted,
    MessagesConsumed,
    ModelSwitched,
    ModeSwitched,
    ReceivesUndone,
    RequestOpened,
    ResultClaimed,
    RunFinished,
    RunResumed,
    SessionNamed,
    ThreadKept,
    TurnMetered,
    TurnOpened,
)
from prsm_core.errors import PrsmError
from prsm_core.store import SqliteStore
from tests.store.ledger_model import LedgerModel
from tests.store.ledger_seen import look, seen, seen_event

if TYPE_CHECKING:
    from collections.abc import Callable

    from prsm_core.domain.steps import Step, Write
    from prsm_core.interfaces.store import Store

NAMES = st.sampled_from(["a", "b", "c"])
STATES = st.sampled_from(list(AgentState))
ENDS = (AgentState.COMPLETED, AgentState.FAILED, AgentState.KILLED)
MOSTLY = st.sampled_from([True] * 9 + [False])
SWITCH = ModelSwitched(provider="other", model="second")
PLAN, DELEGATE = PermissionMode.PLAN, PermissionMode.DELEGATE
MODE = ModeSwitched(source=PermissionMode.DEFAULT, target=PLAN, mode=PLAN, granted=PLAN)
LESS = ModeSwitched(source=DELEGATE, target=DELEGATE, mode=DELEGATE, granted=PLAN)
NOTE = AgentNoted(notes=Notes(failures=2, tried=("one/a",), heard={"agent": 1}))
KEEP, FORGET = ThreadKept(thread="kept"), ThreadKept(thread=None)
KEPT = (SWITCH, MODE, LESS, KEEP, FORGET, NOTE)


class Ledgers(RuleBasedStateMachine):
    """Steps are given to a memory store, to SQLite and to the model; all must say the same."""

    planted: Callable[[Step, LedgerModel], Step] | None = None  # a mistake of the stores

    @initialize()
    def open(self):
        self.begin()
        self.commit(self.steps.run_started())
        self.commit(self.steps.spawn("a"))
        self.commit(self.steps.spawn("b", "a"))
        self.commit(self.steps.spawn("c", "b"))

    def begin(self):
        self.folder = Path(tempfile.mkdtemp())
        self.runner = asyncio.Runner()
        self.steps, self.model = Steps(), LedgerModel()
        self.stores: list[Store] = [MemoryStore()]
        if self.planted is None:
            self.stores.append(self.runner.run(SqliteStore.open(self.folder / "ledger.db")))
        self.turns: list[tuple[str, TurnOpened]] = []
        self.calls: list[tuple[str, TurnOpened, str]] = []
        self.given: list[Step] = []
        self.mail = [("nothing", "a")]
        self.requests = ["nothing"]

    def commit(self, step: Step) -> bool:
        """Commit to all; return whether the step was applied."""
        self.given.append(step)
        given = step if self.planted is None else self.planted(step, self.model)
        self.verdict = verdict = self.model.commit(step)
        for store in self.stores:
            outcome = self.outcome(store, given)
            if verdict.refusals:
                assert outcome in verdict.refusals
            else:
                assert isinstance(outcome, Committed), outcome
                told = tuple(seen_event(event) for event in outcome.events)
                assert (outcome.duplicate, told) == (verdict.is_repeated, verdict.events)
        return not verdict.refusals

    def outcome(self, store: Store, step: Step) -> Any:
        try:
            return self.runner.run(store.commit(step))
        except PrsmError as error:
            return f"{type(error).__name__} {error.code}"

    def likely(self, data, name: str) -> tuple[AgentState, int]:
        """Return a state and an incarnation, most often those the agent has."""
        agent = self.model.state.agents[self.steps.agent(name)]
        if not data.draw(MOSTLY):
            return data.draw(STATES), data.draw(st.integers(1, 3))
        return AgentState(agent.state), agent.life

    def write(self, data, name: str, *writes: Write) -> bool:
        _, incarnation = self.likely(data, name)
        told = replace(self.steps.told(), at=data.draw(st.sampled_from([None, 990.0])))
        return self.commit(self.steps.step(name, *writes, told, incarnation=incarnation))

    @rule(name=st.sampled_from(["a", "d", "e", "f"]), parent=st.sampled_from(["a", "b", None]))
    def spawn(self, name, parent):
        labels = {"kind": "task"} if name == "d" else {}
        self.commit(self.steps.spawn(name, parent, labels=labels))

    @rule(data=st.data(), name=NAMES, restarts=st.booleans())
    def change(self, data, name, restarts):
        state, incarnation = self.likely(data, name)
        prompt = data.draw(st.sampled_from([None, "again"]))
        is_resume = data.draw(st.booleans())
        anew = [AgentRestarted(prompt=prompt, is_resume=is_resume)] * restarts
        change = self.steps.change(state, data.draw(STATES))
        self.commit(self.steps.step(name, *anew, change, incarnation=incarnation + restarts))

    @rule(data=st.data(), names=st.lists(NAMES, min_size=1, max_size=3, unique=True))
    def resume(self, data, names):
        lives = {self.steps.agent(name): self.likely(data, name)[1] + 1 for name in names}
        self.commit(self.steps.step(None, AgentsResumed(lives=lives), self.steps.told()))

    @rule(data=st.data(), name=NAMES)
    def finishing(self, data, name):
        result = AgentResult(agent_id=name, success=True, summary="done")
        self.write(data, name, ResultClaimed(result=result))

    @rule(data=st.data(), source=NAMES, to=NAMES, kind=st.sampled_from(list(MessageType)))
    def send(self, data, source, to, kind):
        _, incarnation = self.likely(data, to)
        message = self.steps.message(source, to, kind, incarnation=incarnation)
        copies = 1 if data.draw(MOSTLY) else 2
        if self.write(data, source, *self.steps.sent(*(message,) * copies)):
            self.mail.append((message.message_id, to))

    @rule(data=st.data(), name=NAMES)
    def consume(self, data, name):
        self.write(data, name, MessagesConsumed(messages=self.some_mail(data, name)))

    def some_mail(self, data, name: str) -> tuple[str, ...]:
        """Return ids of messages, most often one that the agent was sent."""
        own = [message for message, target in self.mail if target == name]
        known = own if own and data.draw(MOSTLY) else [message for message, _ in self.mail]
        return tuple(data.draw(st.lists(st.sampled_from(known[-3:]), min_size=1, max_size=2)))

    @precondition(lambda self: self.calls)
    @rule(data=st.data(), name=NAMES, effect=st.sampled_from(["question", "child:0"]))
    def note_effect(self, data, name, effect):
        _, turn, call = data.draw(st.sampled_from(self.calls[-3:]))
        noted = Effect(turn_id=turn.turn_id, call_id=call, name=effect, ref="q1", data={"n": 1})
        self.write(data, name, EffectNoted(effect=noted))

    @precondition(lambda self: self.turns)
    @rule(data=st.data(), tokens=st.sampled_from([None, 7]), cost=st.sampled_from([None, 0.25]))
    def meter(self, data, tokens, cost):
        name, turn = data.draw(st.sampled_from(self.turns[-3:]))
        spent = Spent.of_turn(TokenUsage(total_tokens=tokens), cost)
        self.write(data, name, TurnMetered(turn_id=turn.turn_id, spent=spent))

    @rule(data=st.data(), name=NAMES)
    def ask(self, data, name):
        request = self.steps.request(name)
        if self.write(data, name, RequestOpened(request=request)):
            self.requests.append(request.request_id)

    @rule(data=st.data(), name=NAMES)
    def resolve(self, data, name):
        wanted = data.draw(st.sampled_from(self.requests))
        self.write(data, name, self.steps.resolved(wanted))

    @rule(data=st.data(), name=NAMES)
    def open_turn(self, data, name):
        agent = self.model.state.agents[self.steps.agent(name)]
        number = agent.next_turn + (not data.draw(MOSTLY))
        parents = [None, *(turn.turn_id for _, turn in self.turns[-2:])]
        label = f"s1/{name}" if data.draw(MOSTLY) else "s1/a"
        parent = data.draw(st.sampled_from(parents))
        mail = () if data.draw(MOSTLY) else self.some_mail(data, name)
        turn = self.steps.turn(
            name, number, parent_turn_id=parent, session_label=label, consumed=mail
        )
        if self.write(data, name, turn):
            self.turns.append((name, turn))

    @precondition(lambda self: self.turns)
    @rule(data=st.data())
    def open_call(self, data):
        name, turn = data.draw(st.sampled_from(self.turns[-3:]))
        call = self.steps.call(f"c{len(self.calls) if data.draw(MOSTLY) else 1}")
        _, incarnation = self.likely(data, name)
        if self.commit(self.steps.open_call(turn, call, name, incarnation=incarnation)):
            self.calls.append((name, turn, call.id))

    @precondition(lambda self: self.calls)
    @rule(data=st.data())
    def close_call(self, data):
        name, turn, call = data.draw(st.sampled_from(self.calls))
        _, incarnation = self.likely(data, name)
        mail = () if data.draw(MOSTLY) else self.some_mail(data, name)
        step = self.steps.close_call(turn, call, name, consumed=mail)
        self.commit(replace(step, incarnation=incarnation))

    @precondition(lambda self: self.calls)
    @rule(data=st.data())
    def undo_receive(self, data):
        name, turn, call = data.draw(st.sampled_from(self.calls))
        letters = self.model.state.letters
        used = tuple(id_ for id_, one in letters.items() if one.read_by == call)
        mail = used if data.draw(MOSTLY) else self.some_mail(data, name)
        undone = ReceivesUndone(turn_id=turn.turn_id, received={call: mail})
        self.write(data, name, undone)

    @precondition(lambda self: self.turns)
    @rule(data=st.data())
    def close_turn(self, data):
        name, turn = data.draw(st.sampled_from(self.turns[-3:]))
        told = (
            self.steps.call("c1", status="failed", error="cut", sequence=3, completed_at=1_000_400),
            self.steps.call("c3", orchestration=False, started_at=1_000_300),
        )
        spoken = AgentMessage(
            id=data.draw(st.sampled_from(["m2", "m0"])),
            role="assistant",
            content="more",
            sequence=3,
            created_at=1_000_200,
        )
        usual = self.steps.result()
        result = replace(
            usual,
            messages=(*usual.messages, spoken),
            tool_calls=told[: data.draw(st.integers(0, 2))],
            stop_reason=data.draw(st.sampled_from(list(StopReason))),
            cost_usd=data.draw(st.sampled_from([None, 0.5])),
            usage=data.draw(st.sampled_from([usual.usage, TokenUsage()])),
        )
        _, incarnation = self.likely(data, name)
        thread = data.draw(st.sampled_from([None, "thread"]))
        fields = {"incarnation": incarnation, "result": result, "resume_token": thread}
        self.commit(self.steps.close_turn(turn, name, **fields))

    @rule(data=st.data(), name=NAMES, writes=st.sampled_from(KEPT))
    def go_on(self, data, name, writes):
        self.write(data, name, writes)

    @rule(data=st.data(), name=NAMES, of=NAMES, text=st.sampled_from([None, "x", "y"]))
    def label(self, data, name, of, text):
        labels = {} if text is None else {"said": text}
        restarts = data.draw(st.booleans())
        anew = [AgentRestarted()] * restarts
        said = AgentRelabelled(agent_id=self.steps.agent(of), labels=labels)
        state, incarnation = self.likely(data, name)
        change = [self.steps.change(state, AgentState.STARTING)] * restarts
        step = self.steps.step(name, *anew, *change, said, incarnation=incarnation + restarts)
        self.commit(step)

    @rule(
        number=st.integers(1, 2), act=st.sampled_from(["start", "resume", "finish"]), data=st.data()
    )
    def run(self, number, act, data):
        run = f"run-{number}"
        if act == "start":
            self.commit(self.steps.run_started(run_id=run))
        elif act == "resume":
            epoch = self.model.state.epochs.get(run, 1) + data.draw(MOSTLY)
            self.commit(self.steps.step(None, RunResumed(epoch=epoch), run_id=run))
        else:
            status = data.draw(st.sampled_from(["completed", "interrupted"]))
            finished = RunFinished(status=status, summary="done", used={"duration_s": 1.0})
            self.commit(self.steps.step(None, finished, run_id=run))

    @rule(
        change=st.sampled_from(["1", "2", "3"]),
        name=st.one_of(st.none(), NAMES),
        state=st.sampled_from([None, "accepted", "rejected", "unmerged"]),
    )
    def change_file(self, change, name, state):
        found = self.steps.changed(change, name)
        made: Write = found
        if state is not None:
            path = found.change.path
            made = ChangesDecided(decisions=(Decision(change, path, state, "why"),))
        self.commit(self.steps.step(None, made))

    @rule(name=st.sampled_from([None, "a name", "another"]), keeps=st.booleans())
    def call_it(self, name, keeps):
        self.commit(self.steps.step(None, SessionNamed(name=name, keeps_other=keeps)))

    @rule(data=st.data(), name=NAMES, to=st.sampled_from([*ENDS, AgentState.RUNNING]))
    def end(self, data, name, to):
        state, incarnation = self.likely(data, name)
        request = None if data.draw(MOSTLY) else data.draw(st.sampled_from(self.requests))
        ends = [self.steps.resolved(request, by="agent_ended")] if request else []
        self.commit(self.steps.end(name, *ends, source=state, target=to, incarnation=incarnation))

    @rule(data=st.data())
    def repeat(self, data):
        self.commit(data.draw(st.sampled_from(self.given)))

    def teardown(self):
        try:
            if hasattr(self, "stores"):
                self.runner.run(self.check())
        finally:
            self.runner.close()
            shutil.rmtree(self.folder)

    async def check(self):
        looks = [await look(store) for store in self.stores]
        assert [seen(each) for each in looks] == [self.model.look()] * len(looks)
        assert all(each == looks[0] for each in looks)  # in what the model leaves out, too
        for store in self.stores:
            await store.aclose()
