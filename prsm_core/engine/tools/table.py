"""The table of orchestration tools: which agent has which, and what arguments they take.

Every transport exposes this table; it checks names and arguments itself, since not every
transport does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from prsm_core.domain.agents import AgentRole
from prsm_core.domain.tools import ToolSpec
from prsm_core.engine.spawn.grants import may_spawn
from prsm_core.engine.tools import (
    advice,
    budget,
    communication,
    family,
    observation,
    progress,
    recommendation,
    shell,
)
from prsm_core.engine.tools.arguments import explain, fits
from prsm_core.engine.tools.schemas import SCHEMAS, shown
from prsm_core.errors import MaxDepthExceededError, ToolInputError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from prsm_core.config import Settings
    from prsm_core.domain.agents import AgentDescriptor
    from prsm_core.domain.tools import ToolOutcome
    from prsm_core.engine.turns.calls import Call, Reply
    from prsm_core.errors import OrchestrationError

    Handler = Callable[[Call], Awaitable[Reply | ToolOutcome]]

_MASTER, _WORKER = AgentRole.MASTER, AgentRole.WORKER
_READERS = frozenset({AgentRole.EXPERT, AgentRole.REVIEWER})
_LEADERS = frozenset({_MASTER, _WORKER})
_ALL = _LEADERS | _READERS
_CHILDREN_OF_SOMEONE = _READERS | {_WORKER}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool's contract and its handler; `schema` is checked, `spec` is what a model sees."""

    spec: ToolSpec
    schema: Mapping[str, Any]
    handler: Handler
    spawns: bool = False

    def check(self, arguments: Mapping[str, Any]) -> None:
        """Raise ToolInputError, naming the argument, unless they fit the schema."""
        given = dict(arguments)
        if fits(self.schema, given):
            return
        wrong = explain(self.schema, given)
        if wrong is None:
            return
        where, why = wrong
        raise ToolInputError(
            f"{self.spec.name}: {f'{where}: ' if where else ''}{why}",
            hint=f"arguments: {', '.join(self.schema['properties']) or 'none'}",
        )


def _tool(
    name: str,
    handler: Handler,
    roles: frozenset[AgentRole],
    *,
    waits: bool = False,
    spawns: bool = False,
) -> Tool:
    description, schema = SCHEMAS[name]
    spec = ToolSpec(
        name=name,
        description=description,
        input_schema=shown(schema),
        roles=frozenset(role.value for role in roles),
        waits=waits,
    )
    return Tool(spec=spec, schema=schema, handler=handler, spawns=spawns)


TOOLS: tuple[Tool, ...] = (
    _tool("ask_parent", communication.ask_parent, _CHILDREN_OF_SOMEONE, waits=True),
    _tool("respond_to_child", communication.respond_to_child, _LEADERS, spawns=True),
    _tool("wait_for_message", communication.wait_for_message, _LEADERS, waits=True),
    _tool("send_child_prompt", communication.send_child_prompt, _LEADERS, spawns=True),
    _tool("spawn_child", family.spawn_child, _LEADERS, waits=True, spawns=True),
    _tool("spawn_children_parallel", family.spawn_children_parallel, _LEADERS, spawns=True),
    _tool("restart_child", family.restart_child, _LEADERS, waits=True, spawns=True),
    _tool("consult_expert", advice.consult_expert, _LEADERS, waits=True, spawns=True),
    _tool("consult_peer", advice.consult_peer, _LEADERS, waits=True, spawns=True),
    _tool("recommend_model", recommendation.recommend_model, _LEADERS, spawns=True),
    _tool("report_progress", progress.report_progress, _CHILDREN_OF_SOMEONE),
    _tool("task_complete", progress.task_complete, _ALL),
    _tool("ask_user", progress.ask_user, _ALL, waits=True),
    _tool("get_child_history", observation.get_child_history, _LEADERS, spawns=True),
    _tool("check_child_status", observation.check_child_status, _LEADERS, spawns=True),
    _tool("get_children_status", observation.get_children_status, _LEADERS, spawns=True),
    _tool("run_bash", shell.run_bash, _CHILDREN_OF_SOMEONE),
    _tool("get_budget", budget.get_budget, _LEADERS),
)


class ToolSet:
    """The tools of one agent; `too_deep` names those that its depth has taken from it."""

    def __init__(self, tools: Sequence[Tool], too_deep: Iterable[str] = ()) -> None:
        self._tools = {tool.spec.name: tool for tool in tools}
        self._too_deep = frozenset(too_deep)
        self.specs = tuple(tool.spec for tool in tools)
        self.names = frozenset(self._tools)

    def get(self, name: str) -> Tool | None:
        """Return the tool of this name, or None."""
        return self._tools.get(name)

    async def invoke(self, call: Call) -> Reply | ToolOutcome:
        """Check a call and run its handler; raises the errors of the specification."""
        tool = self._tools.get(call.name)
        if tool is None:
            raise self._missing(call.name)
        tool.check(call.args)
        return await tool.handler(call)

    def _missing(self, name: str) -> OrchestrationError:
        hint = f"your tools: {', '.join(sorted(self.names))}"
        if name in self._too_deep:
            return MaxDepthExceededError(
                f"{name} is not for you: the tree may not grow below your depth", hint=hint
            )
        return ToolInputError(f"you have no tool {name!r}", hint=hint, code="unknown_tool")


def _taken(tool: Tool, role: AgentRole) -> Tool:
    return replace(tool, spec=replace(tool.spec, roles=tool.spec.roles - {role.value}))


class ToolTable:
    """All tools, dealt out by role; an agent at the depth limit has none that need children."""

    def __init__(self, tools: Sequence[Tool] = TOOLS) -> None:
        self._tools = tuple(tools)
        self._sets: dict[tuple[AgentRole, bool], ToolSet] = {}

    @property
    def names(self) -> frozenset[str]:
        """The names of all orchestration tools."""
        return frozenset(tool.spec.name for tool in self._tools)

    def without(self, name: str, role: AgentRole) -> ToolTable:
        """Return a table in which a role does not have one of the tools."""
        return ToolTable([_taken(t, role) if t.spec.name == name else t for t in self._tools])

    def for_agent(self, descriptor: AgentDescriptor, settings: Settings) -> ToolSet:
        """Return the tools of an agent by its role and depth."""
        return self.for_role(descriptor.role, may_spawn=may_spawn(descriptor, settings))

    def for_role(self, role: AgentRole, *, may_spawn: bool) -> ToolSet:
        """Return the tools of a role."""
        key = (role, may_spawn)
        if key not in self._sets:
            own = [tool for tool in self._tools if role.value in tool.spec.roles]
            self._sets[key] = ToolSet(
                [tool for tool in own if may_spawn or not tool.spawns],
                too_deep=[tool.spec.name for tool in own if tool.spawns and not may_spawn],
            )
        return self._sets[key]
