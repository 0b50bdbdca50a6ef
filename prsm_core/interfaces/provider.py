"""Providers: adapters that run one vendor's coding agent.

A provider never sees the store, the router or a user interface: it gets an AgentHost for each agent
and ProviderServices, and gives back a stream of ProviderEvents.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from prsm_core.domain.agents import SHELL_READERS, AgentRole, PermissionMode, add_shared
from prsm_core.domain.record import Record
from prsm_core.domain.usage import Spent
from prsm_core.interfaces.records import Registration

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from prsm_core.domain.agents import AgentResult, AgentState
    from prsm_core.domain.boxes import Box
    from prsm_core.domain.images import Image
    from prsm_core.domain.models import ModelInfo
    from prsm_core.domain.permissions import Allow, Answer, Deny, PermissionRequest, Question
    from prsm_core.domain.tools import McpEndpoint, McpServer, ToolOutcome, ToolSpec
    from prsm_core.domain.turns import AssembledContext, ProviderEvent
    from prsm_core.interfaces.clock import Clock


class ProviderCapabilities(Record, frozen=True, kw_only=True):
    """What this instance can do; it may depend on backend and settings.

    enforcement: pre_tool | approval | sandbox | none — how far the permission function reaches.
    resume: call | native | rebuild | none — call: even a pending tool call can be answered later.
    shell_reads: the vendor reads files only by its shell, so an agent with Read but not Bash may
    run safe commands.
    parameters: which of max_response_tokens and temperature reach the model.
    asks_edits: it asks for each edit of a file, even if `enforcement` is only approval.
    tokens_told: step | turn | none — when UsageReported tells the tokens: with each response, so
    that a budget ends a turn at its next step; at the turn's end, so that a turn may pass the
    budget; or without a promise.
    cost_told: step | turn | none — the same of the cost.
    compacts: the vendor compacts its thread itself, before it fills the model's window.
    images: those of `AssembledContext.images`, `ToolOutcome.images` and `steer` reach the model.
    skills: folders of skills, such as `.agents/skills` of the working folder or `~/.agents/skills`,
    which the vendor itself tells its model of.
    boxes: a session's process is started in `SessionRequest.box`, with all that it starts.
    own_process: each open session holds a process that ends with it. So the session of a waiting
    agent is closed when others need the place, and another one is opened later.
    """

    supports_master: bool = True
    enforcement: str = "none"
    resume: str = "rebuild"
    steer: bool = False
    streams: bool = True
    shell_reads: bool = False
    parameters: frozenset[str] = frozenset()
    asks_edits: bool = False
    tokens_told: str = "none"
    cost_told: str = "none"
    compacts: bool = False
    images: bool = False
    own_process: bool = False
    boxes: bool = False
    skills: frozenset[str] = frozenset()


class ProviderStatus(Record, frozen=True, kw_only=True):
    """What `probe` found: usable or not, why not or why it may not work, and how to mend it."""

    available: bool
    version: str | None = None
    tested: str | None = None  # the version range this plugin was tested with
    reason: str | None = None
    hint: str | None = None
    logged_in: bool | None = None
    gaps: tuple[str, ...] = ()  # what the provider cannot enforce


class CarriedCall(Record, frozen=True, kw_only=True):
    """A call of the turn that goes on, whose answer the vendor's thread may lack.

    `outcome` is None for a vendor's call whose end nobody saw: it may have run. After the answer of
    a `heard` call the model has spoken; a vendor that writes late may lack it all the same.
    """

    call_id: str
    tool: str
    arguments: Mapping[str, Any]
    orchestration: bool
    outcome: ToolOutcome | None = None
    heard: bool = False


class Carried(Record, frozen=True, kw_only=True):
    """What a session that goes on with a turn gets because its vendor may have lost it.

    That is the turn's prompts by the ids of `AssembledContext.current_message`, the calls of the
    model's last response, and what was `heard` shortly before; see `CarriedCall`.
    """

    turn_id: str
    prompts: Mapping[str, str] = msgspec.field(default_factory=dict)  # text by id, in order
    calls: tuple[CarriedCall, ...] = ()  # in the order they began
    heard: frozenset[str] = frozenset()  # ids of prompts


class SessionRequest(Record, frozen=True, gc=False, kw_only=True):
    """What binds an agent session; another model, tool set or system prompt is a new session."""

    agent_id: str
    name: str
    role: AgentRole
    model: str
    system_prompt: str
    cwd: str
    mode: PermissionMode = PermissionMode.DEFAULT
    native_tools: frozenset[str] = frozenset()
    reasoning_effort: str | None = None
    mcp_servers: Mapping[str, McpServer] = msgspec.field(default_factory=dict)
    resume_token: str | None = None
    answers: Mapping[str, ToolOutcome] = msgspec.field(default_factory=dict)  # call_id -> outcome
    max_response_tokens: int | None = None
    temperature: float | None = None
    workspace: str = ""  # the run's, which `cwd` is in; blank is `cwd` itself
    carried: Carried | None = None  # of a turn that goes on in the thread of `resume_token`
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)  # of the agent, as they are now
    box: Box | None = None  # what its process is started in; see ProviderServices.start_process
    must_ask: bool = False  # the policy denies calls: who cannot ask before each is to refuse
    # Of this agent alone, for its process, shells and MCP servers: PRSM_PORT in a worktree.
    variables: Mapping[str, str] = msgspec.field(default_factory=dict)

    def prompt_with(self, text: str) -> str:
        """Return the system prompt with a text added that siblings share.

        It comes before the agent's name, so that a vendor's cache serves siblings up to there.
        """
        return add_shared(self.system_prompt, text)

    @property
    def has_shell(self) -> bool:
        """Whether the agent is offered the vendor's shell.

        Experts and reviewers that may read have it without Bash, for commands that only read:
        `AgentHost.authorize` refuses others.
        """
        reads = self.role in SHELL_READERS and "Read" in self.native_tools
        return reads or "Bash" in self.native_tools


class ChildNow(Record, frozen=True, kw_only=True):
    """A child of an agent as it is now, for a program whose session opens again.

    `labels` are written with its birth, so that they tell of an unanswered call's child too.
    """

    agent_id: str
    name: str
    role: AgentRole
    state: AgentState
    incarnation: int  # 1, and one more with each restart and each resume
    provider: str
    model: str
    cwd: str
    region: tuple[str, ...] | None  # folders it may write; None: all of its own folder
    labels: Mapping[str, str]
    result: AgentResult | None = None  # of one that has ended
    spent: Spent = Spent()  # by it and all below it, so far


class Process(Protocol):
    """A child process under the reaper shim; its whole family ends with it."""

    @property
    def pid(self) -> int:
        """The process id of the shim."""

    @property
    def stderr_tail(self) -> str:
        """The last 64 KiB of stderr, decoded with replacement."""

    async def write(self, data: bytes) -> None:
        """Write to stdin; raise ProcessError when the process has closed it."""

    def close_stdin(self) -> None:
        """Close stdin; closing it twice is fine."""

    def lines(self) -> AsyncIterator[bytes]:
        """Yield stdout lines without their end, 16 MiB at most, else LineTooLongError."""

    async def wait(self) -> int:
        """Return the exit code, 128+n for signal n; never blocked by a held pipe."""

    async def stop(self, grace: float = 5.0) -> int:
        """Close stdin, send TERM, after `grace` seconds KILL; return the exit code."""

    def kill(self) -> None:
        """End the process and its family at once (the way to stop for a resume)."""


class BackgroundTask(Protocol):
    """A task of the engine that a provider started."""

    def cancel(self) -> Any:
        """Ask the task to stop."""

    def done(self) -> bool:
        """Return whether the task has ended."""


class ProviderServices(Protocol):
    """What the engine gives a provider as a whole."""

    state_dir: Path  # private to the provider, 0700, outside the temp directory
    clock: Clock

    @property
    def environment(self) -> Mapping[str, str]:
        """The allow-listed environment that each process is started with.

        If a vendor's program passes on less of it to its shells and MCP servers, the provider names
        the rest to it. Values may hold passwords: put them in no command line.
        """

    async def start_process(
        self,
        argv: Sequence[str],
        *,
        name: str,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        box: Box | None = None,
    ) -> Process:
        """Start argv with the allow-listed environment plus `env`, in a box if one is given.

        In the box it may write `cwd`. If a limit of its box ended it the last line of `stderr_tail`
        says so. Raises ProviderNotAvailableError if the program is missing, not in the box or not
        executable, or no box can be made here, and ProcessError for a box that cannot be had.
        """

    def start_soon(
        self, fn: Callable[..., Awaitable[object]], *args: Any, name: str
    ) -> BackgroundTask:
        """Run `fn(*args)` in the engine's task group until the provider is closed."""

    def shielded(self, argv: Sequence[str]) -> Sequence[str]:
        """Return argv under the reaper shim, for SDKs that start processes themselves."""

    def redact(self, value: Any) -> Any:
        """Return a JSON value without known secrets: what a provider itself keeps on disk."""


class AgentHost(Protocol):
    """What the engine gives a provider for one agent."""

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """The orchestration tools of this agent."""

    def is_orchestration(self, vendor_name: str) -> bool:
        """Return whether a vendor's tool name (mcp__x__spawn_child …) is one of them."""

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        call_id: str | None = None,
        patience_s: float | None = None,
    ) -> ToolOutcome:
        """Run an orchestration tool; errors come back as outcomes with `is_error`.

        `patience_s` is for clients that cut off calls after so many seconds: what takes longer is
        answered `{"type": "pending", "token": …}` and goes on, even if the connection breaks.
        `wait_for_message(token=…)` then gives the answer, and so does the same call made again
        without the token. Without it a call ends with whoever awaits it.
        """

    async def authorize(self, request: PermissionRequest) -> Allow | Deny:
        """Decide; an Ask has been answered by a person before this returns.

        What is allowed is a call from then on, in the ledger before this returns. Its
        `ToolCallStarted` is the first with the same id, or with the same tool and command or paths.
        Without a `ToolCallFinished` it is unknown once its turn is over.
        """

    async def ask_user(self, question: Question) -> Answer:
        """Ask a person; without one the answer says so.

        Raises ToolInputError for a question whose `data` are too large or no JSON.
        """

    async def relabel(
        self, changes: Mapping[str, str | None], agent: str | None = None
    ) -> Mapping[str, str]:
        """Change labels of the agent, or of a child by id or name; return all it has then.

        None takes a label away. The change is in the ledger when this returns: later sessions find
        it in `SessionRequest.labels`, for children in `children()`. Raises OrchestrationError for a
        bad label or a provider that is no program (see `ProviderSpec.program`), MessageRoutingError
        for no child.
        """

    def children(self) -> Sequence[ChildNow]:
        """Return all children the agent ever had, also ended ones, by birth."""

    async def end_child(self, agent: str, reason: str) -> None:
        """Kill a child, by id or name, and all below it; an ended one stays as it is.

        Raises OrchestrationError if the provider is no program, MessageRoutingError for no child.
        """

    async def spent_with_label(self, label: str, text: str) -> Sequence[Spent]:
        """Return what ended agents with a label have used, by the newest sessions.

        They are those of the newest 20 sessions of the ledger with such agents, each with all below
        it; an agent that inherited the label is not counted by itself. Raises OrchestrationError if
        the provider is no program.
        """

    def mcp_endpoint(
        self, *, patience_s: float | None = None
    ) -> AbstractAsyncContextManager[McpEndpoint]:
        """Offer the orchestration tools by MCP to a CLI that needs a server.

        Give the CLI the endpoint's argv and environment as the MCP server `prsm`, and keep the
        endpoint open while the CLI runs: leaving it ends the connections and their calls.
        `patience_s` is for a CLI that cuts calls off; see `call_tool`.

        CLIs silently begin a turn without the tools of a slow or broken server. So a session awaits
        `endpoint.until_connected()`, with a deadline of its own, before the CLI's first turn, and
        otherwise fails with `proxy_missing(…)`.

        A CLI asks its model again as soon as it has the answer of `task_complete`. If it can be
        stopped from outside, stop it in what `endpoint.before_end` is given.
        """


class ProviderSession(ABC):
    """One agent's conversation with a vendor.

    Attributes:
        resume_token: The vendor's thread or session id, once known.
        reusable: False once it cannot take another turn.
        taken: Ids of those prompts and calls of `SessionRequest.carried` that the vendor's thread
            holds once the session is open, calls with their answers. The engine tells the model the
            rest as the next turn begins. None: unknown; then it tells all but what was heard.
    """

    __slots__ = ()

    resume_token: str | None = None
    reusable: bool = True
    taken: frozenset[str] | None = None

    @abstractmethod
    def run_turn(self, context: AssembledContext) -> AsyncIterator[ProviderEvent]:
        """Run one turn; the stream ends with exactly one TurnEnded. Closing it early interrupts."""

    async def steer(self, text: str, images: Sequence[Image] = ()) -> bool:
        """Put text into the running turn; return whether the vendor took it.

        `images` are those the text cites, if the capabilities have them.
        """
        return False

    async def interrupt(self) -> None:
        """Make the running turn end within two seconds."""
        return

    async def park(self) -> bool:
        """Let go of the one waiting call so that a resume can answer it; return whether it does.

        The session is closed next, because others need its process; no call is answered any more.
        On False the turn is interrupted, in the way that is best for a resume.
        """
        return False


class Provider(ABC):
    """A vendor's coding agent behind one configuration.

    Attributes:
        capabilities: What it can do.
        known_models: The preset or configured models, known without asking anybody.
    """

    capabilities: ProviderCapabilities = ProviderCapabilities()
    known_models: Sequence[ModelInfo] = ()

    @abstractmethod
    def open_session(
        self, request: SessionRequest, host: AgentHost
    ) -> AbstractAsyncContextManager[ProviderSession]:
        """Open an agent's session.

        Entering raises ModelNotAvailableError or ProviderNotAvailableError, with code
        `resume_failed` if the vendor does not know the conversation any more, so that it is
        rebuilt, and `not_logged_in` if another login may help.
        """

    async def prepare(self) -> None:
        """Begin what all sessions share, since one is likely to be opened soon.

        Called at most once, after a probe, while the engine starts; cancelled if none is opened.
        Errors are not told: opening a session finds them again.
        """
        return

    async def probe(self) -> ProviderStatus:
        """Look, without a session, whether the provider can be used; give up within 5 s.

        Look only for the vendor's program, its version and its login. Import the vendor's library
        when a session opens: an unused provider must cost nothing.
        """
        return ProviderStatus(available=True)

    async def list_models(self) -> Sequence[ModelInfo]:
        """Return the models the vendor lists now; empty where it cannot tell."""
        return ()

    async def knows_model(self, model: str) -> bool:
        """Return whether the vendor takes a model that it does not list, though it lists others."""
        return False

    async def aclose(self) -> None:
        """End everything the provider started."""
        return


ProviderFactory = Callable[[Mapping[str, Any], ProviderServices], Provider]
Forgetter = Callable[[Path, Collection[str]], None]


class ProviderSpec(Registration, frozen=True, kw_only=True):
    """Registers a provider; `factory(settings, services)` builds one configuration of it.

    `settings` is the provider's section of the configuration, a plain mapping. A run that names no
    provider takes a selectable one. `good_for` tells agents in a few words what it is for, else the
    summary does.

    `ProviderSpec.settings`, a msgspec.Struct or its import string, checks the section as it is
    loaded, with file and line, and stands in its schema. The factory gets the plain mapping all the
    same, since a login may add to it.

    What a provider keeps of an agent below its `state_dir` has the agent's id or the token of its
    thread in its name, and goes with a deleted session. `forget(state_dir, names)` takes out what
    stands elsewhere, such as in a database, given those ids and tokens. No engine of the session
    runs then and its rows are gone; if it raises, the next command that takes sessions asks it
    again.

    A `program` has no model: its sessions call tools by code. So its calls of `spawn_child` and
    `spawn_children_parallel` may have arguments that no model may give: `labels`, texts by name,
    laid over inherited ones (null takes one away); `continues`, a child by name or id, with whose
    conversation this one begins. It may `AgentHost.relabel`, and labels `NAME/…` with its name are
    its alone. What it offers by `AgentHost.mcp_endpoint` is a model's to call, and takes neither.

    PRSM's state is closed to agents. `handed` are the paths below `state_dir` that its agents may
    use all the same, such as a folder for temporary files; `*` stands for one name.

    `server_names` is a pattern of names that MCP servers may have with this vendor; others are told
    and left out.

    `reads_labels` are the person's labels that its sessions look for: one that nothing reads is
    told as a run begins.
    """

    word = "provider"

    factory: str | ProviderFactory
    selectable: bool = True
    good_for: str = ""
    settings: str | type[Any] | None = None
    forget: str | Forgetter | None = None
    program: bool = False
    handed: tuple[str, ...] = ()
    server_names: str = ".+"
    reads_labels: frozenset[str] = frozenset()
