"""The engine: one session's runs, from the user's task to `run_finished`.

It wires the parts of a run together and owns their end: whatever happens, `run_finished` is
written once and last, and nothing the engine started outlives it.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from msgspec.structs import replace

from prsm_core.domain.agents import NO_LABELS, PermissionMode
from prsm_core.domain.writes import RunFinished, RunResumed
from prsm_core.engine.agents.failover import coming_model
from prsm_core.engine.assembly import Assembly, EngineConfig
from prsm_core.engine.guarded.failing import breaks_ledger, describe
from prsm_core.engine.journal.feed import Feed
from prsm_core.engine.journal.sinks import RunSinks
from prsm_core.engine.journal.unit import Journal
from prsm_core.engine.outcome import FINISHED, INTERRUPTED, check_wanted, outcome_of, result_of
from prsm_core.engine.starting import Starting, notices, own_process
from prsm_core.errors import ConfigError, FencedError
from prsm_core.kit.background import Background
from prsm_core.kit.clocks import first_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
    from types import TracebackType

    from prsm_core.domain.agents import AgentDescriptor
    from prsm_core.domain.sessions import RunNow
    from prsm_core.domain.steps import Write
    from prsm_core.domain.tools import McpServer
    from prsm_core.domain.turns import AbortSignal
    from prsm_core.engine.state import AgentRecord
    from prsm_core.interfaces.frontend import RunResult

_log = logging.getLogger("prsm.engine")


class OrchestrationEngine:
    """Runs the tree of agents of one session. Enter it, then `run`."""

    def __init__(self, config: EngineConfig) -> None:
        self._config = config
        self._background = Background(self._surprise, config.clock)
        self.feed = Feed(config.store, self._background)
        self.journal = Journal(
            config.store,
            config.clock,
            self._background,
            session_id=config.session_id,
            on_events=self.feed.publish,
            redactor=config.redactor,
            on_broken=self._break,
            on_live=self.feed.offer,
            spoken=self.feed.spoken,
        )
        parts = self._parts = Assembly(config, self._background, self.journal, self.feed)
        self._starting = Starting(
            config,
            self._background,
            providers=parts.providers,
            listings=parts.listings,
            enforcement=parts.enforcement,
            planner=parts.planner,
            workforce=parts.workforce,
            saying=parts.saying,
            contexts=parts.context_parts,
            files=parts.files,
            trees=parts.trees,
            skills=parts.skills,
        )
        self.manager = parts.manager
        self.prompting, self.saying = parts.prompting, parts.saying
        self.router, self.slots, self.peers = parts.router, parts.slots, parts.peers
        self.requests, self.trees = parts.requests, parts.trees
        self.quiet, self.files, self.changes = parts.quiet, parts.files, parts.changes
        self.budgets, self.conversations = parts.budgets, parts.conversations
        self.providers, self.enforcement = parts.providers, parts.enforcement
        self.clock, self.ids = config.clock, config.ids
        self.listings = parts.listings
        self.settings, self.workspace = config.settings, config.workspace
        self._broken: asyncio.Future[None] | None = None
        self._shutdown_lock, self._finish_lock = asyncio.Lock(), asyncio.Lock()
        self._started: float | None = None  # monotonic, of the open run
        self._outcome: asyncio.Future[RunResult] | None = None  # of the newest run
        self._left: asyncio.Future[None] | None = None  # done: nobody leads that run any more
        self._interrupted: asyncio.Future[None] | None = None  # done: the open run is to end
        self._sinks = self._run_sinks()

    def _run_sinks(self) -> RunSinks:
        config = self._config
        return RunSinks(
            config.sinks,
            config.sink_settings,
            background=self._background,
            journal=self.journal,
            feed=self.feed,
            is_open=lambda: self.is_running,
        )

    async def __aenter__(self) -> Self:
        self._broken = asyncio.get_running_loop().create_future()
        await self._background.__aenter__()
        sweep = self.manager.detector.sweep(self._config.clock)
        self._background.launch(sweep, name="deadlock sweep")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self.shutdown()
        finally:
            self._parts.sandbox.close()
            await self._background.__aexit__(None, None, None)

    def start_soon(self, work: Coroutine[Any, Any, object], *, name: str) -> asyncio.Task[None]:
        """Run `work` in the engine's task group until it ends or the engine closes."""
        return self._background.start(work, name=name)

    def policy(self) -> dict[str, Any]:
        """Return what is allowed, asked and denied as JSON values, without secrets."""
        return dict(self.journal.redact(self._config.broker.told()))

    @property
    def is_running(self) -> bool:
        """Whether a run is open."""
        return self._started is not None

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

        Raises ConfigError for a blank task and ProviderNotAvailableError when no provider can
        be used, RunAbortedError when `abort_signal` is set; then nothing was written. Later that
        signal interrupts the run. `on_start` gets the run's id once it is in the ledger.
        The master has `effort`, `labels`, and `mcp_servers` beside those of the configuration.
        Raises ConfigError for `images` that are none, and where its provider is shown none.
        """
        self._check_task(task_definition)
        check_wanted(abort_signal)
        labels = self._parts.labelling.of_run(labels)
        choice = await self._starting.choose_model(master_model, provider)
        choice = choice if effort is None else replace(choice, reasoning_effort=effort)
        async with self._starting.task(task_definition, images, choice) as said:
            told = await self._starting.survey(mode, choice)
            known = await self._reserve_names()
            options = self._starting.options(timeout_s)

            async def begin() -> AgentRecord:
                started = self._starting.writes(said, told, options)
                plan = self._starting.plan_master(
                    said.text, choice, mode, master_tools, mcp_servers, labels
                )
                return await self.manager.admit(
                    plan, lambda births, then: self._write_run(*started, *births, then=then)
                )

            master = await self._open_run(begin, said.text, abort_signal)
        self._starting.begin_naming(master, choice, self._write_run, is_first=known == 0)
        with self._parts.abort.leading(self._interrupted, self._left):
            if on_start is not None:
                on_start(self.journal.run_id)
            return await self._until_closed(master, timeout_s)

    async def resume(
        self,
        *,
        timeout_s: float | None = None,
        abort_signal: AbortSignal | None = None,
        on_start: Callable[[str], None] | None = None,
    ) -> RunResult:
        """Go on with the session's newest run, as the engine before has left it.

        A run that is finished is not begun again: its own result is returned. Its master and all
        below are taken over as they were; see `agents/resuming.py`. A limit that is given counts
        from here; else the run has what is left of its own. Raises StoreError where the ledger
        does not tell what is needed, ConfigError where there is no run to go on with, or no time.
        """
        from prsm_core.engine.agents.needs import Needs  # once a session goes on
        from prsm_core.engine.agents.resuming import to_go_on_with
        from prsm_core.engine.time_limit import limit_of

        self._check_idle()
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
        lacks = await Needs(self.providers, parts.listings, self._config.settings).check(state)

        recovered, withheld = await self._starting.recovered(), await self._starting.skills(state)
        mended = notices([*recovered, *withheld])
        resumed = RunResumed(epoch=run.epoch + 1, engine=own_process(), options=options)
        write = partial(self._write_run, resumed, *mended, *lacks)
        begin = partial(parts.resumption().take_over, state, write)
        async with self._starting.going_on():
            master = await self._open_run(begin, run.task, abort_signal, run, state.live)
        del state, begin  # all agents as they were: nobody asks for that again, in a run of days
        with self._parts.abort.leading(self._interrupted, self._left):
            if on_start is not None:
                on_start(self.journal.run_id)
            return await self._until_closed(master, limit, spent)

    async def run_continuation(
        self,
        task_definition: str,
        master_agent_id: str,
        *,
        images: Sequence[str] = (),
        labels: Mapping[str, str] = NO_LABELS,
        timeout_s: float | None = None,
        abort_signal: AbortSignal | None = None,
        on_start: Callable[[str], None] | None = None,
    ) -> RunResult:
        """Give the ended master of this session a follow-up task, as a run of its own.

        The master keeps its id, its place, its model and its tools, and its labels, over which
        those given are laid. Raises ConfigError for a blank task or for `images`, as `run` does,
        and AgentSpawnError when the agent has not ended or is no master.
        """
        self._check_task(task_definition)
        check_wanted(abort_signal)
        master = self.manager.ended_master(master_agent_id)
        await self.manager.lives.leave(master)
        descriptor, choice = master.descriptor, coming_model(master)
        async with self._starting.task(task_definition, images, choice) as said:
            told = await self._starting.survey(descriptor.grant.mode, choice)
            started = self._starting.writes(said, told, self._starting.options(timeout_s))
            with self._parts.labelling.laid(master, labels) as laid:
                again = partial(self.manager.restart_agent, master_agent_id, said.text)
                begin = partial(again, besides=[*started, *laid])
                await self._open_run(begin, said.text, abort_signal, goes_on=[master.descriptor])
        with self._parts.abort.leading(self._interrupted, self._left):
            if on_start is not None:
                on_start(self.journal.run_id)
            return await self._until_closed(master, timeout_s)

    async def interrupt_run(self) -> bool:
        """End the open run as interrupted, by killing its agents; the engine stays open.

        Returns once `run_finished` is committed; False when no run was open, or its end was being
        written already. A run that comes to its own end meanwhile keeps that. Raises what broke
        the ledger, if that was broken.
        """
        broken, asked, outcome = self._broken, self._interrupted, self._outcome
        if self._started is None or broken is None or asked is None or outcome is None:
            async with self._finish_lock:  # held until that end is written
                return False
        if not asked.done():
            asked.set_result(None)
        ends = {each for each in (broken, outcome, self._left) if each is not None}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if broken.done():
            broken.result()
        if not outcome.done():  # whoever drove it has given up before its end
            from prsm_core.engine.agents.ending import end_masters  # few are

            await self.journal.flush()  # what it began is there, or comes before what follows
            await end_masters(self.manager, INTERRUPTED.error or "")
        await self._finish(outcome, INTERRUPTED)
        return True

    async def fork(self, at: int | None = None) -> str:
        """Begin another session as this one was at event `at`, now if None; return its id.

        Raises StoreError for an event that there is not, or one before the first agent.
        """
        from prsm_core.engine.forking import ForkRequest, fork_session  # few fork

        config, request = self._config, ForkRequest(at=None if at is None else str(at))
        await self.journal.flush()
        now = config.clock.time()
        state = await fork_session(config.store, config.session_id, request, config.ids, now)
        return state.session_id

    def _check_task(self, task: str) -> None:
        if not task.strip():
            raise ConfigError("the task is blank", hint='say what to do: prsm run "…"')
        self._check_idle()

    def _check_idle(self) -> None:
        if self._started is not None:
            raise ConfigError("this session runs a task already", hint="wait for its end")

    async def _until_closed(
        self, master: AgentRecord, limit: float | None, spent: float = 0.0
    ) -> RunResult:
        """Wait for the master's end, kill it at the time limit, and close the run."""
        outcome = self._outcome
        if outcome is None:
            raise RuntimeError("no run was started")
        left = None if limit is None else limit - spent
        if not await first_of(self._config.clock, left, lambda: self._until_over(master)):
            await self.manager.kill_tree(master, f"the run's time limit of {limit:g} s is over")
        elif self._interrupted is not None and self._interrupted.done():
            await self.manager.kill_tree(master, INTERRUPTED.error or "")
        return await self._close_run(master, outcome)

    async def _reserve_names(self) -> int:
        """Keep aliases and ids of earlier agents from being given again; return their number."""
        rows = await self._config.store.agents(self._config.session_id)
        self._config.ids.not_before(max((row.last_event_at or 0.0 for row in rows), default=0.0))
        self.manager.roster.taken_names.update(row.descriptor.name for row in rows)
        return len(rows)

    async def _open_run(
        self,
        begin: Callable[[], Awaitable[AgentRecord]],
        task: str,
        signal: AbortSignal | None,
        again: RunNow | None = None,
        goes_on: Sequence[AgentDescriptor] = (),
    ) -> AgentRecord:
        """Begin a run, or go on with one, and return its master; `goes_on` are agents of before.

        Where that cannot be written nothing is left behind that must be finished.
        """
        if (config := self._config).settings.sandbox.mode == "require":
            await self._parts.sandbox.prepare()
        async with self._finish_lock:  # the run before is over first, and its sinks are closed
            self._check_idle()
            self._parts.abort.take(signal)
            self._started = config.clock.now()
        future = asyncio.get_running_loop().create_future
        self._outcome, self._interrupted, self._left = future(), future(), future()
        try:
            if again is None:
                self.journal.begin_run(config.ids.ulid())
            else:
                self.journal.begin_run(again.run_id, again.epoch + 1)
            budgets = config.settings.budgets
            self.budgets.begin(budgets.to_budget(), let_turns_finish=budgets.let_turns_finish)
            self.requests.refused = False
            broken = self._sinks.open(task, config.workspace, config.clock, goes_on)
            master = await begin()
            if self.changes is not None:
                self.changes.begin(is_resumed=again is not None)
        except Exception:  # one that is cancelled meanwhile may be in the ledger, and is finished
            self._started = None
            if again is None:
                self._mend()
            await self._sinks.aclose()
            raise
        except BaseException:
            self._left.set_result(None)  # nobody drives it: `interrupt_run` ends it
            raise
        for text in broken:  # told now, since run_started comes first
            self.journal.note("notice", level="warning", text=text)
        return master

    async def _until_over(self, master: AgentRecord) -> None:
        """Wait until the master's end is committed, the run interrupted, or the engine broken."""
        broken, outcome, interrupted = self._broken, self._outcome, self._interrupted
        if broken is None or outcome is None or interrupted is None:
            raise RuntimeError("the engine was not entered")
        ends: set[asyncio.Future[Any]] = {master.ended(), broken, outcome, interrupted}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)

    async def _close_run(
        self, master: AgentRecord, outcome: asyncio.Future[RunResult]
    ) -> RunResult:
        from prsm_core.engine.agents.ending import end_agents  # once a run ends

        if self._broken is not None and self._broken.done():
            self._broken.result()
        if outcome.done():  # it was interrupted meanwhile
            return await self._finish(outcome, INTERRUPTED)
        await end_agents(self.manager, [*master.live_children.values()], "the run has ended")
        asked = self._interrupted is not None and self._interrupted.done()
        refused, is_left = self.requests.refused, self.journal.is_suspended
        end = outcome_of(master, refused=refused, interrupted=asked, is_left=is_left)
        return await self._finish(outcome, end)

    async def _finish(self, outcome: asyncio.Future[RunResult], end: RunResult) -> RunResult:
        """Write run_finished, once and last, and close the run's sinks; the outcome tells which.

        A run that is finished already keeps its outcome, which is returned: the next one may have
        begun meanwhile, and goes on.
        """
        async with self._finish_lock:
            if not outcome.done():
                self._starting.leave_naming()
                if self.changes is not None:
                    await self.changes.finish()
                await self._sinks.settle()
                redact = self.journal.redact
                said = replace(end, summary=redact(end.summary), error=redact(end.error))
                await self._write_end(outcome, said)
            if outcome is self._outcome:
                await self._sinks.aclose()
            return outcome.result()

    async def _write_end(self, outcome: asyncio.Future[RunResult], end: RunResult) -> None:
        await self._parts.settle()
        self.journal.end_run()
        await self.journal.flush()
        spent = self.budgets.spent
        began, self._started = self._started or 0.0, None  # from here on it will be written
        outcome.set_result(replace(end, usage=spent.usage, spent=spent))
        used = {
            "duration_s": round(self._config.clock.now() - began, 3),
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
            used=used,
        )
        await self._write_run(finished)

    async def _write_run(self, *writes: Write, then: Callable[[], None] | None = None) -> None:
        await self.journal.commit(self.manager.steps.build_of_run(*writes), then)

    async def shutdown(self, status: str = "interrupted") -> None:
        """Stop every agent, write run_finished if a run is open, close the providers.

        An open run is suspended: its agents, turns and calls stay as they are in the ledger, and
        `resume` goes on with them. So their programs are killed rather than interrupted, which
        they would remember. Calling it again, or at the same time, does nothing more.
        """
        async with self._shutdown_lock:
            if self.is_running:
                if not self._is_broken:
                    await self.journal.suspend()
                self._config.launcher.kill_all()
            await self.manager.stop_all()
            if self._started is not None and self._outcome is not None and not self._is_broken:
                why = f"the run was {status}"
                await self._finish(self._outcome, replace(INTERRUPTED, status=status, error=why))
            await self._sinks.aclose()
            await self._parts.aclose()

    @property
    def _is_broken(self) -> bool:
        return self._broken is not None and self._broken.done()

    def _surprise(self, name: str, error: Exception) -> None:
        """Take note of a background task that failed; a broken store ends the engine.

        A step that was fenced only came too late for its agent: the store did its work.
        """
        if self.journal.is_suspended and isinstance(error, FencedError):
            _log.info("task %s comes after the end", name, exc_info=error)
            return
        _log.error("task %s failed", name, exc_info=error)
        if breaks_ledger(error):
            self._break(error)
            return
        if self._started is not None:  # nothing may follow run_finished
            text = f"{name}: {describe(error)}"
            self.journal.note("notice", level="error", text=text)

    def _break(self, error: Exception) -> None:
        """End the open run: the ledger cannot be written, and its agents stay as they are."""
        broken = self._broken
        if broken is not None and not broken.done():
            broken.set_exception(error)
            broken.exception()  # whoever waits for the run has it: else nobody need be told

    def _mend(self) -> None:
        """Let a further run try to write, where one has not even begun."""
        self._broken = asyncio.get_running_loop().create_future()
        self.journal.soundness.mend()
