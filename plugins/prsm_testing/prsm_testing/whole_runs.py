"""What tests of whole runs share: who decides about permissions, and what holds of every log."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

from prsm_policy.plugin import prsm_command_policies

from prsm_core.errors import InvalidTransitionError
from prsm_core.lifecycle import AGENT_MACHINE, RESTART
from prsm_core.permissions import PermissionBroker, build_policy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prsm_core.config import Settings
    from prsm_core.domain.agents import AgentState
    from prsm_core.domain.events import Event
    from prsm_core.engine.tools.table import ToolTable
    from prsm_core.interfaces.clock import Clock

# What begins in a log also ends there, and by what the two are matched.
PAIRS = (
    ("turn_started", "turn_finished", "turn"),
    ("tool_call_started", "tool_call_finished", "call"),
    ("permission_requested", "permission_resolved", "request"),
    ("question_asked", "question_answered", "request"),
)


def plain_broker(settings: Settings, tools: ToolTable, clock: Clock) -> PermissionBroker:
    """Return the broker of a run without checks of plugins."""
    policies = {spec.name: spec for spec in prsm_command_policies()}
    return PermissionBroker(
        settings.permissions,
        checks={},
        orchestration=tools.names,
        commands=build_policy(policies, settings.permissions),
        now=clock.now,
    )


def unmatched(log: Sequence[Event], begin: str, end: str, key: str) -> str:
    """Return what began without an end, or ended without a beginning; nothing if all match."""
    begun = Counter((event.agent, event.data[key]) for event in log if event.type == begin)
    ended = Counter((event.agent, event.data[key]) for event in log if event.type == end)
    if begun == ended:
        return ""
    return f"{begin} without {end}, or the other way: {begun - ended}, {ended - begun}"


def is_legal(states: Sequence[AgentState]) -> bool:
    """Return whether an agent may pass these states, one after the other."""
    try:
        for source, target in pairwise(states):
            AGENT_MACHINE.validate(source, target, trigger=RESTART if source.is_terminal else None)
    except InvalidTransitionError:
        return False
    return True
