"""The product grows in no figure that has a ceiling here. Ceilings are lowered, never raised.

Each figure is printed after the run beside its ceiling. Lower the ceiling of one that has fallen.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

import pytest

import prsm_core
import prsm_core.kit
from tests.public_names import homes_of
from tests.shape import (
    count_lines,
    entry_points,
    foreign_distributions,
    one_neighbour_modules,
    private_imports,
    product_modules,
)
from tests.sources import CORE, FILES, PLUGINS, ROOT, TESTING, package_files

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ENGINE = CORE / "engine"


class Figure(NamedTuple):
    """A figure: what it counts, the most that it may be, and how it is measured."""

    name: str
    ceiling: int
    measure: Callable[[], int]


def _files(folder: Path) -> list[Path]:
    return list(folder.rglob("*.py"))


def _one_neighbour(package: str) -> int:
    found = one_neighbour_modules(product_modules(), entry_points())
    return sum(name.startswith(package) for name in found)


FIGURES = (
    Figure("lines of prsm_core", 67_932, lambda: count_lines(_files(CORE))),
    Figure("files of prsm_core", 354, lambda: len(_files(CORE))),
    Figure("lines of prsm_core.engine", 28_117, lambda: count_lines(_files(ENGINE))),
    Figure("files of prsm_core.engine", 91, lambda: len(_files(ENGINE))),
    Figure("lines of all packages", 152_993, lambda: count_lines(package_files())),
    Figure("public names of prsm_core", 100, lambda: len(homes_of(prsm_core))),
    Figure(
        "public names of prsm_core and its kit",
        157,
        lambda: len({*homes_of(prsm_core), *homes_of(prsm_core.kit)}),
    ),
    Figure(
        "distributions of others that prsm-core brings",
        7,
        lambda: len(foreign_distributions("prsm-core")),
    ),
    Figure(
        "private imports of the core by plugins",
        0,
        lambda: sum(
            len(private_imports(plugin / plugin.name))
            for plugin in PLUGINS
            if plugin not in {FILES, TESTING}
        ),
    ),
    Figure(
        "private imports of the core by prsm_files",
        26,
        lambda: len(private_imports(FILES / FILES.name)),
    ),
    Figure("one-neighbour modules of prsm_core", 41, lambda: _one_neighbour("prsm_core.")),
    Figure("one-neighbour modules of all packages", 112, lambda: _one_neighbour("")),
)


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.name.replace(" ", "-"))
def test_a_figure_is_at_most_its_ceiling(figure, report):
    measured = figure.measure()
    report(f"shape: {figure.name}: {measured}, ceiling {figure.ceiling}")
    assert measured <= figure.ceiling, (
        f"{figure.name}: measured {measured}, ceiling {figure.ceiling}"
    )


def _parsed(**sources: str) -> dict[str, ast.Module]:
    return {name: ast.parse(source) for name, source in sources.items()}


@pytest.mark.parametrize(
    "text",
    [
        "import p.one",
        "from p import one",
        "from p.one import name",
        "if TYPE_CHECKING:\n    from p.one import Name",
        "def late():\n    from p.one import name",
    ],
)
def test_a_module_that_one_other_imports_has_one_neighbour(text):
    modules = _parsed(**{"p.one": "from p.one import itself", "p.a": text, "p.b": "import json"})
    assert one_neighbour_modules(modules) == {"p.one": "p.a"}
    modules["p.b"] = ast.parse("import p.one")
    assert one_neighbour_modules(modules) == {}


def test_a_name_that_a_package_passes_on_is_imported_from_its_home():
    modules = _parsed(
        **{
            "p.__init__": "from p.q import name as other",
            "p.q.__init__": "from p.q.home import name",
            "p.q.home": "name = 1",
        }
    )
    assert one_neighbour_modules({**modules, "p.__init__": ast.parse("")}) == {
        "p.q.home": "p.q.__init__"
    }
    assert one_neighbour_modules({**modules, "p.a": ast.parse("from p import other")}) == {}


def test_packages_and_entry_points_are_no_one_neighbour_modules():
    text = "import p.__main__, p.plugin\nfrom p import nothing"
    modules = _parsed(**{"p.__init__": "", "p.__main__": "", "p.plugin": "", "p.a": text})
    assert one_neighbour_modules(modules, {"p.plugin"}) == {}


def test_the_entry_points_are_those_of_the_core_and_of_each_plugin():
    plugins = {f"{plugin.name}.plugin" for plugin in PLUGINS}
    parts = {
        *("prsm_demo.command", "prsm_mcp.bridge", "prsm_mcp.command", "prsm_policy.command"),
        *("prsm_files.commands.changes.commands", "prsm_files.commands.snapshots.commands"),
        "prsm_files.commands.undo",
        "prsm_testing.sim.command",
    }
    assert entry_points() == {"prsm_core.cli", "prsm_testing.pytest_plugin", *parts, *plugins}


def test_distributions_are_followed_to_those_that_others_need_and_to_no_extra_of_ours():
    found = foreign_distributions("prsm-core")
    assert {"msgspec", "pluggy"} <= found
    assert not found & {"prsm-core", "pytest"}


def test_an_import_of_what_is_not_public_is_seen():
    assert any("prsm_core.app" in each for each in private_imports(ROOT / "benchmarks"))
    assert not any("prsm_core:" in each for each in private_imports(ROOT / "benchmarks"))
