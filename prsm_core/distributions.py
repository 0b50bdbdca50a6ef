"""Which installed distribution a module belongs to, as far as it has plugins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.version import __version__

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

GROUP = "prsm"  # of the entry points that name plugins
CORE = "prsm-core"
CORE_ROOT = "prsm_core"


def entry_points_of_plugins() -> EntryPoints:
    """Return the entry points of all installed plugins."""
    # Imported late: it costs as much as all of what finds plugins.
    from importlib.metadata import entry_points

    return entry_points(group=GROUP)


def distribution_of(module: str) -> str | None:
    """Return the name and version of the distribution whose plugin a module belongs to."""
    root = root_of(module)
    if root == CORE_ROOT:
        return f"{CORE} {__version__}"
    for point in entry_points_of_plugins():
        if root and point.dist is not None and root_of(point.module) == root:
            return f"{point.dist.name} {point.dist.version}"
    return None


def root_of(module: str) -> str:
    """Return the top package of a module."""
    return module.partition(".")[0]
