"""The recommend_model tool: which model a child's task needs, for those who name one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prsm_core.catalog.categories import categorize
from prsm_core.catalog.offered import offered_models
from prsm_core.catalog.ranking import RECOMMENDED, rank_models
from prsm_core.catalog.registry import build_model_registry
from prsm_core.catalog.selection import may_fit
from prsm_core.domain.models import TaskProfile
from prsm_core.engine.providers.model_choice import find_recommendable, inherited_model
from prsm_core.engine.providers.model_names import DEFAULT_MODEL
from prsm_core.engine.turns.calls import Reply
from prsm_core.errors import AgentSpawnError

if TYPE_CHECKING:
    from prsm_core.domain.models import ModelCapability
    from prsm_core.engine.providers.team import Member
    from prsm_core.engine.turns.calls import Call

LISTING_SECONDS = 8.0  # how long an agent waits for what providers list


async def recommend_model(call: Call) -> Reply:
    """Return the best models for a task, of those that a child of the caller may run on."""
    description = call.args["task_description"]
    if not description.strip():
        raise AgentSpawnError("there is no task", hint="task_description must not be blank")
    task = TaskProfile(
        description=description,
        category=categorize(description),
        complexity=call.args.get("complexity"),
    )
    runtime = call.manager.runtime
    ranking = rank_models(_usable_models(call), task, runtime.scorers)
    for problem in ranking.problems:
        runtime.journal.note("notice", call.record.agent_id, level="warning", text=problem)
    best = [entry.to_dict() for entry in ranking.models[:RECOMMENDED]]
    told: dict[str, Any] = {
        "category": task.category,
        "models": best or await _offered(call, task.complexity),
        "usable": [member.to_dict() for member in _members(call)],
    }
    if not told["models"]:
        told["hint"] = "no model is known that fits; without one the child gets yours"
    return Reply(told)


def _members(call: Call) -> list[Member]:
    """Return all models that a child of the caller may be given by name."""
    runtime, caller = call.manager.runtime, call.record.descriptor
    own = inherited_model(caller, runtime.model_names)
    return runtime.workforce.members(own, caller.grant.models)


async def _offered(call: Call, complexity: str | None) -> list[dict[str, Any]]:
    """Return what the usable providers list, where the registry has nothing that fits."""
    runtime, caller = call.manager.runtime, call.record.descriptor
    own = inherited_model(caller, runtime.model_names)
    workforce = runtime.workforce
    allowed = workforce.allowed(own, caller.grant.models)
    registry = build_model_registry(runtime.settings)

    def is_allowed(provider: str, model: str) -> bool:
        is_granted = allowed is None or f"{provider}/{model}" in allowed
        return is_granted and may_fit(registry.get(provider, model), complexity)

    usable = sorted(workforce.usable, key=lambda name: (name != own.provider, name))
    listed = await runtime.listings.listing(usable, LISTING_SECONDS)
    found = {name: listed[name].models if name in listed else () for name in usable}
    return offered_models(found, DEFAULT_MODEL, is_allowed=is_allowed)


def _usable_models(call: Call) -> list[ModelCapability]:
    runtime, caller = call.manager.runtime, call.record.descriptor
    return find_recommendable(
        inherited_model(caller, runtime.model_names),
        runtime.model_names,
        caller.grant.models,
        runtime.enforcement.refused,
    )
