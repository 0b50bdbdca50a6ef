"""Where the sources of the repository are, for the tests that read them as text."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
CORE = ROOT / "prsm_core"
PLUGINS = tuple(sorted(path.parent for path in (ROOT / "plugins").glob("*/pyproject.toml")))
# The package that proves the others: it alone may look inside the core.
TESTING = ROOT / "plugins" / "prsm_testing"
# A package that was part of the core: some of what it looks into has no public name yet.
FILES = ROOT / "plugins" / "prsm_files"


def _python_files(*folders: Path) -> list[Path]:
    return sorted(path for folder in folders for path in folder.rglob("*.py"))


def package_files() -> list[Path]:
    """Return the modules that are shipped: the core and every plugin's package."""
    return _python_files(CORE, *(plugin / plugin.name for plugin in PLUGINS))


def suite_files() -> list[Path]:
    """Return every module of the test suites."""
    return _python_files(ROOT / "tests", *(plugin / "tests" for plugin in PLUGINS))


@cache
def parsed(path: Path) -> ast.Module:
    """Return the syntax tree of a source file."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def where(path: Path, node: ast.AST | None = None) -> str:
    """Return `path:line` relative to the root of the repository."""
    line = getattr(node, "lineno", None)
    return f"{path.relative_to(ROOT)}" + (f":{line}" if line else "")


def dotted(node: ast.AST) -> str:
    """Return `a.b.c` for a chain of names, an empty string for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        head = dotted(node.value)
        return f"{head}.{node.attr}" if head else ""
    return ""


def calls(path: Path) -> Iterator[tuple[ast.Call, str]]:
    """Yield every call of a file with the dotted name of what is called."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Call):
            yield node, dotted(node.func)
