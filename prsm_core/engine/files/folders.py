"""Where agents work: in the session's folder, or in worktrees, which few runs need.

What makes and merges these is loaded once an agent has one.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prsm_core.domain.agents import AgentRole, PermissionMode
from prsm_core.domain.tools import EDIT_TOOLS
from prsm_core.workspace.identity import repo_identity

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from prsm_core.domain.agents import AgentDescriptor, AgentState, SpawnRequest
    from prsm_core.engine.files.trees import TreeKeeper
    from prsm_core.engine.state import AgentRecord, Roster
    from prsm_core.workspace.shadow.whereabouts import Where


_WRITERS = EDIT_TOOLS | {"Bash"}


class Workspaces:
    """Tells it by where an agent works; `where` is None where there are no worktrees."""

    def __init__(self, workspace: str, where: Where | None) -> None:
        self.main = workspace
        self.where = self._where = where
        self._within: str | None = None  # from the top of the working tree, once it is needed

    def of(self, folder: str) -> str:
        """Return the workspace of whoever works in a folder."""
        top = self.top(folder)
        return self.main if top is None else os.path.normpath(f"{top}/{self._below_top()}")

    def top(self, folder: str) -> str | None:
        """Return the top of the worktree that a folder is in; None: it is in none."""
        return None if self._where is None else self._where.top(folder)

    def own(self, record: AgentRecord, roster: Roster) -> str | None:
        """Return the id of a worktree that an agent has for itself; None: it has none.

        Who is spawned without one works where its parent does.
        """
        parent = roster.parent_of(record)
        if self._where is None or parent is None:
            return None
        found = self._where.find(record.descriptor.cwd)
        is_own = found is not None and found != self._where.find(parent.descriptor.cwd)
        return found[1] if found is not None and is_own else None

    def _below_top(self) -> str:
        if self._within is None:
            workspace = Path(self.main).resolve()
            self._within = os.path.relpath(workspace, repo_identity(workspace).root)
        return self._within


class Trees:
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
        writes = bool(plan.tools & _WRITERS) and plan.mode is not PermissionMode.PLAN
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

    def leave(self, record: AgentRecord, told: Mapping[str, Any]) -> None:
        """Have the worktree of an agent that has ended removed, if all of it is merged."""
        self._keeper.leave(record, told)

    async def settled(self) -> None:
        """Wait until what is merged is removed, for a while."""
        if self._made is not None:
            await self._made.settled()

    async def recover(self, folder: Path) -> list[str]:
        """End what a process that has died has left in the repository of a folder; return it."""
        where = self._workspaces.where
        if where is None:
            return []
        known = where.repository(repo_identity(folder).key)
        return await self._keeper.recover(folder) if any(known.glob("*/record.json")) else []
