"""Frontends: user interfaces. AppHandle is their only door to the engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from prsm_core.domain.agents import PermissionMode
from prsm_core.domain.usage import Spent, TokenUsage
from prsm_core.interfaces.records import check_name

if TYPE_CHECKING:
    from prsm_core.domain.events import Event
    from prsm_core.domain.permissions import Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What the command line asked for."""

    task: str | None = None
    workspace: str = "."
    provider: str | None = None
    model: str | None = None
    mode: PermissionMode = PermissionMode.DEFAULT
    session: str | None = None
    on_ask: str = "deny"  # headless answer to an Ask: deny | allow
    timeout_s: float | None = None
    unattended_s: float | None = None  # how long a request waits while nobody attends; None = for
    # as long as for a person who is there


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """How a run ended: status completed | failed | killed | interrupted.

    `spent` is what it used, and what of that nobody told; `usage` is its tokens alone.
    """

    status: str
    summary: str
    exit_code: int
    usage: TokenUsage = field(default_factory=TokenUsage)
    error: str | None = None
    evidence: str | None = None  # of a completed run: claimed | checked | verified
    spent: Spent = field(default_factory=Spent)


class RunHandle(Protocol):
    """A started run."""

    run_id: str
    session: str

    async def result(self) -> RunResult:
        """Wait for the run's end; the `run_finished` event is committed by then."""
        ...


class AppHandle(Protocol):
    """The same over a local engine and over another process."""

    options: RunOptions

    async def start_run(self, task: str, **overrides: Any) -> RunHandle:
        """Start a run of `task`; overrides are fields of RunOptions."""
        ...

    async def prompt_agent(self, agent: str, text: str, delivery: str = "queue") -> str:
        """Send a person's prompt to an agent; return `injected`, `queued` or `interrupting`.

        `inject` puts it into the running turn, where the provider can; `interrupt` ends the turn
        and begins another with it; `queue` leaves it for the agent's next wait or turn, which is
        also what becomes of a prompt that could not be injected.
        """
        ...

    async def kill(self, agent: str) -> Sequence[str]:
        """Kill an agent and its descendants; return the names of those that this ended.

        Raises MessageRoutingError for an agent that is unknown or has ended already.
        """
        ...

    async def restart(self, agent: str, prompt: str) -> None:
        """Start an ended agent again with a new prompt."""
        ...

    async def resolve_permission(self, request: str, verdict: str, *, via: str = "") -> bool:
        """Answer a permission request with one of the options that it has.

        These are some of once, always, deny, and the answers that make a rule: allow_project,
        allow_global, deny_project, deny_global. `via` says where the person is: the event of the
        answer tells it. Returns False when it was already answered.
        """
        ...

    async def answer(self, request: str, answer: Answer, *, via: str = "") -> bool:
        """Answer a question; False when it was already answered."""
        ...

    async def outcome(self, request: str) -> Mapping[str, Any] | None:
        """Return how the request whose id begins so has ended; None where that is not known.

        It has `request`, `by` (user, timeout, rule …), `via`, and the `verdict` or the `answer`.
        """
        ...

    async def requests(self) -> Sequence[Mapping[str, Any]]:
        """Return the open permission requests and questions, oldest first.

        Each has `request`, `kind` (permission or question), `agent`, `name`, `opened_at` and the
        fields of the event that told of it.
        """
        ...

    async def attend(self) -> None:
        """Note that a person is there to answer; say it again as long as that is so."""
        ...

    def events(self, after: int = 0) -> AsyncIterator[Event]:
        """Yield committed events of the session after `after`, then live ones with deltas.

        A reader that is too slow loses deltas (told by a notice), never committed events.
        """
        ...

    async def tree(self) -> Mapping[str, Any]:
        """Return the tree as `prsm tree --json` prints it."""
        ...

    async def history(self, agent: str, detail: str = "full") -> Sequence[Mapping[str, Any]]:
        """Return an agent's conversation: entries of kind, text or tool, at."""
        ...


class Frontend(ABC):
    """A user interface."""

    @abstractmethod
    async def run(self, app: AppHandle) -> int:
        """Drive the application and return the exit code."""


FrontendFactory = Callable[[Mapping[str, Any]], Frontend]
FrontendWithSettings = Callable[[Mapping[str, Any], Any], Frontend]


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontendSpec:
    """Registers a frontend; `prsm` takes the interactive one of highest priority on a terminal.

    A frontend that is not interactive has no person: every Ask is denied or answered by --on-ask.

    `settings` is a pydantic model or an import string of one: what `frontends.NAME` of the
    configuration may hold. The factory gets an instance of it as its second argument.
    """

    name: str
    summary: str
    interactive: bool
    priority: int
    factory: str | FrontendFactory | FrontendWithSettings
    settings: str | type[Any] | None = None

    def __post_init__(self) -> None:
        """Check the name."""
        check_name("frontend", self.name)
