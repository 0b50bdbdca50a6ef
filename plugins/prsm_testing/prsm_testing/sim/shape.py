"""The shape of one run: its limits, its delays, and how its agents and its person are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prsm_core.domain.agents import PermissionMode
from prsm_core.domain.budgets import NO_LIMITS, Budget

if TYPE_CHECKING:
    import random

EXPERT = "critic"

_SLOTS = (1, 1, 2, 3, 5, 10)
_MODES = (
    PermissionMode.DEFAULT,
    PermissionMode.DEFAULT,
    PermissionMode.PLAN,
    PermissionMode.ACCEPT_EDITS,
    PermissionMode.BYPASS,
    PermissionMode.DELEGATE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What is drawn once for a run; times in virtual seconds."""

    slots: int
    depth: int
    agents: int
    mode: PermissionMode
    interactive: bool
    on_ask: str
    idle_s: float
    reasoning_s: float
    commit_s: float  # the longest a commit takes; 0: none takes any time
    think_s: float  # the mean of a model's thinking
    diligence: float  # how likely an open question is answered next
    step_ends: float  # how likely a provider tells that a response is complete
    fault_rate: float
    meddling: int  # acts of the person
    sinks: int
    budget: Budget
    residents: int | None  # processes at one time, of which each session has one; None: none has

    @classmethod
    def draw(cls, dice: random.Random, agents: int) -> Shape:
        """Draw the shape of a run of up to this many agents."""
        return cls(
            slots=dice.choice(_SLOTS),
            depth=dice.randint(2, 5),
            agents=agents,
            mode=dice.choice(_MODES),
            interactive=dice.random() < 0.4,
            on_ask=dice.choice(("deny", "allow")),
            idle_s=dice.choice((60.0, 300.0, 900.0)),
            reasoning_s=dice.choice((300.0, 1800.0, 7200.0)),
            commit_s=dice.choice((0.0, 0.002, 0.02, 0.5)),
            think_s=dice.choice((0.05, 1.0, 8.0)),
            diligence=dice.choice((0.2, 0.8, 0.95)),
            step_ends=dice.choice((1.0, 1.0, 0.9, 0.3)),
            fault_rate=dice.choice((0.3, 1.0, 1.0, 2.5)),
            meddling=dice.choice((0, 0, 2, 6)),
            sinks=dice.randint(0, 2),
            budget=_draw_budget(dice, agents) if dice.random() < 0.3 else NO_LIMITS,
            residents=dice.choice((1, 2, 3, 6)) if dice.random() < 0.25 else None,
        )

    @property
    def settings(self) -> dict[str, Any]:
        """The sections of the settings that matter."""
        experts = {EXPERT: {"system_prompt": "You judge."}}
        return {"engine": self._engine, "budgets": self.budget.to_dict(), "experts": experts}

    @property
    def _engine(self) -> dict[str, Any]:
        limit = {} if self.residents is None else {"max_resident_processes": self.residents}
        return limit | {
            "max_concurrent_agents": self.slots,
            "max_agent_depth": self.depth,
            "max_agents_per_run": self.agents,
            "idle_timeout_seconds": self.idle_s,
            "agent_timeout_seconds": self.reasoning_s,
            "limits": "wait" if self.slots % 2 else "ask",
        }


def _draw_budget(dice: random.Random, agents: int) -> Budget:
    limits: dict[str, Any] = {
        "tokens": dice.randint(1, 1000 * agents),
        "usd": round(dice.uniform(0.01, 0.05 * agents), 2),
        "turns": dice.randint(1, 2 * agents),
        "spawns": dice.randint(1, agents),
    }
    return Budget(**{kind: limits[kind] for kind in dice.sample(sorted(limits), 2)})
