"""The oracle: symbols of all worktrees of a repository, at no token.

Everything that blocks runs in one thread of its own, a file at a time, and a look whose waiter is
gone stops after the file it is at. Looks at one tree that are asked for at once are one look.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from prsm_core import LineTooLongError, ProviderNotAvailableError
from prsm_core.files import is_in_repository, repo_identity
from prsm_core.kit import deadline
from prsm_regions.ground import is_below
from prsm_regions.symbols import answers
from prsm_regions.symbols.answers import Found
from prsm_regions.symbols.files import walk
from prsm_regions.symbols.index import Index
from prsm_regions.symbols.outlines import interface, outline, together

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from prsm_core import ProviderServices
    from prsm_regions.symbols.files import Stamp

    ListFiles = Callable[[str], Awaitable[Iterable[str] | None]]

_TIMEOUT_S = 30.0
# What a repository says of itself starts no program here.
_ARGV = (
    *("git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"),
    *("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"),
)
_ENV = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1"}

T = TypeVar("T")


class Oracle:
    """Owns the index of one repository; an async context manager. Roots of trees are resolved.

    `list_files` gives the files of a tree, None where it cannot be told: then the tree is walked.
    """

    def __init__(self, index: Path, *, list_files: ListFiles | None = None) -> None:
        self._index = Index(index)
        self._list_files = list_files
        self._thread = ThreadPoolExecutor(1, "prsm-symbols")
        self._looks: dict[str, _Looks] = {}

    async def __aenter__(self) -> Oracle:
        """Return itself."""
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Close the index, behind what still runs."""
        self._thread.submit(self._index.close)
        self._thread.shutdown(wait=False)

    @property
    def parsed(self) -> int:
        """How many texts were parsed."""
        return self._index.parsed

    async def refresh(self, root: str) -> None:
        """Bring the index to what the tree holds now; one look serves all who ask meanwhile."""
        looks = self._looks.setdefault(root, _Looks())
        wanted = looks.begun + 1
        async with looks.lock:
            if looks.done >= wanted:
                return
            looks.begun += 1
            number = looks.begun
            paths = await self._list_files(root) if self._list_files else None
            stop = threading.Event()
            try:
                listed = walk(root) if paths is None else paths
                await self._run(partial(self._index.refresh, root, listed, stop.is_set))
            finally:
                stop.set()
            looks.done = number

    async def find(self, root: str, name: str, near: Sequence[str] = ()) -> list[Found]:
        """Return what has a name, as of the last look, best first; `near` are places it may be at.

        `a.B.c` is the `c` that is in `B`, in a module `a`; where there is none, any `c`.
        """
        within, own = answers.split_name(name)
        if not own:
            return []
        rows = await self._run(lambda: self._index.with_name(root, own, answers.MAX_FOUND))
        return answers.best([Found(path, one) for path, one in rows], within, near)

    async def near(self, root: str, name: str) -> list[str]:
        """Return names of the tree that are like one that it does not have, best first."""
        own = answers.split_name(name)[1]
        lengths = len(own) - answers.LENGTHS, len(own) + answers.LENGTHS
        return await self._run(lambda: answers.near_names(own, self._index.names(root, *lengths)))

    async def unread(self, root: str) -> list[tuple[str, str]]:
        """Return the files that were not looked into, and why."""
        return await self._run(lambda: self._index.unread(root))

    async def stamps(self, root: str, region: str) -> dict[str, Stamp]:
        """Return the files of a region as the last look saw them; equal ones are unchanged."""
        stamps = await self._run(lambda: self._index.stamps(root))
        return {path: stamp for path, stamp in stamps.items() if is_below(path, region)}

    async def outline(self, root: str, region: str) -> str:
        """Return the outline of a region as of the last look; blank where it defines nothing."""
        files = sorted((await self.stamps(root, region)).items())
        defined = partial(self._index.in_file, root)
        return await self._run(
            lambda: together(outline(path, stamp[0], defined(path)) for path, stamp in files)
        )

    async def interface(self, root: str, region: str) -> str:
        """Return what a region offers others as of the last look; blank where that is nothing."""
        paths = sorted(await self.stamps(root, region))
        defined = partial(self._index.in_file, root)
        return await self._run(lambda: together(interface(path, defined(path)) for path in paths))

    async def _run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


class _Looks:
    """Looks at one tree: how many have begun, and the last that is over."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.begun = 0
        self.done = 0


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
