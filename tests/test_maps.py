"""A room that lists its modules lists all of them, and none that are gone."""

from __future__ import annotations

import ast
import re

import pytest

from tests.sources import CORE, TESTING, parsed, where

SIM = TESTING / TESTING.name / "sim"
MIN_ENTRIES = 3  # with fewer, a docstring is prose

# A name, or several, at the start of a line, or one in a further column; then what it is about.
_ENTRY = re.compile(
    r"(?:^([a-z_]+(?:(?:, | · )[a-z_]+)*)|(?<=  )([a-z_]+))/? {2,}(?=\S)", re.MULTILINE
)


def entries(text: str) -> set[str]:
    """Return the names that a table in a docstring explains."""
    found = ("".join(groups) for groups in _ENTRY.findall(text))
    return {name for names in found for name in re.split(", | · ", names)}


def missing(text: str, modules: set[str]) -> set[str]:
    """Return the modules that a docstring does not name."""
    return modules - set(re.findall(r"[a-z_]\w*", text))


MAPS = {
    where(path): (path, text)
    for path in sorted([*CORE.rglob("__init__.py"), SIM / "__init__.py"])
    if len(entries(text := ast.get_docstring(parsed(path)) or "")) >= MIN_ENTRIES
}


def test_the_rooms_with_many_modules_have_maps():
    names = {
        "",
        "engine",
        "engine/journal",
        "permissions",
        "store",
        "cli/checkup",
    }
    expected = {where(room / "__init__.py") for room in (SIM, *(CORE / name for name in names))}
    assert expected <= set(MAPS)


@pytest.mark.parametrize("room", MAPS)
def test_a_map_names_every_module_and_no_other(room):
    path, text = MAPS[room]
    folder = path.parent
    modules = {each.stem for each in folder.glob("[!_]*.py")}
    modules |= {each.parent.name for each in folder.glob("*/__init__.py")}
    assert missing(text, modules) == set(), "they are not in the map"
    assert entries(text) - modules == set(), "they are gone"


def test_entries_of_all_shapes_are_found():
    text = """Words of prose  are none.

    plan     what is asked for        shape    the limits
    a · b    two of them              world/         a room
    recommendation recommend_model
    """
    found = entries(text.replace("\n    ", "\n"))
    assert found == {"plan", "shape", "a", "b", "world"}
    assert missing(text, {"plan", "recommendation", "dice"}) == {"dice"}
