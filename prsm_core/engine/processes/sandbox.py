"""The sandbox of shell commands and gates: what the settings want, and what the executor can."""

from __future__ import annotations

import logging
import os
import pwd
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from prsm_core.engine.processes.executor import ANSWERS, NO_EXECUTOR, trial_run
from prsm_core.errors import ConfigError
from prsm_core.executors import Command, SandboxScope, SandboxState

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Sequence

    from prsm_core.config.schema import SandboxSettings
    from prsm_core.engine.processes.executor import ChosenExecutor
    from prsm_core.engine.processes.launcher import ProcessLauncher
    from prsm_core.executors import Sandbox
    from prsm_core.plugins.guard import Guest

_log = logging.getLogger("prsm.engine")


class CommandSandbox:
    """Owns the executor's sandbox of one engine, and its state.

    Args:
        settings: What the user wants.
        executor: What shuts commands in.
        workspace: The folder that can be written.
        launcher: Starts trials.
        state_dir: PRSM's own folder, hidden from commands.
        private: Further folders that are hidden: PRSM's configuration, its ledgers.
        home: Whose secrets are hidden; the user's own by default.
        tree_of: Returns the top of an agent's worktree that a folder is in; None: it is in none.
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
            secret_places=lambda: _secret_places(homes),
            is_secret=_is_secret,
            protected_names=_protected_names,
            tree_of=tree_of,
            run=trial_run(launcher),
        )
        self._opened: tuple[Sandbox, Guest] | None = None
        self._state: SandboxState | None = None

    async def prepare(self) -> SandboxState:
        """Find out, once, whether the sandbox can be used and holds.

        Raises ConfigError when it does not and the settings require it.
        """
        if self._state is None:
            self._state = await self._prepared()
            _warn(self._state)
        if self._settings.mode == "require":
            self._require(self._state)
        return self._state

    async def examine(self) -> SandboxState:
        """Find out whether it would hold here; writes nothing."""
        if (state := self._absence()) is not None:
            return state
        sandbox, guest = self._sandbox()
        with guest.calling("examine", ANSWERS):
            return await sandbox.examine()

    @asynccontextmanager
    async def confined(
        self,
        argv: Sequence[str],
        cwd: str,
        region: Sequence[str] | None = None,
        closed: Sequence[str] = (),
    ) -> AsyncIterator[Command]:
        """Lend out what runs `argv` in the sandbox; `argv` itself where there is none.

        With a `region` nothing of the workspace can be written but these paths; what is `closed`
        never is. The command has ended when this is left. Raises ProcessError when one of them
        cannot be mounted.
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

    async def _prepared(self) -> SandboxState:
        if (state := self._absence()) is not None:
            return state
        sandbox, guest = self._sandbox()
        with guest.calling("prepare", ANSWERS):
            return await sandbox.prepare()

    def _absence(self) -> SandboxState | None:
        """Return why no sandbox is looked for, None where one is."""
        if self._settings.mode == "off":
            return SandboxState(is_active=False, reason="it is turned off")
        if self._executor.spec is None:
            reason, cure = self._executor.reason, self._executor.hint
            return SandboxState(is_active=False, reason=reason, is_wanting=True, cure=cure)
        return None

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
    """Return the homes of this user: where HOME leads, and the one the system knows."""
    found = [os.path.realpath(Path.home())]
    with suppress(KeyError):  # a user without an entry, as in many containers
        found.append(os.path.realpath(pwd.getpwuid(os.getuid()).pw_dir))
    return tuple(dict.fromkeys(path for path in found if path != "/"))


# Imported with the first command.


def _secret_places(homes: tuple[str, ...]) -> Iterable[str]:
    from prsm_core.policies.names import secret_places

    return secret_places(homes, os.environ)


def _is_secret(name: str) -> bool:
    from prsm_core.policies.names import is_secret_of_workspace

    return is_secret_of_workspace(name)


def _protected_names() -> frozenset[str]:
    from prsm_core.policies.names import protected_names

    return protected_names()
