"""The configured executor: its sandbox for commands, its boxes for programs.

An engine's boxes lie in one folder named by its process, so that the next engine finds what a dead
one left.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pwd
import subprocess
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from prsm_core.config import private_dir
from prsm_core.domain.record import Record
from prsm_core.engine.processes.reaper_shim import MARK
from prsm_core.engine.processes.table import ProcessIdentity, is_alive, own_identity
from prsm_core.errors import ConfigError, ProcessError, ProviderNotAvailableError, PrsmError
from prsm_core.executors import (
    BoxHost,
    BoxProgram,
    BoxState,
    Command,
    ExecutorSpec,
    SandboxScope,
    SandboxState,
    Trial,
)
from prsm_core.kit.clocks import first_of
from prsm_core.kit.environment import CERTIFICATES, KEY_NAME, LOADS_CODE
from prsm_core.plugins.guard import Guest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from types import ModuleType

    from prsm_core.config import Settings
    from prsm_core.config.schema import SandboxSettings
    from prsm_core.domain.boxes import Box
    from prsm_core.engine.processes.child import ChildProcess
    from prsm_core.engine.processes.launcher import ProcessLauncher
    from prsm_core.executors import Boxes, Executor, Sandbox
    from prsm_core.interfaces.clock import Clock
    from prsm_core.plugins import PluginManager


_log = logging.getLogger("prsm.engine")

# Bytes kept of each stream.
TRIAL_OUTPUT = 4096
# Errors that an executor may raise, as its interface says.
ANSWERS = (PrsmError,)
# What the settings name where nobody has chosen another.
DEFAULT = "sandbox"
GET = "prsm install sandbox"
# The folder of the state in which each engine has one.
BOXES = "boxes"
# For a program that removes a box of a dead engine.
END_SECONDS = 10.0
_SEPARATOR = "_"


class ChosenExecutor(Record, frozen=True, kw_only=True):
    """The executor of an engine; without a `spec` there is none, and `hint` says how to get it."""

    spec: ExecutorSpec | None = None
    reason: str = "no executor was given"
    hint: str = GET

    def load(self) -> tuple[Executor, Guest]:
        """Return the executor, and the guest to blame for its errors; raise if there is none."""
        if self.spec is None:
            raise ProviderNotAvailableError(self.reason, hint=self.hint)
        guest = Guest.of(self.spec)
        factory = guest.load()
        with guest.calling("its factory"):
            executor: Executor = factory()
        return executor, guest


NO_EXECUTOR = ChosenExecutor()


def choose_executor(plugins: PluginManager, settings: Settings) -> ChosenExecutor:
    """Return the executor that the settings name.

    Without the default one commands run unconfined. Raises PluginError for another one that is
    missing or quarantined, and ConfigError if there is none and the settings require a sandbox or
    boxes.
    """
    name = settings.sandbox.executor
    specs = plugins.collect(ExecutorSpec)
    if name in specs:
        return ChosenExecutor(spec=specs[name])
    if name != DEFAULT or any(record.name == name for record in plugins.quarantined):
        plugins.get(ExecutorSpec, name)
    owner = plugins.absent(ExecutorSpec).why(name)
    reason = "prsm-sandbox is not installed" if owner is None else owner.message
    hint = GET if owner is None else owner.hint or GET
    if settings.sandbox.mode == "require":
        raise ConfigError(f"sandbox.mode is require, and there is none: {reason}", hint=hint)
    if settings.box.agents:
        raise ConfigError(f"box.agents is true, and there are no boxes: {reason}", hint=hint)
    return ChosenExecutor(reason=reason, hint=hint)


async def _run_trial(
    launcher: ProcessLauncher, command: Command, name: str, seconds: float
) -> Trial:
    process = await launcher.capture(
        command.argv, name=name, limit=TRIAL_OUTPUT, env=command.env, inherit=command.inherit
    )
    try:
        async with asyncio.timeout(seconds):
            code = await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
        return Trial(code=None)
    finally:
        process.kill()
    return Trial(code=code, stdout=process.stdout, stderr=process.stderr)


class CommandSandbox:
    """Owns the sandbox of one engine's commands, and its state.

    Only the `workspace` can be written. Commands see neither `state_dir`, the `private` folders nor
    secrets in `home`, by default the user's. `tree_of` returns the top of the agent's worktree that
    a folder is in, if any.
    """

    def __init__(
        self,
        settings: SandboxSettings,
        *,
        executor: ChosenExecutor = NO_EXECUTOR,
        workspace: str,
        launcher: ProcessLauncher,
        state_dir: Path,
        private: Iterable[Path] = (),
        home: Path | None = None,
        tree_of: Callable[[str], str | None] = lambda _: None,
    ) -> None:
        self._settings = settings
        self._executor = executor
        homes = _homes() if home is None else (os.path.realpath(home),)
        self._scope = SandboxScope(
            workspace=os.path.realpath(workspace),
            network=settings.network,
            writable=settings.writable,
            state_dir=state_dir,
            private=tuple(map(os.fspath, private)),
            homes=homes,
            secret_places=lambda: _names().secret_places(homes, os.environ),
            is_secret=lambda name: _names().is_secret_of_workspace(name),
            protected_names=lambda: _names().protected_names(),
            tree_of=tree_of,
            run=partial(_run_trial, launcher),
        )
        self._opened: tuple[Sandbox, Guest] | None = None
        self._state: SandboxState | None = None

    async def prepare(self) -> SandboxState:
        """Find out, once, whether the sandbox holds. Raises ConfigError if it must."""
        if self._state is None:
            self._state = await self._ask("prepare")
            _warn(self._state)
        if self._settings.mode == "require":
            self._require(self._state)
        return self._state

    async def examine(self) -> SandboxState:
        """Find out whether it would hold here; write nothing."""
        return await self._ask("examine")

    @asynccontextmanager
    async def confined(
        self,
        argv: Sequence[str],
        cwd: str,
        region: Sequence[str] | None = None,
        closed: Sequence[str] = (),
    ) -> AsyncIterator[Command]:
        """Lend the command that runs `argv` in the sandbox; `argv` itself without one.

        With a `region` only these paths of the workspace can be written; what is `closed` never is.
        The command must have ended when this is left. Raises ProcessError if a path cannot be
        mounted.
        """
        state = await self.prepare()
        if not state.is_active:
            yield Command(argv=tuple(argv))
            return
        sandbox, guest = self._sandbox()
        async with AsyncExitStack() as stack:
            with guest.calling("confined", ANSWERS):
                lent = sandbox.confined(argv, cwd, region, closed)
                command = await stack.enter_async_context(lent)
            yield command

    def close(self) -> None:
        """Leave nothing behind."""
        if self._opened is not None:
            self._opened[0].close()
            self._opened = None

    async def _ask(self, act: Literal["examine", "prepare"]) -> SandboxState:
        if self._settings.mode == "off":
            return SandboxState(is_active=False, reason="it is turned off")
        if self._executor.spec is None:
            reason, cure = self._executor.reason, self._executor.hint
            return SandboxState(is_active=False, reason=reason, is_wanting=True, cure=cure)
        sandbox, guest = self._sandbox()
        with guest.calling(act, ANSWERS):
            return await (sandbox.examine() if act == "examine" else sandbox.prepare())

    def _sandbox(self) -> tuple[Sandbox, Guest]:
        if self._opened is None:
            executor, guest = self._executor.load()
            with guest.calling("open_sandbox", ANSWERS):
                self._opened = executor.open_sandbox(self._scope), guest
        return self._opened

    def _require(self, state: SandboxState) -> None:
        if not state.is_active:
            raise ConfigError(
                f"sandbox.mode is require, and there is none: {state.reason}",
                hint=f"{state.cure or 'mend what it names'}, or set sandbox.mode to auto",
            )
        if state.gaps:
            raise ConfigError(
                f"sandbox.mode is require, and it has gaps here: {'; '.join(state.gaps)}",
                hint="allow user namespaces on this machine, or set sandbox.mode to auto",
            )


def _warn(state: SandboxState) -> None:
    if state.is_active and state.gaps:
        gaps = "; ".join(state.gaps)
        _log.warning("the sandbox of shell commands does not fully hold here: %s", gaps)
    elif state.is_wanting:
        cure = f" ({state.cure})" if state.cure else ""
        _log.warning("shell commands and gates run unconfined: %s%s", state.reason, cure)


def _homes() -> tuple[str, ...]:
    found = [os.path.realpath(Path.home())]
    with suppress(KeyError):  # a user without an entry, as in many containers
        found.append(os.path.realpath(pwd.getpwuid(os.getuid()).pw_dir))
    return tuple(dict.fromkeys(path for path in found if path != "/"))


def _names() -> ModuleType:
    from prsm_core.policies import names  # with the first command

    return names


class ProgramBoxes(Struct, eq=False):
    """Starts programs, and owns an engine's boxes. The first box loads the executor."""

    launcher: ProcessLauncher
    state_dir: Path
    executor: ChosenExecutor = NO_EXECUTOR
    _opened: tuple[Boxes, Guest] | None = None

    async def examine(self) -> BoxState:
        """Find out what makes boxes here, and which limits it holds."""
        if self.executor.spec is None:
            return BoxState(runtime="", reason=f"{self.executor.reason} ({self.executor.hint})")
        boxes, guest = self._open()
        with guest.calling("examine", ANSWERS):
            return await boxes.examine()

    async def start(
        self,
        argv: Sequence[str],
        *,
        name: str,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        box: Box | None = None,
    ) -> ChildProcess:
        """Start argv, in a box if one is given, with the environment of other processes.

        Raises ProcessError if the box cannot be had, ProviderNotAvailableError if no box can be
        made here or the program is not in it.
        """
        if box is None:
            return await self.launcher.start(argv, name=name, cwd=cwd, env=env)
        boxes, guest = self._open()
        environ = {**self.launcher.environment(env), MARK: self.launcher.mark}
        program = BoxProgram(
            argv=tuple(argv),
            name=name,
            box=box,
            cwd=cwd,
            environ=environ,
            files=tuple(_certificates(environ)),
        )
        async with AsyncExitStack() as stack:
            with guest.calling("boxed", ANSWERS):
                command = await stack.enter_async_context(boxes.boxed(program))
            return await self.launcher.start(
                command.argv,
                name=name,
                env=command.env,
                inherit=command.inherit,
                on_end=None if command.on_end is None else partial(_tell_end, command.on_end),
            )

    def close(self) -> None:
        """Leave nothing behind; what still runs is removed at its end."""
        if self._opened is not None:
            self._opened[0].close()

    def _open(self) -> tuple[Boxes, Guest]:
        if self._opened is None:
            executor, guest = self.executor.load()
            host = BoxHost(
                make_folder=partial(_make_folder, self.state_dir),
                environ=lambda: {**self.launcher.environment(), MARK: self.launcher.mark},
                run=partial(_run_trial, self.launcher),
            )
            with guest.calling("open_boxes", ANSWERS):
                self._opened = executor.open_boxes(host), guest
        return self._opened


def end_left_boxes(state_dir: Path, executor: ChosenExecutor) -> int:
    """Remove the boxes that dead engines left; return how many there were."""
    count = 0
    for folder, names, ended_by in _left(state_dir, executor):
        ended_by.end_left(folder, _run)
        count += len(names)
    return count


def find_left_boxes(state_dir: Path, executor: ChosenExecutor) -> list[str]:
    """Return the names of boxes that dead engines left; touch nothing."""
    return [name for _, names, _ in _left(state_dir, executor) for name in names]


def _left(
    state_dir: Path, chosen: ChosenExecutor
) -> Iterator[tuple[Path, Sequence[str], Executor]]:
    for folder in _folders_of_the_dead(state_dir):
        if chosen.spec is not None:  # few engines have any: it is imported here
            executor, guest = chosen.load()
            with guest.calling("left_boxes", ANSWERS):
                names = executor.left_boxes(folder)
            yield folder, names, executor


def _folders_of_the_dead(state_dir: Path) -> Iterator[Path]:
    for folder in sorted((state_dir / BOXES).glob("*")):
        pid, start_time, boot_id, *_ = [*folder.name.split(_SEPARATOR), "", "", ""]
        if not (pid.isdecimal() and start_time.isdecimal()):
            continue  # nothing of an engine's
        engine = ProcessIdentity(pid=int(pid), start_time=int(start_time), boot_id=boot_id)
        if not is_alive(engine):
            yield folder


def _make_folder(state_dir: Path) -> Path:
    own = own_identity()
    words = (str(own.pid), str(own.start_time), own.boot_id, os.urandom(3).hex())
    return private_dir(state_dir / BOXES / _SEPARATOR.join(words))


def _run(argv: Sequence[str]) -> None:
    subprocess.run(argv, timeout=END_SECONDS, capture_output=True, check=False)


def _tell_end(on_end: Callable[[], str], process: ChildProcess) -> None:
    process.told = on_end()


def _certificates(environ: Mapping[str, str]) -> Iterator[str]:
    for place in filter(None, map(environ.get, CERTIFICATES)):
        file = os.path.normpath(place)
        if file.startswith("/") and os.path.exists(file):  # noqa: PTH110
            yield file


OUTPUT_LIMIT = 64 * 2**10  # bytes kept of each of stdout and stderr
MAX_COMMAND = 2**17 - 1  # bytes; Linux takes no longer argument
TERM_GRACE = 2.0  # seconds from the deadline's TERM to the KILL


class ShellResult(Record, frozen=True, kw_only=True):
    """What a command did; after a timeout the exit code is that of its end."""

    exit_code: int
    stdout: str
    stderr: str
    truncated: bool  # there was more output than was kept
    timed_out: bool


async def run_shell(
    launcher: ProcessLauncher,
    command: str,
    *,
    cwd: str,
    timeout_s: float,
    clock: Clock,
    env: Mapping[str, str] | None = None,
    output_limit: int = OUTPUT_LIMIT,
    keep_end: bool = False,
    sandbox: CommandSandbox | None = None,
    region: Sequence[str] | None = None,
    closed: Sequence[str] = (),
) -> ShellResult:
    """Run exactly `command` by bash, without start-up files and without input.

    Its whole family has ended on return, and on cancellation. `env` is added to the launcher's
    allow-list without variables that load code or hold secrets. Output beyond `output_limit` bytes
    of each stream is dropped; with `keep_end` the last bytes are kept instead of the first. In the
    sandbox only a `region` of the workspace can be written, and what is `closed` cannot. Raises
    ProcessError if `cwd` is missing or the command too long, ConfigError if a required sandbox
    cannot be had.
    """
    _require_runnable(command)
    argv: tuple[str, ...] = ("bash", "--noprofile", "--norc", "-c", "--", command)
    confining: AbstractAsyncContextManager[Command] = nullcontext(Command(argv=argv))
    if sandbox is not None:
        confining = sandbox.confined(argv, cwd, region, closed)
    async with confining as confined:
        return await run_captured(
            launcher,
            confined.argv,
            name="shell command",
            cwd=cwd,
            timeout_s=timeout_s,
            clock=clock,
            env=env,
            output_limit=output_limit,
            keep_end=keep_end,
            inherit=confined.inherit,
        )


async def run_captured(
    launcher: ProcessLauncher,
    argv: Sequence[str],
    *,
    name: str,
    cwd: str,
    timeout_s: float,
    clock: Clock,
    env: Mapping[str, str] | None = None,
    output_limit: int = OUTPUT_LIMIT,
    keep_end: bool = False,
    inherit: Sequence[int] = (),
) -> ShellResult:
    """Run a program as `run_shell` runs bash."""
    process = await launcher.capture(
        argv,
        name=name,
        limit=output_limit,
        keep_end=keep_end,
        cwd=cwd,
        env=scrubbed(env or {}),
        inherit=inherit,
    )
    try:
        in_time = await first_of(clock, timeout_s, process.wire.exited.wait)
        exit_code = await process.wait() if in_time else await process.stop(TERM_GRACE)
    finally:
        if not process.has_exited:  # the wait for it was broken off
            process.kill()
            await process.wait()
    return ShellResult(
        exit_code=exit_code,
        stdout=process.stdout,
        stderr=process.stderr,
        truncated=process.truncated,
        timed_out=not in_time,
    )


def scrubbed(env: Mapping[str, str]) -> dict[str, str]:
    """Return `env` without variables that load code into programs or hold secrets."""
    return {
        name: value
        for name, value in env.items()
        if not LOADS_CODE.fullmatch(name) and not KEY_NAME.search(name.upper())
    }


def _require_runnable(command: str) -> None:
    if "\0" in command:
        raise ProcessError("the command holds a zero byte", hint="remove it")
    if len(command.encode("utf-8", "surrogatepass")) > MAX_COMMAND:
        raise ProcessError(
            f"the command is longer than {MAX_COMMAND} bytes",
            hint="write the text to a file and run that",
        )
