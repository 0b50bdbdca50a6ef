"""The map of the system, and the page for who works on it, name what exists."""

from __future__ import annotations

import ast
import re
from configparser import ConfigParser
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.documents import blocks_of
from tests.sources import CORE, ROOT, parsed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MAP = ROOT / "docs" / "architecture.md"
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
WAYS = ("A task", "A tool call", "A permission request", "An event")
ADDITIONS = ("Add a durable act", "Add a tool", "Add a provider")
# What pure code has no use for: it is given all that it decides by.
IMPURE = {"asyncio", "os", "pathlib", "random", "socket", "sqlite3", "subprocess", "time"}

_CODE = re.compile(r"`([^`]+)`", re.DOTALL)
_PATH = re.compile(r"[\w.-]+(?:/[\w.-]*)+|[\w-]+\.(?:py|md|toml|ini)")
_NAME = re.compile(r"[A-Z]\w*[a-z]\w*(?:\.\w+)?")


class Station(NamedTuple):
    """One line of a drawing: a file, what is passed in it, and what kind of code that is."""

    path: str
    name: str
    kind: str


def section(text: str, heading: str) -> str:
    """Return what stands below a heading that begins so."""
    found = re.search(rf"^## {heading}.*?\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found is not None, f"there is no section {heading!r}"
    return found[1]


def _place(path: str) -> Path:
    """Return where a file of the core is, or of a plugin, whose path begins with its package."""
    package = path.partition("/")[0]
    return (ROOT / "plugins" / package if package.startswith("prsm_") else CORE) / path


def stations(text: str) -> list[Station]:
    """Return the lines of the drawings in a text."""
    drawings = [block.text for block in blocks_of(text, MAP) if block.language == "text"]
    return [Station(*line.split()[:3]) for each in drawings for line in each.splitlines()]


def prose(text: str) -> str:
    """Return a text without its drawings and blocks of commands."""
    for block in blocks_of(text, MAP):
        text = text.replace(block.text, "")
    return text


@cache
def definitions(path: Path) -> dict[str, ast.AST]:
    """Return the classes, functions and methods of a file by their names, `Class.method`."""
    found: dict[str, ast.AST] = {}
    for node in parsed(path).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found[node.name] = node
        if isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                    found[f"{node.name}.{inner.name}"] = inner
    return found


@cache
def all_names() -> set[str]:
    return {name for path in CORE.rglob("*.py") for name in definitions(path)}


def missing_names(text: str) -> Iterator[str]:
    """Yield the paths and the names in code marks that there are not."""
    for code in _CODE.findall(prose(text)):
        path, _, name = " ".join(code.split()).partition(": ")
        if _PATH.fullmatch(path):
            place = next((p for p in (_place(path), ROOT / path) if p.exists()), None)
            if place is None or (name and name not in definitions(place)):
                yield code
        elif _NAME.fullmatch(path) and path not in all_names():
            yield code


def impure(station: Station) -> list[str]:
    """Return what of a file that is drawn as pure is not."""
    module = parsed(_place(station.path))
    imported = {alias.name for node in module.body if isinstance(node, ast.Import)
                for alias in node.names}  # fmt: skip
    node = definitions(_place(station.path))[station.name]
    waits = [type(each).__name__ for each in ast.walk(node)
             if isinstance(each, ast.Await | ast.AsyncFunctionDef)]  # fmt: skip
    return sorted(imported & IMPURE) + waits


@pytest.mark.parametrize("way", WAYS)
def test_a_way_is_drawn_through_files_that_exist(way):
    drawn = stations(section(MAP.read_text(encoding="utf-8"), way))
    assert len({each.path for each in drawn}) >= 5
    assert {each.kind for each in drawn} >= {"pure", "acts"}
    for each in drawn:
        assert each.kind in {"pure", "looks", "acts"}, each
        assert _place(each.path).is_file(), f"{each.path} is gone"
        assert each.name in definitions(_place(each.path)), f"{each.name} is not in {each.path}"


def test_what_is_drawn_as_pure_neither_waits_nor_looks():
    drawn = [each for each in stations(MAP.read_text(encoding="utf-8")) if each.kind == "pure"]
    assert {each: found for each in drawn if (found := impure(each))} == {}


@pytest.mark.parametrize("heading", ADDITIONS)
def test_what_it_takes_to_add_something_is_told_in_steps(heading):
    text = section(MAP.read_text(encoding="utf-8"), heading)
    assert re.findall(r"^(\d)\. ", text, re.MULTILINE)[:2] == ["1", "2"]
    assert _CODE.search(text)


@pytest.mark.parametrize("path", [MAP, CONTRIBUTING], ids=lambda path: path.name)
def test_every_path_and_name_in_the_prose_exists(path):
    assert list(missing_names(path.read_text(encoding="utf-8"))) == []


def test_contributing_tells_of_every_environment_of_tox():
    tox = ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini")
    envs = {name.removeprefix("testenv:") for name in tox.sections() if ":" in name}
    envs |= {name.strip() for name in tox["tox"]["env_list"].split(",")}
    text = section(CONTRIBUTING.read_text(encoding="utf-8"), "What has to pass")
    assert set(re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE)) == envs


def test_contributing_is_found_from_the_readme():
    assert "CONTRIBUTING.md" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_what_is_gone_is_found():
    text = "see `engine/gone.py`, `app.py: Nobody`, `NoSuchClass.run`, `app.py: open_app`"
    assert list(missing_names(text)) == ["engine/gone.py", "app.py: Nobody", "NoSuchClass.run"]
    assert impure(Station("engine/journal/unit.py", "AgentSteps.commit", "pure")) == [
        "asyncio",
        "AsyncFunctionDef",
        "Await",
    ]
    assert impure(Station("kit/clocks.py", "SystemClock", "pure"))[:2] == ["asyncio", "time"]
