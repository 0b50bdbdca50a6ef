"""The recommend_model tool: which model a child's task needs, for those who name one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.catalog.categories import categorize
from prsm_core.catalog.ranking import RECOMMENDED, rank_models
from prsm_core.domain.models import TaskProfile
from prsm_core.engine.calls import Reply
from prsm_core.engine.model_choice import find_recommendable, inherited_model
from prsm_core.errors import AgentSpawnError

if TYPE_CHECKING:
    from prsm_core.domain.models import ModelCapability
    from prsm_core.engine.calls import Call


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
    told = {"category": task.category, "models": best}
    if not best:
        told["hint"] = "no model is known that fits; without one the child gets yours"
    return Reply(told)


def _usable_models(call: Call) -> list[ModelCapability]:
    runtime, caller = call.manager.runtime, call.record.descriptor
    providers = runtime.providers.names
    return find_recommendable(
        inherited_model(caller, runtime.settings, providers),
        runtime.settings,
        providers,
        caller.grant.models,
        runtime.enforcement.refused,
    )
