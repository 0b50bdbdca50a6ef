"""Assembly: put the parts of an engine together."""

from __future__ import annotations

import os
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import field

from prsm_core.config import resolve_paths
from prsm_core.domain.record import Record
from prsm_core.engine.agents.deadlock import KnotResolver
from prsm_core.engine.agents.holds import Holds
from prsm_core.engine.agents.labelling import Labelling
from prsm_core.engine.agents.life import Inbox, SessionParts, Slots
from prsm_core.engine.agents.manager import AgentEnds, AgentManager
from prsm_core.engine.agents.opening import Contexts, Opening
from prsm_core.engine.agents.peers import Peers
from prsm_core.engine.agents.session import AgentSession, Lives
from prsm_core.engine.agents.skills import Skills
from prsm_core.engine.agents.user_prompts import Prompting, UserPrompts
from prsm_core.engine.journal.unit import AgentSteps
from prsm_core.engine.journal.views import ConversationStore
from prsm_core.engine.outcome import RunAbort
from prsm_core.engine.processes.executor import NO_EXECUTOR, CommandSandbox
from prsm_core.engine.providers.enforcement import Enforcement
from prsm_core.engine.providers.listings import Listings
from prsm_core.engine.providers.model_choice import TeamNews, Workforce, WorkforceNow
from prsm_core.engine.providers.registry import ProviderRegistry
from prsm_core.engine.providers.retry import CircuitBreaker, RetryPolicy
from prsm_core.engine.quiet import QuietMoment
from prsm_core.engine.requests import HumanRequests, RuleKeeper
from prsm_core.engine.spawn import IdleChildren, LeaseTable, Planner, configured_servers
from prsm_core.engine.spending import BudgetLedger, tell_alert
from prsm_core.engine.state import Roster
from prsm_core.engine.tools.communication import Communication
from prsm_core.engine.tools.family import Family, Observation, Recommendation
from prsm_core.engine.tools.shell import Shell
from prsm_core.engine.turns.parts import Permits, Standing, TurnImages
from prsm_core.engine.workspace_files import FilesContext, WorkspaceFiles
from prsm_core.kit.places import unseen_folders
from prsm_core.messaging.deadlock import DeadlockDetector
from prsm_core.messaging.router import MessageRouter
from prsm_core.permissions import Redactor
from prsm_core.plugins.absent import PRESENT, Absent

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from prsm_core.config import Settings
    from prsm_core.config.own_rules import OwnRules
    from prsm_core.config.paths import SkillPlaces
    from prsm_core.domain.agents import AgentDescriptor
    from prsm_core.domain.ids import Ids
    from prsm_core.domain.messages import RoutedMessage
    from prsm_core.engine.agents.life import OpenEndpoint
    from prsm_core.engine.agents.resuming import Resumption
    from prsm_core.engine.journal.feed import Feed
    from prsm_core.engine.journal.unit import Journal
    from prsm_core.engine.processes.executor import ChosenExecutor
    from prsm_core.engine.processes.launcher import ProcessLauncher
    from prsm_core.engine.providers.mcp_trials import McpTrials
    from prsm_core.engine.requests import HumanPolicy
    from prsm_core.engine.tools.table import ToolSet, ToolTable
    from prsm_core.engine.turns.call import Handler
    from prsm_core.engine.workspace_files import OpenFiles
    from prsm_core.interfaces.clock import Clock
    from prsm_core.interfaces.permission import PermissionCheckSpec
    from prsm_core.interfaces.provider import ProviderSpec
    from prsm_core.interfaces.scorer import ModelScorerSpec
    from prsm_core.interfaces.sink import EventSinkSpec
    from prsm_core.interfaces.store import Store
    from prsm_core.kit.background import Background
    from prsm_core.kit.clocks import Parting
    from prsm_core.permissions import PermissionBroker


class EngineConfig(Record, frozen=True, kw_only=True):
    """What an engine is made of; nothing is looked up elsewhere.

    With `external`, somebody else drives the masters of its runs through that provider; a run's
    provider and model are then those of the master's children. `absent` explains missing providers
    to whoever names one.
    """

    settings: Settings
    workspace: str
    session_id: str
    store: Store
    launcher: ProcessLauncher
    providers: Mapping[str, ProviderSpec]
    broker: PermissionBroker
    tools: ToolTable
    human: HumanPolicy
    clock: Clock
    ids: Ids
    state_dir: Path
    redactor: Redactor = field(default_factory=lambda: Redactor(()))
    trusted: bool = False
    external: ProviderSpec | None = None
    scorers: Sequence[ModelScorerSpec] = ()
    checks: Sequence[PermissionCheckSpec] = ()  # those that the broker asks
    sinks: Sequence[EventSinkSpec] = ()
    sink_settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    command_line: Mapping[str, Any] = field(default_factory=dict)  # kept with each run, as JSON
    told_at_start: Sequence[tuple[str, Mapping[str, Any]]] = ()  # events of each run: type, fields
    shell_env: Mapping[str, str] = field(default_factory=dict)
    open_endpoint: OpenEndpoint | None = None  # of the tool server, where there is one
    absent: Absent = PRESENT
    executor: ChosenExecutor = NO_EXECUTOR  # what shuts in commands and programs
    registry: ProviderRegistry | None = None  # of `providers`, where that is made already
    retry: RetryPolicy | None = None  # pauses of another kind than the settings'
    own_rules: OwnRules | None = None  # where the rules of a person's answers go
    files: OpenFiles = WorkspaceFiles  # opens what keeps the files
    skills: SkillPlaces | None = None  # None: agents are told of none
    parting: Parting | None = None  # None: one of its own


class Assembly:
    """Puts an engine together. Each part is given what it uses; none is given this."""

    def __init__(
        self, config: EngineConfig, background: Background, journal: Journal, feed: Feed
    ) -> None:
        self.config, self.background, self.journal, self.feed = config, background, journal, feed
        settings, clock = config.settings, config.clock
        self.abort = RunAbort(background)
        self.quiet, self._roster = QuietMoment(clock), Roster()
        self._lives = Lives(background, clock)
        self.conversations = ConversationStore(config.store, config.session_id)
        self.files = config.files(self._files_context())
        self.sandbox = self._make_sandbox()
        self.slots = Slots(settings.engine.max_concurrent_agents)
        self.budgets = BudgetLedger(on_alert=partial(tell_alert, journal))
        self.providers = self._make_providers()
        of_providers = self.providers.capabilities, self.providers.is_external
        self.skills = Skills(config.skills, config.workspace, *of_providers, config.redactor.text)
        self.listings = Listings(self.providers, settings, clock, config.state_dir / "models.json")
        rules = self.budgets.parts_of, config.checks
        self.enforcement = Enforcement(self.providers, settings, journal, background, clock, *rules)
        self.workforce = self._make_workforce()
        self.router = MessageRouter()
        self._leases = LeaseTable(self._roster, self.files.folders)
        self._idle = IdleChildren()
        self.detector = DeadlockDetector(
            is_ready=lambda _, wait: bool(wait.key.ready()),
            is_over=lambda agent_id: self._roster.get(agent_id).has_ended,
            on_knot=lambda agents, by_sweep: self._knots.resolve(agents, by_sweep),
        )
        mail = self._roster, self.router, self.detector
        self.steps = AgentSteps(journal, *mail, self._idle.read, clock, config.ids, self._look)
        self.peers = Peers(*mail, self.steps, journal, self._lives.wait_anew)
        self.requests = self._make_requests()
        self.ends = self._make_ends()
        of = self._roster, self.steps, journal, self.providers.program_of
        self.labelling = Labelling(*of)
        self.planner = self._make_planner()
        self.holds = self._make_holds()
        self.manager = self._make_manager()
        self._knots = KnotResolver(
            self._roster, self.detector, self.router, self.peers, self.steps, self.ends, background
        )
        where = config.workspace, config.state_dir
        self.user_prompts = UserPrompts(self.providers, settings, journal, *where, self.files)
        self.prompting = self._make_prompting()
        self._standing = self._make_standing()
        self.quiet.watch = self.files.watch
        self._permits = self._make_permits()
        self.contexts = self._make_contexts()
        self._sessions = self._session_parts()

    def _make_providers(self) -> ProviderRegistry:
        config = self.config
        if config.registry is not None:
            config.registry.background.on_error = self.background.report
            return config.registry
        return ProviderRegistry(
            config.providers,
            config.settings,
            launcher=config.launcher,
            background=self.background,
            clock=config.clock,
            state_dir=config.state_dir,
            external=config.external,
            absent=config.absent,
            redactor=config.redactor,
            executor=config.executor,
        )

    def _make_workforce(self) -> WorkforceNow:
        names, summaries = self.listings.names, self.providers.summaries
        return WorkforceNow(
            Workforce(names=names, summaries=summaries, is_gone=self.enforcement.is_gone),
            lambda: self.enforcement.usable_now & self.providers.names,
            lambda: self.enforcement.unseen,
        )

    def _make_requests(self) -> HumanRequests:
        config, journal, clock = self.config, self.journal, self.config.clock
        rules = RuleKeeper(config.own_rules, config.broker, self.background, journal, clock)
        return HumanRequests(config.human, clock, journal, self.steps, rules, config.workspace)

    def _make_sandbox(self) -> CommandSandbox:
        config = self.config
        paths = resolve_paths(Path(config.workspace), os.environ)
        return CommandSandbox(
            config.settings.sandbox,
            executor=config.executor,
            workspace=config.workspace,
            launcher=config.launcher,
            state_dir=config.state_dir,
            private=(
                *(paths.user_config.parent, paths.data, paths.state, paths.trees),
                *unseen_folders(config.sinks, config.sink_settings, os.environ),
            ),
            tree_of=self.files.folders.top,
        )

    def _make_tools(self) -> Callable[[AgentDescriptor], ToolSet]:
        config, settings = self.config, self.config.settings
        table = config.tools.handled_by(self._handlers())
        if not table.added:
            return lambda agent: table.for_agent(agent, settings)
        # Few engines have tools of plugins.
        from prsm_core.engine.tools.plugged import PluginCallParts, PluginTools

        parts = PluginCallParts(
            broker=config.broker,
            ids=config.ids,
            clock=config.clock,
            workspace=config.workspace,
            lay=self.labelling.of_tool,
            mail=self.peers,
            standing=self._standing,
            requests=self.requests,
            window=self.providers.context_window,
        )
        plugged = PluginTools(table.added, parts, self.journal, self.providers.program_of)
        dealt = table.handled_by(plugged.handlers)
        return lambda agent: plugged.deal(dealt, agent, settings)

    def _make_holds(self) -> Holds:
        config = self.config
        return Holds(
            config.settings.engine.limits,
            self._roster,
            self.steps,
            self.requests,
            self.detector,
            journal=self.journal,
            background=self.background,
            clock=config.clock,
            ids=config.ids,
            leads=config.external is None,
        )

    def _make_prompting(self) -> Prompting:
        return Prompting(
            self._roster,
            self._lives,
            self.router,
            self.steps,
            self.background,
            self.providers.capabilities,
            user_prompts=self.user_prompts,
            broker=self.config.broker,
            workspace=self.config.workspace,
        )

    async def settle(self) -> None:
        """Finish what belongs to a run that is about to end."""
        await self.files.trees.settled()
        await self.requests.rules.settle()
        await self.files.settle()

    async def aclose(self) -> None:
        """Close the parts that have processes of their own."""
        try:
            await self.providers.aclose()
        finally:
            await self.files.aclose()

    def _files_context(self) -> FilesContext:
        config, lives = self.config, self._lives
        return FilesContext(
            settings=config.settings,
            workspace=config.workspace,
            trusted=config.trusted,
            session=config.session_id,
            store=config.store,
            launcher=config.launcher,
            commands=config.broker.commands,
            env=config.shell_env,
            clock=config.clock,
            ids=config.ids,
            background=self.background,
            journal=self.journal,
            feed=self.feed,
            quiet=self.quiet,
            roster=self._roster,
            conversations=self.conversations,
            leases=lambda agent: self._leases.beside(agent),
            turn_of=lambda agent: None if (one := lives.session_of(agent)) is None else one.turn,
            task_of=lives.task_of,
            sandbox=lambda: self.sandbox,
        )

    def _look(self, arrived: RoutedMessage) -> None:
        self.prompting.look(arrived.target)

    def _make_planner(self) -> Planner:
        config = self.config
        return Planner(
            self._roster,
            self._leases,
            self.budgets,
            self.journal,
            settings=config.settings,
            workspace=self.files.folders.of,
            clock=config.clock,
            ids=config.ids,
            workforce=self.workforce,
            refused=self.enforcement.refused,
            labels=self.labelling.of_child,
        )

    def _make_ends(self) -> AgentEnds:
        return AgentEnds(
            self._roster,
            self._lives,
            self.steps,
            trees=self.files.trees,
            idle=self._idle,
            detector=self.detector,
            router=self.router,
            peers=self.peers,
            requests=self.requests,
            broker=self.config.broker,
            budgets=self.budgets,
            journal=self.journal,
            clock=self.config.clock,
        )

    def _make_manager(self) -> AgentManager:
        return AgentManager(
            self._roster,
            self._lives,
            self.planner,
            self.steps,
            ends=self.ends,
            begin=lambda record: AgentSession(record, self._sessions),
            trees=self.files.trees,
            leases=self._leases,
            idle=self._idle,
            router=self.router,
            budgets=self.budgets,
            enforcement=self.enforcement,
            skills=self.skills,
            clock=self.config.clock,
        )

    def resumption(self) -> Resumption:
        """Return what takes over the agents of an earlier engine."""
        from prsm_core.engine.agents.resuming import Resumption  # once a session goes on

        settings = self.config.settings
        return Resumption(
            roster=self._roster,
            lives=self._lives,
            steps=self.steps,
            ends=self.ends,
            begin=lambda record, now: AgentSession(record, self._sessions, now),
            router=self.router,
            leases=self._leases,
            idle=self._idle,
            requests=self.requests,
            budgets=self.budgets,
            spoken=self.journal.spoken,
            settings=settings,
            servers=configured_servers(settings),
            clock=self.config.clock,
        )

    def _make_standing(self) -> Standing:
        config, providers = self.config, self.providers
        return Standing(
            self._roster,
            leased=self._leases.beside,
            reads_by_shell=lambda name: providers.capabilities(name).shell_reads,
            workspace=self.files.folders.of,
            is_apart=lambda record: self.files.folders.own(record, self._roster) is not None,
            trusted=config.trusted,
            interactive=config.human.interactive,
        )

    def _make_permits(self) -> Permits:
        config = self.config
        return Permits(
            self._standing,
            config.broker,
            self.requests,
            self.quiet,
            journal=self.journal,
            steps=self.steps,
            ids=config.ids,
            background=self.background,
            workspace=config.workspace,
        )

    def _make_trials(self) -> McpTrials:
        from prsm_core.engine.providers.mcp_trials import McpTrials  # once an agent has servers

        return McpTrials(self.providers.boxes.start, self.config.clock, self.journal.warn)

    def _session_parts(self) -> SessionParts:
        config, clock, tools = self.config, self.config.clock, self._make_tools()
        told = self.files.folders, self.skills.prompt, cache(self._make_trials)
        news = TeamNews(self.workforce, self.enforcement.look_at_all)
        return SessionParts(
            settings=config.settings,
            workspace=self.files.folders.of,
            system_prompt=self.skills.prompt,
            clock=clock,
            new_id=config.ids.ulid,
            now_ms=lambda: int(clock.time() * 1000),
            background=self.background,
            journal=self.journal,
            steps=self.steps,
            router=self.router,
            permits=self._permits,
            broker=config.broker,
            quiet=self.quiet,
            standing=self._standing,
            requests=self.requests,
            budgets=self.budgets,
            window=self.providers.context_window,
            abort=self.abort,
            steering=self.prompting,
            images=TurnImages(config.state_dir, self.providers.capabilities, self.journal),
            program_of=self.providers.program_of,
            with_news=news.add,
            ends=self.ends,
            detector=self.detector,
            slots=self.slots,
            files=self.files,
            is_closing=lambda: self.manager.is_closing,
            forget=self._lives.forget,
            providers=self.providers,
            listings=self.listings,
            breaker_of=cache(lambda _: CircuitBreaker(clock)),
            retry=config.retry or RetryPolicy(attempts=config.settings.engine.retry_attempts),
            holds=self.holds,
            opening=Opening(self.providers, self.enforcement, config.settings, *told),
            contexts=self.contexts,
            inbox=Inbox(self._roster, self.router, self.steps, self.peers, self._idle),
            tools=lambda record: self.peers.begins(record, tools(record.descriptor)),
            labelling=self.labelling,
            open_endpoint=config.open_endpoint,
            roster=self._roster,
            store=config.store,
        )

    def _make_contexts(self) -> Contexts:
        config = self.config
        return Contexts(
            providers=self.providers,
            enforcement=self.enforcement,
            listings=self.listings,
            conversations=self.conversations,
            budgets=self.budgets,
            steps=self.steps,
            journal=self.journal,
            settings=config.settings,
            workspace=config.workspace,
            ids=config.ids,
            clock=config.clock,
            compaction=compact,
        )

    def _handlers(self) -> Mapping[str, Handler]:
        seen = Observation(
            roster=self._roster,
            journal=self.journal,
            conversations=self.conversations,
            budgets=self.budgets,
        )
        talk, family = self._communication(), self._family()
        handlers: tuple[Handler, ...] = (
            talk.ask_parent,
            talk.respond_to_child,
            talk.wait_for_message,
            talk.send_child_prompt,
            family.spawn_child,
            family.spawn_children_parallel,
            family.restart_child,
            family.consult_expert,
            family.consult_peer,
            talk.report_progress,
            talk.task_complete,
            talk.ask_user,
            self._recommendation().recommend_model,
            seen.get_child_history,
            seen.check_child_status,
            seen.get_children_status,
            self._shell().run_bash,
            seen.get_budget,
        )
        return {handler.__name__: handler for handler in handlers}

    def _communication(self) -> Communication:
        return Communication(
            roster=self._roster,
            router=self.router,
            steps=self.steps,
            ids=self.config.ids,
            ends=self.ends,
            silent=self.peers.falls_silent,
            steering=self.prompting,
            requests=self.requests,
            broker=self.config.broker,
            workspace=self.config.workspace,
        )

    def _shell(self) -> Shell:
        config = self.config
        return Shell(
            permits=self._permits,
            standing=self._standing,
            broker=config.broker,
            quiet=self.quiet,
            sandbox=self.sandbox,
            launcher=config.launcher,
            clock=config.clock,
            env=config.shell_env,
            variables_of=self.files.folders.variables,
            limit_s=config.settings.engine.tool_timeout_seconds,
        )

    def _family(self) -> Family:
        return Family(
            agents=self.manager,
            planner=self.planner,
            roster=self._roster,
            trees=self.files.trees,
            idle=self._idle,
            listings=self.listings,
            providers=self.providers,
            enforcement=self.enforcement,
            budgets=self.budgets,
            settings=self.config.settings,
            ids=self.config.ids,
        )

    def _recommendation(self) -> Recommendation:
        return Recommendation(
            settings=self.config.settings,
            listings=self.listings,
            workforce=self.workforce,
            enforcement=self.enforcement,
            scorers=self.config.scorers,
            journal=self.journal,
        )


async def compact(*of: Any) -> None:
    """Run a compaction, loaded only once a conversation is too long."""
    from prsm_core.engine.agents.side_query import Compaction

    await Compaction(*of).run()
