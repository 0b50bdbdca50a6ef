"""The files of a package import in one direction, also those that only a type checker imports."""

from __future__ import annotations

import ast
import tomllib

import pytest

from tests.import_graph import circles, graph_of, imports
from tests.sources import CORE, PLUGINS, ROOT


@pytest.fixture(scope="module")
def core():
    """What each file of the core imports of it."""
    return graph_of(CORE)


def room(module: str) -> str:
    """Return the room of a module; blank is the public surface, which names all rooms."""
    return module.split(".")[1] if "." in module else ""


def room_of_engine(module: str) -> str:
    """Return the room of a module of the engine; blank is the file of the whole room."""
    return ".".join(module.split(".")[2:3])


def ranks(contract: str) -> dict[str, int]:
    """Return how far below the top each room stands, by a contract of import-linter."""
    tables = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = tables["tool"]["importlinter"]["contracts"]
    layers = next(each["layers"] for each in contracts if each["id"] == contract)
    return {
        name.strip(" ()"): rank for rank, layer in enumerate(layers) for name in layer.split("|")
    }


@pytest.mark.parametrize(
    "package", [CORE, *(each / each.name for each in PLUGINS)], ids=lambda path: path.name
)
def test_no_file_of_a_package_stands_in_a_circle(package, report):
    graph = graph_of(package)
    found = circles(graph)
    files, inside = len(graph), sum(map(len, found))
    report(f"imports: {package.name}: {files} files, {inside} in {len(found)} circles")
    assert found == []


def test_no_room_imports_one_above_or_beside_it(core):
    rank = ranks("layers")
    assert {room(name) for name in core} == {"", *rank}
    upwards = [
        f"{name} imports {other}"
        for name, others in core.items()
        for other in others
        if room(name) and room(other) not in {"", room(name)}
        if rank[room(other)] <= rank[room(name)]
    ]
    assert not upwards


def test_no_room_of_the_engine_imports_one_above_or_beside_it(core):
    rank = ranks("engine-rooms")
    inside = {name: others for name, others in core.items() if room(name) == "engine"}
    assert {room_of_engine(name) for name in inside} == {"", *rank}
    upwards = [
        f"{name} imports {other}"
        for name, others in inside.items()
        for other in others
        if room(other) == "engine" and room_of_engine(other) not in {"", room_of_engine(name)}
        if rank[room_of_engine(other)] <= rank[room_of_engine(name)]
    ]
    assert not upwards


def test_import_linter_follows_the_imports_for_type_checkers_too():
    tables = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert tables["tool"]["importlinter"]["exclude_type_checking_imports"] is False


def test_a_circle_is_found_and_what_only_leads_to_it_is_no_part_of_it():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a", "e"}, "e": {"f"}, "f": {"e"}, "g": ()}
    assert circles(graph) == [["a", "b", "c"], ["e", "f"]]
    assert circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import p.a", {"p.a"}),
        ("from p.a import b", {"p.a.b"}),
        ("from p.a import name", {"p.a"}),
        ("from p import a, c", {"p.a", "p"}),
        ("if TYPE_CHECKING:\n    from p.a import b", {"p.a.b"}),
        ("def f():\n    from p.a import name", {"p.a"}),
        ("from q.a import b", set()),
    ],
)
def test_an_import_is_found_wherever_it_stands(text, expected):
    assert imports(ast.parse(text), {"p", "p.a", "p.a.b"}) == expected
