"""Finishes deletions that a kill cut off, before a command looks at sessions."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from prsm_core.cli.places import deletion_notes, workspace_paths
from prsm_core.cli.saying import say
from prsm_core.loop.run import run_to_end

if TYPE_CHECKING:
    from prsm_core.cli.launch import Launch
    from prsm_core.cli.sessions.keepers import Keepers
    from prsm_core.config import Paths

_HERE = "."  # what was noted stands in the state directory, whatever the folder


def finish(launch: Launch) -> None:
    """Finish deletions that were cut off, if any; say on stderr what cannot be removed."""
    paths = workspace_paths(_HERE)
    if not deletion_notes(paths.state):
        return
    from prsm_core.cli.sessions.deleting import finish_deletions
    from prsm_core.engine.processes.launcher import install_child_watcher

    keepers = cache(lambda: _keepers(launch, paths))

    def remove_trees() -> None:
        install_child_watcher()
        run_to_end(keepers().remove_left())

    for problem in finish_deletions(paths.state, keepers, remove_trees):
        say(f"prsm: warning: of a session that was deleted something is left: {problem}", err=True)


def _keepers(launch: Launch, paths: Paths) -> Keepers:
    from prsm_core.cli.sessions.keepers import keepers_of
    from prsm_core.cli.setup import load_plugins

    return keepers_of(load_plugins(launch, _HERE), paths)
