"""Stands for what few runs need of their files, until they do.

The folder is watched from the first call on that may write in it; worktrees are made and merged
once an agent has one.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prsm_core import AgentRole, PermissionMode
from prsm_core.domain.tools import WRITING_TOOLS
from prsm_core.files import Trees, repo_identity

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from prsm_core import AgentState
    from prsm_core.files import (
        AgentDescriptor,
        AgentRecord,
        ChangeRow,
        Roster,
        SpawnRequest,
        WritingCall,
    )
    from prsm_files.session.changes import ChangeWatch
    from prsm_files.session.folders import Workspaces
    from prsm_files.session.trees import TreeKeeper
    from prsm_files.shadow.worktree import Shadow


class LateWatch:
    """Makes the watch at the first call that may write, which then waits until the folder is known.

    What a person does before that is nobody's change.
    """

    def __init__(self, make: Callable[[], ChangeWatch]) -> None:
        self._make = make
        self._made: ChangeWatch | None = None
        self._is_open = False  # a run is
        self._has_begun = False  # … and is watched

    def begin(self, *, is_resumed: bool) -> None:
        """Take note of a run; one that goes on may have calls whose changes nobody has found."""
        self._is_open, self._has_begun = True, False
        if is_resumed:
            self._watch()

    async def finish(self) -> None:
        """Find all that has changed until now; nothing is told until the next run."""
        self._is_open = False
        if self._made is not None:
            await self._made.finish()

    async def flush(self) -> None:
        """Find what calls that have ended have changed, before somebody else writes."""
        if self._made is not None:
            await self._made.flush()

    async def rows(self) -> Sequence[ChangeRow]:
        """Return all changes of the session; none while no call could have written."""
        return () if self._made is None else await self._made.rows()

    def get(self) -> ChangeWatch:
        """Return what watches, or would."""
        if self._made is None:
            self._made = self._make()
        return self._made

    @asynccontextmanager
    async def while_others_write(self) -> AsyncIterator[None]:
        """Let PRSM itself write to the folder, by another process, while the gate is held."""
        async with AsyncExitStack() as stack:
            if self._made is not None:
                await stack.enter_async_context(self._made.while_others_write())
            yield

    def _watch(self) -> ChangeWatch:
        watch = self.get()
        if self._is_open and not self._has_begun:
            self._has_begun = True
            watch.begin()
        return watch

    async def before(self, call: WritingCall) -> None:
        """Look at what a permitted call says it writes, before it runs."""
        await self._watch().before(call)

    def begins(self, call: WritingCall) -> None:
        """Take note of a call that runs from now on."""
        self._watch().begins(call)

    def is_named(self, old: WritingCall, new: WritingCall) -> None:
        """Take note of what a call that runs is called."""
        self._watch().is_named(old, new)

    def owns(self, call: WritingCall, owned: tuple[str, ...]) -> None:
        """Take note of the files that a call writes alone."""
        self._watch().owns(call, owned)

    def look_at(self, shadow: Shadow, files: tuple[str, ...]) -> None:
        """Look at files of a folder now; it blocks."""
        self._watch().look_at(shadow, files)

    def ends(self, call: WritingCall, *, has_run: bool) -> None:
        """Take note of a call that runs no more."""
        self._watch().ends(call, has_run=has_run)


class LateTrees(Trees):
    """Stands for what gives agents worktrees; `policy` is that of the settings, off or writers."""

    def __init__(
        self, workspaces: Workspaces, roster: Roster, policy: str, make: Callable[[], TreeKeeper]
    ) -> None:
        self._workspaces = workspaces
        self._roster = roster
        self._policy = policy
        self._make = make
        self._made: TreeKeeper | None = None

    @property
    def _keeper(self) -> TreeKeeper:
        if self._made is None:
            self._made = self._make()
        return self._made

    def _has_one(self, record: AgentRecord) -> bool:
        return self._workspaces.own(record, self._roster) is not None

    def is_wanted(self, request: SpawnRequest, plan: AgentDescriptor) -> bool:
        """Return whether a new agent is to have one: it was asked for, or the settings want it."""
        if request.worktree is not None:
            return request.worktree
        writes = bool(plan.tools & WRITING_TOOLS) and plan.mode is not PermissionMode.PLAN
        return self._policy == "writers" and request.role is AgentRole.WORKER and writes

    async def give(self, record: AgentRecord) -> None:
        """Make a worktree for an agent that is about to be born. Raises AgentSpawnError."""
        await self._keeper.give(record)

    async def drop(self, records: Sequence[AgentRecord]) -> None:
        """Remove the worktrees of agents that were not born after all."""
        if any(map(self._has_one, records)):
            await self._keeper.drop(records)

    async def ensure(self, record: AgentRecord) -> None:
        """Have the worktree of an agent that is to live again. Raises AgentSpawnError."""
        if self._has_one(record):
            await self._keeper.ensure(record)

    async def settle(self, record: AgentRecord, state: AgentState) -> Mapping[str, Any] | None:
        """Merge what an agent that ends has changed; return what is told of it, if it has one."""
        return await self._keeper.settle(record, state) if self._has_one(record) else None

    async def has_changed(self, record: AgentRecord) -> bool:
        """Return whether an agent has a worktree, and has changed something there."""
        return self._has_one(record) and await self._keeper.has_changed(record)

    def leave(self, record: AgentRecord, told: Mapping[str, Any]) -> None:
        """Have the worktree of an agent that has ended removed, if all of it is merged."""
        self._keeper.leave(record, told)

    async def settled(self) -> None:
        """Wait until what is merged is removed, for a while."""
        if self._made is not None:
            await self._made.settled()

    async def left(self, session: str) -> Sequence[Mapping[str, Any]]:
        """Return the worktrees of a session's ended agents that are not merged, as JSON values."""
        where = self._workspaces.where
        if where is None:
            return ()
        from prsm_files.worktrees.records import left_of, told_left  # once somebody asks

        def read() -> list[Mapping[str, Any]]:
            key = repo_identity(Path(self._workspaces.main)).key
            return [told_left(tree) for tree in left_of(where, key, session)]

        return await asyncio.to_thread(read)

    async def recover(self, folder: Path) -> list[str]:
        """End what a process that has died has left in the repository of a folder; return it."""
        where = self._workspaces.where
        if where is None:
            return []
        known = where.repository(repo_identity(folder).key)
        return await self._keeper.recover(folder) if any(known.glob("*/record.json")) else []
