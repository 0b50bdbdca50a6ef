"""Measure the size and the coupling of the product: what `test_shape.py` sets ceilings for."""

from __future__ import annotations

import ast
import tomllib
from importlib import metadata
from typing import TYPE_CHECKING, Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import prsm_core
import prsm_core.commands
import prsm_core.door
import prsm_core.executors
import prsm_core.files
import prsm_core.kit
import prsm_core.policies
import prsm_core.terminal
from tests.import_graph import imports_of
from tests.sources import CORE, PLUGINS, ROOT, parsed, where

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from pathlib import Path

_PROJECTS = (ROOT, *PLUGINS)
# The packages whose names a plugin may use.
_DOORS = (
    *(prsm_core, prsm_core.commands, prsm_core.door, prsm_core.executors, prsm_core.files),
    *(prsm_core.kit, prsm_core.policies, prsm_core.terminal),
)
_PUBLIC = {each.__name__: each.__all__ for each in _DOORS}


def count_lines(files: Iterable[Path]) -> int:
    """Return how many lines the files have, blank ones and comments included."""
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files)


def private_imports(package: Path) -> list[str]:
    """Return the imports, by the files of a folder, of names of the core that are not public."""
    return [
        f"{where(path, node)} {module}:{name}"
        for path in sorted(package.rglob("*.py"))
        for node, module, name in imports_of(path, "prsm_core")
        if name not in _PUBLIC.get(module, ())
    ]


def _project(folder: Path) -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    return project


def foreign_distributions(name: str) -> set[str]:
    """Return the distributions of others that installing one of ours brings with it.

    Our dependencies are read from `pyproject.toml`, those of others from what is installed. Markers
    are evaluated for this interpreter. An extra counts where a requirement names it. Raises
    PackageNotFoundError for a distribution that is not installed.
    """
    ours = {canonicalize_name(each["name"]): each for each in map(_project, _PROJECTS)}
    seen: set[tuple[str, str]] = set()
    pending = [(canonicalize_name(name), "")]
    while pending:
        distribution, extra = pending.pop()
        if (distribution, extra) in seen:
            continue
        seen.add((distribution, extra))
        if distribution in ours:
            texts = _declared(ours[distribution], extra)
        else:
            texts = metadata.requires(distribution) or []
        for requirement in map(Requirement, texts):
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                needed = canonicalize_name(requirement.name)
                pending += [(needed, each) for each in ("", *requirement.extras)]
    return {distribution for distribution, _ in seen} - ours.keys()


def _declared(project: Mapping[str, Any], extra: str) -> list[str]:
    optional = project.get("optional-dependencies", {})
    return [*project.get("dependencies", ()), *optional.get(extra, ())]


def product_modules() -> dict[str, ast.Module]:
    """Return the syntax trees of all modules that ship, by dotted name.

    A package has the name of its folder and `.__init__` behind it.
    """
    packages = (CORE, *(plugin / plugin.name for plugin in PLUGINS))
    return {
        ".".join(path.relative_to(package.parent).with_suffix("").parts): parsed(path)
        for package in packages
        for path in package.rglob("*.py")
    }


def entry_points() -> set[str]:
    """Return the modules that the `pyproject.toml` files name as scripts and entry points."""
    found = set()
    for project in map(_project, _PROJECTS):
        groups = [project.get("scripts", {}), *project.get("entry-points", {}).values()]
        found |= {target.partition(":")[0] for group in groups for target in group.values()}
    return found


def one_neighbour_modules(
    modules: Mapping[str, ast.Module], entries: Collection[str] = ()
) -> dict[str, str]:
    """Return the modules that exactly one other module imports, each with the one that does.

    Imports inside functions and those for type checkers count. A name that a package passes on
    counts as an import of the module that it comes from. An `__init__` counts as a module that
    imports. `__init__`, `__main__` and `entries` are left out of the result. So are modules that
    no import names, such as commands that are loaded by a table of texts.
    """
    importers: dict[str, set[str]] = {}
    for name, tree in modules.items():
        for imported in _imported(tree, modules):
            if imported != name:
                importers.setdefault(imported, set()).add(name)
    return {
        name: next(iter(found))
        for name, found in sorted(importers.items())
        if len(found) == 1
        if name not in entries and name.rpartition(".")[2] not in {"__init__", "__main__"}
    }


def _imported(tree: ast.Module, modules: Mapping[str, ast.Module]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                yield from _homes(node.module, alias.name, modules)


def _homes(module: str, name: str, modules: Mapping[str, ast.Module]) -> Iterator[str]:
    """Yield the modules that `from module import name` takes: what it names, and the origin."""
    package = f"{module}.__init__"
    if f"{module}.{name}" in modules:
        yield f"{module}.{name}"
    elif module in modules:
        yield module
    elif package in modules:
        yield package
        for node in ast.walk(modules[package]):
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    if (alias.asname or alias.name) == name:
                        yield from _homes(node.module, alias.name, modules)
