"""Which files a tree has, by git, and whose it is: one index serves all trees of a repository."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from prsm_core import LineTooLongError, ProviderNotAvailableError
from prsm_core.files import is_in_repository, repo_identity
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
        paths = b"\n".join(said).split(b"\0")
        return [os.fsdecode(path) for path in paths if path] if code == 0 else None

    return list_files


def index_of(folder: Path, root: str) -> Path:
    """Return where the index of a tree's repository lies: one for all worktrees and engines."""
    repository = repo_identity(Path(root)).common_dir
    name = hashlib.sha256(os.fsencode(repository)).hexdigest()[:24]
    return folder / "symbols" / name
