"""Resume a session whose engine died, and take over its agents as they were.

First all agents are restored in memory with their mail and questions. Then those that had not ended
get a new incarnation, all in one step, which fences whatever the dead engine might still write.
Their states stay, as nothing has happened to them. Requests that only the dead processes waited for
are ended. Only then do lives begin, working agents first, so that they get their slots back.

A crash during this leaves agents one incarnation further and some requests open; the next resume
starts over.

What the agents need is checked before anything is written. An agent whose provider or model is gone
would fail and finish its run, which could then not be resumed once that is mended.

A run's time limit covers all engines that have worked on it, without the time between them. An
engine has worked from its start to its last write.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from prsm_core.domain.agents import AgentRole, AgentState
from prsm_core.domain.notes import ModelChoice
from prsm_core.domain.record import Record
from prsm_core.domain.turns import StopReason
from prsm_core.domain.writes import AgentsResumed, RequestResolved, Told, TurnClosed
from prsm_core.engine.outcome import FINISHED
from prsm_core.engine.providers.model_choice import resolve_model
from prsm_core.engine.providers.model_names import DEFAULT_MODEL
from prsm_core.engine.spawn import configured_servers
from prsm_core.engine.state import AgentRecord
from prsm_core.engine.turns.going_on import cut_short, how_cut_off
from prsm_core.errors import ConfigError, ProviderNotAvailableError, PrsmError
from prsm_core.kit.quotation import quote_word

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        Awaitable,
        Callable,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )

    from prsm_core.config import Settings
    from prsm_core.domain.agents import AgentDescriptor
    from prsm_core.domain.budgets import Budget
    from prsm_core.domain.events import Event
    from prsm_core.domain.notes import Ending
    from prsm_core.domain.sessions import AgentNow, RunNow, SessionState, TurnState
    from prsm_core.domain.steps import HumanRequest, Step, Write
    from prsm_core.domain.tools import McpServer
    from prsm_core.engine.agents.manager import AgentEnds
    from prsm_core.engine.agents.session import AgentSession, Lives
    from prsm_core.engine.journal.feed import Spoken
    from prsm_core.engine.journal.unit import AgentSteps
    from prsm_core.engine.providers.listings import Listings
    from prsm_core.engine.providers.registry import ProviderRegistry
    from prsm_core.engine.requests import HumanRequests
    from prsm_core.engine.spawn import IdleChildren, LeaseTable
    from prsm_core.engine.spending import BudgetLedger
    from prsm_core.engine.state import Roster
    from prsm_core.interfaces.clock import Clock
    from prsm_core.interfaces.store import AgentRow, Store
    from prsm_core.messaging.router import MessageRouter


_AT_WORK = frozenset({AgentState.RUNNING, AgentState.STARTING})


# An agent that an earlier engine has left, and what is known of it.
Left = tuple[AgentRecord, "AgentNow"]


class Resumption(Record, frozen=True, kw_only=True):
    """Takes over the agents of a session, and continues those that had not ended."""

    roster: Roster
    lives: Lives
    steps: AgentSteps
    ends: AgentEnds
    begin: Callable[[AgentRecord, AgentNow], AgentSession]
    router: MessageRouter
    leases: LeaseTable
    idle: IdleChildren
    requests: HumanRequests
    budgets: BudgetLedger
    spoken: Spoken
    settings: Settings
    servers: Mapping[str, McpServer]  # of today: the ledger keeps none with their secrets
    clock: Clock

    async def take_over(
        self, state: SessionState, write: Callable[[], Awaitable[object]]
    ) -> AgentRecord:
        """Continue all agents once `write` has recorded it; return the master's record."""
        left = self.adopt(state)
        await write()
        await self.live_on(left, state, state.runs[-1].epoch + 1)
        return left[0][0]

    def adopt(self, state: SessionState) -> Sequence[Left]:
        """Take over all agents, master first, parents before children. Writes nothing."""
        left: list[Left] = []
        granted = {now.agent.agent_id: now.agent.grant.budget for now in state.agents}
        profiles = self.settings.expert_profiles().values()
        begins = tuple(f"{profile.system_prompt}\n" for profile in profiles)
        self.roster.know(state.aliases)
        for now in state.agents:
            record = self._record(now, granted, begins)
            self.roster.adopt(record)
            self.leases.enter(record)
            left.append((record, now))
        self.budgets.take_over(state, (record.descriptor for record, _ in left))
        for question in state.questions:
            asked = self.roster.get(question.message.target)
            asked.asked(question.message, delivered=question.is_read)
        for record, _ in left:
            self._hear(record)
        return left

    def _hear(self, record: AgentRecord) -> None:
        known, parent = record.notes, self.roster.parent_of(record)
        if parent is None or known.progress is None:
            return
        if known.reports > parent.notes.heard.get(record.agent_id, 0):
            parent.heard_of(record.agent_id, known.progress)

    def _record(
        self, now: AgentNow, granted: Mapping[str, Budget], begins: tuple[str, ...]
    ) -> AgentRecord:
        agent = self._as_set_today(now.agent, granted)
        is_expert = agent.role is AgentRole.EXPERT
        record = AgentRecord(
            agent,
            resume_token=now.resume_token,
            next_turn=now.next_turn,
            head_turn_id=now.head_turn_id,
            reasoning_used=now.notes.reasoning_s,
            notes=now.notes,
            has_profile=is_expert or agent.system_prompt.startswith(begins),
        )
        if agent.state.is_terminal:
            record.result = now.result
            record.end()
        else:
            record.claimed_result, record.waiting_on = now.result, now.waiting_on
        return record

    def _as_set_today(
        self, agent: AgentDescriptor, granted: Mapping[str, Budget]
    ) -> AgentDescriptor:
        given, parent = agent.grant.budget, agent.parent_id
        if parent is None:
            budget = self.settings.budgets.to_budget()
        else:
            above = self.roster.get(parent).descriptor.grant.budget
            budget = given.moved(granted[parent], above)
        if budget != given:
            agent = replace(agent, grant=replace(agent.grant, budget=budget))
        if agent.mcp_servers:
            servers = {
                name: self.servers[name] for name in agent.mcp_servers if name in self.servers
            }
            agent = replace(agent, mcp_servers=servers)
        return agent

    async def live_on(self, left: Sequence[Left], state: SessionState, epoch: int) -> None:
        """Give unfinished agents a new incarnation, and begin their lives.

        Turns of ended agents are closed: a crash came between the agent's end and the turn's.
        Agents that were about to end do so, with all below them.
        """
        commit = self.steps.commit
        requests = defaultdict[str, "list[HumanRequest]"](list)
        for request in state.requests:
            requests[request.agent_id].append(request)
        living = [(record, now) for record, now in left if not record.has_ended]
        endings = [(record, record.notes.ending) for record, _ in living]
        doomed = _doomed(living)
        steps = [
            self._anew(record, now, requests[record.agent_id], record.agent_id in doomed)
            for record, now in living
        ]
        self._deliver(living, state)  # at once: a person may end one of them from here on
        lives = {record.agent_id: record.incarnation for record, _ in living}
        if lives:
            await commit(self.steps.build_of_run(AgentsResumed(lives=lives)))
        steps += [
            self._closing(record, now.open_turn, requests[record.agent_id], epoch)
            for record, now in left
            if record.has_ended and now.open_turn is not None
        ]
        await asyncio.gather(*(commit(step) for step in steps if step is not None))
        if doomed:
            for record, _ in left:
                asked = record.questions.items()
                still = {about: one for about, one in asked if one.message.source not in doomed}
                record.questions = still
        self._free(left, state)
        for record, now in sorted(living, key=lambda one: one[0].state not in _AT_WORK):
            record.started_at = self.clock.now()
            if record.agent_id not in doomed and not record.has_ended:
                self.lives.begin(record, self.begin(record, now))
        for record, ending in endings:
            await self._end(record, ending)

    async def _end(self, record: AgentRecord, ending: Ending | None) -> None:
        if ending is not None and not record.has_ended:
            if ending.state == AgentState.KILLED:
                await self.ends.kill_tree(record, ending.reason)
            else:
                await self.ends.fail_agent(record, ending.reason, ending.kind)

    def _anew(
        self, record: AgentRecord, now: AgentNow, requests: Sequence[HumanRequest], is_doomed: bool
    ) -> Step | None:
        record.live_on()
        waits = requests and not is_doomed and record.claimed_result is None
        waited = set(_waited(now)) if waits else set()
        self.requests.take_over([row for row in requests if row.request_id in waited])
        writes: list[Write] = [_resolved(r) for r in requests if r.request_id not in waited]
        if (turn := now.open_turn) is not None:
            said = [message for message in turn.messages if message.role == "assistant"]
            self.spoken.take_up(record.agent_id, turn.turn_id, len(said))
            writes += _ended(turn, all_open=is_doomed)
            if is_doomed:
                writes.append(self._closed(record, turn, StopReason.ABORTED))
        return self.steps.build(record, *writes) if writes else None

    def _closing(
        self, record: AgentRecord, turn: TurnState, lost: Sequence[HumanRequest], epoch: int
    ) -> Step:
        succeeded = record.state is AgentState.COMPLETED
        reason = StopReason.END_TURN if succeeded else StopReason.ABORTED
        closed = self._closed(record, turn, reason)
        writes = [*map(_resolved, lost), *_ended(turn, all_open=True), closed]
        step = self.steps.build(record, *writes)
        # The engine that died has used the plain numbers of this incarnation.
        return replace(step, step_id=f"{record.agent_id}:{record.incarnation}:closed:{epoch}")

    def _closed(self, record: AgentRecord, turn: TurnState, reason: StopReason) -> TurnClosed:
        now_ms = int(self.clock.time() * 1000)
        return TurnClosed(
            turn_id=turn.turn_id,
            parent_turn_id=turn.parent_turn_id,
            session_label=record.label,
            result=cut_short(turn, now_ms, reason),
            completed_at_ms=now_ms,
            resume_token=record.resume_token,
        )

    def _deliver(self, living: Sequence[Left], state: SessionState) -> None:
        for record, _ in living:
            self.router.register_agent(record.agent_id, record.incarnation)
        for message in state.unread:
            target = self.roster.get(message.target)
            if not target.has_ended:
                self.router.send(replace(message, incarnation=target.incarnation))

    def _free(self, left: Sequence[Left], state: SessionState) -> None:
        unread = {message.source: message.message_id for message in state.unread}
        for record, _ in left:
            if record.has_ended:
                self.idle.ended(record, unread=unread.get(record.agent_id))


def to_go_on_with(state: SessionState, is_external: Callable[[str], bool]) -> SessionState:
    """Return the state of the newest run's agents; raise ConfigError if there is none to resume."""
    if not state.runs:
        raise ConfigError("this session has had no run", hint="start one: prsm run", code="no_run")
    run, family = state.runs[-1], set[str]()
    if run.status not in FINISHED:
        family = _family((now.agent for now in state.agents), _master(state.agents, run))
    agents = [now for now in state.agents if now.agent.agent_id in family]
    for now in agents:
        if not now.agent.state.is_terminal and is_external(now.agent.provider):
            raise ConfigError(
                f"{now.agent.name} was led by a client outside, which is gone",
                hint="start a run: it has a master of its own",
                code="external",
            )
    return replace(
        state,
        agents=tuple(_with_withheld(state, now) for now in agents),
        unread=tuple(one for one in state.unread if one.target in family),
        questions=tuple(one for one in state.questions if one.message.source in family),
        requests=tuple(one for one in state.requests if one.agent_id in family),
    )


def _with_withheld(state: SessionState, now: AgentNow) -> AgentNow:
    """Return an agent whose open turn knows which of its calls never ran."""
    if now.open_turn is None or not (calls := state.withheld(now.agent.agent_id)):
        return now
    return replace(now, open_turn=replace(now.open_turn, withheld=calls))


def _master(agents: Sequence[AgentNow], run: RunNow) -> str:
    """Return the id of a run's own or newest master; raise ConfigError if there was none."""
    masters = [now.agent for now in agents if now.agent.parent_id is None]
    if not masters:
        raise ConfigError(
            "the engine died before this run had a master",
            hint="start it again: prsm run",
            code="no_master",
        )
    own = [agent for agent in masters if agent.run_id == run.run_id]
    return [*masters, *own][-1].agent_id


def _family(agents: Iterable[AgentDescriptor], master: str) -> set[str]:
    family = {master}
    for agent in agents:
        if agent.parent_id in family:
            family.add(agent.agent_id)
    return family


def _doomed(living: Sequence[Left]) -> set[str]:
    doomed: set[str] = set()
    for record, _ in living:
        is_below = record.descriptor.parent_id in doomed
        if is_below or record.notes.ending is not None:
            doomed.add(record.agent_id)
    return doomed


def _waited(now: AgentNow) -> Iterator[str]:
    for one in () if now.open_turn is None else now.open_turn.calls:
        if one.call.completed_at is None:
            yield from (effect.ref or "" for effect in one.effects if effect.name == "request")


def _resolved(row: HumanRequest) -> RequestResolved:
    return RequestResolved(request_id=row.request_id, kind=row.kind, answer={}, by="engine_died")


def _ended(turn: TurnState, *, all_open: bool = False) -> Iterator[Told]:
    for one in turn.calls:
        if (all_open or not one.call.orchestration) and one.call.completed_at is None:
            status, why = how_cut_off(turn, one.call)
            data = {"call": one.call.id, "status": status, "error": why}
            data |= {"turn": turn.turn_id} if one.call.orchestration else {}
            yield Told(kind="tool_call_finished", data=data)


async def check_needs(
    state: SessionState, providers: ProviderRegistry, listings: Listings, settings: Settings
) -> list[Told]:
    """Return notices of what agents lack, or raise ProviderNotAvailableError."""
    living = [now.agent for now in state.agents if not now.agent.state.is_terminal]
    if not settings.defaults.fallbacks:  # else another model takes over
        by_model: dict[tuple[str, str], list[AgentDescriptor]] = defaultdict(list)
        for agent in living:
            by_model[agent.provider, agent.model].append(agent)
        checks = (_check_model(providers, listings, *at, of) for at, of in by_model.items())
        await asyncio.gather(*checks)
    servers = configured_servers(settings)
    texts = [
        f"{quote_word(agent.name)} goes on without the MCP server {quote_word(name)}, which is "
        "configured no more: end the run, configure it under `mcp_servers`, and go on again"
        for agent in living
        for name in agent.mcp_servers
        if name not in servers
    ]
    return [Told(kind="notice", data={"level": "warning", "text": text}) for text in texts]


async def _check_model(
    providers: ProviderRegistry,
    listings: Listings,
    provider: str,
    model: str,
    agents: Sequence[AgentDescriptor],
) -> None:
    leads = any(agent.role is AgentRole.MASTER for agent in agents)
    try:
        await providers.choose(provider, leads=leads)
        await listings.check([f"{provider}/{model}"], provider)
        base = ModelChoice(provider=provider, model=DEFAULT_MODEL)
        resolve_model(f"{provider}/{model}", base, listings.names)
    except PrsmError as error:
        names = ", ".join(quote_word(agent.name) for agent in agents)
        hint = f"{error.hint}; " if error.hint else ""
        raise ProviderNotAvailableError(
            f"{names} cannot go on with {provider}/{model}: {error.message}",
            hint=f"{hint}then go on: prsm resume; or set defaults.fallbacks to a model that "
            "takes over. Nothing has changed meanwhile",
            code="gone",
        ) from error


LIMIT = "timeout_s"  # of a run's options: seconds
_SPENT = "spent_s"  # by the engines before the newest
_BEGAN = "resumed_at"  # when the newest began, Unix seconds


async def time_spent(store: Store, state: SessionState) -> float:
    """Return the seconds of its limit that the newest run has spent; no engine may be alive."""
    run = state.runs[-1]
    began = float(run.options.get(_BEGAN, run.started_at))
    seq = state.seq
    if state.origins and began < state.created_at:  # that engine worked before this was forked
        seq = state.origins[-1].seq
    events = cast("AsyncGenerator[Event, None]", store.events(state.session_id, after=seq - 1))
    async with aclosing(events):
        newest = await anext(events, None)
    last = 0.0 if newest is None else newest.ts
    return float(run.options.get(_SPENT, 0.0)) + max(0.0, last - began)


def time_left(run: RunNow, spent: float) -> float | None:
    """Return the seconds left of a run's limit, or None; raise ConfigError if it is used up."""
    limit = run.options.get(LIMIT)
    if limit is None:
        return None
    if spent >= limit:
        raise ConfigError(
            f"the run's time limit of {limit:g} s is used up",
            hint="give it more: prsm resume SESSION --timeout SECONDS",
            code="no_time_left",
        )
    return float(limit - spent)


async def limit_of(
    store: Store, state: SessionState, given: float | None, now: float
) -> tuple[float | None, float, Mapping[str, Any]]:
    """Return a resumed run's limit (one `given` counts from `now`), its use, and options."""
    run = state.runs[-1]
    limit, spent = given, 0.0
    if limit is None:
        limit, spent = run.options.get(LIMIT), await time_spent(store, state)
        time_left(run, spent)
    return limit, spent, {_SPENT: spent, _BEGAN: now}


def last_master(rows: Sequence[AgentRow]) -> AgentRow | None:
    """Return the master that was last active, or None."""
    masters = [row for row in rows if row.descriptor.parent_id is None]
    return max(
        masters, key=lambda row: row.last_event_at or row.descriptor.created_at, default=None
    )


def adopt(
    roster: Roster, rows: Sequence[AgentRow], master: AgentRow, servers: Mapping[str, McpServer]
) -> AgentRecord:
    """Take over an ended master and all agents below it; return its record.

    It gets today's `servers`: the ledger keeps none with secrets. No name of the session is reused.
    Raises ConfigError (code `not_ended`) if one of the agents was cut off.
    """
    ids = _family((row.descriptor for row in rows), master.descriptor.agent_id)
    family = [row for row in rows if row.descriptor.agent_id in ids]
    for row in family:
        if not row.descriptor.state.is_terminal:
            raise ConfigError(
                f"{row.descriptor.name} was cut off in its work by the end of an earlier process",
                hint="go on with that run: prsm resume; or start one, which has its own master",
                code="not_ended",
            )
    roster.taken_names.update(row.descriptor.name for row in rows)
    for row in family:
        record = AgentRecord(
            row.descriptor,
            result=row.result,
            resume_token=row.resume_token,
            next_turn=row.next_turn,
            head_turn_id=row.head_turn_id,
        )
        record.notes = replace(record.notes, chosen=row.chosen)
        record.end()
        roster.adopt(record)
    record = roster.get(master.descriptor.agent_id)
    record.descriptor = replace(record.descriptor, mcp_servers=servers)
    return record
