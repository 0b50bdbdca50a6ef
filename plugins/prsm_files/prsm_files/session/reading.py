"""Changes of a session as a person reads them: by the session's engine, or without one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from prsm_core import ConfigError
from prsm_core.files import FilesReader, ProcessLauncher, repo_identity
from prsm_core.terminal import SystemClock
from prsm_files.changes.tracing import find_origin, patch
from prsm_files.session.deciding import find_change, names_of, told_change, told_detail, wanted
from prsm_files.session.git_process import open_git
from prsm_files.session.reasons import Reasons, of_line, of_path, told_reason
from prsm_files.shadow.opening import Shadows
from prsm_files.worktrees.records import left_of, told_left

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from prsm_core import Store
    from prsm_core.door import Change, ChangeDetail, LeftWorktree, Rationale
    from prsm_core.files import ChangeRow, Paths
    from prsm_files.changes.tracing import Origin
    from prsm_files.shadow.worktree import Shadow

T = TypeVar("T")


class Lines(Protocol):
    """What knows the changes of a session, and their lines."""

    async def rows(self) -> Sequence[ChangeRow]:
        """Return all changes, oldest first."""
        ...

    async def patch(self, rows: Sequence[ChangeRow]) -> str:
        """Return what changes did to lines."""
        ...

    async def origin(self, rows: Sequence[ChangeRow], line: int) -> Origin:
        """Return which change of a file, newest first, made a line of it."""
        ...


class ChangeReader:
    """Reads the changes of a session; without `lines` their contents are not kept."""

    def __init__(
        self, store: Store, session: str, workspace: str, lines: Callable[[], Lines] | None
    ) -> None:
        self._store = store
        self._session = session
        self._workspace = workspace
        self._lines = lines

    async def list(self) -> Sequence[Change]:
        """Return all changes of the session, oldest first."""
        rows, names = await self.rows(), await self.names()
        return [told_change(row, names) for row in rows]

    async def show(self, change: str) -> ChangeDetail:
        """Return a change with its lines and its reason; see Changes."""
        row = find_change(await self.rows(), change)
        text = await self.lines().patch([row])
        reason = await Reasons(self._store, self._session).of(row)
        return told_detail(row, await self.names(), reason, text)

    async def rationale(self, path: str, line: int | None = None) -> Rationale:
        """Return why a file, or a line of it, was changed; see Changes."""
        rows = of_path(await self.rows(), self._workspace, path)
        row = rows[0]
        if line is not None:
            row = of_line(rows, await self.lines().origin(rows, line), line)
        reason = await Reasons(self._store, self._session).of(row)
        return told_reason(row, await self.names(), reason)

    async def rows(self) -> Sequence[ChangeRow]:
        """Return all changes as the ledger has them, oldest first."""
        if self._lines is not None:
            return await self._lines().rows()
        return await self._store.changes(self._session)

    async def names(self) -> Mapping[str, str]:
        """Return what the agents are called, by id."""
        return await names_of(self._store, self._session)

    def lines(self) -> Lines:
        """Return what knows lines. Raises ConfigError where contents are not kept."""
        if self._lines is None:
            raise no_changes_kept()
        return self._lines()


def no_changes_kept() -> ConfigError:
    """Return the error of a look at contents where none are kept."""
    return ConfigError(
        "changes of files are not kept here",
        hint="let `workspace.snapshots` be something else than off",
        code="no_changes",
    )


class LeftFiles(ChangeReader, FilesReader):
    """Reads what is known of the files of a session that nobody runs; it writes none."""

    def __init__(self, paths: Paths, store: Store, session: str, workspace: str) -> None:
        super().__init__(store, session, workspace, lambda: self)
        self._shadows = Shadows(state=paths.state, data=paths.data, trees=paths.trees)

    async def rows(self) -> Sequence[ChangeRow]:
        """Return all changes, oldest first."""
        return await self._store.changes(self._session)

    async def patch(self, rows: Sequence[ChangeRow]) -> str:
        """Return what changes did to lines. Raises PrsmError where git or the folder is not fit."""
        asked = [row.change for row in rows]
        return await self._read(lambda shadow: patch(shadow, asked))

    async def origin(self, rows: Sequence[ChangeRow], line: int) -> Origin:
        """Return which change of a file, newest first, made a line of it; see `find_origin`."""
        asked = wanted(rows[::-1])
        return await self._read(lambda shadow: find_origin(shadow, asked, line))

    async def worktrees(self) -> Sequence[LeftWorktree]:
        """Return the worktrees of agents that have ended and are not merged."""
        where, key = self._shadows.trees, repo_identity(Path(self._workspace)).key
        return (
            () if where is None else [told_left(one) for one in left_of(where, key, self._session)]
        )

    async def _read(self, work: Callable[[Shadow], T]) -> T:
        """Read the shadow, in a thread; an act that was cut off is for whoever may write."""
        folder, clock = Path(self._workspace), SystemClock()
        if self._shadows.is_cut_off(folder):
            raise ConfigError(
                "an act on the files was cut off, and is to be finished first",
                hint="`prsm changes list` finishes it",
                code="cut_off",
            )
        async with ProcessLauncher(clock) as launcher, open_git(launcher, clock) as git:
            shadow = self._shadows.open(git, folder)
            return await asyncio.to_thread(work, shadow)
