"""The sandbox: shell commands and gates under bubblewrap, where it is installed and wanted.

Inside, the workspace can be written but for what could widen an agent's rights or run code later;
the rest of the system can be read but for places that hold secrets; there is no network unless
the configuration allows it, and no process outlives the command.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from prsm_core.errors import ConfigError, ProcessError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prsm_core.config.schema import SandboxSettings
    from prsm_core.engine.processes.launcher import ProcessLauncher

PROGRAM = "bwrap"
TRIAL_SECONDS = 5.0
# Read-only even inside the workspace. One that is missing gets an empty stand-in: what is not
# there cannot be protected, and would be created.
PROTECTED = (".git", ".prism")
ALSO_PROTECTED = (".claude", ".codex", ".gemini", ".mcp.json", ".vscode", ".envrc", ".husky")
SECRET_FOLDERS = (
    *(".ssh", ".aws", ".gnupg", ".kube", ".azure", ".docker", ".password-store"),
    *(".codex", ".claude", ".gemini", ".qwen", ".config/gh", ".config/gcloud", ".config/op"),
)
SECRET_FILES = (".netrc", ".git-credentials", ".pgpass", ".npmrc", ".pypirc", ".claude.json")
SCRATCH = (".cache",)  # what tools keep below the home directory; thrown away


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxState:
    """Whether commands run in the sandbox, and if not, why."""

    is_active: bool
    reason: str


class Sandbox:
    """Owns the trial of bubblewrap and the stand-ins it made in the workspace.

    Args:
        settings: What the user wants.
        workspace: The folder that can be written.
        launcher: Starts the trial.
        state_dir: PRSM's own folder, hidden from commands.
        home: Whose secrets are hidden; the user's own by default.
    """

    def __init__(
        self,
        settings: SandboxSettings,
        *,
        workspace: str,
        launcher: ProcessLauncher,
        state_dir: Path,
        home: Path | None = None,
    ) -> None:
        self._settings = settings
        self._workspace = Path(workspace).resolve()
        self._home = Path.home() if home is None else home
        self._launcher = launcher
        self._state_dir = state_dir
        self._state: SandboxState | None = None
        self._made: set[Path] = set()
        self._temp: str | None = None

    async def prepare(self) -> SandboxState:
        """Find out, once, whether the sandbox can be used.

        Raises ConfigError when it cannot and the settings require it.
        """
        if self._state is None:
            self._state = await self._try()
        if self._settings.mode == "require" and not self._state.is_active:
            raise ConfigError(
                f"sandbox.mode is require, and there is none: {self._state.reason}",
                hint="install bubblewrap, or set sandbox.mode to auto",
            )
        return self._state

    async def argv(
        self, argv: Sequence[str], cwd: str, region: Sequence[str] | None = None
    ) -> tuple[str, ...]:
        """Return the command line that runs `argv` in the sandbox; itself where there is none.

        With a `region` nothing of the workspace can be written but these folders.
        """
        state = await self.prepare()
        return self._command(argv, cwd, region) if state.is_active else tuple(argv)

    def _command(
        self, argv: Sequence[str], cwd: str, region: Sequence[str] | None
    ) -> tuple[str, ...]:
        inside = Path(os.path.realpath(cwd))
        root = self._workspace if inside.is_relative_to(self._workspace) else inside
        options = self._options(root, region)
        return (PROGRAM, *options, "--chdir", os.fspath(inside), "--", *argv)

    def close(self) -> None:
        """Remove what was made: the temp folder, and the stand-ins that are still empty."""
        if self._temp is not None:
            shutil.rmtree(self._temp, ignore_errors=True)
            self._temp = None
        for path in self._made:
            with contextlib.suppress(OSError):  # somebody has put something there meanwhile
                path.rmdir()
        self._made.clear()

    async def _try(self) -> SandboxState:
        if self._settings.mode == "off":
            return SandboxState(is_active=False, reason="it is turned off")
        if shutil.which(PROGRAM) is None:
            return SandboxState(is_active=False, reason=f"{PROGRAM} is not installed")
        argv = (PROGRAM, *self._options(self._workspace), "--", "true")
        try:
            process = await self._launcher.capture(argv, name="sandbox trial", limit=4096)
        except ProcessError as error:
            return SandboxState(is_active=False, reason=error.message)
        try:
            async with asyncio.timeout(TRIAL_SECONDS):
                code = await process.wait()
        except TimeoutError:
            return SandboxState(is_active=False, reason=f"{PROGRAM} did not end")
        finally:
            process.kill()
        if code != 0:
            why = process.stderr.strip().rpartition("\n")[2] or "it failed"
            return SandboxState(is_active=False, reason=f"{PROGRAM} does not work here: {why}")
        return SandboxState(is_active=True, reason="bubblewrap")

    def _options(self, root: Path, region: Sequence[str] | None = None) -> Iterator[str]:
        yield from ("--die-with-parent", "--new-session", "--unshare-pid", "--unshare-ipc")
        yield "--unshare-uts"
        if not self._settings.network:
            yield "--unshare-net"
        yield from ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
        yield from _over("--tmpfs", _existing(Path("/"), ("var/tmp", "run/user")))
        yield from ("--bind", self._own_temp(), tempfile.gettempdir())
        yield from self._hidden()
        yield from ("--bind" if region is None else "--ro-bind", os.fspath(root), os.fspath(root))
        for folder in region or ():
            Path(folder).mkdir(parents=True, exist_ok=True)
            yield from ("--bind", folder, folder)
        writable = [Path(path).expanduser() for path in self._settings.writable]
        yield from self._protected(root, writable)
        for path in writable:
            target = os.fspath(root / path)
            yield from ("--bind-try", target, target)

    def _own_temp(self) -> str:
        """Return the folder that commands see as the temp folder, one after the other."""
        if self._temp is None:
            self._temp = tempfile.mkdtemp(prefix="prsm-sandbox-")
        return self._temp

    def _hidden(self) -> Iterator[str]:
        yield from _over("--tmpfs", _existing(self._home, (*SECRET_FOLDERS, *SCRATCH)))
        if self._state_dir.is_dir():
            yield from ("--tmpfs", os.fspath(self._state_dir))
        for path in _existing(self._home, SECRET_FILES):
            yield from ("--ro-bind", "/dev/null", os.fspath(path))

    def _protected(self, root: Path, writable: list[Path]) -> Iterator[str]:
        for name in (*PROTECTED, *ALSO_PROTECTED):
            path = root / name
            if Path(name) in writable or path in writable:
                continue
            if not path.exists() and name in PROTECTED:
                self._stand_in(path)
            if path.exists():
                yield from ("--ro-bind", os.fspath(path), os.fspath(path))

    def _stand_in(self, path: Path) -> None:
        with contextlib.suppress(FileExistsError):  # another engine was faster
            path.mkdir(mode=0o755)
            self._made.add(path)


def _existing(folder: Path, names: Sequence[str]) -> list[Path]:
    return [folder / name for name in names if (folder / name).exists()]


def _over(option: str, paths: Sequence[Path]) -> Iterator[str]:
    for path in paths:
        yield from (option, os.fspath(path))
