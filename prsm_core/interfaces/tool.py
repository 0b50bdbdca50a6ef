"""Tools that plugins add to PRSM's own: what registers one, and what its handler sees."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import StructMeta

from prsm_core.domain.agents import AgentRole
from prsm_core.domain.record import Record
from prsm_core.domain.structs import json_schema
from prsm_core.domain.tools import ToolSpec
from prsm_core.interfaces.records import Registration, check_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from msgspec import Struct

    from prsm_core.domain.agents import AgentState
    from prsm_core.domain.permissions import Answer, Question


class PeerNow(Record, frozen=True, kw_only=True):
    """An agent of the run that has not ended, as it is now."""

    agent_id: str
    name: str
    role: AgentRole
    state: AgentState
    labels: Mapping[str, str]


class PeerMessage(Record, frozen=True, kw_only=True):
    """What another agent of the run has written.

    Attributes:
        message_id: The same wherever it is told of.
        sender: The id of its writer, which may have ended since.
        name: The writer's name.
        text: What it says.
        sent_at: Unix seconds.
    """

    message_id: str
    sender: str
    name: str
    text: str
    sent_at: float


class ToolCall(Protocol):
    """One call of a tool that a plugin has added, as its handler sees it.

    What it does by `relabel` and `send` is written with its answer in one step, or not at all if
    the handler raises, the agent ends or the engine dies. A call without an answer is made again by
    the next engine, with the same id.
    """

    @property
    def id(self) -> str:
        """The call's id; the same when it is made again after a crash."""

    @property
    def name(self) -> str:
        """The tool's name."""

    @property
    def args(self) -> Mapping[str, Any]:
        """The arguments as they were given, which fit the tool's struct."""

    @property
    def agent_id(self) -> str:
        """The id of the calling agent."""

    @property
    def agent_name(self) -> str:
        """The name of the calling agent."""

    @property
    def role(self) -> AgentRole:
        """The role of the calling agent."""

    @property
    def provider(self) -> str:
        """The name of the provider that runs the calling agent."""

    @property
    def cwd(self) -> str:
        """The folder that the calling agent works in."""

    @property
    def workspace(self) -> str:
        """The folder of the session, which `cwd` is in."""

    @property
    def trusted(self) -> bool:
        """Whether the person trusts that folder, and what its files say of plugins and rules."""

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels of the calling agent as they are now, with what this call has changed."""

    @property
    def context_used(self) -> float | None:
        """What share (0..1) of its model's context the last response used; None: not known."""

    @property
    def now(self) -> float:
        """Unix seconds, by the engine's clock."""

    @property
    def is_again(self) -> bool:
        """Whether an earlier engine opened the call, and died before it was answered."""

    def agents(self) -> Sequence[PeerNow]:
        """Return the live agents of the run, oldest first, the calling one among them."""

    def relabel(self, changes: Mapping[str, str | None]) -> Mapping[str, str]:
        """Change labels of the calling agent, by its answer; return all it has then.

        None takes a label away. Names are `PREFIX/…` with `labels` of the ToolContribution. If
        somebody else has changed a label since the handler last read `labels`, its answer is an
        error (`labels_changed`) and nothing is written. Raises OrchestrationError (`bad_labels`).
        """

    def send(self, to: str, text: str) -> str:
        """Send a text to a live agent of the run by id or name, with the answer; return its id.

        For tools with `sends_messages`. Raises MessageRoutingError, with the nearest names.
        """

    async def next_message(self, seconds: float | None) -> PeerMessage | None:
        """Take the oldest unread message of another agent; None: there is none.

        Waits that many seconds, or with None for as long as somebody may send one. It counts as
        read with the answer: a failing call gives it back. For tools with `takes_messages`.
        """

    async def ask_user(self, question: Question) -> Answer:
        """Ask a person, once a call; without one the answer says so.

        Made again after a crash, a call waits for the same question or has its answer.
        """


ToolAnswer = Awaitable[Mapping[str, Any]] | Mapping[str, Any]
ToolHandler = Callable[[ToolCall], ToolAnswer]
ToolHandlerWithSettings = Callable[[ToolCall, Any], ToolAnswer]
WhenLabels = Callable[[Mapping[str, str]], bool]

_ROLES = frozenset(role.value for role in AgentRole)


class ToolContribution(Registration, frozen=True, kw_only=True):
    """Registers a tool that agents may call beside PRSM's own.

    `description` is for models. `arguments` is a msgspec struct: models see its JSON Schema, and
    each call is checked by it. The handler gets what the model wrote, without defaults. `roles` may
    have the tool. A call that `waits` may block on another agent or a person; one that is
    `parallel` may overlap others of its turn.

    `await handler(call)` returns a mapping of JSON values; without waiting it may return it at
    once, which costs less. It raises ToolInputError or OrchestrationError, with a hint, for what
    the model can mend; anything else is told as an error of the plugin.

    `when(labels)` says whether an agent with these labels has the tool. It is asked when a life of
    the agent begins, or another engine takes it up; afterwards labels only deny: a call for which
    it says False is refused. A function is asked of every agent, an import string only of those
    with labels. `reads_labels` are the person's labels that it looks for: one that nothing reads is
    told as a run begins.

    With `programs` only agents whose provider is a program (`ProviderSpec.program`) have it.

    `labels` is the prefix of the labels that the handler may set, `PREFIX/…`; no other plugin may
    have it. With `sends_messages` it may `send`; with `takes_messages` it takes what other agents
    send, and its agent is not prompted with that.

    With `acts_outside` each call is in the ledger before its handler runs, which may start a
    process or write a file; so a call that was cut off is known to have been made (`is_again`). One
    that `is_repeatable` changes nothing, and its answer waits for no commit.

    `settings` is a msgspec.Struct or its import string: what `tools.NAME` of the configuration may
    hold, and the handler's second argument. With a `section` it shares those of the tool of this
    name.
    """

    word = "tool"

    description: str
    arguments: type[Struct]
    roles: frozenset[str]
    handler: str | ToolHandler | ToolHandlerWithSettings
    when: str | WhenLabels
    settings: str | type[Any] | None = None
    section: str | None = None
    programs: bool = False
    labels: str = ""
    sends_messages: bool = False
    takes_messages: bool = False
    acts_outside: bool = False
    is_repeatable: bool = False
    reads_labels: frozenset[str] = frozenset()
    waits: bool = False
    parallel: bool = True

    def __post_init__(self) -> None:
        """Check the name, the roles and the arguments."""
        super().__post_init__()
        if not self.roles or not self.roles <= _ROLES:
            raise ValueError(f"tool {self.name}: its roles are some of {', '.join(sorted(_ROLES))}")
        kind: Any = self.arguments  # a plugin may say anything
        if not isinstance(kind, StructMeta) or json_schema(kind)["type"] != "object":
            raise ValueError(f"tool {self.name}: its arguments are a msgspec struct, by name")
        if self.labels:
            check_name("label prefix", self.labels)
        if self.section is not None and self.settings is not None:
            raise ValueError(f"tool {self.name}: it has a section, or shares one; not both")
        changes = self.labels or self.sends_messages or self.takes_messages or self.acts_outside
        if self.is_repeatable and changes:
            raise ValueError(f"tool {self.name}: what is repeatable changes nothing")

    @property
    def spec(self) -> ToolSpec:
        """The tool as a model sees it."""
        return ToolSpec(
            name=self.name,
            description=self.description,
            input_schema=json_schema(self.arguments),
            roles=self.roles,
            waits=self.waits,
            parallel=self.parallel,
        )
