"""Which files a tree has, by git, and whose it is: one index serves all trees of a repository."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from prsm_core import LineTooLongError, ProviderNotAvailableError
from prsm_core.kit import deadline

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from prsm_core import ProviderServices

_TIMEOUT_S = 30.0
# What a repository says of itself starts no program here.
_ARGV = (
    *("git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"),
    *("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"),
)
_ENV = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1"}


def lister(services: ProviderServices) -> Callable[[str], Awaitable[list[str] | None]]:
    """Return what lists the files of a tree by git; it gives None where git cannot."""

    async def list_files(root: str) -> list[str] | None:
        if not is_in_repository(root):
            return None
        try:
            process = await services.start_process(_ARGV, name="git", cwd=root, env=_ENV)
        except ProviderNotAvailableError:  # no git: the tree is walked
            return None
        try:
            async with deadline(services, _TIMEOUT_S):
                process.close_stdin()
                said = [line async for line in process.lines()]
                code = await process.wait()
        except (LineTooLongError, TimeoutError):  # so many files, or a disk that hangs
            return None
        finally:
            process.kill()
        return listed(b"\n".join(said)) if code == 0 else None

    return list_files


def listed(said: bytes) -> list[str]:
    """Return the paths in what `git ls-files -z` says."""
    return [os.fsdecode(path) for path in said.split(b"\0") if path]


def index_of(folder: Path, root: str) -> Path:
    """Return where the index of a tree's repository lies: one for all worktrees and engines."""
    name = hashlib.sha256(os.fsencode(repository_of(root))).hexdigest()[:24]
    return folder / "symbols" / name


def is_in_repository(root: str) -> bool:
    """Return whether git may know of a folder, without a process that says it does not."""
    folder = Path(root).resolve()
    return any(os.path.lexists(place / ".git") for place in (folder, *folder.parents))


def repository_of(root: str) -> str:
    """Return a path that all worktrees of a repository share, by their `.git`, else the folder."""
    folder = Path(root).resolve()
    for place in (folder, *folder.parents):
        dot_git = place / ".git"
        if dot_git.is_dir():
            return str(dot_git)
        if dot_git.is_file():
            return str(_common(place, dot_git))
    return str(folder)


def _common(place: Path, dot_git: Path) -> Path:
    try:
        own = place / dot_git.read_text(encoding="utf-8").removeprefix("gitdir:").strip()
        return (own / (own / "commondir").read_text(encoding="utf-8").strip()).resolve()
    except (OSError, ValueError):  # of a submodule, or it leads nowhere: then it is its own
        return place
