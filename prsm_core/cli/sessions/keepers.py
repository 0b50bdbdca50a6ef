"""Who keeps something of a session beside its ledger, and is to remove it with the session.

A person says beforehand that worktrees may go: nothing that an agent wrote, and that is merged
nowhere, goes unasked.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from prsm_core.cli.places import workspace_paths
from prsm_core.cli.setup import load_plugins
from prsm_core.domain.record import Record
from prsm_core.errors import ConfigError, PrsmError
from prsm_core.interfaces.files import FilesCare, WorkspaceFilesSpec
from prsm_core.interfaces.provider import ProviderSpec
from prsm_core.plugins.objects import load_object

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from prsm_core.cli.launch import Launch
    from prsm_core.config import Paths
    from prsm_core.plugins import PluginManager

_NAMED = 3  # worktrees that an error names


class Keepers(Record, frozen=True):
    """Those who keep something: providers, and what keeps files."""

    providers: Collection[ProviderSpec] = ()
    files: Sequence[FilesCare] = ()

    def worktrees(self, session: str) -> list[str]:
        """Return the worktrees that would go with a session, each as a line for people."""
        return [line for each in self.files for line in each.worktrees(session)]

    def sweep(self, workspace: str) -> None:
        """Remove what a killed act left beside files. Raises PrsmError and OSError."""
        for each in self.files:
            each.sweep(workspace)

    async def remove_left(self) -> None:
        """Remove the worktrees that were given up. Raises PrsmError; some are left then."""
        for each in self.files:
            await each.remove_left()


def keepers_of(plugins: PluginManager, paths: Paths) -> Keepers:
    """Return all that are installed. Raises PluginError for one that cannot be imported."""
    return Keepers(
        plugins.collect(ProviderSpec).values(),
        [
            load_object(spec.care, plugin=plugins.owner_of(spec).name)(paths)
            for spec in plugins.collect(WorkspaceFilesSpec).values()
            if spec.care is not None
        ],
    )


def sweep_strays(launch: Launch, workspace: str) -> None:
    """Remove what killed acts left beside a tree's files; silently leave what cannot be removed."""
    with suppress(PrsmError, OSError):
        plugins = load_plugins(launch, workspace)
        keepers_of(plugins, workspace_paths(workspace)).sweep(workspace)


def require_no_trees(lines: Sequence[str], session: str) -> None:
    """Raise ConfigError where worktrees would go that nobody has said may go."""
    if lines:
        named = "; ".join(lines[:_NAMED]) + ("; …" if len(lines) > _NAMED else "")
        raise ConfigError(
            f"session {session} has worktrees, which hold what is nowhere else: {named}",
            hint="merge their branches, or give --discard-worktrees: they go with it then",
            code="has_worktrees",
        )
