"""Which file of a package imports which, the imports for type checkers included."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from tests.sources import parsed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

Graph = dict[str, set[str]]


def module_name(path: Path, package: Path) -> str:
    """Return the dotted name of a file of a package; a room's own file has the room's name."""
    parts = list(path.relative_to(package.parent).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def graph_of(package: Path) -> Graph:
    """Return what each file of a package imports of the package."""
    # A folder without a file of its own is data, such as the project that the demo works on.
    files = {
        module_name(path, package): path
        for path in package.rglob("*.py")
        if all((folder / "__init__.py").exists() for folder in _rooms_of(path, package))
    }
    return {name: imports(parsed(path), files) - {name} for name, path in files.items()}


def _rooms_of(path: Path, package: Path) -> Iterator[Path]:
    folder = path.parent
    while folder != package.parent:
        yield folder
        folder = folder.parent


def imports(module: ast.Module, known: Collection[str]) -> set[str]:
    """Return the known modules that a module imports, wherever in it, for whatever reason."""
    found: set[str] = set()
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                found.add(full if full in known else node.module)
    return found & set(known)


def circles(graph: Mapping[str, Collection[str]]) -> list[list[str]]:
    """Return the sets of files each of which reaches all others of its set, the largest first."""
    reached = {name: _reached(graph, name) for name in graph}
    rest, found = set(graph), []
    while rest:
        name = rest.pop()
        circle = {other for other in reached[name] if name in reached[other]}
        if circle:
            found.append(sorted(circle))
            rest -= circle
    return sorted(found, key=lambda circle: (-len(circle), circle))


def _reached(graph: Mapping[str, Collection[str]], start: str) -> set[str]:
    found: set[str] = set()
    rest = list(graph[start])
    while rest:
        name = rest.pop()
        if name not in found:
            found.add(name)
            rest += graph.get(name, ())
    return found


def imports_of(path: Path, *packages: str) -> Iterator[tuple[ast.stmt, str, str]]:
    """Yield each import of some packages: where it stands, of which module, and the name."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] in packages:
            yield from ((node, str(node.module), alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
            yield from ((node, name, "") for name in names if name.split(".")[0] in packages)
