"""LocalApp: AppHandle over an engine in this process."""

from __future__ import annotations

import asyncio
from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from prsm_core.domain.agents import AgentRole, AgentState, PermissionMode
from prsm_core.domain.steps import Step
from prsm_core.domain.writes import AgentNoted, Told
from prsm_core.engine.control.visits import Visits
from prsm_core.engine.journal.views import ConversationStore, build_tree
from prsm_core.engine.outcome import StartedRun
from prsm_core.engine.providers.model_choice import model_of, resolve_model
from prsm_core.engine.spawn import choose_servers
from prsm_core.errors import ConfigError
from prsm_core.interfaces.app_handle import Agents, Requests, Runs, Sessions
from prsm_core.kit.arguments import known_mode, takes_checked
from prsm_core.kit.clocks import first_of
from prsm_core.kit.sanitize import UNFIT_CURE, is_fit

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
    from pathlib import Path

    from prsm_core import door
    from prsm_core.domain.agents import AgentDescriptor
    from prsm_core.domain.events import Event
    from prsm_core.domain.notes import ModelChoice, Notes
    from prsm_core.domain.permissions import Answer
    from prsm_core.engine.engine import OrchestrationEngine
    from prsm_core.engine.providers.listings import ProviderReport as Surveyed
    from prsm_core.engine.state import AgentRecord
    from prsm_core.interfaces.app_handle import Changes, Snapshots
    from prsm_core.interfaces.frontend import RunHandle, RunOptions, RunResult
    from prsm_core.interfaces.store import AgentRow, Store

CLOSING_SECONDS = 5.0  # for a run that is over to tell how it ended


@takes_checked
class LocalRuns(Runs):
    """The runs of an engine; those that are started without others have the `options`."""

    def __init__(
        self, engine: OrchestrationEngine, options: RunOptions, store: Store, session: str
    ) -> None:
        self.options = options
        self._engine = engine
        self._store = store
        self._session = session
        self._driven: dict[asyncio.Task[None], StartedRun] = {}
        self.has_started = False  # some run, by this very handle
        # What a person has set since the newest run began.
        self._new_mode: PermissionMode | None = None

    async def start(self, task: str, **overrides: Any) -> RunHandle:
        """Start a run; raises what keeps it from starting (no provider, a blank task)."""
        if "mode" in overrides:
            overrides["mode"] = known_mode(overrides["mode"])
        if self.options.resumes:
            self.options = replace(self.options, resumes=False)
            return await self.resume(**overrides)
        options = replace(self.options, task=task, **overrides)
        if options.continues:
            self.options = replace(self.options, continues=False)
            return await self._continue(task, options.images, options)
        mode = self._new_mode
        run = await self._start(
            lambda on_start: self._engine.run(
                task,
                options.model,
                provider=options.provider,
                mode=options.mode,
                effort=options.effort,
                mcp_servers=options.mcp_servers,
                images=options.images,
                labels=options.labels,
                on_start=on_start,
                **_controls(options),
            )
        )
        if self._new_mode is mode:
            self._new_mode = None
        return run

    async def resume(self, **overrides: Any) -> RunHandle:
        """Go on with the newest run, or tell how it has ended; raises what keeps it from that."""
        options = replace(self.options, **overrides)
        known = {info.session_id: info.last_seq for info in await self._store.sessions()}
        return await self._start(
            lambda on_start: self._engine.resume(on_start=on_start, **_controls(options)),
            since=known.get(self._session, 0),
        )

    async def follow_up(self, task: str, images: Sequence[str] = ()) -> RunHandle:
        """Give the last run's master a follow-up task; raises what keeps it from starting."""
        return await self._continue(task, images, replace(self.options, labels={}))

    async def _continue(self, task: str, images: Sequence[str], options: RunOptions) -> RunHandle:
        master = self._last_master() or await self._adopt_master(task)
        if master is None:
            raise ConfigError(
                "this session has had no master yet", hint="start a run", code="no_master"
            )
        mode = self._new_mode
        given = {"images": images, "labels": options.labels, "mode": mode, **_controls(options)}
        run = await self._start(
            lambda on_start: self._engine.run_continuation(
                task, master.agent_id, on_start=on_start, **given
            )
        )
        if self._new_mode is mode:
            self._new_mode = None
        return run

    async def interrupt(self) -> bool:
        """End the open run as interrupted; False when none was open."""
        return await self._engine.interrupt_run()

    async def set_mode(self, mode: PermissionMode) -> None:
        """Let the runs that begin from now on have this mode."""
        self._new_mode = mode = known_mode(mode)
        self.options = replace(self.options, mode=mode)

    async def budget(self) -> door.BudgetReport:
        """Return what the newest run has used, reserved and left."""
        from prsm_core.engine.door.view import tell_budget

        budgets = self._engine.budgets
        return tell_budget(budgets.run.report(), budgets.spent)

    def _last_master(self) -> AgentRecord | None:
        found = [r for r in self._engine.manager.roster.records() if r.descriptor.parent_id is None]
        return found[-1] if found else None

    async def _adopt_master(self, task: str) -> AgentRecord | None:
        """Take over the last master that an earlier process ran; None where there was none."""
        from prsm_core.engine.agents.resuming import adopt, last_master  # once a session goes on

        rows = await self._store.agents(self._session)
        if (there := self._last_master()) is not None:  # another frontend was first
            return there
        found = last_master(rows)
        if found is None:
            return None
        settings, given = self._engine.settings, self.options.mcp_servers
        servers = choose_servers(settings, prompt=task, role=AgentRole.MASTER, explicit=given)
        master = adopt(self._engine.manager.roster, rows, found, servers)
        if self._new_mode is None:
            self._new_mode = self.options.mode  # this process has promised its runs that one
        return master

    async def _start(
        self, begin: Callable[[Callable[[str], None]], Awaitable[RunResult]], *, since: int = 0
    ) -> RunHandle:
        run = StartedRun(self._session, since)
        task = self._engine.start_soon(run.drive(begin), name="run")
        self._driven[task] = run
        task.add_done_callback(self._driven.pop)
        task.add_done_callback(run.cancel)  # also of one that never begins: the engine is closed
        try:
            await run.begun()
        except asyncio.CancelledError:  # nobody has its handle
            _ = self._engine.start_soon(self._withdraw(task, run), name="withdraw a run")
            raise
        self.has_started = True
        return run

    async def _withdraw(self, task: asyncio.Task[None], run: StartedRun) -> None:
        """End a run whose starter has given up, however far it has come."""
        if not run.run_id:
            task.cancel()
            await asyncio.wait({task})
        if (
            not self._driven or self._engine.journal.run_id == run.run_id
        ):  # no other has begun since
            await self._engine.interrupt_run()

    async def aclose(self) -> None:
        """Shut the engine down; who waits for the result of a run that has begun is given it."""
        for task, run in self._driven.items():
            if not run.started.done():
                task.cancel()
        await self._engine.shutdown()
        if driven := set(self._driven):
            seconds = self._engine.parting.most(CLOSING_SECONDS)
            await first_of(self._engine.clock, seconds, lambda: asyncio.wait(driven))
            for task in driven:
                task.cancel()


@takes_checked
class LocalAgents(Agents):
    """The agents of an engine, and those that an earlier process left."""

    def __init__(self, engine: OrchestrationEngine, store: Store, session: str) -> None:
        self._engine = engine
        self._store = store
        self._session = session

    async def tree(self) -> door.AgentTree:
        """Return the tree as `prsm tree --json` prints it."""
        engine = self._engine
        unwritten = engine.budgets.unwritten  # before the rows, which may have them meanwhile
        rows = await self._store.agents(self._session)
        requests = await self._store.open_requests(self._session)
        run, now = engine.journal.run_id, engine.clock.time()
        return build_tree(
            self._session,
            run,
            rows,
            now,
            lost=self.lost(rows),
            requests=requests,
            unwritten=unwritten,
            changes=await self._store.changes(self._session),
        )

    def lost(self, rows: Sequence[AgentRow]) -> Collection[str]:
        """Return the agents that an earlier process left, and this one has not taken over."""
        known = {record.agent_id for record in self._engine.manager.roster.records()}
        return {row.descriptor.agent_id for row in rows} - known

    async def history(
        self, agent: str, detail: str = "full", *, before: int | None = None, limit: int = 200
    ) -> Sequence[door.HistoryEntry]:
        """Return a page of an agent's conversation, also of one of an earlier run."""
        from prsm_core.engine.door.history import read_history

        await self._engine.journal.flush()
        agent_id = await self._find(agent)
        return await read_history(
            self._store, self._session, agent_id, detail, before=before, limit=limit
        )

    async def _find(self, agent: str) -> str:
        """Return the id of an agent of any run of the session."""
        for record in self._engine.manager.roster.records():
            if agent in {record.descriptor.name, record.agent_id}:
                return record.agent_id
        rows = await self._store.agents(self._session)
        return ConversationStore.resolve_agent_id(agent, rows)

    async def prompt(
        self, agent: str, text: str, delivery: str = "queue", images: Sequence[str] = ()
    ) -> str:
        """Send a person's prompt to an agent; return how it is delivered."""
        record = self._engine.manager.roster.resolve(agent)
        return await self._engine.prompting.prompt(record.agent_id, text, delivery, images)

    async def set_model(self, agent: str, model: str) -> str:
        """Let an agent's turns that begin from now on be of this model."""
        agent_id = await self._find(agent)
        return await set_model(self._engine, agent_id, model)

    async def kill(self, agent: str) -> Sequence[str]:
        """Kill an agent and its descendants; return the names of those that this ended."""
        manager = self._engine.manager
        family = [manager.roster.resolve(agent)]
        ended = {record.agent_id for record in manager.roster.records() if record.state.is_terminal}
        await manager.kill_agent(family[0].agent_id, "killed by the user")
        for record in family:
            family.extend(manager.roster.get(child) for child in record.children)
        return [
            record.descriptor.name
            for record in family
            if record.state is AgentState.KILLED and record.agent_id not in ended
        ]

    async def restart(self, agent: str, prompt: str) -> None:
        """Start an ended agent again; raises ConfigError when no run is open, and for a master."""
        if not self._engine.is_running:
            raise ConfigError("no run is open in this session", hint="start a run first")
        record = self._engine.manager.roster.resolve(agent)
        if record.descriptor.parent_id is None:  # the run may be closing already
            raise ConfigError("a run ends with its master", hint="start another run")
        of, prompts = record.descriptor, self._engine.user_prompts
        async with prompts.text(prompt, (), of.provider, of.cwd, record.agent_id) as said:
            manager = self._engine.manager
            await manager.restart_agent(record.agent_id, said.text, besides=said.notices)


@takes_checked
class LocalRequests(Requests):
    """What the agents of an engine ask a person."""

    def __init__(self, engine: OrchestrationEngine) -> None:
        self._engine = engine

    async def resolve(self, request: str, verdict: str, *, via: str = "") -> bool:
        """Answer a permission request; the first answer wins."""
        requests = self._engine.requests
        return await requests.give(request, "permission", {"verdict": verdict}, via=via)

    async def answer(self, request: str, answer: Answer, *, via: str = "") -> bool:
        """Answer a question; the first answer wins."""
        said = {"choices": list(answer.choices), "text": answer.text}
        return await self._engine.requests.give(request, "question", said, via=via)

    async def outcome(self, request: str) -> door.RequestOutcome | None:
        """Return how a request has ended, given the beginning of its id."""
        return self._engine.requests.outcome(request)

    async def open(self) -> Sequence[door.OpenRequest]:
        """Return the open permission requests and questions, oldest first."""
        from prsm_core.engine.door.view import request_rows

        names = self._engine.manager.roster.names()
        waiting = self._engine.requests.waiting()
        return request_rows(waiting, names, self._engine.journal.redact)

    async def attend(self) -> None:
        """Note that a person is there to answer."""
        self._engine.requests.attend()


@takes_checked
class LocalSessions(Sessions):
    """The sessions of an engine's ledger, whose owners are known by their locks."""

    def __init__(self, engine: OrchestrationEngine, store: Store, state_dir: Path | None) -> None:
        self._engine = engine
        self._store = store
        self._state_dir = state_dir

    async def list(self) -> Sequence[door.SessionSummary]:
        """Return the sessions of the ledger, newest first."""
        from prsm_core.engine.door.offers import session_rows

        found = await self._store.sessions()
        return await asyncio.to_thread(session_rows, found, self._state_dir)

    async def fork(self, at: int | None = None) -> str:
        """Begin another session from event `at` of this one, and return it."""
        return await self._engine.fork(at)


@takes_checked
class LocalApp:
    """AppHandle over an engine in this process."""

    def __init__(
        self,
        engine: OrchestrationEngine,
        options: RunOptions,
        store: Store,
        session: str,
        *,
        state_dir: Path | None = None,
    ) -> None:
        """Open the door of an engine.

        Args:
            engine: Whose session it is.
            options: Of the runs that are started without others.
            store: The engine's.
            session: The engine's.
            state_dir: Where the locks of all sessions lie; None: who owns others is not known.
        """
        self.runs = LocalRuns(engine, options, store, session)
        self.agents = LocalAgents(engine, store, session)
        self.requests = LocalRequests(engine)
        self.sessions = LocalSessions(engine, store, state_dir)
        self.visits = Visits()  # of other processes
        self._engine = engine
        self._store = store
        self._session = session
        self._state_dir = state_dir

    @property
    def options(self) -> RunOptions:
        """What the runs that begin from now on have, if they say nothing else."""
        return self.runs.options

    @property
    def changes(self) -> Changes:
        """What agents have changed in files."""
        return self._files[0]

    @property
    def snapshots(self) -> Snapshots:
        """Files as they were."""
        return self._files[1]

    @cached_property
    def _files(self) -> tuple[Changes, Snapshots]:
        engine = self._engine
        return engine.files.door(lambda: engine.is_running, self._state_dir, self._say)

    async def _say(self, agent: str | None, text: str, delivery: str) -> str:
        """Prompt an agent, or begin a follow-up task; return how it was delivered."""
        if agent is not None:
            return await self.agents.prompt(agent, text, delivery)
        _ = await self.runs.follow_up(text)
        return "follow_up"

    def events(self, after: int = 0) -> AsyncIterator[Event]:
        """Yield the session's committed events after `after`, then follow with live deltas."""
        return self._engine.feed.events(self._session, after)

    async def view(self) -> door.View:
        """Return one picture of the session at one of its events."""
        from prsm_core.engine.door.view import build_view

        engine = self._engine
        await engine.journal.flush()
        spoken = engine.journal.spoken
        with spoken.held():
            unwritten = engine.budgets.unwritten  # before the rows, which may have them meanwhile
            picture = await self._store.picture(self._session)
            await spoken.writing.past()  # what the picture has is then known to be committed
            return build_view(
                self._session,
                picture,
                spoken,
                engine.clock.time(),
                lost=self.agents.lost(picture.agents),
                unwritten=unwritten,
                redact=engine.journal.redact,
                mode=self.options.mode.value,
                budget=await self.runs.budget(),
            )

    async def providers(self) -> Sequence[door.ProviderReport]:
        """Look which providers can be used."""
        from prsm_core.engine.door.offers import report_provider

        reports = await self._survey()
        return [report_provider(name, reports[name]) for name in sorted(reports)]

    async def models(self) -> Sequence[door.ModelRow]:
        """Return the models of the configuration and of the providers that can be used."""
        from prsm_core.engine.door.offers import known_models
        from prsm_core.engine.providers.listings import DISCOVERY_SECONDS

        reports = await self._survey()
        usable = [name for name, report in reports.items() if report.status.available]
        found = await self._engine.listings.listing(usable, DISCOVERY_SECONDS)
        listed = {name: listing.models for name, listing in found.items()}
        return known_models(self._engine.settings, listed)

    async def _survey(self) -> Mapping[str, Surveyed]:
        from prsm_core.engine.providers.listings import survey

        providers = self._engine.providers
        redact = self._engine.journal.redactor.text
        return await survey(providers, providers.offered, redact=redact)

    async def policy(self) -> door.PolicyReport:
        """Return the rules on commands and tools, and what was allowed always."""
        return self._engine.policy()

    async def complete(self, text: str) -> Sequence[door.Completion]:
        """Return what the last word of a text may become."""
        from prsm_core.engine.door.completion import complete_word  # once a person types

        names = self._engine.manager.roster.names().values()
        return await complete_word(text, self._engine.workspace, names)

    async def aclose(self) -> None:
        """Shut the engine down; who waits for the result of a run that has begun is given it."""
        await self.runs.aclose()


def _controls(options: RunOptions) -> dict[str, Any]:
    """Return what ends a run from outside, whichever way it begins; raises for what does not."""
    if options.timeout_s is not None:
        # Few runs have one.
        from prsm_core.kit.arguments import check_limit

        check_limit(options.timeout_s)
    return {"timeout_s": options.timeout_s, "abort_signal": options.abort_signal}


async def set_model(engine: OrchestrationEngine, agent_id: str, text: str) -> str:
    """Let an agent's turns that begin from now on be of a model; return that, "provider/model".

    Raises ModelNotAvailableError, with the nearest names, ProviderNotAvailableError, and
    ConfigError where no model is named (code `no_model`) or its client chooses it (`external`).

    It is a note in the ledger before anything comes of it. An agent that lives takes it between two
    turns; of one that nobody runs, whoever begins its next life does.
    """
    record = engine.manager.roster.find(agent_id)
    if record is not None:
        agent, notes = record.descriptor, record.notes
    else:
        known = await engine.conversations.now(agent_id)
        agent, notes = known.agent, known.notes
    now = model_of(agent)
    choice = await _found(engine, agent, now, text)
    chosen = None if choice == now else choice
    if record is None:
        await _keep(engine, agent, replace(notes, chosen=chosen))
    elif chosen != record.notes.chosen:
        record.note(chosen=chosen)
        if record.state.is_terminal:
            await _keep(engine, agent, record.notes)
        else:
            await _tell(engine, record, choice, is_other=chosen is not None)
    return choice.name


async def _found(
    engine: OrchestrationEngine, agent: AgentDescriptor, now: ModelChoice, text: str
) -> ModelChoice:
    """Return the model that a name means, once its provider was found to be there."""
    if not text.strip():
        raise ConfigError("no model is named", hint="`prsm models list` tells all", code="no_model")
    if not is_fit(text):  # noted, it would be in every later step of the agent
        raise ConfigError("the model's name is no Unicode text", hint=UNFIT_CURE, code="unfit")
    await engine.listings.check([text], now.provider)
    choice = resolve_model(text, now, engine.listings.names)
    for provider in (now.provider, choice.provider):
        if engine.providers.is_external(provider):
            raise ConfigError(
                f"a client chooses the models of provider {provider}, not PRSM", code="external"
            )
    await engine.providers.choose(choice.provider, leads=agent.parent_id is None)
    if choice.reasoning_effort is None and choice.provider == now.provider:
        return replace(choice, reasoning_effort=now.reasoning_effort)
    return choice


async def _tell(
    engine: OrchestrationEngine, record: AgentRecord, choice: ModelChoice, *, is_other: bool
) -> None:
    """Write what was noted of an agent that lives, and say so."""
    text = f"its next turn is of model {choice.name}" if is_other else "it keeps its model"
    told = Told(kind="notice", data={"level": "info", "text": f"{text}: a person has chosen it"})
    await engine.manager.steps.write(record, told)
    engine.holds.release(record.agent_id)


async def _keep(engine: OrchestrationEngine, agent: AgentDescriptor, notes: Notes) -> None:
    """Write what was noted of an agent that nobody runs: its run, which may be over, is silent."""
    run_id = engine.journal.run_id or agent.run_id
    step = Step(
        step_id=f"{run_id}:model:{engine.ids.ulid()}",
        session_id=agent.session_id,
        run_id=run_id,
        agent_id=None,
        at=engine.clock.time(),
        writes=(AgentNoted(notes=notes, agent_id=agent.agent_id),),
    )
    await engine.manager.steps.commit(step)
