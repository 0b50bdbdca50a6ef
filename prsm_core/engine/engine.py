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
from prsm_core.domain.writes import RunResumed
from prsm_core.engine.agents.failover import coming_model
from prsm_core.engine.assembly import Assembly, EngineConfig
from prsm_core.engine.current_run import CurrentRun
from prsm_core.engine.guarded.failing import breaks_ledger, describe
from prsm_core.engine.journal.feed import Feed
from prsm_core.engine.journal.sinks import RunSinks
from prsm_core.engine.journal.unit import Journal
from prsm_core.engine.outcome import FINISHED, check_wanted, result_of
from prsm_core.engine.starting import Starting, notices, own_process
from prsm_core.errors import ConfigError, FencedError
from prsm_core.kit.background import Background

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence
    from types import TracebackType

    from prsm_core.domain.events import Event
    from prsm_core.domain.tools import McpServer
    from prsm_core.domain.turns import AbortSignal
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
        self._starting = Starting(
            config,
            self._background,
            providers=parts.providers,
            listings=parts.listings,
            enforcement=parts.enforcement,
            planner=parts.planner,
            workforce=parts.workforce,
            journal=self.journal,
            saying=parts.saying,
            contexts=parts.context_parts,
            files=parts.files,
            skills=parts.skills,
        )
        self.manager, self.ends, self.detector = parts.manager, parts.ends, parts.detector
        self.prompting, self.saying = parts.prompting, parts.saying
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
        self._sinks = self._run_sinks()
        self._run = self._make_run()
        parts.holds.end_run = self._run.end_held

    def _committed(self, events: tuple[Event, ...]) -> None:
        self._run.account.hear(events)
        self.feed.publish(events)

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

    def _make_run(self) -> CurrentRun:
        parts = self._parts
        return CurrentRun(
            self._config,
            self.journal,
            steps=parts.manager.steps,
            agents=parts.ends,
            budgets=parts.budgets,
            changes=parts.files.watch,
            abort=parts.abort,
            sinks=self._sinks,
            prepare=parts.sandbox.prepare,
            leave=self._starting.leave,
            settle=parts.settle,
            suspend=self._suspend,
            parting=self.parting,
        )

    async def __aenter__(self) -> Self:
        self._run.enter()
        await self._background.__aenter__()
        sweep = self.detector.sweep(self._config.clock)
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
        """Go on with the session's newest run, as the engine before has left it.

        A run that is finished is not begun again: its own result is returned. Its master and all
        below are taken over as they were; see `agents/resuming.py`. A limit that is given counts
        from here; else the run has what is left of its own. Raises StoreError where the ledger
        does not tell what is needed, ConfigError where there is no run to go on with, or no time.
        """
        from prsm_core.engine.agents.needs import Needs  # once a session goes on
        from prsm_core.engine.agents.resuming import to_go_on_with
        from prsm_core.engine.time_limit import limit_of

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
        lacks = await Needs(self.providers, parts.listings, self._config.settings).check(state)

        recovered, withheld = await self._starting.recovered(), await self._starting.skills(state)
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
        given = self._parts.labelling.of_run(labels)
        master = self.manager.ended_master(master_agent_id)
        await self.manager.lives.leave(master)
        descriptor, choice = master.descriptor, coming_model(master)
        async with self._starting.task(task_definition, images, choice) as said:
            told = await self._starting.survey(descriptor.grant.mode, choice, given)
            started = self._starting.writes(said, told, self._starting.options(timeout_s))
            with self._parts.labelling.laid(master, labels) as laid:
                again = partial(self.manager.restart_agent, master_agent_id, said.text)
                begin = partial(again, besides=[*started, *laid])
                await self._run.open(begin, said.text, abort_signal, goes_on=[master.descriptor])
        self._starting.begin_checking(master)
        return await self._run.lead(master, on_start, timeout_s)

    async def interrupt_run(self) -> bool:
        """End the open run as interrupted, by killing its agents; the engine stays open.

        Returns once `run_finished` is committed; False when no run was open, or its end was being
        written already. A run that comes to its own end meanwhile keeps that. Raises what broke
        the ledger, if that was broken.
        """
        return await self._run.interrupt()

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
        self._run.check_idle()

    async def _reserve_names(self) -> int:
        """Keep aliases and ids of earlier agents from being given again; return their number.

        They are read once: as long as this engine has the session nobody else begins agents in it.
        """
        names = self.manager.roster.taken_names
        if not self._knows_names:
            taken = await self._config.store.taken(self._config.session_id)
            self._config.ids.not_before(taken.last_event_at)
            names.update(taken.names)
            self._knows_names = True
        return len(names)

    async def shutdown(self, status: str = "interrupted") -> None:
        """Stop every agent, write run_finished if a run is open, close the providers.

        An open run is suspended: its agents, turns and calls stay as they are in the ledger, and
        `resume` goes on with them. So their programs are killed rather than interrupted, which
        they would remember. Calling it again, or at the same time, does nothing more.
        """
        async with self._shutdown_lock:
            if self.is_running:
                await self._suspend()
            else:
                await self.manager.stop_all()
            await self._run.leave(status)
            await self._sinks.aclose()
            await self._parts.aclose()

    async def _suspend(self) -> None:
        """Leave all agents as they are in the ledger; end what runs for them."""
        if not self._run.is_broken:
            await self.journal.suspend()
        self._config.launcher.kill_programs()
        await self.manager.stop_all()

    def _surprise(self, name: str, error: Exception) -> None:
        """Take note of a background task that failed; a broken store ends the engine.

        A step that was fenced only came too late for its agent: the store did its work.
        """
        if self.journal.is_suspended and isinstance(error, FencedError):
            _log.info("task %s comes after the end", name, exc_info=error)
            return
        _log.error("task %s failed", name, exc_info=error)
        if breaks_ledger(error):
            self._run.break_off(error)
            return
        if self.is_running:  # nothing may follow run_finished
            text = f"{name}: {describe(error)}"
            self.journal.note("notice", level="error", text=text)
