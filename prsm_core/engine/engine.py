"""The engine: one session's runs, from the user's task to `run_finished`.

It wires the parts of a run and owns their end: `run_finished` is written once and last, and nothing
the engine started outlives it.

A run may be ended by its master, by an interrupt, or by a broken ledger; the first one counts.
However many ask for the end, one of them writes it, under a lock, and all get the same outcome. A
run whose ledger broke, or that another engine continues, stays open there.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from prsm_core.domain.agents import NO_LABELS, PermissionMode
from prsm_core.domain.writes import RunFinished, RunResumed
from prsm_core.door import PolicyReport
from prsm_core.engine.agents.failover import coming_model
from prsm_core.engine.assembly import Assembly
from prsm_core.engine.guarded.failing import breaks_ledger, describe
from prsm_core.engine.journal.feed import Feed
from prsm_core.engine.journal.sinks import RunSinks
from prsm_core.engine.journal.unit import Journal
from prsm_core.engine.outcome import (
    FINISHED,
    INTERRUPTED,
    Account,
    check_wanted,
    held_outcome,
    outcome_of,
    result_of,
)
from prsm_core.engine.starting import Starting, notices, own_process
from prsm_core.errors import ConfigError, FencedError
from prsm_core.kit.background import Background
from prsm_core.kit.clocks import first_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence

    from prsm_core.domain.agents import AgentDescriptor
    from prsm_core.domain.events import Event
    from prsm_core.domain.sessions import RunNow
    from prsm_core.domain.steps import Write
    from prsm_core.domain.tools import McpServer
    from prsm_core.domain.turns import AbortSignal
    from prsm_core.engine.assembly import EngineConfig
    from prsm_core.engine.state import AgentRecord
    from prsm_core.interfaces.frontend import RunResult

_log = logging.getLogger("prsm.engine")


class OrchestrationEngine:
    """Runs the tree of agents of one session. Enter it, then `run`."""

    def __init__(self, config: EngineConfig) -> None:
        self._config = config
        self._background = Background(self._surprise, config.clock, config.parting)
        self.parting = self._background.parting
        self.feed = Feed(config.store, self._background)
        self.journal = Journal(
            config.store,
            config.clock,
            self._background,
            session_id=config.session_id,
            on_events=self._committed,
            redactor=config.redactor,
            on_broken=lambda error: self._run.break_off(error),
            on_live=self.feed.offer,
            spoken=self.feed.spoken,
            state_dir=config.state_dir,
        )
        parts = self._parts = Assembly(config, self._background, self.journal, self.feed)
        self._starting = Starting(parts)
        self.manager, self.ends, self.detector = parts.manager, parts.ends, parts.detector
        self.prompting, self.user_prompts = parts.prompting, parts.user_prompts
        self.router, self.slots, self.peers = parts.router, parts.slots, parts.peers
        self.requests, self.holds = parts.requests, parts.holds
        self.quiet, self.files = parts.quiet, parts.files
        self.budgets, self.conversations = parts.budgets, parts.conversations
        self.providers, self.enforcement = parts.providers, parts.enforcement
        self.clock, self.ids = config.clock, config.ids
        self.listings = parts.listings
        self.settings, self.workspace = config.settings, config.workspace
        self._shutdown_lock = asyncio.Lock()
        self._knows_names = False  # of the agents of earlier engines
        self._run = CurrentRun(parts, self._starting)
        parts.holds.end_run = self._run.end_held

    def _committed(self, events: tuple[Event, ...]) -> None:
        self._run.account.hear(events)
        self.feed.publish(events)
        self._run.sinks.publish(events)

    async def __aenter__(self) -> Self:
        self._run.enter()
        await self._background.__aenter__()
        sweep = self.detector.sweep(self._config.clock)
        self._background.launch(sweep, name="deadlock sweep")
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await self.shutdown()
        finally:
            self._parts.sandbox.close()
            await self._background.__aexit__(None, None, None)

    def start_soon(self, work: Coroutine[Any, Any, object], *, name: str) -> asyncio.Task[None]:
        """Run `work` in the engine's task group until it ends or the engine closes."""
        return self._background.start(work, name=name)

    def policy(self) -> PolicyReport:
        """Return what is allowed, asked and denied, without secrets."""
        return msgspec.convert(self.journal.redact(self._config.broker.told()), PolicyReport)

    @property
    def is_running(self) -> bool:
        """Whether a run is open."""
        return self._run.is_open

    async def run(
        self,
        task_definition: str,
        master_model: str | None = None,
        master_tools: frozenset[str] | None = None,
        *,
        provider: str | None = None,
        mode: PermissionMode = PermissionMode.DEFAULT,
        effort: str | None = None,
        mcp_servers: Mapping[str, McpServer] | None = None,
        images: Sequence[str] = (),
        labels: Mapping[str, str] = NO_LABELS,
        timeout_s: float | None = None,
        abort_signal: AbortSignal | None = None,
        on_start: Callable[[str], None] | None = None,
    ) -> RunResult:
        """Run a task to the end of its master and return the summary.

        `on_start` gets the run's id once it is in the ledger. The master has `effort`, `labels`,
        and `mcp_servers` beside those of the configuration. Raises ConfigError for a blank task or
        unfit `images`, ProviderNotAvailableError if no provider can be used, and RunAbortedError if
        `abort_signal` is set, all with nothing written. Later the signal interrupts the run.
        """
        self._check_task(task_definition)
        check_wanted(abort_signal)
        labels = self._parts.labelling.of_run(labels)
        choice = await self._starting.choose_model(master_model, provider)
        choice = choice if effort is None else replace(choice, reasoning_effort=effort)
        async with self._starting.task(task_definition, images, choice) as said:
            told = await self._starting.survey(mode, choice, labels)
            tools, doubts = await self._starting.choose_tools(master_tools, labels)
            known = await self._reserve_names()
            options = self._starting.options(timeout_s)

            async def begin() -> AgentRecord:
                plan = self._starting.plan_master(
                    said.text, choice, mode, tools, mcp_servers, labels
                )
                notes = [*told, *doubts, *self._starting.told_of_mode(mode, plan)]
                started = self._starting.writes(said, notes, options)
                return await self.manager.admit(
                    plan, lambda births, then: self._run.write(*started, *births, then=then)
                )

            master = await self._run.open(begin, said.text, abort_signal)
        self._starting.begin_naming(master, choice, self._run.write, is_first=known == 0)
        self._starting.begin_checking(master)
        return await self._run.lead(master, on_start, timeout_s)

    async def resume(
        self,
        *,
        timeout_s: float | None = None,
        abort_signal: AbortSignal | None = None,
        on_start: Callable[[str], None] | None = None,
    ) -> RunResult:
        """Continue the session's newest run as the engine before left it.

        A finished run is not begun again: its own result is returned. Agents are taken over as they
        were; see `agents/resuming.py`. A given limit counts from now, otherwise the run has the
        rest of its own. Raises StoreError if the ledger lacks what is needed, and ConfigError if
        there is no run to continue, or no time.
        """
        # Once a session goes on.
        from prsm_core.engine.agents.resuming import check_needs, limit_of, to_go_on_with

        self._run.check_idle()
        check_wanted(abort_signal)
        parts, now = self._parts, self._config.clock.time()
        state = await self._config.store.state(self._config.session_id)
        state = to_go_on_with(state, self.providers.is_external)
        run = state.runs[-1]
        if run.status in FINISHED:
            if on_start is not None:
                on_start(run.run_id)
            return result_of(run)
        await self._reserve_names()
        limit, spent, timed = await limit_of(self._config.store, state, timeout_s, now)
        options = {**run.options, **self._starting.options(limit), **timed}
        lacks = await check_needs(state, self.providers, parts.listings, self._config.settings)

        recovered, withheld = (
            await self._starting.recovered(),
            await self._starting.look_for_skills(state),
        )
        mended = notices([*recovered, *withheld])
        resumed = RunResumed(epoch=run.epoch + 1, engine=own_process(), options=options)
        write = partial(self._run.write, resumed, *mended, *lacks)
        begin = partial(parts.resumption().take_over, state, write)
        async with self._starting.going_on():
            master = await self._run.open(begin, run.task, abort_signal, run, state.live)
        del state, begin  # all agents as they were: nobody asks for that again, in a run of days
        return await self._run.lead(master, on_start, limit, spent)

    async def run_continuation(
        self,
        task_definition: str,
        master_agent_id: str,
        *,
        mode: PermissionMode | None = None,
        images: Sequence[str] = (),
        labels: Mapping[str, str] = NO_LABELS,
        timeout_s: float | None = None,
        abort_signal: AbortSignal | None = None,
        on_start: Callable[[str], None] | None = None,
    ) -> RunResult:
        """Give the ended master of this session a follow-up task, as a run of its own.

        The master keeps its id, place, model, tools and labels, changed by those given, and its
        mode unless another one is given. Raises ConfigError for a blank task or for `images`, as
        `run` does, AgentSpawnError if the agent has not ended or is no master, and
        ProviderNotAvailableError if another mode is given and `run` would not begin on the master's
        provider.
        """
        self._check_task(task_definition)
        check_wanted(abort_signal)
        given = self._parts.labelling.of_run(labels)
        master = self.manager.ended_master(master_agent_id)
        await self.manager.lives.leave(master)
        descriptor, choice, told_of_mode = master.descriptor, coming_model(master), []
        if mode is not None and mode is not descriptor.run_mode:
            leads = self._config.external is None
            await self.providers.choose(choice.provider, leads=leads)
            descriptor = descriptor.in_mode(mode)
            told_of_mode = self._starting.told_of_mode(mode, descriptor)
        async with self._starting.task(task_definition, images, choice) as said:
            told = await self._starting.survey(descriptor.run_mode, choice, given)
            notes = [*told, *told_of_mode]
            started = self._starting.writes(said, notes, self._starting.options(timeout_s))
            with self._parts.labelling.laid(master, labels) as laid:
                again = partial(self.manager.restart_agent, master_agent_id, said.text)
                begin = partial(again, mode=mode, besides=[*started, *laid])
                await self._run.open(begin, said.text, abort_signal, goes_on=[master.descriptor])
        self._starting.begin_checking(master)
        return await self._run.lead(master, on_start, timeout_s)

    async def interrupt_run(self) -> bool:
        """End the open run as interrupted, by killing its agents; the engine stays open.

        Return once `run_finished` is committed; False if no run was open or its end was already
        being written. A run that ends by itself meanwhile keeps its own end. Raises what broke the
        ledger.
        """
        return await self._run.interrupt()

    async def fork(self, at: int | None = None) -> str:
        """Begin another session as this was at event `at`; return its id. Raises StoreError."""
        from prsm_core.engine.forking import ForkRequest, fork_session  # few fork

        config, request = self._config, ForkRequest(at=None if at is None else str(at))
        await self.journal.flush()
        now = config.clock.time()
        state = await fork_session(config.store, config.session_id, request, config.ids, now)
        return state.session_id

    def _check_task(self, task: str) -> None:
        if not task.strip():
            raise ConfigError("the task is blank", hint='say what to do: prsm run "…"')
        self._run.check_idle()

    async def _reserve_names(self) -> int:
        """Reserve the names of earlier agents, read once; return how many there are."""
        names = self.manager.roster.taken_names
        if not self._knows_names:
            taken = await self._config.store.taken(self._config.session_id)
            self._config.ids.not_before(taken.last_event_at)
            names.update(taken.names)
            self._knows_names = True
        return len(names)

    async def shutdown(self, status: str = "interrupted") -> None:
        """Stop every agent, write run_finished if a run is open, close the providers.

        An open run is suspended: agents, turns and calls stay in the ledger for a `resume`. So
        their programs are killed rather than interrupted, which they would remember. Safe to call
        twice, even at the same time.
        """
        async with self._shutdown_lock:
            if self.is_running:
                await self._run.suspend()
            else:
                await self.manager.stop_all()
            await self._run.leave(status)
            await self._parts.aclose()

    def _surprise(self, name: str, error: Exception) -> None:
        """Report a failed background task; a broken store ends the engine.

        A fenced step only came too late for its agent: the store did its work.
        """
        if self.journal.is_suspended and isinstance(error, FencedError):
            _log.info("task %s comes after the end", name, exc_info=error)
            return
        _log.error("task %s failed", name, exc_info=error)
        if breaks_ledger(error):
            self._run.break_off(error)
            return
        if self.is_running:  # nothing may follow run_finished
            self.journal.warn(None, f"{name}: {describe(error)}", "error")


class _Ends(Struct, eq=False):
    outcome: asyncio.Future[RunResult]  # its end is written, or about to be
    interrupted: asyncio.Future[None]  # somebody wants it to end
    left: asyncio.Future[None]  # nobody leads it any more
    held: asyncio.Future[str]  # its agents are held, and why: it is to be gone on with later


class CurrentRun:
    """Owns whether a run is open, what ends it, and its outcome."""

    def __init__(self, parts: Assembly, starting: Starting) -> None:
        config = parts.config
        self.parts = parts
        self.account = Account()  # of the newest run
        self._starting = starting
        self._finishing = asyncio.Lock()  # held while an end is written
        self._started: float | None = None  # monotonic, of the open run
        self._ends: _Ends | None = None  # of the newest run
        self._broken: asyncio.Future[None] | None = None  # done: the ledger cannot be written
        # Opened with a run and closed behind its end.
        self.sinks = RunSinks(
            config.sinks,
            config.sink_settings,
            parts.background,
            config.clock,
            parts.journal,
            is_open=lambda: self.is_open,
        )

    @property
    def is_open(self) -> bool:
        """Whether there is a run whose end is not about to be written."""
        return self._started is not None

    @property
    def is_broken(self) -> bool:
        """Whether the ledger cannot be written any more."""
        return self._broken is not None and self._broken.done()

    def enter(self) -> None:
        """Start listening for what breaks the ledger."""
        self._broken = asyncio.get_running_loop().create_future()

    def break_off(self, error: Exception) -> None:
        """End the open run because the ledger is broken; its agents stay as they are."""
        broken = self._broken
        if broken is not None and not broken.done():
            broken.set_exception(error)
            broken.exception()  # whoever waits for the run has it: else nobody need be told

    def check_idle(self) -> None:
        """Raise ConfigError while a run is open."""
        if self._started is not None:
            raise ConfigError("this session runs a task already", hint="wait for its end")
        if self._ends is not None and self._ends.held.done():
            raise ConfigError(
                "the run before was left where a login or a limit holds it",
                hint=f"go on with it: prsm resume {self.parts.journal.session_id}",
                code="held",
            )

    async def write(self, *writes: Write, then: Callable[[], None] | None = None) -> None:
        """Commit an act of the run itself."""
        await self.parts.journal.commit(self.parts.steps.build_of_run(*writes), then)

    async def open(
        self,
        begin: Callable[[], Awaitable[AgentRecord]],
        task: str,
        signal: AbortSignal | None,
        again: RunNow | None = None,
        goes_on: Sequence[AgentDescriptor] = (),
    ) -> AgentRecord:
        """Begin or continue a run and return its master, or leave nothing to finish."""
        if (config := self.parts.config).settings.sandbox.mode == "require":
            await self.parts.sandbox.prepare()
        async with self._finishing:  # the run before is over first, and its sinks are closed
            self.check_idle()
            self.parts.abort.take(signal)
            self.parts.background.parting.stay()
            self._started = config.clock.now()
        future = asyncio.get_running_loop().create_future
        ends = self._ends = _Ends(future(), future(), future(), future())
        try:
            if again is None:
                self.parts.journal.begin_run(config.ids.ulid())
            else:
                self.parts.journal.begin_run(again.run_id, again.epoch + 1)
            budgets = config.settings.budgets
            self.parts.budgets.begin(budgets.to_budget(), let_turns_finish=budgets.let_turns_finish)
            await self._begin_account(again)
            broken = self.sinks.open(task, config.workspace, goes_on)
            master = await begin()
            if self.parts.files.watch is not None:
                self.parts.files.watch.begin(is_resumed=again is not None)
        except Exception:  # one that is cancelled meanwhile may be in the ledger, and is finished
            self._started = None
            if again is None:
                self.enter()
                self.parts.journal.soundness.mend()
            await self.sinks.aclose()
            raise
        except BaseException:
            ends.left.set_result(None)  # nobody drives it: `interrupt` ends it
            raise
        for text in broken:  # told now, since run_started comes first
            self.parts.journal.warn(None, text)
        return master

    async def lead(
        self,
        master: AgentRecord,
        on_start: Callable[[str], None] | None,
        limit: float | None,
        spent: float = 0.0,
    ) -> RunResult:
        """Wait for the master's end, kill it at the time limit, and close the run."""
        ends = self._ends
        if ends is None:
            raise RuntimeError("no run was started")
        with self.parts.abort.leading(ends.interrupted, ends.left):
            if on_start is not None:
                on_start(self.parts.journal.run_id)
            left = None if limit is None else limit - spent
            clock = self.parts.config.clock
            if not await first_of(clock, left, lambda: self._until_over(master, ends)):
                why = f"the run's time limit of {limit:g} s is over"
                self.parts.background.parting.begin()
                self.parts.ends.stop_below(master)
                await self.parts.ends.kill_tree(master, why)
            elif ends.interrupted.done():
                await self.parts.ends.kill_tree(master, INTERRUPTED.error or "")
            elif ends.held.done() and not ends.outcome.done():
                await self.suspend()
                return await self._finish(ends, held_outcome(ends.held.result()))
            return await self._close(master, ends)

    async def interrupt(self) -> bool:
        """End the open run as interrupted; see `OrchestrationEngine.interrupt_run`."""
        broken, ends = self._broken, self._ends
        if self._started is None or broken is None or ends is None:
            async with self._finishing:  # held until that end is written
                return False
        if not ends.interrupted.done():
            ends.interrupted.set_result(None)
        awaited: set[asyncio.Future[Any]] = {broken, ends.outcome, ends.left}
        await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
        if broken.done():
            broken.result()
        if not ends.outcome.done():  # whoever drove it has given up before its end
            await self.parts.journal.flush()  # what it began is there, or comes before what follows
            await self.parts.ends.end_masters(INTERRUPTED.error or "")
        await self._finish(ends, INTERRUPTED)
        return True

    def end_held(self, why: str) -> None:
        """Interrupt the open run because its agents are held; it can be resumed."""
        ends = self._ends
        if self._started is not None and ends is not None and not ends.held.done():
            ends.held.set_result(why)

    async def leave(self, status: str) -> None:
        """Write the end of a run that is still open, unless its ledger is broken."""
        if self._started is not None and self._ends is not None and not self.is_broken:
            why = f"the run was {status}"
            await self._finish(self._ends, replace(INTERRUPTED, status=status, error=why))
        await self.sinks.aclose()

    async def suspend(self) -> None:
        """Leave all agents as they are in the ledger; end what runs for them."""
        if not self.is_broken:
            await self.parts.journal.suspend()
        self.parts.config.launcher.kill_programs()
        await self.parts.manager.stop_all()

    async def _until_over(self, master: AgentRecord, ends: _Ends) -> None:
        if self._broken is None:
            raise RuntimeError("the engine was not entered")
        awaited: set[asyncio.Future[Any]] = {
            master.ended(),
            self._broken,
            ends.outcome,
            ends.interrupted,
            ends.held,
        }
        await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)

    async def _close(self, master: AgentRecord, ends: _Ends) -> RunResult:
        if self._broken is not None and self._broken.done():
            self._broken.result()
        if ends.outcome.done():  # it was interrupted meanwhile
            return await self._finish(ends, INTERRUPTED)
        await self.parts.ends.end_below(master, "the run has ended")
        if self.parts.files.watch is not None:
            await self.parts.files.watch.flush()
        await self.parts.journal.flush()
        asked, is_left = ends.interrupted.done(), self.parts.journal.is_suspended
        end = outcome_of(master, self.account, interrupted=asked, is_left=is_left)
        return await self._finish(ends, end)

    async def _begin_account(self, again: RunNow | None) -> None:
        self.account = Account()
        if again is not None:
            store, session = self.parts.config.store, self.parts.journal.session_id
            async for event in store.events(session):
                if event.run == again.run_id:
                    self.account.hear((event,))

    async def _finish(self, ends: _Ends, end: RunResult) -> RunResult:
        """Write run_finished, once and last, close the run's sinks, and return the outcome.

        A finished run keeps its outcome: the next one may have begun and continues.
        """
        outcome = ends.outcome
        async with self._finishing:
            if not outcome.done():
                self._starting.leave()
                await self._look_last()
                await self.sinks.settle()
                redact = self.parts.journal.redact
                said = replace(end, summary=redact(end.summary), error=redact(end.error))
                await self._write_end(outcome, said)
            if ends is self._ends:
                await self.sinks.aclose()
            return outcome.result()

    async def _look_last(self) -> None:
        if self.parts.files.watch is None:
            return
        seconds, clock = self.parts.background.parting.rest(), self.parts.config.clock
        if not await first_of(clock, seconds, self.parts.files.watch.finish):
            text = "the last look at the files was left: the run's time is over"
            self.parts.journal.warn(None, text)

    async def _write_end(self, outcome: asyncio.Future[RunResult], end: RunResult) -> None:
        await self.parts.settle()
        self.parts.journal.end_run()
        await self.parts.journal.flush()
        spent = self.parts.budgets.spent
        began, self._started = self._started or 0.0, None  # from here on it will be written
        outcome.set_result(replace(end, usage=spent.usage, spent=spent))
        used = {
            "duration_s": round(self.parts.config.clock.now() - began, 3),
            "usage": spent.counts,
            "cost_usd": spent.cost_usd,
            "provenance": spent.provenance,
            "evidence": end.evidence,
            "unknown_turns": spent.unknown_turns,
        }
        finished = RunFinished(
            status=end.status,
            summary=end.summary,
            error=end.error,
            exit_code=end.exit_code,
            problems=[asdict(one) for one in end.problems],
            used=used,
        )
        await self.write(finished)
