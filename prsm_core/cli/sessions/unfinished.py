"""Finishes deletions that a kill cut off, before a command looks at sessions."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from prsm_core.cli.places import deletion_notes, workspace_paths
from prsm_core.cli.saying import say
from prsm_core.loop.run import run_to_end

if TYPE_CHECKING:
    from collections.abc import Collection

    from prsm_core.cli.launch import Launch
    from prsm_core.interfaces.provider import ProviderSpec

_HERE = "."  # what was noted stands in the state directory, whatever the folder


def finish(launch: Launch) -> None:
    """Finish what `prsm sessions delete` has begun; what cannot be removed is told on stderr.

    Plugins, and what deletes, are loaded only where something is left.
    """
    paths = workspace_paths(_HERE)
    if not deletion_notes(paths.state):
        return
    from prsm_core.cli.sessions.deleting import finish_deletions
    from prsm_core.cli.sessions.trees import remove_left
    from prsm_core.engine.processes.launcher import install_child_watcher
    from prsm_core.workspace.shadow.whereabouts import Where

    specs, trees = cache(lambda: _specs(launch)), paths.trees.resolve()

    def remove_trees() -> None:
        install_child_watcher()
        run_to_end(remove_left(Where(paths.state, trees)))

    for problem in finish_deletions(paths.state, trees, specs, remove_trees):
        say(f"prsm: warning: of a session that was deleted something is left: {problem}", err=True)


def _specs(launch: Launch) -> Collection[ProviderSpec]:
    from prsm_core.cli.setup import load_plugins
    from prsm_core.interfaces.provider import ProviderSpec

    return load_plugins(launch, _HERE).collect(ProviderSpec).values()
