"""The table of orchestration tools: which agent has which, and their arguments."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from prsm_core.domain.agents import AgentRole
from prsm_core.domain.record import Record
from prsm_core.domain.structs import find_fault, fits, json_schema
from prsm_core.domain.tools import ToolSpec
from prsm_core.engine.spawn import may_spawn
from prsm_core.engine.tools.arguments import ARGUMENTS, PROGRAM_ARGUMENTS, shown
from prsm_core.engine.tools.mending import find_similar, mend
from prsm_core.engine.turns.call import Mended
from prsm_core.engine.turns.context import tool_tokens
from prsm_core.errors import MaxDepthExceededError, ToolInputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from msgspec import Struct

    from prsm_core.config import Settings
    from prsm_core.domain.agents import AgentDescriptor
    from prsm_core.engine.turns.call import Handler
    from prsm_core.errors import OrchestrationError
    from prsm_core.interfaces.tool import ToolContribution

_MASTER, _WORKER = AgentRole.MASTER, AgentRole.WORKER
_READERS = frozenset({AgentRole.EXPERT, AgentRole.REVIEWER})
_LEADERS = frozenset({_MASTER, _WORKER})
_ALL = _LEADERS | _READERS
_CHILDREN_OF_SOMEONE = _READERS | {_WORKER}

NO_NAMES: frozenset[str] = frozenset()


class Tool(Record, frozen=True, kw_only=True):
    """A tool's contract; `arguments` are checked, `spec` is what a model sees.

    A repeatable tool changes nothing: it neither acts nor waits outside the engine, and sends
    nobody anything. It may be called again after a crash, so its answer waits for no commit.
    """

    spec: ToolSpec
    arguments: type[Struct]
    of_programs: type[Struct] | None = None  # what a program may say, which is more
    spawns: bool = False
    works: bool = False  # it is for a master, too, that edits files itself
    is_repeatable: bool = False
    sends_messages: bool = False  # to agents that need be no kin of the caller (ADR 117)
    takes_messages: bool = False  # who has it is not prompted with what others write to it
    of_plugin: ToolContribution | None = None  # one that is dealt by labels; None: PRSM's own

    @classmethod
    def added(cls, spec: ToolContribution) -> Tool:
        """Return a plugin's tool."""
        return cls(
            spec=spec.spec,
            arguments=spec.arguments,
            is_repeatable=spec.is_repeatable,
            sends_messages=spec.sends_messages,
            takes_messages=spec.takes_messages,
            of_plugin=spec,
        )

    @property
    def schema(self) -> Mapping[str, Any]:
        """The full JSON Schema of the arguments."""
        return json_schema(self.arguments)

    def check(self, arguments: Mapping[str, Any], *, by_program: bool = False) -> None:
        """Raise ToolInputError, naming the argument, unless they fit."""
        kind = (self.of_programs if by_program else None) or self.arguments
        given = dict(arguments)
        wrong = find_fault(kind, given)
        if wrong is None:
            return
        where, why = wrong
        properties = json_schema(kind)["properties"]
        similar = [find_similar(name, properties) for name in given if name not in properties]
        meant = "".join(f"did you mean {name}? " for name in similar if name is not None)
        raise ToolInputError(
            f"{self.spec.name}: {f'{where}: ' if where else ''}{why}",
            hint=f"{meant}arguments: {', '.join(properties) or 'none'}",
        )

    def mend(self, arguments: Mapping[str, Any]) -> Mended:
        """Return what a model means by arguments, as far as the schema tells."""
        if fits(self.arguments, arguments):
            return Mended(arguments, fits=True)
        return mend(self.spec.name, self.schema, arguments)


def _tool(
    name: str,
    roles: frozenset[AgentRole],
    *,
    waits: bool = False,
    spawns: bool = False,
    works: bool = False,
    is_repeatable: bool = False,
) -> Tool:
    description, arguments = ARGUMENTS[name]
    spec = ToolSpec(
        name=name,
        description=description,
        input_schema=shown(json_schema(arguments)),
        roles=frozenset(role.value for role in roles),
        waits=waits,
    )
    return Tool(
        spec=spec,
        arguments=arguments,
        of_programs=PROGRAM_ARGUMENTS.get(name),
        spawns=spawns,
        works=works,
        is_repeatable=is_repeatable,
    )


TOOLS: tuple[Tool, ...] = (
    _tool("ask_parent", _CHILDREN_OF_SOMEONE, waits=True),
    _tool("respond_to_child", _LEADERS, spawns=True),
    _tool("wait_for_message", _LEADERS, waits=True),
    _tool("send_child_prompt", _LEADERS, spawns=True),
    _tool("spawn_child", _LEADERS, waits=True, spawns=True),
    _tool("spawn_children_parallel", _LEADERS, spawns=True),
    _tool("restart_child", _LEADERS, waits=True, spawns=True),
    _tool("consult_expert", _LEADERS, waits=True, spawns=True),
    _tool("consult_peer", _LEADERS, waits=True, spawns=True),
    _tool("recommend_model", _LEADERS, spawns=True),
    _tool("report_progress", _CHILDREN_OF_SOMEONE, is_repeatable=True),
    _tool("task_complete", _ALL),
    _tool("ask_user", _ALL, waits=True),
    _tool("get_child_history", _LEADERS, spawns=True, is_repeatable=True),
    _tool("check_child_status", _LEADERS, spawns=True, is_repeatable=True),
    _tool("get_children_status", _LEADERS, spawns=True, is_repeatable=True),
    _tool("run_bash", _CHILDREN_OF_SOMEONE, works=True),
    _tool("get_budget", _LEADERS, is_repeatable=True),
)


class ToolSet:
    """The Toolbox of one agent; its depth has taken the tools `too_deep`."""

    def __init__(
        self,
        tools: Sequence[Tool],
        too_deep: Iterable[str] = (),
        handlers: Mapping[str, Handler] | None = None,
        *,
        brings_senders: bool = False,
    ) -> None:
        self._tools = {tool.spec.name: tool for tool in tools}
        self._too_deep = frozenset(too_deep)
        self._handlers = handlers or {}
        self.specs = tuple(tool.spec for tool in tools)
        self.names = frozenset(self._tools)
        self.sends_messages = any(tool.sends_messages for tool in tools)
        self.takes_messages = any(tool.takes_messages for tool in tools)
        self.brings_senders = brings_senders

    @cached_property
    def tokens(self) -> int:
        """How many tokens their descriptions count as."""
        return tool_tokens(self.specs)

    def find(
        self, name: str, arguments: Mapping[str, Any], *, by_program: bool, fits: bool
    ) -> Handler:
        """Return the handler of a call; raise what is wrong with the call unless it `fits`."""
        tool = self._tools.get(name)
        if tool is None:
            raise self._missing(name)
        if not fits:
            tool.check(arguments, by_program=by_program)
        return self._handlers[name]

    def mend(self, name: str, arguments: Mapping[str, Any]) -> Mended:
        """Return the arguments as the model means them; they may still be wrong."""
        tool = self._tools.get(name)
        return Mended(arguments) if tool is None else tool.mend(arguments)

    def is_repeatable(self, name: str) -> bool:
        """Return whether calls of this tool have no effect; an unknown one has none."""
        tool = self._tools.get(name)
        return tool is None or tool.is_repeatable

    def _missing(self, name: str) -> OrchestrationError:
        hint = f"your tools: {', '.join(sorted(self.names))}"
        if name in self._too_deep:
            return MaxDepthExceededError(
                f"{name} is not for you: the tree may not grow below your depth", hint=hint
            )
        return ToolInputError(f"you have no tool {name!r}", hint=hint, code="unknown_tool")


class ToolTable:
    """All tools, dealt by role; an agent at the depth limit has none that need children."""

    def __init__(
        self, tools: Sequence[Tool] = TOOLS, handlers: Mapping[str, Handler] | None = None
    ) -> None:
        self._tools = tuple(tools)
        self._handlers = handlers
        self._sets: dict[tuple[AgentRole, bool, bool, frozenset[str], frozenset[str]], ToolSet] = {}

    @property
    def names(self) -> frozenset[str]:
        """The names of all orchestration tools."""
        return frozenset(tool.spec.name for tool in self._tools)

    @property
    def added(self) -> tuple[ToolContribution, ...]:
        """The tools of plugins."""
        return tuple(tool.of_plugin for tool in self._tools if tool.of_plugin is not None)

    def with_added(self, specs: Iterable[ToolContribution]) -> ToolTable:
        """Return a table with the tools of plugins, too."""
        return ToolTable([*self._tools, *map(Tool.added, specs)], self._handlers)

    def without(self, name: str, role: AgentRole) -> ToolTable:
        """Return a table without one of a role's tools."""

        def taken(tool: Tool) -> Tool:
            spec = replace(tool.spec, roles=tool.spec.roles - {role.value})
            return replace(tool, spec=spec) if tool.spec.name == name else tool

        return ToolTable([*map(taken, self._tools)], self._handlers)

    def handled_by(self, handlers: Mapping[str, Handler]) -> ToolTable:
        """Return a table whose tools can be called by these handlers or earlier ones."""
        return ToolTable(self._tools, {**(self._handlers or {}), **handlers})

    def for_agent(
        self,
        descriptor: AgentDescriptor,
        settings: Settings,
        added: frozenset[str] = NO_NAMES,
        below: frozenset[str] = NO_NAMES,
    ) -> ToolSet:
        """Return an agent's tools by role and depth, with those `added` for its labels."""
        return self.for_role(
            descriptor.role,
            may_spawn=may_spawn(descriptor, settings),
            is_solo=descriptor.is_solo,
            added=added,
            below=below,
        )

    def for_role(
        self,
        role: AgentRole,
        *,
        may_spawn: bool,
        is_solo: bool = False,
        added: frozenset[str] = NO_NAMES,
        below: frozenset[str] = NO_NAMES,
    ) -> ToolSet:
        """Return the tools of a role with plugins' `added` ones, which `below` may get too."""
        key = (role, may_spawn, is_solo, added, below)
        if key not in self._sets:
            fit = (t for t in self._tools if role.value in t.spec.roles or (is_solo and t.works))
            own = [tool for tool in fit if _is_dealt(tool, added)]
            brought = [tool for tool in self._tools if may_spawn and _is_dealt(tool, below)]
            self._sets[key] = ToolSet(
                [tool for tool in own if may_spawn or not tool.spawns],
                too_deep=[tool.spec.name for tool in own if tool.spawns and not may_spawn],
                handlers=self._handlers,
                brings_senders=any(tool.sends_messages for tool in brought),
            )
        return self._sets[key]


def _is_dealt(tool: Tool, added: frozenset[str]) -> bool:
    return tool.of_plugin is None or tool.spec.name in added
