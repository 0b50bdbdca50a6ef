"""Tools that ask for advice: consult_expert, consult_peer, recommend_model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from prsm_core.catalog.selection import may_fit
from prsm_core.domain.agents import AgentRole, AgentState, ExpertProfile, SpawnRequest
from prsm_core.domain.models import TaskProfile
from prsm_core.domain.record import Record
from prsm_core.engine.providers.model_choice import find_recommendable, inherited_model
from prsm_core.engine.providers.model_names import DEFAULT_MODEL
from prsm_core.engine.tools.family import CHILD, await_child, describe, note_child, recalled_child
from prsm_core.engine.turns.call import Reply
from prsm_core.errors import AgentSpawnError, ExpertNotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prsm_core.config import Settings
    from prsm_core.domain.ids import Ids
    from prsm_core.domain.notes import ModelChoice
    from prsm_core.domain.turns import Effect
    from prsm_core.engine.agents.manager import AgentManager
    from prsm_core.engine.journal.unit import Journal
    from prsm_core.engine.providers.enforcement import Enforcement
    from prsm_core.engine.providers.listings import Listings
    from prsm_core.engine.providers.registry import ProviderRegistry
    from prsm_core.engine.providers.team import Workforce
    from prsm_core.engine.spawn.plan import Planner
    from prsm_core.engine.state import AgentRecord, Roster
    from prsm_core.engine.tools.family import Family
    from prsm_core.engine.turns.call import Call
    from prsm_core.interfaces.scorer import ModelScorerSpec

_PEER = ExpertProfile(
    expert_id="peer",
    name="peer",
    system_prompt="Another model's agent wants a second opinion. Be frank, and say why.",
)

LISTING_SECONDS = 8.0  # how long an agent waits for what providers list


class Advice(Record, frozen=True, kw_only=True):
    """Handles questions to experts and peers."""

    family: Family
    agents: AgentManager
    planner: Planner
    roster: Roster
    providers: ProviderRegistry
    enforcement: Enforcement
    settings: Settings
    ids: Ids

    async def consult_expert(self, call: Call) -> Reply:
        """Spawn a fresh agent with an expert's profile and return its answer, or its question."""
        expert = find_expert(self.settings, call.args["expert_id"])
        if (known := call.recall(CHILD)) is not None:
            return await self._advice_again(call, known, expert=expert.expert_id)
        child, since = await self._spawn(call, expert)
        return await self._advice(call, child, since, expert=expert.expert_id)

    async def consult_peer(self, call: Call) -> Reply:
        """Ask another model for a second opinion; a thread goes on where it stopped."""
        wanted = call.args.get("peer")
        if wanted == "list":
            return Reply({"peers": list(await self._peers(call))})
        if (known := call.recall(CHILD)) is not None:
            name = self.roster.get(known.ref or "").descriptor.name
            return await self._advice_again(call, known, thread_id=name)
        if "thread_id" in call.args:
            child = self._find_thread(call, call.args["thread_id"])
            _check_question(call)
            await call.open()
            since = self.ids.ulid()
            noted = note_child(call, child, since, reused=True)
            await self.agents.restart_agent(child.agent_id, call.args["question"], besides=[noted])
            return await self._advice(call, child, since, thread_id=child.descriptor.name)
        peers = await self._peers(call)
        if not peers or (wanted is not None and wanted not in peers):
            raise AgentSpawnError(
                "there is no peer to ask" if wanted is None else f"there is no peer {wanted!r}",
                hint=f"peers: {', '.join(peers) or 'none; defaults.peer_models names some'}",
                code="unknown_peer",
            )
        child, since = await self._spawn(call, replace(_PEER, model=wanted or peers[0]))
        return await self._advice(call, child, since, thread_id=child.descriptor.name)

    async def _spawn(self, call: Call, expert: ExpertProfile) -> tuple[AgentRecord, str]:
        """Spawn an adviser; return it, and a ULID that is older than all that it says."""
        await self.family.learn_models(call.record.descriptor, [expert.model])
        _check_question(call)
        request = SpawnRequest(
            prompt=call.args["question"],
            parent_id=call.record.agent_id,
            role=AgentRole.EXPERT,
            model=expert.model,
            mcp_servers=expert.mcp_servers or None,
            expert=expert,
        )
        self.planner.check(request)
        call.begin()
        since = self.ids.ulid()
        child = await self.agents.spawn_agent(
            request,
            needs=call.opening,
            note=lambda child: note_child(call, child, since, reused=False),
        )
        return child, since

    async def _advice_again(self, call: Call, effect: Effect, **about: str) -> Reply:
        """Go on with a consultation that began before the engine died."""
        child, since = recalled_child(self.roster, effect)
        return await self._advice(call, child, since, **about)

    async def _advice(self, call: Call, child: AgentRecord, since: str, **about: str) -> Reply:
        """Wait for what an adviser says `since` it began."""
        call.spawned_session_label = child.label
        message = await await_child(call, child, since, AgentState.WAITING_FOR_EXPERT)
        known: dict[str, Any] = {**describe(child, reused=False), **about}
        return Reply(self.family.with_message(call, child, message, known))

    def _find_thread(self, call: Call, thread_id: str) -> AgentRecord:
        """Return the adviser of an earlier consultation of this agent."""
        advisers = [
            child
            for child in call.record.children
            if self.roster.get(child).descriptor.role is AgentRole.EXPERT
        ]
        return self.roster.resolve(thread_id, advisers)

    async def _peers(self, call: Call) -> tuple[str, ...]:
        """Return the configured peers, else the default models of the others that can be used."""
        own = call.record.descriptor.provider
        if self.settings.defaults.peers:
            return self.settings.defaults.peers
        others = await self.enforcement.usable(set(self.providers.offered) - {own})
        return tuple(f"{name}/default" for name in others)


def _check_question(call: Call) -> None:
    if not call.args["question"].strip():
        raise AgentSpawnError("there is no question", hint="question must not be blank")


def find_expert(settings: Settings, expert_id: str) -> ExpertProfile:
    """Return the profile of an expert. Raises ExpertNotFoundError that names those there are."""
    profiles = settings.expert_profiles()
    experts = {name: p for name, p in profiles.items() if p.role is AgentRole.EXPERT}
    if expert_id not in experts:
        raise ExpertNotFoundError(
            f"there is no expert {expert_id!r}",
            hint=f"experts: {', '.join(sorted(experts)) or 'none are configured'}",
            code="unknown_expert",
        )
    return experts[expert_id]


class Recommendation(Record, frozen=True, kw_only=True):
    """Handles the choice of a model."""

    settings: Settings
    listings: Listings
    workforce: Callable[[], Workforce]
    enforcement: Enforcement
    scorers: Sequence[ModelScorerSpec]
    journal: Journal

    async def recommend_model(self, call: Call) -> Reply:
        """Return the best models for a task, of those that a child of the caller may run on."""
        from prsm_core.catalog.categories import categorize
        from prsm_core.catalog.ranking import RECOMMENDED, rank_models

        description = call.args["task_description"]
        if not description.strip():
            raise AgentSpawnError("there is no task", hint="task_description must not be blank")
        task = TaskProfile(
            description=description,
            category=categorize(description),
            complexity=call.args.get("complexity"),
        )
        await self.enforcement.look_around(LISTING_SECONDS)
        caller, workforce = call.record.descriptor, self.workforce()
        names, granted = self.listings.names, caller.grant.models
        own = inherited_model(caller, names)
        usable = find_recommendable(own, names, granted, self.enforcement.refused)
        ranking = rank_models(usable, task, self.scorers)
        for problem in ranking.problems:
            self.journal.note("notice", caller.agent_id, level="warning", text=problem)
        best = [entry.to_dict() for entry in ranking.models[:RECOMMENDED]]
        offered = best or await self._offered(own, granted, workforce, task.complexity)
        members = self.workforce().members(own, granted)
        told: dict[str, Any] = {
            "category": task.category,
            "models": offered,
            "usable": [member.to_dict() for member in members],
        }
        if call.args.get("regions"):  # asked by programs
            told["beyond_regions"] = self.enforcement.beyond_regions
        if not offered:
            told["hint"] = "no model is known that fits; without one the child gets yours"
        return Reply(told)

    async def _offered(
        self,
        own: ModelChoice,
        granted: frozenset[str] | None,
        workforce: Workforce,
        complexity: str | None,
    ) -> list[dict[str, Any]]:
        """Return what the usable providers list, where the registry has nothing that fits."""
        from prsm_core.catalog.ranking import offered_models
        from prsm_core.catalog.selection import build_model_registry

        allowed = workforce.allowed(own, granted)
        registry = build_model_registry(self.settings)

        def is_allowed(provider: str, model: str) -> bool:
            is_granted = allowed is None or f"{provider}/{model}" in allowed
            return is_granted and may_fit(registry.get(provider, model), complexity)

        usable = sorted(workforce.usable, key=lambda name: (name != own.provider, name))
        listed = await self.listings.listing(usable, LISTING_SECONDS)
        found = {name: listed[name].models if name in listed else () for name in usable}
        return offered_models(found, DEFAULT_MODEL, is_allowed=is_allowed)
