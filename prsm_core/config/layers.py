"""Lays configuration layers over each other: mappings merge, the last value wins, rules add up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from prsm_core.config.document import Document, KeyPath
from prsm_core.domain.record import Record
from prsm_core.errors import ConfigError

_STRICTER_RULES = (("permissions", "deny"), ("permissions", "ask"))
# What holds even of a workspace that is not trusted, and with which value alone, where it matters.
ALWAYS_HELD: Mapping[tuple[str, str], str | None] = {
    **dict.fromkeys(_STRICTER_RULES),
    ("permissions", "edits"): "ask",
}
# Sections that are read from a person's own files alone, whatever workspace they trust.
OWN_SECTIONS = frozenset({"notify"})
# Lists that every layer adds to and none can shorten.
ADDED_UP = (*_STRICTER_RULES, ("permissions", "required"))

# By section and key: why it is of no use any more.
GONE = {
    ("engine", "command_policy"): "the rules of `permissions` and of policy.yaml decide on commands"
}


class Layer(Record, frozen=True, kw_only=True):
    """The values of one source, and where each key stands; `told` has a line for each old key."""

    values: Mapping[str, Any]
    origins: Mapping[KeyPath, str]
    told: tuple[str, ...] = ()

    @staticmethod
    def of(document: Document) -> Layer:
        """Make a layer of a whole document; raise ConfigError unless it is a mapping."""
        if not isinstance(document.value, dict | None):
            raise ConfigError(f"{document.origins[()]}: the configuration must be a mapping")
        return renewed(Layer(values=document.value or {}, origins=document.origins))

    @staticmethod
    def at(path: tuple[str, ...], document: Document) -> Layer:
        """Make a layer that sets a single key path."""
        value = document.value
        for key in reversed(path):
            value = {key: value}
        origins = {(*path, *below): origin for below, origin in document.origins.items()}
        return Layer.of(Document(value=value, origins=origins))

    def only(self, held: Mapping[tuple[str, str], str | None]) -> Layer:
        """Keep nothing but these keys of sections; one with a value only if it has this value."""
        values: dict[str, Any] = {}
        for (section, key), wanted in held.items():
            found = self.values.get(section)
            if isinstance(found, Mapping):
                if key in found and wanted in (None, found[key]):
                    values.setdefault(section, {})[key] = found[key]
            elif found is not None:
                values[section] = found  # to be refused when it is laid over the others
        return Layer(values=values, origins=self.origins)

    def of_workspace(self) -> Layer:
        """Leave out, and tell of, the sections that are read from a person's own files alone."""
        told = tuple(
            f"{self.origin((section,))}: {section} has no effect here: it is read from your own "
            "configuration alone"
            for section in sorted(OWN_SECTIONS & self.values.keys())
        )
        values = {key: value for key, value in self.values.items() if key not in OWN_SECTIONS}
        return Layer(values=values, origins=self.origins, told=(*self.told, *told))

    def origin(self, path: KeyPath) -> str:
        """Return where a key path stands, or the nearest path above it."""
        return nearest_origin(self.origins, path)


class Layers(Struct):
    """All layers so far as one."""

    values: dict[str, Any] = field(default_factory=dict)
    origins: dict[KeyPath, str] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)

    def add(self, layer: Layer) -> None:
        """Lay a layer on top. Raises ConfigError if a value's type would wipe out lower rules."""
        permissions = layer.values.get("permissions")
        if not isinstance(permissions, Mapping | None):
            raise _wrong(layer, ("permissions",), "a mapping")
        for section, key in ADDED_UP:
            if not isinstance((layer.values.get(section) or {}).get(key), list | None):
                raise _wrong(layer, (section, key), "a list")
        self._merge(self.values, layer.values, (), layer)
        self.told += layer.told

    def origin(self, path: KeyPath) -> str:
        """Return where the value at a key path, or the nearest one above it, comes from."""
        return nearest_origin(self.origins, path)

    def sources(self) -> dict[str, str]:
        """Return the origin of each value that was set, by dotted key path."""
        return {dotted(path): self.origin(path) for path in _leaves(self.values, ())}

    def _merge(
        self, target: dict[str, Any], values: Mapping[str, Any], path: KeyPath, layer: Layer
    ) -> None:
        for key, value in values.items():
            here = (*path, key)
            if here in ADDED_UP:
                rules = target.setdefault(key, [])
                for index, rule in enumerate(value or []):
                    if rule not in rules:
                        self._note(rule, (*here, len(rules)), (*here, index), layer)
                        rules.append(rule)
            elif isinstance(value, Mapping):
                if not isinstance(target.get(key), dict):
                    target[key] = {}
                self.origins[here] = layer.origin(here)
                self._merge(target[key], value, here, layer)
            elif value is not None or path:  # an empty section changes nothing
                target[key] = value
                self._note(value, here, here, layer)

    def _note(self, value: Any, path: KeyPath, source: KeyPath, layer: Layer) -> None:
        self.origins[path] = layer.origin(source)
        for key, item in _items(value):
            self._note(item, (*path, key), (*source, key), layer)


def nearest_origin(origins: Mapping[KeyPath, str], path: KeyPath) -> str:
    """Return the origin of a path, or of the nearest one above it or the first below it, or ""."""
    for end in range(len(path), -1, -1):
        if path[:end] in origins:
            return origins[path[:end]]
    return next((origins[each] for each in origins if each[: len(path)] == path), "")


def dotted(path: KeyPath) -> str:
    """Write a key path as people do: permissions.deny[2]."""
    text = ""
    for key in path:
        text += f"[{key}]" if isinstance(key, int) else f".{key}" if text else key
    return text


def _items(value: Any) -> Iterable[tuple[str | int, Any]]:
    if isinstance(value, Mapping):
        return value.items()
    return enumerate(value) if isinstance(value, list) else ()


def _leaves(value: Any, path: KeyPath) -> list[KeyPath]:
    if isinstance(value, Mapping) and value:
        return [leaf for key, item in value.items() for leaf in _leaves(item, (*path, key))]
    if isinstance(value, list) and path in ADDED_UP:
        return [(*path, index) for index in range(len(value))]
    return [path] if path else []


def _wrong(layer: Layer, path: KeyPath, wanted: str) -> ConfigError:
    return ConfigError(f"{layer.origin(path)}: {dotted(path)} must be {wanted}")


def renewed(layer: Layer) -> Layer:
    """Move old keys to today's and note each; raise ConfigError if the new key is set too."""
    kept, told = _without_gone(layer)
    moved = _misplaced_servers(kept)
    if not moved:
        return replace(layer, values=kept, told=tuple(told))
    old, new = kept["plugins"], kept.get("mcp_servers") or {}
    for name in sorted(moved):
        where = layer.origin(("plugins", name))
        if name in new:
            raise ConfigError(f"{where}: plugins.{name} is also in mcp_servers; keep one of them")
        told.append(
            f"{where}: plugins.{name} is an MCP server: write mcp_servers.{name}, since plugins is "
            "about those of PRSM"
        )
    kept["plugins"] = {name: value for name, value in old.items() if name not in moved}
    kept["mcp_servers"] = {**new, **{name: old[name] for name in old if name in moved}}
    where_now = {_renamed(path, moved): place for path, place in layer.origins.items()}
    return Layer(values=kept, origins=where_now, told=tuple(told))


def _without_gone(layer: Layer) -> tuple[dict[str, Any], list[str]]:
    kept, told = dict(layer.values), []
    for (section, key), why in GONE.items():
        holder = kept.get(section)
        if isinstance(holder, Mapping) and key in holder:
            kept[section] = {name: value for name, value in holder.items() if name != key}
            where = layer.origin((section, key))
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
