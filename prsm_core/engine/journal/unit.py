"""The journal: the only path to the store, for steps, staged acts and facts.

Facts are what providers merely say; staged acts have no effect outside the engine. Both are written
within 20 ms, in order, and always before or inside the next step of their agent. What acts outside,
or depends on them, has them written first.

Everything goes to the store without secrets, and nothing more after a failure. Writes under way are
known to readers who must wait for them.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from prsm_core.domain.events import Event
from prsm_core.domain.messages import MessageType, RoutedMessage
from prsm_core.domain.projection import event_of
from prsm_core.domain.steps import Step
from prsm_core.domain.writes import MessageSent, StateChanged, Told
from prsm_core.engine.guarded.failing import Soundness, breaks_ledger, is_unfit
from prsm_core.engine.journal.feed import LiveText, Spoken
from prsm_core.engine.journal.redaction import without_secrets
from prsm_core.engine.state import Staged
from prsm_core.errors import FencedError, StoreError
from prsm_core.lifecycle import AGENT_MACHINE, path_to

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
    from pathlib import Path

    from prsm_core.domain.agents import AgentState
    from prsm_core.domain.ids import Ids
    from prsm_core.domain.steps import Committed, Write
    from prsm_core.engine.journal.feed import Piece
    from prsm_core.engine.state import AgentRecord, Roster
    from prsm_core.interfaces.clock import Clock
    from prsm_core.interfaces.store import Store
    from prsm_core.kit.background import Background
    from prsm_core.messaging.deadlock import DeadlockDetector
    from prsm_core.messaging.router import MessageRouter
    from prsm_core.permissions import Redactor

    OnEvents = Callable[[tuple[Event, ...]], None]
    OnBroken = Callable[[StoreError], None]
    OnLive = Callable[[Event, int], None]


Unwritten: TypeAlias = Sequence[Told | Staged]


class Batch(list[Told | Staged]):
    """What an agent did that is written in one go, and the live text in between."""

    __slots__ = ("live",)

    def __init__(self) -> None:
        super().__init__()
        self.live: list[tuple[int, Piece]] = []  # each with how many acts and facts come before

    def last_piece(self) -> Piece | None:
        """Return the text that new text may continue."""
        if self.live and self.live[-1][0] == len(self):
            return self.live[-1][1]
        return None


NOTHING = Batch()  # of an agent that has done nothing


class Pending:
    """Owns the unwritten acts and facts by agent, and the text behind them.

    Whoever writes takes a batch and lets go of it once it is written or never will be: only then is
    the place of live text known. `on_live` gets live text and the number of the event it comes
    behind.
    """

    def __init__(self, spoken: Spoken, on_live: OnLive) -> None:
        self._spoken = spoken
        self._on_live = on_live
        self._unwritten: dict[str | None, Batch] = {}
        self._in_flight: dict[str | None, Batch] = {}  # the newest that is being written
        self.count = 0  # acts and facts that nobody has taken

    @property
    def agents(self) -> Iterable[str | None]:
        """The agents with acts or facts that nobody has taken."""
        return self._unwritten.keys()

    def has(self, agent_id: str | None) -> bool:
        """Whether an agent has acts or facts that nobody has taken."""
        return agent_id in self._unwritten

    def add(self, agent_id: str | None, one: Told | Staged) -> None:
        """Append an act or fact to what its agent did before."""
        batch = self._unwritten.get(agent_id)
        if batch is None:
            batch = self._unwritten[agent_id] = Batch()
        batch.append(one)
        self.count += 1

    def take(self, agent_id: str | None) -> Batch:
        """Return what an agent did, for the caller to write and then let go of."""
        taken = self._unwritten.pop(agent_id, NOTHING)
        if taken:
            self.count -= len(taken)
            self._in_flight[agent_id] = taken
        return taken

    def let_go(self, agent_id: str | None, batch: Batch, seqs: Sequence[int | None] = ()) -> None:
        """Publish the text between what was just written, or never will be.

        `seqs` are the numbers of the last events of what was written, None for what was left out.
        """
        if self._in_flight.get(agent_id) is batch:
            del self._in_flight[agent_id]
        live, batch.live = batch.live, []
        for place, piece in live:
            known = [seq for seq in seqs[:place] if seq is not None]
            agent = piece.first.agent or ""
            piece.behind = known[-1] if known else self._spoken.last_seq(agent)
            for event in piece.events:  # each as its provider told it: readers may join them
                self._on_live(event, piece.behind)
            self._spoken.waiting.remove(agent, piece.behind)

    def tell(self, agent: str, event: Event) -> None:
        """Publish text as soon as what its agent did before is written."""
        batch = self._unwritten.get(agent) or self._in_flight.get(agent)
        if batch is None:
            behind = self._spoken.last_seq(agent)
            self._spoken.piece(event, behind)
            self._on_live(event, behind)
            return
        last = batch.last_piece()
        if last is None or not last.takes(event):
            batch.live.append((len(batch), self._spoken.piece(event, None)))
            self._spoken.waiting.add(agent, self._spoken.last_seq(agent))


def last_seqs(batch: Batch, step: Step, events: Sequence[Event]) -> list[int | None]:
    """Return the number of each act's or fact's last event in a step; None without events."""
    seq = (events[0].seq or 1) - 1 if events else 0
    seqs: list[int | None] = []
    for one in batch:
        told = sum(len(list(write.events(step))) for write in _writes([one]))
        seq += told
        seqs.append(seq if told else None)
    return seqs


def joined(before: Unwritten, step: Step) -> Step:
    """Return a step preceded by all that its agent did before; each keeps its time."""
    return replace(step, writes=(*_writes(before), *step.writes))


def settle(unwritten: Unwritten) -> None:
    """Note that acts are in the ledger."""
    for one in unwritten:
        if isinstance(one, Staged):
            one.settle()


def can_join(before: Unwritten, step: Step) -> bool:
    """Return whether acts are of the step's life and run, and may all be written."""
    for one in before:
        if isinstance(one, Staged) and not one.fits(step.run_id, step.incarnation):
            return False
    return True


def last_act(unwritten: Unwritten) -> Staged | None:
    """Return the newest act, or None."""
    return next((one for one in reversed(unwritten) if isinstance(one, Staged)), None)


def _writes(unwritten: Unwritten) -> Iterator[Write]:
    for one in unwritten:
        if isinstance(one, Staged):
            for write in one.step.writes:
                yield write if write.at is not None else replace(write, at=one.step.at)
        else:
            yield one


_log = logging.getLogger("prsm.engine")

FLUSH_SECONDS = 0.02
FACT_LIMIT = 1000  # unwritten facts and acts; a provider that says more waits for the store


class Journal:
    """Owns the order of writes, and the only path to the store."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        background: Background,
        *,
        session_id: str,
        on_events: OnEvents,
        redactor: Redactor,
        on_broken: OnBroken = lambda _: None,
        on_live: OnLive = lambda _event, _behind: None,
        spoken: Spoken | None = None,
        state_dir: Path | None = None,
    ) -> None:
        """Open the path to a store.

        `on_events` gets what is committed, once durable; `spoken` heeds that. `on_broken` is told
        once why the ledger cannot be written any more. `on_live` gets live text, and the number of
        the event it comes behind. `state_dir` is where else PRSM writes, if anywhere.
        """
        self._state_dir = state_dir
        self._clock = clock
        self._background = background
        self._store = store
        self._on_events = on_events
        self.redactor = redactor
        self.spoken = Spoken() if spoken is None else spoken
        self._pending = Pending(self.spoken, on_live)
        self.soundness = Soundness(on_broken)
        self.session_id = session_id
        self.run_id = ""
        self._lanes = Lanes()
        self._flushing: asyncio.Task[None] | None = None
        self._steps = 0
        self._is_over = False  # run_finished is about to be written, or is
        self._epoch = 1  # of the run: one more with each engine that goes on with it
        self._is_suspended = False

    @property
    def redact(self) -> Callable[[Any], Any]:
        """Takes the secrets out of JSON values."""
        return self.redactor.value

    async def stops_for(self, failure: str) -> bool:
        """Return whether something failed because the machine ran out of a resource.

        That is no agent's failure: the run stops as for a broken ledger, to be resumed once there
        is room.
        """
        from prsm_core.kit.exhaustion import find_exhaustion, speaks_of_exhaustion

        if self._state_dir is None or not speaks_of_exhaustion(failure):
            return False
        used_up = await asyncio.to_thread(find_exhaustion, self._state_dir)
        if used_up is None:
            return False
        hint = f"{used_up.hint}: prsm resume {self.session_id}"
        self.soundness.failed(StoreError(f"the run stops: {used_up.message}", hint=hint))
        return True

    def begin_run(self, run_id: str, epoch: int = 1) -> None:
        """Make everything from now on part of this run; `epoch` counts its engines."""
        self.run_id = run_id
        self._epoch = epoch
        self._steps = 0
        self._is_over = False

    async def suspend(self) -> None:
        """Write everything, and take nothing more of agents: they stay as they are."""
        await self.flush()
        self._is_suspended = True

    @property
    def is_suspended(self) -> bool:
        """Whether agents stay as they are in the ledger, for another engine to continue."""
        return self._is_suspended or self.soundness.is_broken

    @property
    def is_over(self) -> bool:
        """Whether nothing more is taken of agents, as the run's end follows or is written."""
        return self._is_over or self._is_suspended

    async def hold(self) -> None:
        """Wait until cancelled if what comes now must not be answered.

        No answer after the suspension is durable, and the next engine gives another one.
        """
        if self.is_suspended:
            await asyncio.get_running_loop().create_future()

    def end_run(self) -> None:
        """Take no more facts or agents' steps: `run_finished` follows, and is the last."""
        self._is_over = True

    def run_step_id(self) -> str:
        """Return a new step id for an act of the run itself."""
        self._steps += 1
        return f"{self.run_id}:{self._epoch}:{self._steps}"

    def live_text(self, kind: str, agent: str, *, limit: float = math.inf, **of: Any) -> LiveText:
        """Return a taker of unstored text that the fields `of` identify, up to `limit`."""
        tell = partial(self._tell, kind, agent)
        return LiveText(self.redactor.stream(), tell, self.redact(of), limit)

    def _tell(self, kind: str, agent: str, data: Mapping[str, Any]) -> None:
        event = Event(  # the text has been redacted as a stream
            type=kind,
            session=self.session_id,
            run=self.run_id,
            ts=self._clock.time(),
            agent=agent,
            data=data,
        )
        self._pending.tell(agent, event)

    async def fact(self, kind: str, agent: str | None = None, **data: Any) -> None:
        """Note an event that no step causes; waits only if too many are unwritten."""
        self.note(kind, agent, **data)
        if self._pending.count >= FACT_LIMIT:
            await self.flush()

    def note(self, kind: str, agent: str | None = None, /, **data: Any) -> None:
        """Note an event that no step causes, without waiting, for what is rare."""
        if self.is_over:
            _log.info("%s came after the end of the run", kind)
            return
        if kind == "message_completed" and data.get("role") == "assistant":
            self.spoken.complete(agent, data)
        self._keep(agent, Told(kind=kind, data=data, at=self._clock.time()))

    def warn(self, agent: str | None, text: str, level: str = "warning") -> None:
        """Note a notice for people, on an agent or the run."""
        self.note("notice", agent, level=level, text=text)

    def tell(self, kind: str, agent: str | None = None, /, **data: Any) -> None:
        """Note what the run's end waits for, such as rules, sinks and files.

        It is no act of an agent, so a suspended run records it too: the next engine does not know
        it.
        """
        if self._is_over:
            _log.info("%s came after the end of the run", kind)
            return
        self._keep(agent, Told(kind=kind, data=data, at=self._clock.time()))

    def stage(self, step: Step, needs: Staged | None = None) -> Staged:
        """Write an agent's step with its next one, or alone within 20 ms.

        For what has no effect outside the engine and tells other agents nothing, as a crash may
        undo it. Without the act that it `needs` it is left out; the returned act tells. Raises
        FencedError when the run is over.
        """
        self._check_open(step)
        act = Staged(step, needs)
        self._keep(step.agent_id, act)
        return act

    def _keep(self, agent_id: str | None, one: Told | Staged) -> None:
        self._pending.add(agent_id, one)
        if self._flushing is None:
            self._flushing = self._background.start(self._flush_soon(), name="journal flush")

    def _check_open(self, step: Step) -> None:
        if step.agent_id is not None and self.is_over:
            raise FencedError(f"step {step.step_id} comes after the end of the run")

    async def commit(
        self,
        step: Step,
        then: Callable[[], None] | None = None,
        *,
        needs: Staged | None = None,
        bears: Collection[str] = (),
    ) -> Committed:
        """Commit a step, preceded by what its agent did before; then run `then`.

        Both happen even if the caller is cancelled. What comes before is written even if the ledger
        refuses the step. Raises FencedError for an agent's step when the run is over, and why an
        act that it `needs` was refused. Steps of the agents that it `bears` come after it.
        """
        self._check_open(step)
        before = self._pending.take(step.agent_id)
        places: Sequence[Place] = ()
        if before or step.agent_id in self._lanes:
            # The places are taken now: what these agents do later comes after it.
            agents = dict.fromkeys((step.agent_id, *bears)) if bears else (step.agent_id,)
            places = [self._lanes.enter(one) for one in agents]
        return await self._background.finish(self._commit(places, step, before, then, needs))

    async def land(self, agent_id: str) -> None:
        """Write what an agent has done so far, and wait for what a flush is writing of it."""
        writing = self.spoken.writing
        begun = writing.last
        if self._pending.has(agent_id) or agent_id in self._lanes:
            work = self._land_in_line(self._lanes.enter(agent_id), self._pending.take(agent_id))
            await self._background.finish(work)
        await writing.past(begun)

    async def flush(self) -> None:
        """Write all facts and acts so far; return once they are in the ledger and told.

        This includes what others are writing; if that fails, its writer reports it.
        """
        writing = self.spoken.writing
        begun = writing.last
        facts, acts = self._take_all()
        works = [
            self._land_in_line(self._lanes.enter(agent_id), some) for agent_id, some in acts.items()
        ]
        if facts or works:
            await self._background.finish(self._write_all(facts, works))
        await writing.past(begun)

    async def _write_all(
        self, facts: Mapping[str | None, Batch], works: Sequence[Coroutine[Any, Any, None]]
    ) -> None:
        in_line = asyncio.gather(*works, return_exceptions=True)
        try:
            if facts:
                await self._write_facts(facts)
        finally:
            errors = [error for error in await in_line if error is not None]
        if errors:
            raise errors[0]

    def _take_all(self) -> tuple[dict[str | None, Batch], dict[str | None, Batch]]:
        """Return the facts of agents with nothing else, and what others have, by agent."""
        facts: dict[str | None, Batch] = {}
        acts: dict[str | None, Batch] = {}
        for agent_id in dict.fromkeys((*self._pending.agents, *self._lanes)):
            some = self._pending.take(agent_id)
            if agent_id in self._lanes or last_act(some) is not None:
                acts[agent_id] = some
            else:
                facts[agent_id] = some
        return facts, acts

    async def _write_facts(self, facts: Mapping[str | None, Batch]) -> None:
        events = [event for agent, some in facts.items() for event in self._events(agent, some)]
        events.sort(key=lambda event: event.ts)
        seqs: Sequence[int | None] = ()
        try:
            seqs = await self._append(events)
        finally:
            for agent_id, some in facts.items():
                told = zip(seqs, events, strict=False) if some.live else ()
                own = [seq for seq, event in told if event.agent == agent_id]
                self._pending.let_go(agent_id, some, own)

    def _events(self, agent: str | None, facts: Unwritten) -> Iterator[Event]:
        told = [fact for fact in facts if isinstance(fact, Told)]
        for fact in without_secrets(told, self.redactor):
            telling = fact.telling(agent, self._clock.time())
            yield event_of(telling, self.session_id, self.run_id)

    async def _commit(
        self,
        places: Sequence[Place],
        step: Step,
        before: Batch,
        then: Callable[[], None] | None,
        needs: Staged | None,
    ) -> Committed:
        """Commit a step once everything in line before its places is written."""
        try:
            for place in places:
                if place.before is not None:
                    await place.before.over()
            if needs is not None and needs.refused is not None:
                await self._land(step.agent_id, before)
                raise needs.refused
            committed = await self._write_after(before, step, needs)
            if then is not None:
                then()
            self._on_events(committed.events)
            return committed
        finally:
            for place in places:
                self._lanes.leave(place)

    async def _write_after(self, before: Batch, step: Step, needs: Staged | None) -> Committed:
        """Write a step with what comes before it, or each alone if the whole is refused."""
        if not before:
            return await self._write(step)
        if can_join(before, step):
            committed = await self._write_joined(before, step)
            if committed is not None:
                if committed.duplicate:  # the ledger knew the step, and took nothing
                    await self._apart(step.agent_id, before)
                settle(before)
                return committed
        await self._apart(step.agent_id, before)
        if needs is not None and needs.refused is not None:
            raise needs.refused
        return await self._write(step)

    async def _land_in_line(self, place: Place, unwritten: Batch) -> None:
        try:
            if place.before is not None:
                await place.before.over()
            await self._land(place.agent_id, unwritten)
        finally:
            self._lanes.leave(place)

    async def _land(self, agent_id: str | None, unwritten: Batch) -> None:
        last = last_act(unwritten)
        if last is not None and can_join(unwritten, last.step):
            committed = await self._write_joined(unwritten, replace(last.step, writes=()))
            if committed is not None:
                settle(unwritten)
                self._on_events(committed.events)
                return
        await self._apart(agent_id, unwritten)

    async def _write_joined(self, before: Batch, step: Step) -> Committed | None:
        """Write a step with what comes before it; None if the ledger refuses that."""
        try:
            committed = await self._write(joined(before, step))
        except Exception as error:
            if breaks_ledger(error):
                self._pending.let_go(step.agent_id, before)
                raise
            return None
        if not committed.duplicate:
            seqs = last_seqs(before, step, committed.events) if before.live else ()
            self._pending.let_go(step.agent_id, before, seqs)
        return committed

    async def _apart(self, agent_id: str | None, unwritten: Batch) -> None:
        """Write each act and fact alone; leave out those that the ledger refuses."""
        seqs: list[int | None] = []
        try:
            for one in unwritten:
                if isinstance(one, Told):
                    seqs += await self._append(list(self._events(agent_id, [one])))
                else:
                    seqs.append(await self._write_alone(one))
                    one.settle()
        finally:
            self._pending.let_go(agent_id, unwritten, seqs)

    async def _write_alone(self, act: Staged) -> int | None:
        act.refused = None if act.needs is None else act.needs.refused
        if act.refused is not None:
            return None
        try:
            committed = await self._write(act.step)
        except Exception as error:
            if breaks_ledger(error):
                raise
            act.refused = error
            level = logging.INFO if isinstance(error, FencedError) else logging.WARNING
            _log.log(level, "what %s did is left out", act.step.agent_id, exc_info=error)
            return None
        self._on_events(committed.events)
        return committed.events[-1].seq if committed.events else None

    async def _flush_soon(self) -> None:
        try:
            await self._clock.sleep(FLUSH_SECONDS)
        finally:
            self._flushing = None
        await self.flush()

    async def _write(self, step: Step) -> Committed:
        """Write a step without telling its events. Raises what the store raises."""
        writes = without_secrets(step.writes, self.redactor)
        if writes is not step.writes:
            step = replace(step, writes=writes)
        self.soundness.check()
        number = self.spoken.writing.begin()
        try:
            return await self._store.commit(step)
        except Exception as error:
            self.soundness.failed(error)
            raise
        finally:
            self.spoken.writing.end(number)

    async def _append(self, facts: Sequence[Event]) -> Sequence[int | None]:
        number = self.spoken.writing.begin()  # of all, also when they are written one by one
        try:
            return await self._append_all(facts)
        except StoreError as error:
            if not is_unfit(error) or len(facts) == 1:
                raise
            return [await self._append_alone(fact) for fact in facts]
        finally:
            self.spoken.writing.end(number)

    async def _append_all(self, facts: Sequence[Event]) -> Sequence[int | None]:
        self.soundness.check()
        try:
            events = await self._store.append(facts)
        except Exception as error:
            self.soundness.failed(error)
            raise
        self._on_events(events)
        return [event.seq for event in events]

    async def _append_alone(self, fact: Event) -> int | None:
        try:
            return (await self._append_all([fact]))[0]
        except StoreError as error:
            if not is_unfit(error):
                raise
            _log.warning("an event %s cannot be written", fact.type, exc_info=error)
            return None


class Place(Struct, eq=False):
    """A place in a line. Its future is made only if somebody waits: mostly nobody does."""

    agent_id: str | None  # whose line it is in
    before: Place | None  # the place that is left first; None if there is none
    _is_left: bool = False
    _next: asyncio.Future[None] | None = None  # what the one behind it waits for

    def leave(self) -> None:
        """Let the next one in."""
        self._is_left = True
        self.before = None
        if self._next is not None:
            self._next.set_result(None)

    async def over(self) -> None:
        """Return once it was left; only the next in line may wait for that."""
        if not self._is_left:
            self._next = asyncio.get_running_loop().create_future()
            await self._next


class Lanes(dict[str | None, Place]):
    """Owns the order of agents' steps while one is written that may be taken apart.

    An agent's steps reach the store in order. A refused joint step is written again in pieces, and
    what its agent does meanwhile must come after all of them. So a place in the agent's line is
    taken at once, before anything waits. The dict holds the last place of each line.
    """

    def enter(self, agent_id: str | None) -> Place:
        """Take the next place in an agent's line."""
        place = self[agent_id] = Place(agent_id, self.get(agent_id))
        return place

    def leave(self, place: Place) -> None:
        """Let the next one in."""
        place.leave()
        if self[place.agent_id] is place:
            del self[place.agent_id]


class AgentSteps(Struct, eq=False, dict=True):
    """Builds and writes the steps of agents, then tells those they concern.

    A state changes in memory when its step is built and in the store when it commits, in the same
    order.
    """

    journal: Journal
    roster: Roster
    router: MessageRouter
    detector: DeadlockDetector
    # Is told of messages that an agent has consumed.
    read: Callable[[str, Collection[str]], None]
    clock: Clock
    ids: Ids
    # Is told of what peers write, once it is in a mailbox.
    arrived: Callable[[RoutedMessage], None] = lambda _: None

    def build(self, record: AgentRecord, *writes: Write) -> Step:
        """Build a step of this agent and incarnation, with its riders."""
        if record.riders:
            writes, record.riders = (*writes, *record.riders), ()
        return Step(
            step_id=record.next_step_id(),
            session_id=record.descriptor.session_id,
            run_id=self.journal.run_id,
            agent_id=record.agent_id,
            incarnation=record.incarnation,
            at=self.clock.time(),
            writes=writes,
        )

    def build_of_run(self, *writes: Write) -> Step:
        """Build a step of the run itself."""
        return Step(
            step_id=self.journal.run_step_id(),
            session_id=self.journal.session_id,
            run_id=self.journal.run_id,
            agent_id=None,
            at=self.clock.time(),
            writes=writes,
        )

    async def commit(
        self,
        step: Step,
        *,
        consumed: Collection[str] = (),
        then: Callable[[], None] | None = None,
        needs: Staged | None = None,
        bears: Collection[str] = (),
    ) -> Committed:
        """Commit a step; its messages reach their mailboxes once it is durable."""

        def deliver() -> None:
            for write in step.writes:
                if type(write) is MessageSent:
                    self.router.send(write.message)
                    if write.message.type is MessageType.PEER:
                        self.arrived(write.message)
            if step.agent_id is not None and consumed:
                self.router.consumed(step.agent_id, consumed)
                self.read(step.agent_id, consumed)
                self.detector.consumed(step.agent_id)
            if then is not None:
                then()

        return await self.journal.commit(step, deliver, needs=needs, bears=bears)

    async def write(self, record: AgentRecord, *writes: Write) -> None:
        """Commit a step of this agent."""
        await self.commit(self.build(record, *writes))

    def stage(self, record: AgentRecord, *writes: Write, needs: Staged | None = None) -> Staged:
        """Write a step with the agent's next one, or within 20 ms; see `Journal.stage`."""
        return self.journal.stage(self.build(record, *writes), needs)

    async def land(self, agent_id: str | None = None) -> None:
        """Write what this agent, or all agents, have staged, before anything depends on it."""
        if agent_id is None:
            await self.journal.flush()
        else:
            await self.journal.land(agent_id)

    def move(
        self,
        record: AgentRecord,
        target: AgentState,
        reason: str = "",
        *,
        waiting_on: str | None = None,
        trigger: str | None = None,
    ) -> tuple[StateChanged, ...]:
        """Change the state in memory; return the writes for the next step."""
        source = record.state
        if trigger is None:
            path = path_to(source, target)
        else:
            AGENT_MACHINE.validate(source, target, trigger=trigger)
            path = (target,)
        changes = []
        for state in path:
            on = waiting_on if state is target else None
            changes.append(StateChanged(source=source, target=state, reason=reason, waiting_on=on))
            source = state
        record.state = target
        record.waiting_on = waiting_on
        return tuple(changes)

    def message(
        self,
        sender: AgentRecord | None,
        kind: MessageType,
        target: str,
        payload: dict[str, Any],
        correlation_id: str | None = None,
    ) -> RoutedMessage:
        """Build a message to an agent of this run."""
        return RoutedMessage(
            message_id=self.ids.ulid(),
            type=kind,
            source=None if sender is None else sender.agent_id,
            target=target,
            payload=payload,
            correlation_id=correlation_id,
            incarnation=self.roster.get(target).incarnation,
            created_at=self.clock.time(),
        )
