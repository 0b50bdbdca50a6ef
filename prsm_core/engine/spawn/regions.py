"""Regions: files and folders that an agent may write, leased to it as long as it lives.

A region that a spawn names is its agent's alone, but for the agents below it. One that is handed
down with the grant is shared. Whoever works in a worktree has leased its paths in all of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from prsm_core.errors import AgentSpawnError
from prsm_core.policies.within import is_within

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prsm_core.engine.state import AgentRecord, Leases, Roster
    from prsm_core.engine.workspace_files import Folders


def choose_region(
    wanted: Sequence[str] | None, cwd: str, granted: tuple[str, ...] | None, leases: Leases
) -> tuple[str, ...] | None:
    """Return what a child may write, absolute: as wanted, else as granted.

    Raises AgentSpawnError for a path outside `cwd` (`bad_region`), beyond the grant
    (`not_granted`), or leased to another agent (`region_taken`).
    """
    if wanted is None:
        return granted
    root = Path(cwd).resolve()
    region = tuple(sorted({str((root / folder).resolve()) for folder in wanted}))
    for folder in region:
        if not is_within(folder, str(root)):
            raise AgentSpawnError(
                f"{folder} is outside {root}",
                hint="choose folders below the child's own",
                code="bad_region",
            )
        if not region_fits((folder,), granted):
            raise AgentSpawnError(
                f"{folder} is not yours to hand down",
                hint=f"you have {', '.join(granted or ())}",
                code="not_granted",
            )
        _check_free(folder, leases)
    return region


def region_fits(child: tuple[str, ...] | None, parent: tuple[str, ...] | None) -> bool:
    """Return whether a region is one that a parent with the other may hand down."""
    if parent is None or child is None:
        return parent is None
    return all(any(is_within(folder, own) for own in parent) for folder in child)


class LeaseTable(Struct, eq=False):
    """Owns the leases of files and folders; each holds as long as its agent lives."""

    roster: Roster
    workspaces: Folders
    _lessees: dict[str, AgentRecord] = field(default_factory=dict)  # few of many agents

    def enter(self, record: AgentRecord) -> None:
        """Note a new agent, whose parent is known already."""
        if self._leased(record):
            self._lessees[record.agent_id] = record

    def strike(self, agent_id: str) -> None:
        """Forget an agent that never came to be."""
        self._lessees.pop(agent_id, None)

    def beside(self, agent_id: str | None) -> Leases:
        """Return the leases of live agents that are neither this one nor above it.

        A path is told as it is where the agent works, and as it is in the session's own files.
        """
        if not self._lessees:
            return ()
        lineage = () if agent_id is None else self.roster.lineage(agent_id)
        places = self.workspaces
        cwd = places.main if agent_id is None else self.roster.get(agent_id).descriptor.cwd
        found: dict[tuple[str, str], None] = {}
        for record in self._lessees.values():
            if not record.has_ended and record.agent_id not in lineage:
                for folder in self._leased(record):
                    home, owner = places.home(folder), record.descriptor.name
                    found[(places.seen_from(home, cwd), owner)] = None
                    found[(home, owner)] = None
        return tuple(found)

    def check_still_free(self, record: AgentRecord) -> None:
        """Raise AgentSpawnError when the region of an ended agent is another's by now."""
        if record.agent_id in self._lessees:
            leases = self.beside(record.agent_id)
            for folder in self._leased(record):
                _check_free(folder, leases)

    def _leased(self, record: AgentRecord) -> tuple[str, ...]:
        """Return the folders that a spawn named for this agent; what is inherited is shared."""
        own = record.descriptor.grant.region
        if own is None:  # as most
            return ()
        parent = self.roster.parent_of(record)
        is_inherited = parent is not None and parent.descriptor.grant.region == own
        return () if is_inherited else own


def _check_free(folder: str, leases: Leases) -> None:
    from prsm_core.kit.filenames import fold_of  # few agents have a region

    fold = fold_of(folder)
    wanted = fold(folder)
    for other, owner in leases:
        taken = fold(other)
        if is_within(wanted, taken) or is_within(taken, wanted):
            raise AgentSpawnError(
                f"{folder} is taken: {owner} writes in {other}",
                hint="choose another one, or wait for that agent's end",
                code="region_taken",
            )
