"""What subtasks cost: as the ledger has it of those that were, and what the next may."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prsm_core import ChildNow, Spent
    from prsm_regions.plan import Plan

PRIOR_TOKENS = 15_000  # that a subtask takes, where no other one is known


def tokens_each(past: Sequence[Spent]) -> int:
    """Return the tokens that a subtask takes: the mean of those that were, else a prior."""
    known = [tokens for one in past if (tokens := one.usage.known_total)]
    return round(sum(known) / len(known)) if known else PRIOR_TOKENS


def costs_text(plan: Plan, agents: dict[int, str], children: Sequence[ChildNow]) -> str:
    """Return what each subtask has used, and all others together: the planner, and questions."""
    used = {one.agent_id: one for one in children}
    lines = [
        f"  Subtask {one.index + 1}: {_told(used[agents[one.index]])}"
        for one in plan.subtasks
        if agents.get(one.index) in used
    ]
    others = [one for one in children if one.labels.get("regions/role") != "subtask"]
    lines += [f"  {_role(one)} {one.name}: {_told(one)}" for one in others]
    return "\n".join(["Costs:", *lines])


def _role(child: ChildNow) -> str:
    """Return what an agent is told as: who answers for an owner is the cost of a question."""
    role = child.labels.get("regions/role", "other")
    return "question" if role == "owner" else role


def _told(child: ChildNow) -> str:
    tokens, cost = child.spent.usage.known_total, child.spent.cost_usd
    told = "unknown tokens" if tokens is None else f"{tokens} tokens"
    more = " or more" if child.spent.turns_without_tokens else ""
    return f"{told}{more}" + ("" if cost is None else f", ${cost:.4f}")
