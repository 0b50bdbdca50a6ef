"""Each part of the engine is given what it uses: no more, and it reaches through nothing."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest

from tests.sources import CORE, parsed, where

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ENGINE = CORE / "engine"
ROOMS = ("agents", "turns", "tools", "evidence", "journal")
FILES = [path for room in ROOMS for path in sorted((ENGINE / room).glob("*.py"))]
FILES += [ENGINE / f"{name}.py" for name in ("spawn", "requests", "spending")]

# What a part would be given to have everything. Agents have sessions, which are lived there.
OWNERS = frozenset({"runtime", "manager", "session", "engine", "assembly"})
OF_AGENTS = OWNERS - {"session"}


def given() -> Iterator[tuple[str, str, Path]]:
    """Yield the fields that name what parts are given: the class, the field, its file."""
    for path in FILES:
        for node in parsed(path).body:
            if isinstance(node, ast.ClassDef) and _is_gift(node, path):
                fields = [each for each in node.body if isinstance(each, ast.AnnAssign)]
                for field in fields:
                    if isinstance(field.target, ast.Name):
                        yield node.name, field.target.id, path


def _is_gift(node: ast.ClassDef, path: Path) -> bool:
    return node.name.endswith("Parts") or (path.parent.name == "tools" and _handles(node))


def _handles(node: ast.ClassDef) -> bool:
    return any(isinstance(each, ast.AsyncFunctionDef) for each in node.body)


def read(path: Path) -> set[str]:
    """Return the names of all attributes that a file reads."""
    return {node.attr for node in ast.walk(parsed(path)) if isinstance(node, ast.Attribute)}


def users(kind: str, path: Path) -> set[Path]:
    """Return the files that name a class, and its own."""
    return {path} | {each for each in FILES if kind in each.read_text(encoding="utf-8")}


GIVEN = sorted({(kind, field, path) for kind, field, path in given()})


def test_there_are_parts_to_look_at():
    assert {"TurnParts", "SessionParts", "Family", "Communication"} <= {
        kind for kind, _, _ in GIVEN
    }


@pytest.mark.parametrize(
    ("kind", "field", "path"), GIVEN, ids=[f"{kind}.{field}" for kind, field, _ in GIVEN]
)
def test_what_a_part_is_given_it_uses(kind, field, path):
    assert field in set().union(*(read(each) for each in users(kind, path)))


def test_no_part_reaches_through_another_to_what_it_was_not_given():
    through = [
        f"{where(path, node)}: .{node.value.attr}.{node.attr}"
        for path in FILES
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute)
        if node.value.attr in (OF_AGENTS if path.parent.name == "agents" else OWNERS)
        if not _is_settings(node)
    ]
    assert not through


def _is_settings(node: ast.Attribute) -> bool:
    """Whether it is a section of the settings: `settings.engine.max_agents`."""
    owner = node.value.value if isinstance(node.value, ast.Attribute) else None
    return "settings" in ast.unparse(owner) if owner is not None else False


def test_handlers_of_tools_see_no_session():
    """A handler names neither a session nor what puts the engine together."""
    named = {
        f"{where(path)} imports {alias.name}"
        for path in sorted((ENGINE / "tools").glob("*.py"))
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
        if node.module.startswith(("prsm_core.engine.agents", "prsm_core.engine.assembly"))
        if alias.name not in {"AgentEnds", "AgentManager", "Peers", "Prompting"}
    }
    assert not named


def test_the_engine_alone_has_all_parts():
    owners = [path for path in sorted(ENGINE.rglob("*.py")) if "Assembly" in _names(path)]
    assert {path.name for path in owners} == {"assembly.py", "engine.py", "starting.py"}


def _names(path: Path) -> set[str]:
    return {
        name
        for node in ast.walk(parsed(path))
        for name in (
            [node.id]
            if isinstance(node, ast.Name)
            else [node.name]
            if isinstance(node, ast.ClassDef)
            else [alias.name for alias in node.names]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
