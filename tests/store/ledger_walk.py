"""A session in which by chance everything happens that a resume has to know, in legal steps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from prsm_testing.steps import Steps

from prsm_core.domain.agents import AgentResult, AgentState, PermissionMode
from prsm_core.domain.changes import Decision
from prsm_core.domain.events import Event
from prsm_core.domain.messages import MessageType
from prsm_core.domain.notes import ModelChoice, Notes
from prsm_core.domain.turns import Effect
from prsm_core.domain.usage import Spent, TokenUsage
from prsm_core.domain.writes import (
    AgentHeld,
    AgentNoted,
    AgentRelabelled,
    AgentRestarted,
    AgentsResumed,
    ChangesDecided,
    EffectNoted,
    Granted,
    MessagesConsumed,
    ModelSwitched,
    ModeSwitched,
    ReceivesUndone,
    RequestOpened,
    ResultClaimed,
    RunFinished,
    RunResumed,
    RunStarted,
    SnapshotTaken,
    ThreadKept,
    TurnMetered,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from prsm_core.domain.sessions import SessionState
    from prsm_core.domain.steps import Step, Write
    from prsm_core.domain.writes import TurnOpened
    from prsm_core.interfaces.store import Store

NAMES = ("a", "b", "c")
DECIDED = (
    *(("accepted", None), ("rejected", None), ("unmerged", "later edits are in the way")),
    ("committed", "c0ffee"),
)
STATES = (AgentState.RUNNING, AgentState.WAITING_FOR_PARENT, AgentState.WAITING_FOR_CHILD)


@dataclass(eq=False)
class Walker:
    """An agent as far as the next step of it has to fit."""

    name: str
    state: AgentState = AgentState.PENDING
    life: int = 1
    turns: int = 0
    head: str | None = None
    turn: TurnOpened | None = None
    open: list[str] = field(default_factory=list)  # calls of the turn
    used: set[str] = field(default_factory=set)  # their ids
    received: dict[str, tuple[str, ...]] = field(default_factory=dict)  # by those with an answer
    unread: list[str] = field(default_factory=list)
    noted: set[tuple[int, str, str]] = field(default_factory=set)  # turn, call, effect

    @property
    def is_over(self) -> bool:
        return self.state is AgentState.KILLED


class Walk:
    """Gives steps to some stores, and takes a copy of the state after each of them."""

    def __init__(self, stores: list[Store], chance: Random) -> None:
        self.stores, self.chance = stores, chance
        self.steps, self.other = Steps(), Steps("other")
        self.agents = {name: Walker(name) for name in NAMES}
        self.changes: list[str] = []  # ids of those that were found
        self.asked: list[tuple[Walker, str]] = []  # by whom, correlation id
        self.requests: list[tuple[Walker, str]] = []
        self.run, self.epoch, self.is_running = self.steps.run, 1, True
        self.copies: list[SessionState] = []
        self.acts: list[Callable[[Walker], Any]] = [
            *(self.turn_over, self.say, self.say, self.vendor, self.vendor, self.call, self.call),
            *(self.ask, self.ask, self.answer, self.send, self.send, self.consume),
            *(
                self.close_call,
                self.close_call,
                self.undo_receive,
                self.effect,
                self.meter,
                self.change,
                self.keep,
                self.know,
            ),
            *(self.cut_off, self.end, self.note, self.request, self.resolve),
            *(self.run_on, self.pass_by, self.write_file, self.decide),
        ]

    async def go(self, length: int) -> None:
        """Begin, then walk."""
        await self.commit(self.steps.run_started())
        first = self.steps.agent("a")
        born: tuple[dict[str, Any], ...] = ({}, {"labels": {"n": "a"}}, {"continues": first})
        for (name, parent), told in zip((("a", None), ("b", "a"), ("c", "b")), born, strict=True):
            await self.commit(self.steps.spawn(name, parent, **told))
        await self.go_on(length)

    async def go_on(self, length: int) -> None:
        """Walk on."""
        for _ in range(length):
            await self.chance.choice(self.acts)(self.agents[self.chance.choice(NAMES)])

    async def commit(self, step: Step) -> None:
        for store in self.stores:
            await store.commit(step)
        await self.copy()

    async def append(self, *events: Event) -> None:
        for store in self.stores:
            await store.append(events)
        await self.copy()

    async def copy(self) -> None:
        states = [await store.state(self.steps.session) for store in self.stores]
        assert all(state == states[0] for state in states)
        if not self.copies or states[0].position != self.copies[-1].position:
            self.copies.append(states[0])

    async def act(self, of: Walker, *writes: Write, life: int | None = None) -> None:
        step = self.steps.step(of.name, *writes, incarnation=life or of.life, run_id=self.run)
        await self.commit(step)

    async def turn_over(self, of: Walker) -> None:
        """Open a turn, or close the one that is open."""
        if of.turn is None:
            if of.is_over:
                return
            of.turns += 1
            mail = tuple(of.unread[:1]) if self.chance.random() < 0.5 else ()
            of.unread = of.unread[len(mail) :]
            turn = self.steps.turn(of.name, of.turns, parent_turn_id=of.head, consumed=mail)
            of.turn, of.open, of.used, of.received = turn, [], set(), {}
            await self.act(of, turn)
        elif self.chance.random() < 0.2:
            turn = of.turn
            of.turn, of.head, of.open = None, turn.turn_id, []
            told = tuple(self.steps.call(call, status="failed", sequence=7) for call in of.used)
            result = self.steps.result(tool_calls=told, cost_usd=self.chance.choice([None, 0.5]))
            await self.act(of, self.steps.close(turn, result=result, resume_token=None))

    async def say(self, of: Walker) -> None:
        role = self.chance.choice(["user", "assistant"])
        if of.turn is not None:
            data = {"turn": of.turn.turn_id, "role": role, "text": "word", "thinking": None}
            data["id"] = f"m{len(self.copies)}"
            await self.append(self.told(of, "message_completed", data))

    async def vendor(self, of: Walker) -> None:
        call = self.chance.choice(["v1", "v2", "c0"])
        began = {"call": call, "tool": "Bash", "arguments": {"n": 1}, "orchestration": False}
        ended = {"call": call, "status": self.chance.choice(["completed", "denied"]), "result": "r"}
        if self.chance.random() < 0.5:
            await self.append(self.told(of, "tool_call_started", began))
        elif call not in of.open:
            await self.append(self.told(of, "tool_call_finished", ended))

    def told(self, of: Walker, kind: str, data: dict[str, Any]) -> Event:
        agent = self.steps.agent(of.name)
        return Event(
            type=kind, session=self.steps.session, run=self.run, ts=1.5, agent=agent, data=data
        )

    async def call(self, of: Walker) -> None:
        call = self.chance.choice(["c0", "c1", "c2", "c3"])  # ids come again in later turns
        if of.turn is None or of.is_over or call in of.used:
            return
        of.open.append(call)
        of.used.add(call)
        await self.commit(
            self.steps.open_call(of.turn, self.steps.call(call), of.name, incarnation=of.life)
        )

    async def ask(self, of: Walker) -> None:
        """Ask, by a call, another agent."""
        to, about = self.agents[self.chance.choice(NAMES)], self.steps.id("about")
        noted = self.note_of(of, "question", about)
        if noted is None or to.is_over:
            return
        message = self.steps.message(of.name, to.name, incarnation=to.life, correlation_id=about)
        await self.act(of, *self.steps.sent(message), noted)
        self.asked.append((of, about))
        to.unread.append(message.message_id)

    async def effect(self, of: Walker) -> None:
        """Note what a call has done besides."""
        noted = self.note_of(of, "since", None)
        if noted is not None:
            await self.act(self.agents[self.chance.choice(NAMES)], noted)

    def note_of(self, of: Walker, name: str, ref: str | None) -> EffectNoted | None:
        """Return an effect of an open call that has none of this name."""
        free = [call for call in of.open if (of.turns, call, name) not in of.noted]
        if of.turn is None or not free:
            return None
        call = self.chance.choice(free)
        of.noted.add((of.turns, call, name))
        return EffectNoted(
            effect=Effect(
                turn_id=of.turn.turn_id, call_id=call, name=name, ref=ref, data={"n": of.turns}
            )
        )

    async def answer(self, of: Walker) -> None:
        """Answer somebody's question."""
        open_ = [(to, about) for to, about in self.asked if not to.is_over]
        if open_:
            to, about = self.chance.choice(open_)
            await self.mail(of, to, MessageType.ANSWER, about)

    async def send(self, of: Walker) -> None:
        to = self.agents[self.chance.choice(NAMES)]
        if not to.is_over:
            kind = self.chance.choice([MessageType.USER_PROMPT, MessageType.PEER])
            await self.mail(of, to, kind, None)

    async def mail(self, of: Walker, to: Walker, kind: MessageType, about: str | None) -> None:
        message = self.steps.message(
            of.name, to.name, kind, incarnation=to.life, correlation_id=about
        )
        to.unread.append(message.message_id)
        await self.act(of, *self.steps.sent(message))

    async def consume(self, of: Walker) -> None:
        if of.unread:
            await self.act(of, MessagesConsumed(messages=(of.unread.pop(0),)))

    async def close_call(self, of: Walker) -> None:
        """Answer a call, by mail or not."""
        if of.turn is None or not of.open:
            return
        call = of.open.pop(self.chance.randrange(len(of.open)))
        mail = tuple(of.unread[: self.chance.choice([0, 1, 1, 2])])
        of.unread = of.unread[len(mail) :]
        of.received[call] = mail
        await self.act(of, self.steps.answer(of.turn, call, consumed=mail))

    async def undo_receive(self, of: Walker) -> None:
        """Have what a call has received be unread again."""
        if of.turn is None or of.is_over or not of.received:
            return
        call = self.chance.choice(sorted(of.received))
        mail = of.received.pop(call)
        of.unread = [*mail, *of.unread]
        await self.act(of, ReceivesUndone(turn_id=of.turn.turn_id, received={call: mail}))

    async def meter(self, of: Walker) -> None:
        if of.turn is not None:
            spent = Spent.of_turn(TokenUsage(total_tokens=self.chance.randrange(99)), None)
            await self.act(of, TurnMetered(turn_id=of.turn.turn_id, spent=spent))

    async def change(self, of: Walker) -> None:
        """Take another state, model or thread, or claim a result."""
        if of.is_over:
            return
        target, state = self.chance.choice(STATES), of.state
        result = AgentResult(agent_id=of.name, success=True, summary="done")
        of.state, kept = target, self.chance.choice(["thread", None])
        mode = self.chance.choice(list(PermissionMode))
        besides: list[Write] = [
            ModelSwitched(provider="p", model=self.chance.choice("mn"), reasoning_effort="high"),
            ThreadKept(thread=kept),
            ModeSwitched(source=PermissionMode.DEFAULT, target=mode, mode=mode, granted=mode),
            AgentHeld(waiting_on=kept, reason="429", until=1.5),
            ResultClaimed(result=result),
            AgentRelabelled(
                agent_id=self.steps.agent(of.name), labels={"n": self.chance.choice("ab")}
            ),
        ]
        some = self.chance.sample(besides, self.chance.randrange(3))
        await self.act(of, self.steps.change(state, target, waiting_on=kept), *some)

    async def cut_off(self, of: Walker) -> None:
        """Go on in a next life, which a resume hands on what is unread."""
        if of.is_over:
            return
        if self.chance.random() < 0.5:
            of.life += 1
            lives = {self.steps.agent(of.name): of.life}
            await self.commit(self.steps.step(None, AgentsResumed(lives=lives)))
            return
        state, of.state, of.life = of.state, AgentState.STARTING, of.life + 1
        prompt = self.chance.choice([None, "go on"])
        anew = AgentRestarted(is_resume=self.chance.random() < 0.5, prompt=prompt)
        change = self.steps.change(state, of.state)
        await self.act(of, anew, change)

    async def keep(self, of: Walker) -> None:
        """Keep a thread, or none any more."""
        await self.act(of, ThreadKept(thread=self.chance.choice(["one", "two", None])))

    async def know(self, of: Walker) -> None:
        """Note what is known of a life, by itself or by the run."""
        tried = ("one/a", "two/b")[: self.chance.randrange(3)]
        notes = Notes(failures=len(tried), tried=tried)
        if self.chance.random() < 0.5:
            await self.act(of, AgentNoted(notes=notes))
            return
        chosen = replace(notes, chosen=ModelChoice(provider="p", model=self.chance.choice("mn")))
        about = AgentNoted(notes=chosen, agent_id=self.steps.agent(of.name))
        await self.commit(self.steps.step(None, about))

    async def end(self, of: Walker) -> None:
        """End, mostly not; or live again after an end."""
        if of.is_over:
            of.life, of.state, of.unread = of.life + 1, AgentState.PENDING, []
            await self.commit(self.steps.restart(of.name, of.life))
        elif self.chance.random() < 0.2:
            state, of.state = of.state, AgentState.KILLED
            await self.commit(self.steps.end(of.name, source=state, incarnation=of.life))

    async def note(self, of: Walker) -> None:
        """Grant something, keep the files, or tell something only."""
        taken = self.steps.snapshot(of.name, snapshot_id=f"{self.chance.randrange(3)}")
        kinds = [Granted(grant={"n": of.life}), SnapshotTaken(snapshot=taken), self.steps.told()]
        await self.act(of, self.chance.choice(kinds))

    async def request(self, of: Walker) -> None:
        request = self.steps.request(of.name)
        self.requests.append((of, request.request_id))
        await self.act(of, RequestOpened(request=request))

    async def resolve(self, _: Walker) -> None:
        if self.requests:
            of, request = self.requests.pop(self.chance.randrange(len(self.requests)))
            await self.act(of, self.steps.resolved(request))

    async def run_on(self, _: Walker) -> None:
        """Finish the run, go on with it, or begin another."""
        if self.is_running and self.chance.random() < 0.6:
            self.is_running = False
            write: Write = RunFinished(status="interrupted", summary="cut", used={})
        elif self.chance.random() < 0.5:
            self.epoch, self.is_running = self.epoch + 1, True
            write = RunResumed(
                epoch=self.epoch, engine=("boot", self.epoch, 1), options={"n": self.epoch}
            )
        else:
            self.run, self.epoch, self.is_running = self.steps.id("run"), 1, True
            write = RunStarted(task="more", workspace="/w", options={"n": 1})
        await self.commit(self.steps.step(None, write, run_id=self.run))

    async def write_file(self, of: Walker) -> None:
        """Find a change of a file, of an agent or from outside."""
        self.changes.append(f"f{len(self.changes)}")
        name = None if of.is_over else of.name
        beside = self.chance.choice([(), ("",), (self.steps.agent("a"),)])
        change = self.steps.changed(self.changes[-1], name, beside=beside)
        await self.commit(self.steps.step(None, change))

    async def decide(self, _: Walker) -> None:
        """Decide about some changes, also again."""
        ids = self.chance.sample(self.changes, min(2, len(self.changes)))
        state, why = self.chance.choice(DECIDED)
        decisions = tuple(Decision(id_, "src/a.py", state, why) for id_ in ids)
        if decisions:
            await self.commit(self.steps.step(None, ChangesDecided(decisions=decisions)))

    async def pass_by(self, _: Walker) -> None:
        """Another session of the ledger goes on."""
        for store in self.stores:
            await store.append([self.other.event()])
        await self.copy()
