"""The port of executors: packages that shut in what agents run.

An executor only says how to start a command or program so that it is shut in. PRSM starts it,
reads its output and ends it with its family.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from msgspec import field

from prsm_core.domain.record import Record
from prsm_core.interfaces.records import Registration

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from prsm_core.domain.boxes import Box

__all__ = [
    "BoxHost",
    "BoxProgram",
    "BoxState",
    "Boxes",
    "Command",
    "Executor",
    "ExecutorSpec",
    "Run",
    "Sandbox",
    "SandboxScope",
    "SandboxState",
    "Trial",
]


class Command(Record, frozen=True, kw_only=True):
    """How something is started.

    Attributes:
        argv: The command line.
        env: Variables beside those that every program gets.
        inherit: Open files that the program takes over, under their numbers.
        on_end: Called once its whole family has ended. Returns what to add to its stderr, blank for
            nothing.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    inherit: tuple[int, ...] = ()
    on_end: Callable[[], str] | None = None


class Trial(Record, frozen=True, kw_only=True):
    """How a trial ended, and the first bytes of what it wrote.

    Attributes:
        code: Its exit code, 128+n for signal n; None: it did not end in time and was killed.
    """

    code: int | None
    stdout: str = ""
    stderr: str = ""


Run = Callable[[Command, str, float], Awaitable[Trial]]
"""`await run(command, name, seconds)` starts a command without input and waits for its end.

Raises ProcessError or ProviderNotAvailableError where it cannot be started.
"""


class SandboxState(Record, frozen=True, kw_only=True):
    """Whether commands run in the sandbox, and if not, why.

    Attributes:
        gaps: What it does not shut off on this machine, though it is active.
        is_wanting: Whether it could be had here, but does not work. That is told.
        cure: What to do to have it; blank where the reason says so.
    """

    is_active: bool
    reason: str
    gaps: tuple[str, ...] = ()
    is_wanting: bool = False
    cure: str = ""


class SandboxScope(Record, frozen=True, kw_only=True):
    """What a sandbox is for: the commands of agents in one workspace.

    Attributes:
        workspace: The folder that commands may write; resolved.
        network: Whether they may reach the network.
        writable: Further paths that they may write, as the settings have them.
        state_dir: PRSM's own folder. Commands do not see it. The sandbox keeps its notes there.
        private: Further paths that are hidden.
        homes: The homes of the user; resolved.
        secret_places: Returns the paths outside of the workspace that hold secrets.
        is_secret: Returns whether a name in a workspace is hidden from commands.
        protected_names: Returns the names, in lower case, that commands never write.
        tree_of: Returns the top of an agent's worktree that a folder is in; None: it is in none.
        run: Runs a trial.
    """

    workspace: str
    network: bool = False
    writable: tuple[str, ...] = ()
    state_dir: Path
    private: tuple[str, ...] = ()
    homes: tuple[str, ...] = ()
    secret_places: Callable[[], Iterable[str]]
    is_secret: Callable[[str], bool]
    protected_names: Callable[[], frozenset[str]]
    tree_of: Callable[[str], str | None]
    run: Run


class Sandbox(Protocol):
    """Shuts in shell commands and gates."""

    async def prepare(self) -> SandboxState:
        """Find out whether the sandbox works and holds here, and get it ready."""

    async def examine(self) -> SandboxState:
        """Find out whether it would hold here; write nothing."""

    def confined(
        self, argv: Sequence[str], cwd: str, region: Sequence[str] | None, closed: Sequence[str]
    ) -> AbstractAsyncContextManager[Command]:
        """Lend out what runs `argv` in the sandbox; the command has ended when this is left.

        With a `region` nothing of the workspace can be written but these paths; what is `closed`
        never is. Called only once `prepare` has found the sandbox active. Raises ProcessError for
        a path that cannot be mounted.
        """

    def close(self) -> None:
        """Leave nothing behind."""


class BoxState(Record, frozen=True, kw_only=True):
    """What boxes are made with here.

    Attributes:
        runtime: The program that makes them; blank where there is none that works.
        holds: Which of the limits it can hold: `memory`, `cpus`, `pids`.
        reason: Why it is not a better one, or why it does not hold all; blank if it does.
        is_wanting: Whether all limits could be had here, if the machine were set up for it.
    """

    runtime: str
    holds: frozenset[str] = frozenset()
    reason: str = ""
    is_wanting: bool = False

    def gaps(self, box: Box) -> tuple[str, ...]:
        """Return what of a box is not held here, each as a sentence."""
        if not self.runtime:
            return (f"there are no boxes here: {self.reason}",)
        loose = [name for name in box.limits if name not in self.holds]
        if not loose:
            return ()
        why = f": {self.reason}" if self.reason else ""
        return (f"{self.runtime} does not limit {', '.join(loose)} here{why}",)


class BoxProgram(Record, frozen=True, kw_only=True):
    """A program to start in a box.

    Attributes:
        name: What it is called in errors.
        environ: All of its variables.
        files: Further files that it must see, at their own path.
    """

    argv: tuple[str, ...]
    name: str
    box: Box
    cwd: str | None = None
    environ: Mapping[str, str]
    files: tuple[str, ...] = ()


class BoxHost(Record, frozen=True, kw_only=True):
    """What boxes are made with.

    Attributes:
        make_folder: Returns a new private folder, in which each box has an entry until it is
            removed. Should this engine die, the next one has `Executor.end_left` remove the rest.
        environ: Returns the variables that programs have, for a trial.
        run: Runs a trial.
    """

    make_folder: Callable[[], Path]
    environ: Callable[[], Mapping[str, str]]
    run: Run


class Boxes(Protocol):
    """Puts programs of agents into boxes."""

    async def examine(self) -> BoxState:
        """Find out, once, what boxes can be made with here and which limits it holds."""

    def boxed(self, program: BoxProgram) -> AbstractAsyncContextManager[Command]:
        """Lend out what starts a program in a box; it has started when this is left.

        Raises ProcessError for a box that cannot be had, ProviderNotAvailableError where no box can
        be made here or the program is not in it.
        """

    def close(self) -> None:
        """Leave nothing behind; what still runs is removed at its end."""


class Executor(Protocol):
    """Shuts in what agents run."""

    def open_sandbox(self, scope: SandboxScope) -> Sandbox:
        """Return the sandbox of an engine's commands."""

    def open_boxes(self, host: BoxHost) -> Boxes:
        """Return what puts an engine's programs into boxes."""

    def left_boxes(self, folder: Path) -> Sequence[str]:
        """Return the names of the boxes that a dead engine left in its folder; touch nothing."""

    def end_left(self, folder: Path, run: Callable[[Sequence[str]], object]) -> None:
        """Remove a dead engine's boxes and their folder; `run(argv)` runs a program to its end."""


class ExecutorSpec(Registration, frozen=True, kw_only=True):
    """Registers an executor, built by `factory()`, for `sandbox.executor` of the configuration."""

    word = "executor"

    factory: str | Callable[[], Executor]
