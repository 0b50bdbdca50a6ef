"""Begin the lives of agents, first or further ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from prsm_core.domain.agents import AgentRole, AgentState
from prsm_core.domain.writes import AgentRestarted, AgentSpawned, ModeSwitched, Told
from prsm_core.engine.providers.team import news_of_team, told_of_team
from prsm_core.engine.spawn import within_parent
from prsm_core.engine.state import AgentRecord
from prsm_core.errors import AgentSpawnError, MessageRoutingError, PrsmError
from prsm_core.lifecycle import RESTART

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from prsm_core.domain.agents import AgentDescriptor, AgentResult, PermissionMode, SpawnRequest
    from prsm_core.domain.steps import Write
    from prsm_core.domain.writes import CallClosed, EffectNoted
    from prsm_core.engine.agents.ends import AgentEnds
    from prsm_core.engine.agents.session import AgentSession, Lives
    from prsm_core.engine.agents.skills import Skills
    from prsm_core.engine.journal.unit import AgentSteps
    from prsm_core.engine.providers.enforcement import Enforcement
    from prsm_core.engine.spawn import IdleChildren, LeaseTable, Planner
    from prsm_core.engine.spending import BudgetLedger
    from prsm_core.engine.state import Roster, Staged
    from prsm_core.engine.workspace_files import Trees
    from prsm_core.interfaces.clock import Clock
    from prsm_core.messaging.router import MessageRouter


class AgentManager(Struct, eq=False, dict=True):
    """Begins the lives of all agents, and ends one for a person."""

    roster: Roster
    lives: Lives
    planner: Planner
    steps: AgentSteps
    ends: AgentEnds
    begin: Callable[[AgentRecord], AgentSession]
    trees: Trees
    leases: LeaseTable
    idle: IdleChildren
    router: MessageRouter
    budgets: BudgetLedger
    enforcement: Enforcement
    skills: Skills
    clock: Clock
    _is_closing: bool = False

    def is_closing(self) -> bool:
        """Return whether the engine closes, so that no session starts any more."""
        return self._is_closing

    async def spawn_agent(
        self,
        request: SpawnRequest,
        plan: AgentDescriptor | None = None,
        *,
        needs: Staged | None = None,
        besides: Sequence[Write] = (),
        answer: Callable[[AgentRecord], CallClosed | None] | None = None,
        note: Callable[[AgentRecord], EffectNoted] | None = None,
    ) -> AgentRecord:
        """Spawn a child of `request.parent_id`, by a `plan` if there is one already.

        For the rest see `create_agents`. Raises AgentSpawnError, MaxDepthExceededError or
        ModelNotAvailableError, with nothing written.
        """
        plan = self.planner.plan(request) if plan is None else plan
        self.planner.check_room(1)
        record = self.register_agent(plan, request)
        await self.give_trees([record])
        closed = None if answer is None else answer(record)
        await self.create_agents([record], needs=needs, besides=besides, answer=closed, note=note)
        return record

    async def admit(
        self,
        descriptor: AgentDescriptor,
        write: Callable[[Sequence[Write], Callable[[], None]], Awaitable[None]],
    ) -> AgentRecord:
        """Begin the master of a run. `write` commits its birth, then calls its second argument."""
        self.planner.check_room(1)
        record = self.register_agent(descriptor)
        try:
            births = self._births_of([record], None)
            await write(births, lambda: self._begin_life(record))
        except Exception:
            self.discard_agent(record)
            raise
        return record

    def register_agent(
        self, descriptor: AgentDescriptor, request: SpawnRequest | None = None
    ) -> AgentRecord:
        """Give a new agent its name, regions and budget. Raises BudgetExceededError."""
        descriptor = self.skills.given(descriptor)
        self.budgets.launch_agent(descriptor)
        record = AgentRecord(descriptor)
        if request is not None:
            record.has_profile = request.expert is not None
            record.wants_tree = self.trees.is_wanted(request, descriptor)
            record.stand_in = self.planner.describe_stand_in(request.model, descriptor)
        record.team = self.planner.team_of(descriptor)
        self.roster.enlist(record)
        self.leases.enter(record)
        return record

    async def give_trees(self, records: Sequence[AgentRecord]) -> None:
        """Make worktrees for new agents that want one; on failure discard all agents."""
        try:
            for record in records:
                if record.wants_tree:
                    await self.trees.give(record)
        except BaseException as error:
            if isinstance(error, PrsmError):  # else the next start finds what is left of them
                await self.trees.drop(records)
            for record in records:
                self.discard_agent(record)
            raise

    def discard_agent(self, record: AgentRecord) -> None:
        """Forget an agent of which nothing was written."""
        self.roster.strike(record)
        self.leases.strike(record.agent_id)
        self.budgets.cancel(record.agent_id)

    async def create_agents(
        self,
        records: Sequence[AgentRecord],
        *,
        needs: Staged | None = None,
        besides: Sequence[Write] = (),
        answer: CallClosed | None = None,
        note: Callable[[AgentRecord], EffectNoted] | None = None,
    ) -> None:
        """Commit new agents of one parent by one step, and start their sessions.

        What is written `besides` comes first in the step, then what each agent may `note`, and last
        the `answer` to the call. If the step is refused, none of the agents exists.
        """
        births = [*besides, *self._births_of(records, note)]
        if answer is not None:
            births.append(answer)
        spawner = self.roster.parent_of(records[0]) or records[0]

        def begin() -> None:
            for record in records:
                self._begin_life(record)

        born = [record.agent_id for record in records]
        step = self.steps.build(spawner, *births)
        try:
            await self.steps.commit(step, then=begin, needs=needs, bears=born)
        except Exception:  # of whatever kind: nobody would ever end them
            await self.trees.drop(records)
            for record in records:
                self.discard_agent(record)
            raise

    def _births_of(
        self,
        records: Sequence[AgentRecord],
        note: Callable[[AgentRecord], EffectNoted] | None,
    ) -> list[Write]:
        births: list[Write] = []
        for record in records:
            noted = None if note is None else note(record)
            call = None if noted is None else noted.effect.call_id
            births.append(AgentSpawned(agent=record.descriptor, call=call))
            if noted is not None:
                births.append(noted)
            late = self.enforcement.tell_parts(record.descriptor.provider, record.agent_id)
            for line in filter(None, (record.stand_in, *late)):
                data = {"level": "warning", "text": line}
                births.append(Told(kind="notice", agent_id=record.agent_id, data=data))
        return births

    async def restart_agent(
        self,
        agent_id: str,
        new_prompt: str,
        *,
        is_fresh: bool = False,
        mode: PermissionMode | None = None,
        besides: Sequence[Write] = (),
    ) -> AgentRecord:
        """Give an ended agent a new life with the same identity, place, model and tools.

        The conversation continues unless it `is_fresh`: then the model knows nothing of earlier
        lives. A master may get a new `mode`; a child has at most what its parent may hand down now.
        What is written `besides` comes first in the step.
        """
        record = self.roster.get(agent_id)
        self._check_restart(record)
        await self.lives.leave(record)
        await self.trees.ensure(record)
        self._check_restart(record)
        self.budgets.launch_agent(record.descriptor)
        source, restore = record.state, record.restore_point()
        target = AgentState.PENDING if source is AgentState.KILLED else AgentState.STARTING
        changes = self.steps.move(record, target, "restarted", trigger=RESTART)
        switched = self._switch_mode(record, mode)
        begun: tuple[Write, ...] = ()
        if is_fresh:
            record.forget_conversation()
            begun = (Told(kind="conversation_begun", data={}),)
        new_prompt = self._with_news(record, new_prompt)
        record.begin_incarnation(new_prompt, target, self.clock.time())
        self.roster.revive(record)
        anew = AgentRestarted(prompt=new_prompt)
        step = self.steps.build(record, *besides, anew, *switched, *begun, *changes)
        try:
            await self.steps.commit(step, then=lambda: self._begin_life(record))
        except Exception:  # it has ended as before: nobody may wait for its end
            self.budgets.release(agent_id)
            self.roster.settle(record)
            restore()
            raise
        return record

    def _switch_mode(
        self, record: AgentRecord, mode: PermissionMode | None
    ) -> tuple[ModeSwitched, ...]:
        was, parent = record.descriptor, self.roster.parent_of(record)
        if parent is not None:
            now = within_parent(was, parent.descriptor)
        else:
            now = was if mode is None else was.in_mode(mode)
        if now == was:
            return ()
        record.descriptor = now
        switched = ModeSwitched(
            source=was.run_mode, target=now.run_mode, mode=now.mode, granted=now.grant.mode
        )
        return (switched,)

    def _with_news(self, record: AgentRecord, prompt: str) -> str:
        told, record.team = record.team, self.planner.team_of(record.descriptor)
        if told is None:
            told = told_of_team(record.descriptor.system_prompt)
        changed = news_of_team(told, record.team), self.skills.news(record)
        return "\n\n".join(filter(None, (prompt, *changed)))

    def ended_master(self, agent_id: str) -> AgentRecord:
        """Return the master of a finished run. Raises AgentSpawnError for any other agent."""
        master = self.roster.get(agent_id)
        if master.descriptor.role is not AgentRole.MASTER:
            raise AgentSpawnError(
                f"{master.descriptor.name} is no master",
                hint="a follow-up task goes to the master of a run that has ended",
                code="not_a_master",
            )
        if not master.has_ended:
            raise AgentSpawnError(
                f"{master.descriptor.name} still runs",
                hint="wait for its end, or send it a prompt",
                code="still_running",
            )
        return master

    def _check_restart(self, record: AgentRecord) -> None:
        if not record.has_ended:
            raise AgentSpawnError(
                f"{record.descriptor.name} has not ended",
                hint="send_child_prompt reaches a running child",
                code="still_running",
            )
        parent = self.roster.parent_of(record)
        if parent is not None and (parent.is_over or parent.is_condemned):
            raise AgentSpawnError(
                "its parent has ended", hint="restart its parent first", code="agent_ended"
            )
        self.leases.check_still_free(record)

    def _begin_life(self, record: AgentRecord) -> None:
        """Open the mailbox and start the session of an agent whose row is committed."""
        if self._is_closing or record.is_over:  # killed while its beginning was committed
            return
        record.started_at = self.clock.now()
        self.router.register_agent(record.agent_id, record.incarnation)
        self.idle.forget_unread(record.agent_id)
        self.lives.begin(record, self.begin(record))
        self.lives.wait_anew(record.descriptor.parent_id or "")

    async def kill_agent(self, agent_id: str, reason: str = "killed") -> AgentResult:
        """Kill an agent and its descendants; raise MessageRoutingError if it has ended."""
        record = self.roster.get(agent_id)
        if record.state.is_terminal:
            raise MessageRoutingError(
                f"{record.descriptor.name} has ended already ({record.state.value})",
                code="agent_ended",
            )
        return await self.ends.kill_tree(record, reason)

    async def stop_all(self) -> None:
        """Stop all sessions for good; the ledger keeps the agents as they are."""
        self._is_closing = True
        await self.lives.stop_all()
