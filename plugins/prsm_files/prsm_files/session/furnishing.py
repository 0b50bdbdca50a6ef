"""Furnishes a new worktree with what git ignores: files to copy, and a command that sets it up."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from prsm_core import PrsmError
from prsm_core.files import AgentSpawnError, run_shell
from prsm_core.policies import is_within

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from prsm_core.files import FilesContext

OUTPUT_LIMIT = 4 * 2**10
SHOWN_LINES = 10


async def set_up(of: FilesContext, target: Path, variables: Mapping[str, str]) -> None:
    """Run the set-up command in a worktree. Raises AgentSpawnError (code `no_worktree`).

    In a workspace that is not trusted it does not run: it is what the repository brings.
    """
    command = of.settings.workspace.worktree_setup
    if command is None:
        return
    if not of.trusted:
        raise _failed("the workspace is not trusted", hint="`prsm trust` trusts it")
    seconds = of.settings.workspace.worktree_setup_seconds
    try:
        result = await run_shell(
            of.launcher,
            f"exec 2>&1\n{command}",
            cwd=os.fspath(target),
            timeout_s=seconds,
            clock=of.clock,
            env={**of.env, **variables},
            output_limit=OUTPUT_LIMIT,
            keep_end=True,
            sandbox=of.sandbox(),
        )
    except PrsmError as error:
        raise _failed(f"it could not run: {error.message}") from error
    if result.timed_out:
        raise _failed(f"it did not end within {seconds:g} s")
    if result.exit_code:
        lines = result.stdout.rstrip().splitlines()[-SHOWN_LINES:]
        raise _failed("\n".join((f"it ended with exit code {result.exit_code}", *lines)))


def _failed(why: str, hint: str = "correct workspace.worktree_setup") -> AgentSpawnError:
    return AgentSpawnError(
        f"the set-up of the worktree failed: {why}",
        hint=f"{hint}; or spawn it with worktree: false",
        code="no_worktree",
    )


def copy_all(names: Sequence[str], source: Path, target: Path) -> Iterator[str]:
    """Copy what is named to another workspace, but over nothing; yield what was not copied."""
    for name in names:
        old, new = source / name, target / name
        if not _is_inside(old, source) or not _is_inside(new, target):
            yield f"{name} is not copied: a link leads outside of the workspace"
        elif not os.path.lexists(old):
            yield f"{name} is not copied: it is not in {source}"
        elif not os.path.lexists(new):
            try:
                _copy(old, new)
            except OSError as error:
                yield f"{name} is not copied whole: {error.strerror or error}"


def _is_inside(path: Path, top: Path) -> bool:
    """Return whether no link above a path leads out of a folder; the path itself may be one."""
    return is_within(os.path.realpath(path.parent), os.path.realpath(top))


def _copy(old: Path, new: Path) -> None:
    new.parent.mkdir(parents=True, exist_ok=True)
    if old.is_dir() and not old.is_symlink():
        shutil.copytree(old, new, symlinks=True)
    else:
        shutil.copy2(old, new, follow_symlinks=False)
