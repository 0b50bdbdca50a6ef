"""The sandbox: shell commands and gates under bubblewrap, where it is installed and wanted.

Inside, the workspace can be written but for what could widen an agent's rights or run code later;
the rest of the system can be read but for places that hold secrets; no socket of another program
is reached; there is no network unless the configuration allows it, and no process outlives the
command. For root it is the same: no capability is left.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import shutil
import stat
import tempfile
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from prsm_core import ProcessError
from prsm_core.executors import Command, SandboxState
from prsm_core.kit import make_private
from prsm_sandbox.syscalls import build_filter, filter_file

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence

    from prsm_core.executors import BoxHost, SandboxScope
    from prsm_sandbox.boxes import Containers
    from prsm_sandbox.view import View, WorkspaceIndex

PROGRAM = "bwrap"
TRIAL_SECONDS = 5.0
# Nobody makes folders with the sticky bit by chance: a record of a crash is not trusted alone.
MODE = 0o1755
FILE_MODE = 0o1644
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
# Run outside: what a file covers may be gone by now, above all sockets of other programs, and a
# mount over it fails. It is left out, and again if that happens while bubblewrap mounts. That tells
# how a command ended only if it has begun: none runs twice.
_START = r"""
nothing=$1; shift; exec {out}>&1
while
    count=$#; options=()
    while [[ $1 != -- ]]; do
        if [[ $1 == --ro-bind && $2 == "$nothing" && ! -e $3 ]]; then shift 2
        else options+=("$1"); fi
        shift
    done
    set -- "${options[@]}" "$@"
    (($# < count || !code))
do
    ended=$(exec {told}>&1 >&"$out" {out}>&-; exec bwrap --json-status-fd "$told" "$@")
    code=$?
    [[ $ended == *exit-code* || $code != 1 ]] && break
done
exit "$code"
"""


class Bubblewrap:
    """Owns the trial of bubblewrap, the temp folder of commands, and what stands in for files."""

    def __init__(self, scope: SandboxScope) -> None:
        self._scope = scope
        self._workspace = scope.workspace
        self._namespaces: tuple[str, ...] = ()
        self._stand_ins = StandIns(scope.state_dir, Path(scope.workspace))
        self._indexes: dict[str, WorkspaceIndex] = {}
        self._filter = build_filter(network=scope.network)
        self._base: str | None = None

    async def prepare(self) -> SandboxState:
        """Find out whether the sandbox can be used and holds; clear up after dead engines."""
        state = await self._try(is_whole=True)
        self._stand_ins.recover()
        return state

    async def examine(self) -> SandboxState:
        """Look from inside whether it would hold here; writes nothing, not even a temp folder."""
        return await self._try(is_whole=False)

    async def _try(self, *, is_whole: bool) -> SandboxState:
        if shutil.which(PROGRAM) is None:
            return SandboxState(
                is_active=False, reason=f"{PROGRAM} is not installed", cure="install bubblewrap"
            )
        if self._workspace == "/":
            return _failed("the workspace is the whole file system")
        reason = ""
        for options, gap in _USER_NAMESPACES:
            self._namespaces = options
            seen, reason = await self._look(is_whole=is_whole)
            if seen is not None:
                return _judged(seen, gap, self._workspace)
        return _failed(reason)

    @asynccontextmanager
    async def confined(
        self, argv: Sequence[str], cwd: str, region: Sequence[str] | None, closed: Sequence[str]
    ) -> AsyncIterator[Command]:
        """Lend out what runs `argv` in the sandbox; the command has ended when this is left.

        With a `region` nothing of the workspace can be written but these paths; what is `closed`
        never is. Raises ProcessError when one of them cannot be mounted.
        """
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
    def _command(self, argv: Sequence[str], mounts: Sequence[str]) -> Iterator[Command]:
        inherit = () if self._filter is None else (filter_file(self._filter),)
        try:
            options = (*self._isolation(inherit), *mounts)
            start = (PROGRAM, *options, "--", *argv)
            if (nothing := f"{self._base}/nothing") in mounts:
                start = ("bash", "-p", "-c", _START, "bash", nothing, *start[1:])
            yield Command(argv=start, inherit=inherit)
        finally:
            for descriptor in inherit:
                os.close(descriptor)

    def _isolation(self, inherit: tuple[int, ...]) -> Iterator[str]:
        yield from ("--die-with-parent", "--new-session", "--unshare-pid", "--unshare-ipc")
        yield from ("--unshare-uts", "--unshare-cgroup-try", "--cap-drop", "ALL")
        yield from self._namespaces
        if not self._scope.network:
            yield "--unshare-net"
        for descriptor in inherit:
            yield from ("--seccomp", str(descriptor))
        # Root is the owner of what is in /proc, without any capability: nothing there is written.
        yield from ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
        yield from ("--remount-ro", "/proc")

    def _view(self, cwd: str, region: Sequence[str] | None, closed: Sequence[str] = ()) -> View:
        # With the first command: what looks for all that is hidden is of no use before.
        from prsm_sandbox import view

        inside = os.path.realpath(cwd)
        is_inside = Path(inside).is_relative_to(self._workspace)
        root = self._scope.tree_of(inside) or (self._workspace if is_inside else inside)
        if (index := self._indexes.get(root)) is None:
            names = self._scope.protected_names()
            index = view.WorkspaceIndex(root, self._scope.is_secret, names)
            self._indexes[root] = index
        secret, protected = index.look()
        writable = (Path(path).expanduser() for path in self._scope.writable)
        private = (os.fspath(self._scope.state_dir), *self._scope.private)
        path = os.environ.get("PATH", os.defpath).split(os.pathsep)
        return view.View(
            root=root,
            cwd=inside,
            region=None if region is None else tuple(map(os.path.realpath, region)),
            closed=tuple(closed),
            writable=tuple(os.path.realpath(root / path) for path in writable),
            homes=self._scope.homes,
            hidden=(*private, *self._scope.secret_places(), *secret, *view.foreign_sockets()),
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

    async def _look(self, *, is_whole: bool) -> tuple[list[str] | None, str]:
        """Look from inside; return what was seen, or None and why there is no inside."""
        argv = ("bash", "--noprofile", "--norc", "-c", _LOOK, "look", self._workspace)
        mounts: tuple[str, ...] = ("--bind", self._workspace, self._workspace)
        if is_whole:
            mounts = tuple(self._view(self._workspace, None).options())
        with self._command(argv, mounts) as command:
            try:
                trial = await self._scope.run(command, "sandbox trial", TRIAL_SECONDS)
            except ProcessError as error:
                return None, error.message
        if trial.code is None:
            return None, f"{PROGRAM} did not end"
        lines = trial.stdout.splitlines()
        if lines[-1:] == ["looked"]:
            return lines[:-1], ""
        why = trial.stderr.strip().rpartition("\n")[2] or "it failed"
        return None, f"{PROGRAM} does not work here: {why}"


def _failed(reason: str) -> SandboxState:
    return SandboxState(is_active=False, reason=reason, is_wanting=True)


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
        return _failed(f"it would not hold here: {', '.join(bad)}")
    return SandboxState(is_active=True, reason="bubblewrap", gaps=tuple(gaps))


class StandIns:
    """Owns the stand-ins of one workspace that this engine made or took over.

    They are empty folders where a command must not create what others obey. A name that is not
    there cannot be mounted over, and what is not mounted over can be created. So for as long as
    commands run an empty folder stands at each such name: git shows none, no program takes one for
    its settings, and rmdir takes it away only as long as it is empty. Where a region is a file that
    nobody has written yet, an empty file stands.

    Engines in one workspace share a record of what was made. Whoever runs commands holds it locked
    together with the others; whoever is alone at the end removes what it lists, and so does the
    next one after an engine that died.
    """

    def __init__(self, state_dir: Path, workspace: Path) -> None:
        name = hashlib.sha256(os.fsencode(workspace)).hexdigest()[:24]
        self._record = state_dir / "stand-ins" / name
        self._users = 0
        self._descriptor: int | None = None

    @contextmanager
    def held(self, paths: Iterable[Path], files: Iterable[Path] = ()) -> Iterator[None]:
        """Have every one of `paths`, and of `files`, exist inside.

        What was missing goes with its last user, unless somebody has put something there.
        """
        self._enter()
        try:
            for path in files:
                self._make(path, is_file=True)
            for path in paths:
                self._make(path)
            yield
        finally:
            self._leave()

    def recover(self) -> None:
        """Remove what an engine that died has left, unless another one uses it."""
        if self._users == 0 and self._record.exists():
            with self.held(()):
                pass

    def _enter(self) -> None:
        if self._descriptor is None:
            make_private(self._record.parent)
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._descriptor = os.open(self._record, flags, 0o600)
            fcntl.flock(self._descriptor, fcntl.LOCK_SH)  # an exclusive one is held for an instant
        self._users += 1

    def _leave(self) -> None:
        self._users -= 1
        if self._users or self._descriptor is None:
            return
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pass  # others run commands: the last of them clears up
        else:
            self._clear(self._descriptor)
        finally:
            os.close(self._descriptor)
            self._descriptor = None

    def _make(self, path: Path, *, is_file: bool = False) -> None:
        if self._descriptor is None or os.path.lexists(path):
            return
        # Noted first: a crash between the two leaves a note of nothing, not a folder unnoted.
        os.write(self._descriptor, json.dumps(os.fspath(path)).encode() + b"\n")
        # Where this process may not create it, nor may a command.
        with contextlib.suppress(FileExistsError, PermissionError, FileNotFoundError):
            if is_file:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch(exist_ok=False)
            else:
                path.mkdir(mode=MODE)
            if not _is_stand_in(path):  # the umask and the file system have their say
                path.chmod(FILE_MODE if is_file else MODE)

    def _clear(self, descriptor: int) -> None:
        for path in _noted(descriptor):
            if _is_stand_in(path):
                with contextlib.suppress(OSError):  # somebody has put something there meanwhile
                    _remove(path)
        os.ftruncate(descriptor, 0)


def _noted(descriptor: int) -> Iterator[Path]:
    size = os.fstat(descriptor).st_size
    for line in reversed(os.pread(descriptor, size, 0).splitlines()):
        with contextlib.suppress(ValueError):  # a line that was cut off
            yield Path(json.loads(line))


def _is_stand_in(path: Path) -> bool:
    try:
        mode = path.lstat().st_mode
    except OSError:
        return False
    return (stat.S_ISDIR(mode) or stat.S_ISREG(mode)) and bool(mode & stat.S_ISVTX)


def _remove(path: Path) -> None:
    """Remove a stand-in; a file in which somebody has written is theirs, and an ordinary one."""
    status = path.lstat()
    if stat.S_ISDIR(status.st_mode):
        path.rmdir()
    elif status.st_size:
        path.chmod(stat.S_IMODE(status.st_mode) & ~stat.S_ISVTX)
    else:
        path.unlink()


class SandboxExecutor:
    """Implements `Executor`; each part is imported at first need.

    Args:
        runtimes: What boxes may be made with, from the best; None: whatever there is.
    """

    def __init__(self, runtimes: Sequence[str] | None = None) -> None:
        self._runtimes = runtimes

    def open_sandbox(self, scope: SandboxScope) -> Bubblewrap:
        """Return the sandbox of an engine's commands."""
        return Bubblewrap(scope)

    def open_boxes(self, host: BoxHost) -> Containers:
        """Return what puts an engine's programs into boxes."""
        from prsm_sandbox.box_runtimes import RUNTIMES
        from prsm_sandbox.boxes import Containers
        from prsm_sandbox.bundles import Bundles

        return Containers(host, Bundles(host.make_folder), self._runtimes or RUNTIMES)

    def left_boxes(self, folder: Path) -> list[str]:
        """Return the names of the boxes that a dead engine left in its folder; touch nothing."""
        from prsm_sandbox.bundles import left_boxes

        return left_boxes(folder)

    def end_left(self, folder: Path, run: Callable[[Sequence[str]], object]) -> None:
        """Remove the boxes that a dead engine left in its folder, and the folder."""
        from prsm_sandbox.bundles import end_left

        end_left(folder, run)
