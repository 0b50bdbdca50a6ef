"""Keys that have moved or are gone: what they say is taken over where it can be, and it is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from prsm_core.domain.record import Record
from prsm_core.errors import ConfigError

if TYPE_CHECKING:
    from prsm_core.config.document import KeyPath

Origin: TypeAlias = "Callable[[KeyPath], str]"

# By section and key: why it is of no use any more.
GONE = {
    ("engine", "command_policy"): "the rules of `permissions` and of policy.yaml decide on commands"
}


class Renewed(Record, frozen=True, kw_only=True):
    """What a document says in the keys of today, and a line for each old key that it has."""

    values: Mapping[str, Any]
    origins: Mapping[KeyPath, str]
    told: tuple[str, ...]


def renewed(values: Mapping[str, Any], origins: Mapping[KeyPath, str], origin: Origin) -> Renewed:
    """Take over what old keys say. Raises ConfigError where the new key says something too."""
    kept, told = _without_gone(values, origin)
    moved = _misplaced_servers(kept)
    if not moved:
        return Renewed(values=kept, origins=origins, told=tuple(told))
    old, new = kept["plugins"], kept.get("mcp_servers") or {}
    for name in sorted(moved):
        where = origin(("plugins", name))
        if name in new:
            raise ConfigError(f"{where}: plugins.{name} is also in mcp_servers; keep one of them")
        told.append(
            f"{where}: plugins.{name} is an MCP server: write mcp_servers.{name}, since plugins is "
            "about those of PRSM"
        )
    kept = {
        **kept,
        "plugins": {name: value for name, value in old.items() if name not in moved},
        "mcp_servers": {**new, **{name: old[name] for name in old if name in moved}},
    }
    where_now = {_renamed(path, moved): place for path, place in origins.items()}
    return Renewed(values=kept, origins=where_now, told=tuple(told))


def _without_gone(values: Mapping[str, Any], origin: Origin) -> tuple[dict[str, Any], list[str]]:
    kept, told = dict(values), []
    for (section, key), why in GONE.items():
        holder = kept.get(section)
        if isinstance(holder, Mapping) and key in holder:
            kept[section] = {name: value for name, value in holder.items() if name != key}
            where = origin((section, key))
            told.append(f"{where}: {section}.{key} has no effect, delete it: {why}")
    return kept, told


def _misplaced_servers(values: Mapping[str, Any]) -> set[str]:
    """Return the names of MCP servers under `plugins`, which the first versions took them for."""
    old, new = values.get("plugins"), values.get("mcp_servers") or {}
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return set()
    return {name for name in old if name != "disabled" and isinstance(old[name], dict)}


def _renamed(path: KeyPath, moved: set[str]) -> KeyPath:
    is_moved = len(path) > 1 and path[0] == "plugins" and path[1] in moved
    return ("mcp_servers", *path[1:]) if is_moved else path
