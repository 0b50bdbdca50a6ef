"""What decisions about an agent depend on, as it is now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.domain.permissions import PermissionContext

if TYPE_CHECKING:
    from collections.abc import Callable

    from prsm_core.engine.ports import Life
    from prsm_core.engine.state import AgentRecord, Leases, Roster


class Standing:
    """Tells how agents stand: their mode, place, folder and regions."""

    def __init__(
        self,
        roster: Roster,
        *,
        leased: Callable[[str], Leases],
        reads_by_shell: Callable[[str], bool],
        workspace: Callable[[str], str],
        is_apart: Callable[[AgentRecord], bool],
        trusted: bool,
        interactive: bool,
    ) -> None:
        """Begin with what never changes, and with what to ask.

        Args:
            roster: Knows who is above an agent.
            leased: Returns the regions of others, by an agent's id.
            reads_by_shell: Whether a provider's agents look at files by their shell.
            workspace: Returns the folder of the session, for who works in this one.
            is_apart: Whether an agent has a worktree of its own.
            trusted: Whether the person trusts it.
            interactive: Whether a person may be asked.
        """
        self._roster = roster
        self.leased = leased
        self._reads_by_shell = reads_by_shell
        self._workspace = workspace
        self.is_apart = is_apart
        self.trusted = trusted
        self._interactive = interactive

    def workspace_of(self, record: AgentRecord) -> str:
        """Return the folder of the session as this agent has it."""
        return self._workspace(record.descriptor.cwd)

    def context(self, life: Life, *, sandboxed: bool = False) -> PermissionContext:
        """Return what decisions about this agent depend on now."""
        descriptor = life.record.descriptor
        return PermissionContext(
            mode=descriptor.mode,
            role=descriptor.role,
            provider=descriptor.provider,
            workspace=self.workspace_of(life.record),
            trusted=self.trusted,
            interactive=self._interactive,
            tools=descriptor.tools,
            lineage=self._roster.lineage(descriptor.agent_id),
            shell_reads=self._reads_by_shell(descriptor.provider),
            active=not life.is_over,
            region=descriptor.grant.region,
            apart=self.is_apart(life.record),
            leased=self.leased(descriptor.agent_id),
            sandboxed=sandboxed,
            labels=descriptor.labels,
        )
