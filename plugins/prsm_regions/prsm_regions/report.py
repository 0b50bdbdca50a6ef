"""What people and frontends are shown: the plan, what became of it, and what that cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prsm_core import PlanEntry, PlanUpdated
from prsm_regions.lifecycle import SubtaskState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prsm_core import ChildNow
    from prsm_regions.lifecycle import Lifecycle
    from prsm_regions.plan import Plan

_SHOWN = 600  # characters of a description, in what a frontend is given
_ENTRY = {
    SubtaskState.PENDING: "pending",
    SubtaskState.RUNNING: "in_progress",
    SubtaskState.RETRYING: "in_progress",
    SubtaskState.FAILED: "pending",
    SubtaskState.PARTIAL: "pending",
}


def plan_data(plan: Plan, models: Sequence[str], cost: int, *, estimated: bool) -> dict[str, Any]:
    """Return the plan as a `plan` message has it: subtasks, assignments, estimated_cost."""
    subtasks = [
        {
            "index": one.index,
            "name": one.name,
            "description": one.description[:_SHOWN],
            "region": one.region,
            "depends_on": list(one.depends_on),
        }
        for one in plan.subtasks
    ]
    return {
        "type": "plan",
        "subtasks": subtasks,
        "assignments": [
            {"subtask_index": place, "model": model, "region": plan.subtasks[place].region}
            for place, model in enumerate(models)
        ],
        "batches": [[one.index for one in batch] for batch in plan.batches()],
        "estimated_cost": cost,
        "estimated": estimated,
        "warnings": list(plan.warnings),
    }


def unheld(plan: Plan, models: Sequence[str], beyond: Mapping[str, str]) -> list[str]:
    """Return what is to be known before a run of providers whose agents no region holds."""
    by_provider: dict[str, list[str]] = {}
    for one, model in zip(plan.subtasks, models, strict=True):
        by_provider.setdefault(model.partition("/")[0], []).append(one.name)
    return [
        f"{', '.join(names)}: nobody is asked when an agent of {provider} writes beside its region:"
        f" {beyond[provider]}; set providers.regions.worktrees, so that its region alone lands"
        for provider, names in by_provider.items()
        if provider in beyond
    ]


def plan_text(plan: Plan, data: Mapping[str, Any]) -> str:
    """Return the plan for a person: its batches, who does what where, and what it may cost."""
    models = {one["subtask_index"]: one["model"] for one in data["assignments"]}
    lines = []
    for number, batch in enumerate(plan.batches(), 1):
        lines.append(f"Batch {number}:")
        for one in batch:
            needs = ", ".join(str(need + 1) for need in one.depends_on)
            after = f", after {needs}" if needs else ""
            lines.append(
                f"  {one.index + 1}. {one.name} [{one.region}] by {models[one.index]}{after}"
            )
    mark = " (estimated)" if data["estimated"] else ""
    lines.append(f"Cost: about {data['estimated_cost']} tokens{mark}")
    lines += [f"Note: {warning}" for warning in data["warnings"]]
    return "\n".join(lines)


def results_text(plan: Plan, lives: Sequence[Lifecycle[SubtaskState]]) -> str:
    """Return the table of results, one line a subtask."""
    names = [f"Subtask {one.index + 1} ({one.name}):" for one in plan.subtasks]
    width = max(map(len, names))
    rows = [
        f"  {name:<{width}} {life.state.name}{f' - {life.error}' if life.error else ''}"
        for name, life in zip(names, lives, strict=True)
    ]
    return "\n".join(["Results:", *rows])


def plan_event(plan: Plan, lives: Sequence[Lifecycle[SubtaskState]]) -> PlanUpdated:
    """Return the plan as an event, with how far each subtask is."""
    return PlanUpdated(
        tuple(
            PlanEntry(f"{one.name} [{one.region}]", _ENTRY.get(life.state, "completed"))
            for one, life in zip(plan.subtasks, lives, strict=True)
        )
    )


def costs_text(plan: Plan, agents: dict[int, str], children: Sequence[ChildNow]) -> str:
    """Return what each subtask has used, and all others together: the planner, and questions."""
    used = {one.agent_id: one for one in children}
    lines = [
        f"  Subtask {one.index + 1}: {_told(used[agents[one.index]])}"
        for one in plan.subtasks
        if agents.get(one.index) in used
    ]
    for one in children:
        role = one.labels.get("regions/role", "other")
        if role != "subtask":  # an agent that answers for an owner is the cost of a question
            lines.append(f"  {'question' if role == 'owner' else role} {one.name}: {_told(one)}")
    return "\n".join(["Costs:", *lines])


def _told(child: ChildNow) -> str:
    tokens, cost = child.spent.usage.known_total, child.spent.cost_usd
    told = "unknown tokens" if tokens is None else f"{tokens} tokens"
    more = " or more" if child.spent.turns_without_tokens else ""
    return f"{told}{more}" + ("" if cost is None else f", ${cost:.4f}")
