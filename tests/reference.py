"""The parts of the reference pages that are made of the sources: settings, help, plugins.

`python tests/reference.py` tells which page is out of date; `--sync` brings them up to date. What
stands between `<!-- begin x -->` and `<!-- end x -->` is made, all else is written by hand.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import click

from prsm_core.builtin import BUILTINS
from prsm_core.cli.group import cli
from prsm_core.cli.plugin_sections import plugin_sections
from prsm_core.config.plugin_settings import full_schema
from prsm_core.plugins import PluginManager
from tests.plugin_reference import plugin_parts
from tests.sources import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CONFIG_PAGE = ROOT / "docs" / "config.md"
CLI_PAGE = ROOT / "docs" / "cli.md"
PLUGINS_PAGE = ROOT / "docs" / "plugins.md"
WIDTH = 88  # of the help pages

# What the core brings along takes settings as plugins do.
OURS = PluginManager.load(environ={}, builtins=BUILTINS, enabled=False)
SCHEMA = full_schema(plugin_sections(OURS))
OF_PLUGINS = frozenset(plugin_sections(OURS)) - {"providers"}
_HEAD = ("| key | type | default | variable | meaning |", "|---|---|---|---|---|")
_PART = re.compile(r"(<!-- begin (\S+) -->\n).*?(<!-- end \2 -->)", re.DOTALL)


def updated(page: Path) -> str:
    """Return a page with its made parts as they should be; raise KeyError for an unknown one."""
    parts = PARTS[page]()
    text = page.read_text(encoding="utf-8")
    return _PART.sub(lambda part: f"{part[1]}{parts[part[2]]}{part[3]}", text)


def part_names(page: Path) -> list[str]:
    """Return the names of the parts that a page has."""
    return [part[2] for part in _PART.finditer(page.read_text(encoding="utf-8"))]


def config_parts() -> dict[str, str]:
    """Return the table of each section's keys."""
    return {section: _table(section) for section in SCHEMA["properties"]}


def cli_parts() -> dict[str, str]:
    """Return the help of all commands."""
    pages = [f"### {name}\n\n```text\n{text}\n```\n" for name, text in help_pages(cli, None)]
    return {"commands": "\n" + "\n".join(pages) + "\n"}


def variable(*path: str) -> str:
    """Return the environment variable of a key path."""
    return "__".join(["PRSM", *path]).upper()


def section_keys(section: str) -> Mapping[str, Any]:
    """Return the schemas of a section's own keys, of one entry's where a section holds entries.

    Each entry of a plugin has keys of its own: there are none that all have.
    """
    keys: Mapping[str, Any] = _entry(section).get("properties", {})
    return keys


def holds_entries(section: str) -> bool:
    """Return whether the keys of a section are names that the user chooses."""
    return "additionalProperties" in SCHEMA["properties"][section]


def is_list(section: str) -> bool:
    """Return whether a section is a list, which has no keys."""
    kind: str | None = SCHEMA["properties"][section].get("type")
    return kind == "array"


def help_pages(command: click.Command, parent: click.Context | None) -> Iterator[tuple[str, str]]:
    """Yield the name and the help of a command and of all below it."""
    name = "prsm" if parent is None else str(command.name)
    settings = {**command.context_settings, "terminal_width": WIDTH}
    context = click.Context(command, info_name=name, parent=parent, **settings)
    yield context.command_path, command.get_help(context)
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            assert found is not None
            yield from help_pages(found, context)


def _table(section: str) -> str:
    if section in OF_PLUGINS:
        return _own_table(section)
    if is_list(section):
        node = SCHEMA["properties"][section]
        cells = (section, _type(node), _default(node), f"`{variable(section)}`", _meaning(node))
        return "\n" + "\n".join([*_HEAD, f"| {' | '.join(cells)} |"]) + "\n\n"
    above = [section, "<NAME>"] if holds_entries(section) else [section]
    required = _entry(section).get("required", ())
    rows = [*_HEAD]
    for key, node in section_keys(section).items():
        default = "required" if key in required else _default(node)
        cells = (f"`{key}`", _type(node), default, f"`{variable(*above, key)}`", _meaning(node))
        rows.append(f"| {' | '.join(cells)} |")
    for key, node in section_keys(section).items():
        if below := _nested(node):
            rows += ["", f"Each entry of `{key}`:", "", *_nested_table(below)]
    return "\n" + "\n".join(rows) + "\n\n"


def _own_table(section: str) -> str:
    """Return the keys of what the core itself brings of a kind that plugins bring."""
    rows = [*_HEAD]
    for name, entry in SCHEMA["properties"][section].get("properties", {}).items():
        for key, node in entry.get("properties", {}).items():
            cells = (
                f"`{name}.{key}`",
                _type(node),
                _default(node),
                f"`{variable(section, name, key)}`",
                _meaning(node),
            )
            rows.append(f"| {' | '.join(cells)} |")
    none = "Nothing that the core brings along has settings here."
    return "\n" + "\n".join(rows if len(rows) > len(_HEAD) else [none]) + "\n\n"


def _nested_table(node: Mapping[str, Any]) -> Iterator[str]:
    yield "| key | type | default | meaning |"
    yield "|---|---|---|---|"
    for key, below in node["properties"].items():
        default = "required" if key in node.get("required", ()) else _default(below)
        yield f"| `{key}` | {_type(below)} | {default} | {_meaning(below)} |"


def _entry(section: str) -> Mapping[str, Any]:
    node = SCHEMA["properties"][section]
    return _resolved(node["additionalProperties"] if holds_entries(section) else node)


def _nested(node: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the mapping that a list of mappings holds."""
    items = _resolved(_resolved(node).get("items", {}))
    return items if "properties" in items else None


def _resolved(node: Mapping[str, Any]) -> Mapping[str, Any]:
    """Follow a reference, and leave out that a value may be empty."""
    if "$ref" in node:
        found: Mapping[str, Any] = SCHEMA["$defs"][node["$ref"].rpartition("/")[2]]
        return found
    options = [option for option in node.get("anyOf", ()) if option.get("type") != "null"]
    if len(options) == 1:
        return _resolved(options[0])
    return {"anyOf": options} if options else node


def _type(node: Mapping[str, Any]) -> str:
    node = _resolved(node)
    if "enum" in node:
        return _alternatives([f"`{value}`" for value in node["enum"]])
    if "anyOf" in node:
        return _alternatives([_type(option) for option in node["anyOf"]])
    match node["type"]:
        case "integer" | "number":
            return _number(node)
        case "array":
            return f"list of {_items(node)}"
        case "object":
            return _mapping(node)
    return {"string": "text", "boolean": "`true` or `false`"}[node["type"]]


def _items(node: Mapping[str, Any]) -> str:
    if _nested(node):
        return "entries"
    items = _type(node["items"])
    return f"({items})" if " or " in items else items


def _number(node: Mapping[str, Any]) -> str:
    word = "whole number" if node["type"] == "integer" else "number"
    if "exclusiveMinimum" in node:
        return f"{word} above {node['exclusiveMinimum']}"
    bound = f"to {node['maximum']}" if "maximum" in node else "or more"
    return f"{word}, {node['minimum']} {bound}"


def _mapping(node: Mapping[str, Any]) -> str:
    values = _resolved(node.get("additionalProperties") or {})
    if "properties" in values:
        return "mapping of names to entries"
    names = node.get("propertyNames", {}).get("enum")
    keys = f"({_alternatives([f'`{name}`' for name in names])})" if names else "text"
    return f"mapping of {keys} to {_type(values)}"


def _alternatives(words: list[str]) -> str:
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _default(node: Mapping[str, Any]) -> str:
    default = node.get("default")
    if default in (None, "", [], (), {}):
        return "none"
    if isinstance(default, float) and default.is_integer():
        default = int(default)
    return f"`{json.dumps(default) if not isinstance(default, str) else default}`"


def _meaning(node: Mapping[str, Any]) -> str:
    return str(node.get("description") or _resolved(node)["description"])


PARTS = {CONFIG_PAGE: config_parts, CLI_PAGE: cli_parts, PLUGINS_PAGE: plugin_parts}


def main(argv: list[str]) -> int:
    """Tell what is out of date; with --sync write it."""
    stale = [page for page in PARTS if updated(page) != page.read_text("utf-8")]
    for page in stale:
        sys.stdout.write(f"{page.relative_to(ROOT)} is out of date\n")
        if "--sync" in argv:
            page.write_text(updated(page), encoding="utf-8")
    return 1 if stale and "--sync" not in argv else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
