"""request: the bytes that role prompt and tool schemas add to every model request."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from benchmarks.harness import Finding
from prsm_core.domain.agents import AgentRole
from prsm_core.engine.providers.model_choice import TEAM_BYTES
from prsm_core.engine.tools.table import ToolTable
from prsm_core.engine.turns.context import build_role_prompt

if TYPE_CHECKING:
    from benchmarks.harness import Plan

GOAL = 6000


def measure(_plan: Plan) -> list[Finding]:
    """Count the bytes of each role."""
    return [
        Finding(
            benchmark="request",
            case=f"role {role.value}",
            unit="bytes",
            value=size_of(role),
            goal=GOAL,
        )
        for role in AgentRole
    ]


def size_of(role: AgentRole) -> int:
    """Return the size of the prompt and of the tools as compact JSON."""
    tools = [
        {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema}
        for tool in ToolTable().for_role(role, may_spawn=True).specs
    ]
    leads = role in {AgentRole.MASTER, AgentRole.WORKER}
    team = "x" * TEAM_BYTES if leads else ""  # what tells of the models, at its largest
    text = build_role_prompt(role, "name", may_spawn=True, team=team)
    return len(text.encode()) + len(json.dumps(tools, separators=(",", ":")).encode())
