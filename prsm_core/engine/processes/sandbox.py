"""The sandbox: shell commands and gates under bubblewrap, where it is installed and wanted.

Inside, the workspace can be written but for what could widen an agent's rights or run code later;
the rest of the system can be read but for places that hold secrets; no socket of another program
is reached; there is no network unless the configuration allows it, and no process outlives the
command. For root it is the same: no capability is left.
"""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import pwd
import shutil
import tempfile
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from prsm_core.domain.record import Record
from prsm_core.engine.processes.stand_ins import StandIns
from prsm_core.engine.processes.syscalls import build_filter, filter_file
from prsm_core.errors import ConfigError, ProcessError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence

    from prsm_core.config.schema import SandboxSettings
    from prsm_core.engine.processes.hidden import WorkspaceIndex
    from prsm_core.engine.processes.launcher import ProcessLauncher
    from prsm_core.engine.processes.view import View

_log = logging.getLogger("prsm.engine")

PROGRAM = "bwrap"
TRIAL_SECONDS = 5.0
# From the best to what old versions and some kernels leave; the second is what is then missing.
_USER_NAMESPACES = (
    (("--unshare-user", "--disable-userns"), None),
    (("--unshare-user",), None),  # the filter of system calls keeps others from being made
    ((), "there is no user namespace of its own"),
)
# Run inside, by bash alone: what was asked for is not always what is there.
_LOOK = r"""
while read -r key value _; do case $key in
    Cap*) [[ $value =~ ^0+$ ]] || echo "some capabilities stay" ;;
    NoNewPrivs:) [[ $value == 1 ]] || echo "programs can gain privileges" ;;
    Seccomp:) [[ $value == 2 ]] || echo "unfiltered" ;;
esac; done < /proc/self/status
while read -r _ _ _ _ place options _; do case $place in
    /) root=$options ;; /proc) proc=$options ;;
esac; done < /proc/self/mountinfo
[[ ,$root, == *,ro,* ]] || echo "the file system can be written"
[[ ,$proc, == *,ro,* ]] || echo "/proc can be written"
[[ $$ -lt 10 ]] || echo "processes outside can be seen"
[[ -w $1 ]] || echo "unwritable"
echo looked
"""


class SandboxState(Record, frozen=True, kw_only=True):
    """Whether commands run in the sandbox, and if not, why.

    Attributes:
        gaps: What it does not shut off on this machine, though it is active.
    """

    is_active: bool
    reason: str
    gaps: tuple[str, ...] = ()


class Confined(Record, frozen=True, kw_only=True):
    """A command line, and the open files that its program takes over."""

    argv: tuple[str, ...]
    inherit: tuple[int, ...] = ()


class Sandbox:
    """Owns the trial of bubblewrap, the temp folder of commands, and what stands in for files.

    Args:
        settings: What the user wants.
        workspace: The folder that can be written.
        launcher: Starts the trial.
        state_dir: PRSM's own folder, hidden from commands.
        private: Further folders that are hidden: PRSM's configuration, its ledgers.
        home: Whose secrets are hidden; the user's own by default.
        tree_of: Returns the top of an agent's worktree that a folder is in; None: it is in none.
    """

    def __init__(
        self,
        settings: SandboxSettings,
        *,
        workspace: str,
        launcher: ProcessLauncher,
        state_dir: Path,
        private: Iterable[Path] = (),
        home: Path | None = None,
        tree_of: Callable[[str], str | None] = lambda _: None,
    ) -> None:
        self._settings = settings
        self._workspace = os.path.realpath(workspace)
        self._homes = _homes() if home is None else (os.path.realpath(home),)
        self._launcher = launcher
        self._tree_of = tree_of
        self._private = tuple(os.fspath(path) for path in (state_dir, *private))
        self._state: SandboxState | None = None
        self._namespaces: tuple[str, ...] = ()
        self._stand_ins = StandIns(state_dir, Path(self._workspace))
        self._indexes: dict[str, WorkspaceIndex] = {}
        self._filter = build_filter(network=settings.network)
        self._base: str | None = None

    async def prepare(self) -> SandboxState:
        """Find out, once, whether the sandbox can be used and holds.

        Raises ConfigError when it does not and the settings require it.
        """
        if self._state is None:
            self._state = await self._try(is_whole=True)
            if self._state.gaps or (not self._state.is_active and self._is_installed()):
                why = "; ".join(self._state.gaps) or self._state.reason
                _log.warning("the sandbox of shell commands does not fully hold here: %s", why)
            self._stand_ins.recover()
        if self._settings.mode == "require":
            _require(self._state)
        return self._state

    async def examine(self) -> SandboxState:
        """Look from inside whether it would hold here; writes nothing, not even a temp folder."""
        return await self._try(is_whole=False)

    async def _try(self, *, is_whole: bool) -> SandboxState:
        if self._settings.mode == "off":
            return SandboxState(is_active=False, reason="it is turned off")
        if not self._is_installed():
            return SandboxState(is_active=False, reason=f"{PROGRAM} is not installed")
        if self._workspace == "/":
            return SandboxState(is_active=False, reason="the workspace is the whole file system")
        reason = ""
        for options, gap in _USER_NAMESPACES:
            self._namespaces = options
            seen, reason = await self._look(is_whole=is_whole)
            if seen is not None:
                return _judged(seen, gap, self._workspace)
        return SandboxState(is_active=False, reason=reason)

    @asynccontextmanager
    async def confined(
        self,
        argv: Sequence[str],
        cwd: str,
        region: Sequence[str] | None = None,
        closed: Sequence[str] = (),
    ) -> AsyncIterator[Confined]:
        """Lend out what runs `argv` in the sandbox; `argv` itself where there is none.

        With a `region` nothing of the workspace can be written but these paths; what is `closed`
        never is. The command has ended when this is left. Raises ProcessError when one of them
        cannot be mounted.
        """
        state = await self.prepare()
        if not state.is_active:
            yield Confined(argv=tuple(argv))
            return
        view = self._view(cwd, region, closed)
        with self._stand_ins.held(view.stand_ins(), view.stand_in_files()):
            mounts = (*view.options(), "--chdir", view.cwd)
            with self._command(argv, mounts) as confined:
                yield confined

    def close(self) -> None:
        """Remove the temp folder."""
        if self._base is not None:
            shutil.rmtree(self._base, ignore_errors=True)
            self._base = None

    @contextmanager
    def _command(self, argv: Sequence[str], mounts: Sequence[str]) -> Iterator[Confined]:
        inherit = () if self._filter is None else (filter_file(self._filter),)
        try:
            options = (*self._isolation(inherit), *mounts)
            yield Confined(argv=(PROGRAM, *options, "--", *argv), inherit=inherit)
        finally:
            for descriptor in inherit:
                os.close(descriptor)

    def _isolation(self, inherit: tuple[int, ...]) -> Iterator[str]:
        yield from ("--die-with-parent", "--new-session", "--unshare-pid", "--unshare-ipc")
        yield from ("--unshare-uts", "--unshare-cgroup-try", "--cap-drop", "ALL")
        yield from self._namespaces
        if not self._settings.network:
            yield "--unshare-net"
        for descriptor in inherit:
            yield from ("--seccomp", str(descriptor))
        # Root is the owner of what is in /proc, without any capability: nothing there is written.
        yield from ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
        yield from ("--remount-ro", "/proc")

    def _view(self, cwd: str, region: Sequence[str] | None, closed: Sequence[str] = ()) -> View:
        # With the first command: what looks for all that is hidden is of no use before.
        from prsm_core.engine.processes import hidden, view

        inside = os.path.realpath(cwd)
        is_inside = Path(inside).is_relative_to(self._workspace)
        root = self._tree_of(inside) or (self._workspace if is_inside else inside)
        index = self._indexes.setdefault(root, hidden.WorkspaceIndex(root))
        secret, protected = index.look()
        writable = (Path(path).expanduser() for path in self._settings.writable)
        places = hidden.secret_places(map(Path, self._homes), os.environ)
        path = os.environ.get("PATH", os.defpath).split(os.pathsep)
        return view.View(
            root=root,
            cwd=inside,
            region=None if region is None else tuple(map(os.path.realpath, region)),
            closed=tuple(closed),
            writable=tuple(os.path.realpath(root / path) for path in writable),
            homes=self._homes,
            hidden=(*self._private, *places, *secret, *hidden.foreign_sockets()),
            protected=tuple(protected),
            base=self._own_base(),
            path=tuple(dict.fromkeys(folder for folder in path if folder.startswith("/"))),
        )

    def _own_base(self) -> str:
        """Return a folder with the temp folder of all commands, and two empty things."""
        if self._base is None:
            self._base = tempfile.mkdtemp(prefix="prsm-sandbox-")
            for name in ("tmp", "empty"):
                Path(self._base, name).mkdir()
            Path(self._base, "nothing").touch()
        return self._base

    def _is_installed(self) -> bool:
        return self._settings.mode != "off" and shutil.which(PROGRAM) is not None

    async def _look(self, *, is_whole: bool) -> tuple[list[str] | None, str]:
        """Look from inside; return what was seen, or None and why there is no inside."""
        argv = ("bash", "--noprofile", "--norc", "-c", _LOOK, "look", self._workspace)
        mounts: tuple[str, ...] = ("--bind", self._workspace, self._workspace)
        if is_whole:
            mounts = tuple(self._view(self._workspace, None).options())
        with self._command(argv, mounts) as trial:
            try:
                process = await self._launcher.capture(
                    trial.argv, name="sandbox trial", limit=4096, inherit=trial.inherit
                )
            except ProcessError as error:
                return None, error.message
            try:
                async with asyncio.timeout(TRIAL_SECONDS):
                    await process.wait()
            except TimeoutError:
                return None, f"{PROGRAM} did not end"
            finally:
                process.kill()
        lines = process.stdout.splitlines()
        if lines[-1:] == ["looked"]:
            return lines[:-1], ""
        why = process.stderr.strip().rpartition("\n")[2] or "it failed"
        return None, f"{PROGRAM} does not work here: {why}"


def _homes() -> tuple[str, ...]:
    """Return the homes of this user: where HOME leads, and the one the system knows."""
    found = [os.path.realpath(Path.home())]
    with suppress(KeyError):  # a user without an entry, as in many containers
        found.append(os.path.realpath(pwd.getpwuid(os.getuid()).pw_dir))
    return tuple(dict.fromkeys(path for path in found if path != "/"))


def _judged(seen: list[str], gap: str | None, workspace: str) -> SandboxState:
    """Return the state that follows from what was seen inside."""
    gaps = [gap] if gap else []
    if "unfiltered" in seen:
        gaps.append(
            f"system calls cannot be filtered on {platform.machine()}: keyrings are open, and files"
            " can be made setuid"
        )
    bad = [line for line in dict.fromkeys(seen) if line not in {"unfiltered", "unwritable"}]
    if "unwritable" in seen and os.access(workspace, os.W_OK):
        owner = Path(workspace).stat().st_uid
        bad.append(
            f"the workspace belongs to another user (uid {owner}), and without capabilities root"
            " cannot write there"
        )
    if bad:
        return SandboxState(is_active=False, reason=f"it would not hold here: {', '.join(bad)}")
    return SandboxState(is_active=True, reason="bubblewrap", gaps=tuple(gaps))


def _require(state: SandboxState) -> None:
    if not state.is_active:
        raise ConfigError(
            f"sandbox.mode is require, and there is none: {state.reason}",
            hint="install bubblewrap, or set sandbox.mode to auto",
        )
    if state.gaps:
        raise ConfigError(
            f"sandbox.mode is require, and it has gaps here: {'; '.join(state.gaps)}",
            hint="allow user namespaces on this machine, or set sandbox.mode to auto",
        )
