"""The recommend_model tool: which model a child's task needs, for those who name one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prsm_core.catalog.selection import may_fit
from prsm_core.domain.models import TaskProfile
from prsm_core.domain.record import Record
from prsm_core.engine.providers.model_choice import find_recommendable, inherited_model
from prsm_core.engine.providers.model_names import DEFAULT_MODEL
from prsm_core.engine.turns.call import Reply
from prsm_core.errors import AgentSpawnError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prsm_core.config import Settings
    from prsm_core.domain.agents import AgentDescriptor
    from prsm_core.domain.models import ModelCapability
    from prsm_core.engine.journal.unit import Journal
    from prsm_core.engine.providers.enforcement import Enforcement
    from prsm_core.engine.providers.listings import Listings
    from prsm_core.engine.providers.team import Workforce
    from prsm_core.engine.turns.call import Call
    from prsm_core.interfaces.scorer import ModelScorerSpec

LISTING_SECONDS = 8.0  # how long an agent waits for what providers list


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
        ranking = rank_models(self._usable_models(caller), task, self.scorers)
        for problem in ranking.problems:
            self.journal.note("notice", caller.agent_id, level="warning", text=problem)
        best = [entry.to_dict() for entry in ranking.models[:RECOMMENDED]]
        offered = best or await self._offered(caller, workforce, task.complexity)
        own = inherited_model(caller, self.listings.names)
        told: dict[str, Any] = {
            "category": task.category,
            "models": offered,
            "usable": [
                member.to_dict() for member in self.workforce().members(own, caller.grant.models)
            ],
        }
        if call.args.get("regions"):  # asked by programs
            told["beyond_regions"] = self.enforcement.beyond_regions
        if not told["models"]:
            told["hint"] = "no model is known that fits; without one the child gets yours"
        return Reply(told)

    async def _offered(
        self, caller: AgentDescriptor, workforce: Workforce, complexity: str | None
    ) -> list[dict[str, Any]]:
        """Return what the usable providers list, where the registry has nothing that fits."""
        from prsm_core.catalog.offered import offered_models
        from prsm_core.catalog.registry import build_model_registry

        own = inherited_model(caller, self.listings.names)
        allowed = workforce.allowed(own, caller.grant.models)
        registry = build_model_registry(self.settings)

        def is_allowed(provider: str, model: str) -> bool:
            is_granted = allowed is None or f"{provider}/{model}" in allowed
            return is_granted and may_fit(registry.get(provider, model), complexity)

        usable = sorted(workforce.usable, key=lambda name: (name != own.provider, name))
        listed = await self.listings.listing(usable, LISTING_SECONDS)
        found = {name: listed[name].models if name in listed else () for name in usable}
        return offered_models(found, DEFAULT_MODEL, is_allowed=is_allowed)

    def _usable_models(self, caller: AgentDescriptor) -> list[ModelCapability]:
        names = self.listings.names
        own = inherited_model(caller, names)
        return find_recommendable(own, names, caller.grant.models, self.enforcement.refused)
