"""Finishes deletions that a kill cut off, before a command looks at sessions.

What deletes is imported only where something is left, which is hardly ever so.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from prsm_core.cli.places import workspace_paths
from prsm_core.cli.saying import say

if TYPE_CHECKING:
    from collections.abc import Collection

    from prsm_core.cli.launch import Launch

NOTES = "deletions"  # the folder of the state directory that they lie in
_HERE = "."  # what was noted stands in the state directory, whatever the folder


def finish(launch: Launch) -> None:
    """Finish what `prsm sessions delete` has begun; what cannot be removed is told on stderr.

    Plugins are loaded only where something is left.
    """
    state = workspace_paths(_HERE).state
    if not any((state / NOTES).glob("*.json")):
        return
    from prsm_core.cli.sessions.deleting import finish_deletions
    from prsm_core.cli.setup import load_plugins
    from prsm_core.interfaces.provider import ProviderSpec

    @cache
    def specs() -> Collection[ProviderSpec]:
        return load_plugins(launch, _HERE).collect(ProviderSpec).values()

    for problem in finish_deletions(state, specs):
        say(f"prsm: warning: of a session that was deleted something is left: {problem}", err=True)
