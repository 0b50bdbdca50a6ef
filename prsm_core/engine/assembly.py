"""Assembly: what an engine is made of, put together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.engine.agents.deadlock import KnotResolver
from prsm_core.engine.agents.ends import AgentEnds
from prsm_core.engine.agents.holds import Holds
from prsm_core.engine.agents.inbox import Inbox
from prsm_core.engine.agents.labelling import Kin, Labelling
from prsm_core.engine.agents.life import LifeParts
from prsm_core.engine.agents.lives import Lives
from prsm_core.engine.agents.manager import AgentManager
from prsm_core.engine.agents.opening import ContextParts, Contexts, Opening
from prsm_core.engine.agents.peers import Peers
from prsm_core.engine.agents.prompting import Prompting
from prsm_core.engine.agents.session import AgentSession
from prsm_core.engine.agents.session_parts import SessionParts
from prsm_core.engine.agents.slots import Slots
from prsm_core.engine.agents.steering import Steering
from prsm_core.engine.agents.steps import AgentSteps
from prsm_core.engine.config import EngineConfig
from prsm_core.engine.journal.views import ConversationStore
from prsm_core.engine.making import (
    compact_late,
    make_budgets,
    make_failover,
    make_providers,
    make_requests,
    make_sandbox,
    make_saying,
    make_shell,
    make_skills,
    make_tools,
    make_workforce,
)
from prsm_core.engine.outcome import RunAbort
from prsm_core.engine.providers.enforcement import Enforcement
from prsm_core.engine.providers.listings import Listings
from prsm_core.engine.providers.team import TeamNews
from prsm_core.engine.quiet import QuietMoment
from prsm_core.engine.spawn.idle import IdleChildren
from prsm_core.engine.spawn.mcp_servers import configured_servers
from prsm_core.engine.spawn.planner import Planner
from prsm_core.engine.spawn.regions import LeaseTable
from prsm_core.engine.state import Roster
from prsm_core.engine.tools.advice import Advice
from prsm_core.engine.tools.budget import Spending
from prsm_core.engine.tools.communication import Communication
from prsm_core.engine.tools.family import Family
from prsm_core.engine.tools.handlers import handlers_of
from prsm_core.engine.tools.observation import Observation
from prsm_core.engine.tools.progress import Progress
from prsm_core.engine.tools.recommendation import Recommendation
from prsm_core.engine.turns.call import CallParts
from prsm_core.engine.turns.host import HostParts
from prsm_core.engine.turns.parts import TurnImages, TurnParts
from prsm_core.engine.turns.permits import Permits
from prsm_core.engine.turns.standing import Standing
from prsm_core.engine.turns.watch import TurnWatch
from prsm_core.engine.workspace_files import FilesContext
from prsm_core.messaging.deadlock import DeadlockDetector
from prsm_core.messaging.router import MessageRouter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_core.engine.agents.resuming import Resumption
    from prsm_core.engine.journal.feed import Feed
    from prsm_core.engine.journal.unit import Journal
    from prsm_core.engine.providers.mcp_trials import McpTrials
    from prsm_core.engine.turns.call import Handler
    from prsm_core.kit.background import Background

__all__ = ["Assembly", "EngineConfig"]


class Assembly:
    """Puts an engine together: each part is given what it uses, and none is given this."""

    def __init__(
        self, config: EngineConfig, background: Background, journal: Journal, feed: Feed
    ) -> None:
        """Make all parts.

        `background` runs what outlives a call, `journal` writes to the store, `feed` tells what was
        written.
        """
        self._config, self._background, self._journal = config, background, journal
        self._feed = feed
        settings, clock = config.settings, config.clock
        self.abort = RunAbort(background)
        self.quiet, self._roster = QuietMoment(clock), Roster()
        self._lives: Lives[AgentSession] = Lives(background, clock)
        self.conversations = ConversationStore(config.store, config.session_id)
        self.files = config.files(self._files_context())
        self.sandbox = make_sandbox(config, self.files.folders)
        self.slots = Slots(settings.engine.max_concurrent_agents)
        self.budgets = make_budgets(journal)
        self.providers = make_providers(config, background)
        self.skills = make_skills(config, self.providers)
        self.listings = Listings(self.providers, settings, clock, config.state_dir / "models.json")
        rules = self.budgets.parts_of, config.checks
        self.enforcement = Enforcement(self.providers, settings, journal, background, clock, *rules)
        self.workforce = make_workforce(self.listings, self.enforcement, self.providers)
        self.router = MessageRouter()
        self._leases = LeaseTable(self._roster, self.files.folders)
        self._idle = IdleChildren()
        self.detector = self._make_detector()
        self._steps = self._make_steps()
        self._steering, self.peers = self._make_mail()
        self.requests = make_requests(config, journal, self._steps, background)
        who = self.providers.program_of, self.budgets.spent_by
        self.labelling = Labelling(self._roster, self._steps, journal, *who)
        self.planner = self._make_planner()
        self.holds = self._make_holds()
        self.ends = self._make_ends()
        self.manager = self._make_manager()
        self._knots = self._make_knots()
        self.saying = make_saying(config, self.providers, journal, self.files)
        of = self._roster, self.router, self._steps, self.saying, self._steering
        self.prompting = Prompting(*of, config.broker, config.workspace)
        self._standing = self._make_standing()
        self.quiet.watch = self.files.watch
        self._permits = self._make_permits()
        self._sessions = self._session_parts()

    def _make_detector(self) -> DeadlockDetector:
        return DeadlockDetector(
            is_ready=lambda _, wait: bool(wait.key.ready()),
            is_over=lambda agent_id: self._roster.get(agent_id).has_ended,
            on_knot=lambda agents, by_sweep: self._knots.resolve(agents, by_sweep),
        )

    def _make_holds(self) -> Holds:
        config = self._config
        return Holds(
            config.settings.engine.limits,
            self._roster,
            self._steps,
            self.requests,
            self.detector,
            journal=self._journal,
            background=self._background,
            clock=config.clock,
            ids=config.ids,
            leads=config.external is None,
        )

    def _make_mail(self) -> tuple[Steering, Peers]:
        roster, router, steps, lives = self._roster, self.router, self._steps, self._lives

        def wait_anew(agent_id: str) -> None:
            if (session := lives.session_of(agent_id)) is not None:
                session.life.wait_anew()

        can = self._background, self.providers.capabilities
        peers = Peers(roster, router, steps, self.detector, self._journal, wait_anew)
        return Steering(roster, lives, router, steps, *can), peers

    async def settle(self) -> None:
        """Have done what belongs to a run that is about to end."""
        await self.files.trees.settled()
        await self.requests.settle()
        await self.files.settle()

    async def aclose(self) -> None:
        """Close what has processes of its own."""
        try:
            await self.providers.aclose()
        finally:
            await self.files.aclose()

    def _files_context(self) -> FilesContext:
        config, lives = self._config, self._lives
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
            background=self._background,
            journal=self._journal,
            feed=self._feed,
            quiet=self.quiet,
            roster=self._roster,
            conversations=self.conversations,
            leases=lambda agent: self._leases.beside(agent),
            turn_of=lambda agent: None if (one := lives.session_of(agent)) is None else one.turn,
            task_of=lives.task_of,
            sandbox=lambda: self.sandbox,
        )

    def _make_steps(self) -> AgentSteps:
        return AgentSteps(
            self._journal,
            self._roster,
            self.router,
            self.detector,
            self._idle,
            clock=self._config.clock,
            ids=self._config.ids,
            arrived=lambda message: self._steering.look(message.target),
        )

    def _make_knots(self) -> KnotResolver:
        return KnotResolver(
            self._roster,
            self.detector,
            self.router,
            peers=self.peers,
            steps=self._steps,
            ends=self.ends,
            background=self._background,
        )

    def _make_planner(self) -> Planner:
        config = self._config
        return Planner(
            self._roster,
            self._leases,
            self.budgets,
            self._journal,
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
            self._steps,
            trees=self.files.trees,
            idle=self._idle,
            detector=self.detector,
            router=self.router,
            peers=self.peers,
            requests=self.requests,
            broker=self._config.broker,
            budgets=self.budgets,
            journal=self._journal,
            clock=self._config.clock,
        )

    def _make_manager(self) -> AgentManager:
        return AgentManager(
            self._roster,
            self._lives,
            self.planner,
            self._steps,
            ends=self.ends,
            begin=lambda record: AgentSession(record, self._sessions),
            trees=self.files.trees,
            leases=self._leases,
            idle=self._idle,
            router=self.router,
            budgets=self.budgets,
            enforcement=self.enforcement,
            skills=self.skills,
            clock=self._config.clock,
        )

    def resumption(self) -> Resumption:
        """Return what takes over the agents that an earlier engine has left."""
        from prsm_core.engine.agents.resuming import Resumption  # once a session goes on

        config = self._config
        return Resumption(
            roster=self._roster,
            lives=self._lives,
            steps=self._steps,
            ends=self.ends,
            begin=lambda record, now: AgentSession(record, self._sessions, now),
            router=self.router,
            leases=self._leases,
            idle=self._idle,
            requests=self.requests,
            budgets=self.budgets,
            spoken=self._journal.spoken,
            settings=config.settings,
            servers=configured_servers(config.settings),
            clock=config.clock,
        )

    def _make_standing(self) -> Standing:
        config, providers = self._config, self.providers
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
        config = self._config
        return Permits(
            self._standing,
            config.broker,
            self.requests,
            self.quiet,
            journal=self._journal,
            steps=self._steps,
            ids=config.ids,
            background=self._background,
            workspace=config.workspace,
        )

    def _make_trials(self) -> McpTrials:
        from prsm_core.engine.providers.mcp_trials import McpTrials  # once an agent has servers

        def tell(agent_id: str, text: str) -> None:
            self._journal.note("notice", agent_id, level="warning", text=text)

        return McpTrials(self.providers.boxes.start, self._config.clock, tell)

    def _session_parts(self) -> SessionParts:
        config, settings = self._config, self._config.settings
        tools = make_tools(
            config,
            self._handlers(),
            self._journal,
            lay=self.labelling.of_tool,
            mail=self.peers,
            program_of=self.providers.program_of,
            standing=self._standing,
            requests=self.requests,
            window=self.providers.context_window,
        )
        written = self._steps, self._journal
        kin = Kin(self.labelling, self.ends, self._roster, config.store)
        return SessionParts(
            ends=self.ends,
            steps=self._steps,
            life=LifeParts(
                steps=self._steps,
                detector=self.detector,
                slots=self.slots,
                residents=self.providers.residents,
                quiet=self.quiet,
                files=self.files,
                is_closing=self.manager.is_closing,
                forget=self._lives.forget,
            ),
            turns=self._turn_parts(),
            failover=make_failover(config, self.providers, self.listings, *written),
            holds=self.holds,
            opening=Opening(
                self.providers,
                self.enforcement,
                settings,
                self.files.folders,
                self.skills.prompt,
                self._make_trials,
            ),
            contexts=Contexts(self.context_parts()),
            inbox=Inbox(self._roster, self.router, self._steps, self.peers, self._idle),
            tools=lambda record: self.peers.begins(record, tools(record.descriptor)),
            is_external=self.providers.is_external,
            host=HostParts(permits=self._permits, family=kin, open_endpoint=config.open_endpoint),
            budgets=self.budgets,
            stuck=settings.stuck,
            journal=self._journal,
            clock=config.clock,
            background=self._background,
        )

    def context_parts(self) -> ContextParts:
        """Return what the contexts of agents are made with, and what is asked beside them."""
        config = self._config
        return ContextParts(
            providers=self.providers,
            enforcement=self.enforcement,
            listings=self.listings,
            conversations=self.conversations,
            budgets=self.budgets,
            steps=self._steps,
            journal=self._journal,
            settings=config.settings,
            workspace=config.workspace,
            ids=config.ids,
            clock=config.clock,
            compact=compact_late,
        )

    def _turn_parts(self) -> TurnParts:
        config, clock = self._config, self._config.clock
        calls = CallParts(
            clock=clock,
            ids=config.ids,
            now_ms=lambda: int(clock.time() * 1000),
            journal=self._journal,
            router=self.router,
            steps=self._steps,
            permits=self._permits,
            background=self._background,
            images=TurnImages(config.state_dir, self.providers.capabilities, self._journal),
            program_of=self.providers.program_of,
        )
        return TurnParts(
            calls=calls,
            settings=config.settings,
            workspace=self.files.folders.of,
            system_prompt=self.skills.prompt,
            clock=clock,
            new_id=config.ids.ulid,
            background=self._background,
            journal=self._journal,
            steps=self._steps,
            broker=config.broker,
            quiet=self.quiet,
            standing=self._standing,
            requests=self.requests,
            budgets=self.budgets,
            watch=TurnWatch(clock, self._background),
            window=self.providers.context_window,
            abort=self.abort,
            steering=self._steering,
            with_news=TeamNews(
                self.planner.team_of,
                lambda: self.enforcement.unseen,
                self.enforcement.look_at_all,
            ).add,
        )

    def _handlers(self) -> Mapping[str, Handler]:
        config, family = self._config, self._family()
        return handlers_of(
            communication=Communication(
                roster=self._roster, router=self.router, steps=self._steps, ids=config.ids
            ),
            family=family,
            advice=Advice(
                family=family,
                births=self.manager,
                planner=self.planner,
                roster=self._roster,
                providers=self.providers,
                enforcement=self.enforcement,
                settings=config.settings,
                ids=config.ids,
            ),
            progress=Progress(
                ends=self.ends,
                silent=self.peers.falls_silent,
                steering=self._steering,
                steps=self._steps,
                roster=self._roster,
                router=self.router,
                requests=self.requests,
                broker=config.broker,
                ids=config.ids,
                workspace=config.workspace,
            ),
            recommendation=self._recommendation(),
            observation=Observation(
                roster=self._roster, journal=self._journal, conversations=self.conversations
            ),
            shell=make_shell(
                config, self._permits, self._standing, self.quiet, self.sandbox, self.files.folders
            ),
            spending=Spending(budgets=self.budgets),
        )

    def _family(self) -> Family:
        return Family(
            births=self.manager,
            planner=self.planner,
            roster=self._roster,
            trees=self.files.trees,
            idle=self._idle,
            listings=self.listings,
            enforcement=self.enforcement,
            budgets=self.budgets,
            settings=self._config.settings,
            ids=self._config.ids,
        )

    def _recommendation(self) -> Recommendation:
        return Recommendation(
            settings=self._config.settings,
            listings=self.listings,
            workforce=self.workforce,
            enforcement=self.enforcement,
            scorers=self._config.scorers,
            journal=self._journal,
        )
