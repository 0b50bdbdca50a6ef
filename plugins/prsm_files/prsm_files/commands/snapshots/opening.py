"""Opens the shadow of a folder for one command, with a process that runs git for it."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from prsm_core import ConfigError
from prsm_core.commands import (
    find_owner,
    install_child_watcher,
    open_control,
    run_to_end,
    say,
    workspace_paths,
    write_ledger,
)
from prsm_core.files import Ids, ProcessLauncher
from prsm_core.kit import escape_exact
from prsm_core.terminal import SystemClock
from prsm_files.session.git_process import open_git
from prsm_files.session.keeper import recovered
from prsm_files.shadow.opening import Shadows

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from prsm_core import AppHandle
    from prsm_files.shadow.worktree import Shadow

T = TypeVar("T")
SHOWN = 20  # files, or changes


def with_shadow(workspace: str, work: Callable[[Shadow], T]) -> T:
    """Do what needs the shadow of a folder; tell on stderr what was mended. Raises PrsmError."""
    install_child_watcher()

    async def use() -> T:
        async with open_shadow(workspace) as shadow:
            return await asyncio.to_thread(work, shadow)

    return run_to_end(use())


@asynccontextmanager
async def open_shadow(workspace: str) -> AsyncIterator[Shadow]:
    """Open the shadow of a folder, for threads, and tell what was mended besides."""
    paths = workspace_paths(workspace)
    clock = SystemClock()
    async with ProcessLauncher(clock) as launcher, open_git(launcher, clock) as git:
        shadows = Shadows(state=paths.state, data=paths.data, trees=paths.trees)
        shadow = shadows.open(git, Path(workspace))
        try:
            if shadows.is_cut_off(Path(workspace)):
                await _finish(shadow, workspace)
            yield shadow
        finally:
            for note in shadow.notes:
                say(f"prsm: note: {escape_exact(note)}", err=True)


async def _finish(shadow: Shadow, workspace: str) -> None:
    owed = await asyncio.to_thread(recovered, shadow)
    if owed is None:
        return
    from prsm_files.session.taking_back import finish_owed  # few undos are cut off

    async with write_ledger(workspace) as store:
        note = await finish_owed(store, owed, ids=Ids(time.time), now=time.time())
    await asyncio.to_thread(shadow.journal.settle)
    say(f"prsm: note: {escape_exact(note)}", err=True)


@asynccontextmanager
async def open_engine(workspace: str, session: str) -> AsyncIterator[AppHandle | None]:
    """Open the engine of a session; None where it has none."""
    state = workspace_paths(workspace).state
    if find_owner(state, session) is None:
        yield None
        return
    async with open_control(state, session) as engine:
        yield engine


def require_terminal(what: str) -> None:
    """Raise ConfigError where nobody can be asked."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise ConfigError(f"nobody can be asked whether {what}", hint="give --yes")


def shown(lines: Sequence[str], more: str = "  … {} more") -> Sequence[str]:
    """Return the first lines, and how many more there are."""
    return [*lines[:SHOWN], *([more.format(len(lines) - SHOWN)] if len(lines) > SHOWN else [])]
