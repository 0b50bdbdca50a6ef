"""The tools of plugins: who has them, and how their code is called.

What a plugin's code raises is reported as its error, and the engine continues.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from prsm_core.domain.permissions import Answer
from prsm_core.domain.record import Record
from prsm_core.domain.writes import AgentRelabelled, MessageSent
from prsm_core.engine.guarded.failing import breaks_ledger
from prsm_core.engine.requests import NO_ANSWER, ON_ASK, WHY_UNANSWERED
from prsm_core.engine.tools.communication import ask_person
from prsm_core.engine.turns.call import ENDED, Reply
from prsm_core.engine.turns.context import window_of
from prsm_core.errors import OrchestrationError, PluginError, StoreError
from prsm_core.kit.sanitize import sanitize
from prsm_core.plugins.guard import Guest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from prsm_core.config import Settings
    from prsm_core.domain.agents import AgentDescriptor
    from prsm_core.domain.ids import Ids
    from prsm_core.domain.messages import RoutedMessage
    from prsm_core.domain.permissions import Question
    from prsm_core.domain.steps import Write
    from prsm_core.engine.agents.peers import Peers
    from prsm_core.engine.journal.unit import Journal
    from prsm_core.engine.requests import HumanRequests
    from prsm_core.engine.state import AgentRecord
    from prsm_core.engine.tools.table import ToolSet, ToolTable
    from prsm_core.engine.turns.call import Call, Handler
    from prsm_core.engine.turns.parts import Standing
    from prsm_core.interfaces.clock import Clock
    from prsm_core.interfaces.tool import PeerMessage, PeerNow, ToolContribution
    from prsm_core.permissions import PermissionBroker

    Lay = Callable[[AgentDescriptor, Mapping[str, str | None], str], Mapping[str, str]]


class PluginCallParts(Record, frozen=True, kw_only=True):
    """What the calls of all plugins' tools use."""

    lay: Lay  # an agent's labels with changes laid over them, by the prefix that a tool may set
    mail: Peers
    standing: Standing
    requests: HumanRequests
    broker: PermissionBroker
    ids: Ids
    clock: Clock
    window: Callable[[str, str], int | None]  # of a model, in tokens, by provider and name
    workspace: str


class DoneByAnswer(Struct, eq=False):
    """Owns what one call does by its answer; labels must still be those its handler read."""

    record: AgentRecord
    parts: PluginCallParts
    prefix: str
    changes: Mapping[str, str | None] = {}
    laid: Mapping[str, str] | None = None  # the labels with the changes; None: there are none
    sent: list[RoutedMessage] = field(default_factory=list)
    read: Mapping[str, str] | None = None  # the labels that the handler has read last
    before: Mapping[str, str] | None = None  # what they were before they were changed in memory
    after: Mapping[str, str] | None = None

    def labels(self) -> Mapping[str, str]:
        """Return the agent's labels with the changes so far."""
        if self.laid is None:
            self.read = self.record.descriptor.labels
            return self.read
        return self.laid

    def relabel(self, changes: Mapping[str, str | None]) -> Mapping[str, str]:
        """Change labels once the call is answered; raise OrchestrationError if they cannot be."""
        if self.read is None:
            self.read = self.record.descriptor.labels
        self._check_unchanged()
        wanted = {**self.changes, **changes} if self.changes else changes
        self.laid = labels = self.parts.lay(self.record.descriptor, wanted, self.prefix)
        self.changes = dict(wanted)
        return labels

    def send(self, to: str, text: str) -> str:
        """Send a message once the call is answered; return its id."""
        message = self.parts.mail.message(self.record, to, text, self.sent)
        self.sent.append(message)
        return message.message_id

    def writes(self) -> Sequence[Write]:
        """Act in memory and return the writes."""
        messages: list[RoutedMessage] = []
        for sent in self.sent:  # to whom they go may have ended, or begun another life
            text = sent.payload["text"]
            now = self.parts.mail.message(self.record, sent.target, text, messages)
            messages.append(replace(now, message_id=sent.message_id))
        sends = [MessageSent(message=message) for message in messages]
        labels, agent = self.laid, self.record.descriptor
        if labels is None:
            return sends
        self._check_unchanged()  # so that they are laid over what they were laid over
        if labels == agent.labels:
            return sends
        self.before, self.after = agent.labels, labels
        self.record.descriptor = replace(agent, labels=labels)
        return (AgentRelabelled(agent_id=agent.agent_id, labels=labels), *sends)

    def take_back(self) -> None:
        """Undo it in memory, since the step was not written."""
        agent = self.record.descriptor
        if self.before is not None and agent.labels is self.after:
            self.record.descriptor = replace(agent, labels=self.before)

    def _check_unchanged(self) -> None:
        if self.record.descriptor.labels != self.read:
            raise OrchestrationError(
                "the agent's labels have changed while the call was made: nothing was done",
                hint="make the call again",
                code="labels_changed",
            )


class PluginCall:
    """The ToolCall of a plugin's handler, while that runs."""

    def __init__(self, call: Call, spec: ToolContribution, parts: PluginCallParts) -> None:
        agent = call.record.descriptor
        self.id, self.name, self.args = call.id, call.name, call.args
        self.agent_id, self.agent_name, self.role = agent.agent_id, agent.name, agent.role
        self.provider, self.trusted = agent.provider, parts.standing.trusted
        self.is_again = call.is_again
        self._call, self._spec, self._parts = call, spec, parts
        self._has_asked = self._is_over = False
        self.done = DoneByAnswer(call.record, parts, spec.labels)

    def end(self) -> None:
        """Refuse everything from now on: the handler has answered, or was left behind."""
        self._is_over = True

    @property
    def cwd(self) -> str:
        """The folder that the calling agent works in."""
        return self._call.record.descriptor.cwd

    @property
    def workspace(self) -> str:
        """The folder of the session, which `cwd` is in."""
        return self._parts.standing.workspace(self.cwd)

    @property
    def labels(self) -> Mapping[str, str]:
        """The calling agent's labels, with this call's changes."""
        return dict(self.done.labels())

    @property
    def context_used(self) -> float | None:
        """The share of the model's context that the last response used, if known."""
        record, told = self._call.record, self._call.calls.turn.fold.context
        used = record.context_used if told.used is None else told.used
        if used is None:
            return None
        window = told.context_window or window_of(record, self._parts.window)
        return min(1.0, used / window) if window else None

    @property
    def now(self) -> float:
        """Unix seconds, by the engine's clock."""
        return self._parts.clock.time()

    def agents(self) -> Sequence[PeerNow]:
        """Return the live agents of the run, oldest first."""
        return self._parts.mail.now()

    def relabel(self, changes: Mapping[str, str | None]) -> Mapping[str, str]:
        """Change the calling agent's labels with the answer; return all of them."""
        self._check_runs()
        return dict(self.done.relabel(changes))

    def send(self, to: str, text: str) -> str:
        """Send a text to a live agent with the answer; return the message's id."""
        self._check_runs()
        if not self._spec.sends_messages:
            raise RuntimeError(f"tool {self.name} sends, but has no sends_messages")
        if any(not isinstance(one, str) for one in (to, text)):
            raise TypeError("what is sent is a text, to an agent's id or name")
        return self.done.send(to, text)

    async def next_message(self, seconds: float | None) -> PeerMessage | None:
        """Take the oldest unread message of another agent, if there is one."""
        self._check_runs()
        if not self._spec.takes_messages:
            raise RuntimeError(f"tool {self.name} takes messages, but has no takes_messages")
        if seconds is not None and not seconds >= 0:  # which NaN is not
            raise ValueError(f"{seconds} seconds cannot be waited")
        return await self._parts.mail.next(self._call, seconds)

    async def ask_user(self, question: Question) -> Answer:
        """Ask a person, once a call; without one the answer says so."""
        self._check_runs()
        if self._has_asked:
            raise RuntimeError("a call asks a person one question")
        self._has_asked = True
        question = replace(sanitize(question), call_id=self.id)
        parts = self._parts
        answer, by = await ask_person(self._call, parts.requests, parts.ids, question)
        if answer is None:
            return Answer(text=WHY_UNANSWERED.get(by, NO_ANSWER))
        if by != ON_ASK:
            parts.broker.changed_by_hand(self.cwd, parts.workspace)
        return answer

    def _check_runs(self) -> None:
        if self._is_over or self._call.closed or self._call.life.is_over:
            raise OrchestrationError(ENDED, code="turn_over")


_ANSWERS = (OrchestrationError, StoreError)  # the others that a handler raises are its own
_WHAT = "its answer"


class PluginTools:
    """Owns the tools of plugins: deals them to agents, and handles their calls."""

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
        """The handlers of their calls, by name."""
        return {tool.spec.name: tool.handle for tool in self._tools}

    def deal(self, table: ToolTable, agent: AgentDescriptor, settings: Settings) -> ToolSet:
        """Return an agent's tools: PRSM's own, and those of plugins that its labels ask for."""
        asked = frozenset(tool.spec.name for tool in self._tools if self._is_asked(agent, tool))
        if self._program_of(agent.provider) is not None:
            # It may give its children any labels.
            return table.for_agent(agent, settings, asked, self._names)
        models = asked.difference(tool.spec.name for tool in self._tools if tool.spec.programs)
        return table.for_agent(agent, settings, models, asked)

    def _is_asked(self, agent: AgentDescriptor, tool: PluginTool) -> bool:
        try:
            return tool.is_wanted(agent.labels)
        except PluginError as error:
            text = f"{agent.name} is without the tool {tool.spec.name}: {error.message}"
            self._journal.warn(agent.agent_id, text, "error")
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
        """Whether an agent of these labels gets it; raise PluginError if that fails."""
        if isinstance(self.spec.when, str) and not labels:
            return False  # it is not even imported
        when = self._when.load()
        with self._when.calling("when"):
            is_wanted = when(dict(labels))
        if not isinstance(is_wanted, bool):
            what = f"it says a {type(is_wanted).__name__}, which is neither True nor False"
            raise self._when.wrong("when", what)
        return is_wanted

    async def handle(self, call: Call) -> Reply:
        """Have the plugin answer a call; the step that closes the call does the rest."""
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
                self._journal.warn(call.record.agent_id, error.message, "error")
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
