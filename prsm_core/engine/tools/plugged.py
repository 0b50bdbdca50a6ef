"""The tools that plugins add: who has them, and how their code is called.

A handler, and what says who has its tool, are a plugin's: what they raise is told as its error, and
the engine goes on.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from prsm_core.engine.guarded.failing import breaks_ledger
from prsm_core.engine.tools.plugin_call import PluginCall
from prsm_core.engine.turns.call import Reply
from prsm_core.errors import OrchestrationError, PluginError, StoreError
from prsm_core.kit.sanitize import sanitize
from prsm_core.plugins.guard import Guest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from prsm_core.config import Settings
    from prsm_core.domain.agents import AgentDescriptor
    from prsm_core.engine.journal.unit import Journal
    from prsm_core.engine.tools.plugin_call import PluginCallParts
    from prsm_core.engine.tools.table import ToolSet, ToolTable
    from prsm_core.engine.turns.call import Call, Handler
    from prsm_core.interfaces.tool import ToolContribution

_ANSWERS = (OrchestrationError, StoreError)  # the others that a handler raises are its own
_WHAT = "its answer"


class PluginTools:
    """Owns the tools of plugins: deals them to agents, and has their calls handled."""

    def __init__(
        self,
        specs: Iterable[ToolContribution],
        parts: PluginCallParts,
        journal: Journal,
        program_of: Callable[[str], str | None],
    ) -> None:
        self._tools = tuple(PluginTool(spec, parts, journal) for spec in specs)
        self._names = frozenset(tool.spec.name for tool in self._tools)
        self._journal = journal
        self._program_of = program_of

    @property
    def handlers(self) -> Mapping[str, Handler]:
        """What handles their calls, by name."""
        return {tool.spec.name: tool.handle for tool in self._tools}

    def deal(self, table: ToolTable, agent: AgentDescriptor, settings: Settings) -> ToolSet:
        """Return an agent's tools: PRSM's own, and those of plugins that its labels ask for.

        Its children have its labels, unless it is a program, which may give them any.
        """
        asked = frozenset(tool.spec.name for tool in self._tools if self._is_asked(agent, tool))
        if self._program_of(agent.provider) is not None:
            return table.for_agent(agent, settings, asked, self._names)
        models = asked.difference(tool.spec.name for tool in self._tools if tool.spec.programs)
        return table.for_agent(agent, settings, models, asked)

    def _is_asked(self, agent: AgentDescriptor, tool: PluginTool) -> bool:
        """Whether an agent's labels ask for a tool; without one whose plugin fails it goes on."""
        try:
            return tool.is_wanted(agent.labels)
        except PluginError as error:
            text = f"{agent.name} is without the tool {tool.spec.name}: {error.message}"
            self._journal.note("notice", agent.agent_id, level="error", text=text)
            return False


class PluginTool:
    """One tool of a plugin."""

    def __init__(self, spec: ToolContribution, parts: PluginCallParts, journal: Journal) -> None:
        self.spec = spec
        self._parts = parts
        self._journal = journal
        self._guest = Guest.of(spec)
        self._when = Guest(self._guest.kind, spec.name, spec.when)

    def is_wanted(self, labels: Mapping[str, str]) -> bool:
        """Whether an agent of these labels is to have it.

        What is named by an import string is not even imported for one without labels. Raises
        PluginError where the plugin cannot say.
        """
        if isinstance(self.spec.when, str) and not labels:
            return False
        when = self._when.load()
        with self._when.calling("when"):
            is_wanted = when(dict(labels))
        if not isinstance(is_wanted, bool):
            what = f"it says a {type(is_wanted).__name__}, which is neither True nor False"
            raise self._when.wrong("when", what)
        return is_wanted

    async def handle(self, call: Call) -> Reply:
        """Have a call answered by the plugin; what it does is left to the step that closes it."""
        if not self.is_wanted(call.record.descriptor.labels):
            raise OrchestrationError(
                f"{call.name} is not for you any more: your labels have changed",
                hint="go on without it",
                code="tool_denied",
            )
        if self.spec.acts_outside and not call.opened:
            await call.open()
        seen = PluginCall(call, self.spec, self._parts)
        try:
            answer = await self._answer(seen)
        except Exception as error:
            call.give_back()
            if isinstance(error, PluginError):
                agent_id = call.record.agent_id
                self._journal.note("notice", agent_id, level="error", text=error.message)
            raise
        finally:
            seen.end()
        call.by_answer = seen.done
        return Reply(answer)

    async def _answer(self, seen: PluginCall) -> Mapping[str, Any]:
        handler = self._guest.load()
        try:
            answer = await self._guest.asked(None, _WHAT, partial(handler, seen), _ANSWERS)
        except StoreError as error:
            if breaks_ledger(error) and not self._journal.is_suspended:
                raise self._guest.failed(_WHAT, error) from error  # it is none of the engine's
            raise
        if not isinstance(answer, Mapping):
            raise self._guest.wrong(_WHAT, f"it gave a {type(answer).__name__}, not a mapping")
        with self._guest.calling(_WHAT):
            return sanitize(dict(answer))
