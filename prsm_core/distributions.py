"""Which installed distribution a module belongs to, as far as it has plugins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from prsm_core.version import __version__

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint, EntryPoints

GROUP = "prsm"  # of the entry points that name plugins
COMMANDS, TOOL_SERVERS = "prsm.commands", "prsm.tool_servers"
PARTS = frozenset({COMMANDS, TOOL_SERVERS})  # groups of what is found without a hook
CORE = "prsm-core"
CORE_ROOT = "prsm_core"


def entry_points_of_plugins() -> EntryPoints:
    """Return the entry points of all installed plugins."""
    # Imported late: it costs as much as all of what finds plugins.
    from importlib.metadata import entry_points

    return entry_points(group=GROUP)


class Packaged(Struct, frozen=True):
    """What a distribution says of itself; `problem` where that cannot be read."""

    name: str
    version: str = "?"
    requires: tuple[str, ...] = ()
    problem: str | None = None


def packaged(dist: Distribution | None) -> Packaged:
    """Return what a distribution says of itself, whatever state its files are in."""
    if dist is None:
        return Packaged("?")
    try:
        return Packaged(dist.name or "?", dist.version or "?", tuple(dist.requires or ()))
    except (OSError, ValueError, KeyError, AttributeError) as error:
        place = getattr(dist, "_path", None)
        why = f"the metadata in {place} cannot be read: {error}"
        return Packaged(getattr(place, "stem", "?"), problem=why)


def module_of(point: EntryPoint) -> str:
    """Return the module that an entry point names; blank where it is written wrong."""
    return point.value.partition(":")[0].strip()


def distribution_of(module: str) -> str | None:
    """Return the name and version of the distribution whose plugin a module belongs to."""
    root = root_of(module)
    if root == CORE_ROOT:
        return f"{CORE} {__version__}"
    for point in entry_points_of_plugins():
        if root and point.dist is not None and root_of(module_of(point)) == root:
            found = packaged(point.dist)
            return f"{found.name} {found.version}"
    return None


def root_of(module: str) -> str:
    """Return the top package of a module."""
    return module.partition(".")[0]
