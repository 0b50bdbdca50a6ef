"""What prsm_core and its kit export: complete, sorted, and visible to type checkers."""

from __future__ import annotations

import ast
import importlib
import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import prsm_core
import prsm_core.testing
from tests.sources import CORE, package_files, parsed, where

if TYPE_CHECKING:
    from types import ModuleType

PACKAGES = (prsm_core, prsm_core.testing)
each_package = pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)

PUBLIC_ROOMS = ("errors", "interfaces", "domain")
# Contracts between the engine and a store, of no use to other plugins.
PRIVATE_VALUES = {
    "prsm_core.domain.ids",
    "prsm_core.domain.steps",
    "prsm_core.interfaces.local_socket",
}


def _init(package: ModuleType) -> Path:
    return Path(str(package.__file__))


def _assigned(package: ModuleType, name: str) -> Any:
    for node in parsed(_init(package)).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return ast.literal_eval(node.value)
    raise LookupError(name)


def _homes(package: ModuleType) -> dict[str, str]:
    homes = _assigned(package, "_HOMES")
    return {name: module for module, names in homes.items() for name in names}


def _type_checked(package: ModuleType) -> dict[str, str]:
    block = next(
        node
        for node in parsed(_init(package)).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in imports for alias in node.names}


@each_package
def test_type_checkers_see_exactly_what_is_imported_lazily(package):
    assert _type_checked(package) == _homes(package)


@each_package
def test_the_public_names_are_exactly_those_with_a_home(package):
    assert _assigned(package, "__all__") == sorted(_homes(package))


@pytest.mark.parametrize(
    ("package", "name"),
    [pytest.param(package, name, id=name) for package in PACKAGES for name in package.__all__],
)
def test_a_public_name_comes_from_its_home(package, name):
    home = importlib.import_module(_homes(package)[name])
    assert getattr(package, name) is getattr(home, name)


def test_every_contract_is_a_public_name_of_the_kit():
    contracts = {
        node.name
        for path in (CORE / "testing").glob("*_contract.py")
        for node in parsed(path).body
        if isinstance(node, ast.ClassDef) and node.name.endswith("Contract")
    }
    assert len(contracts) >= 6
    assert contracts <= set(prsm_core.testing.__all__)


def test_every_public_class_of_the_contract_is_a_public_name():
    missing = []
    for path in package_files():
        module = ".".join(path.relative_to(CORE.parent).with_suffix("").parts)
        room = module.split(".")[1]
        if room not in PUBLIC_ROOMS or module in PRIVATE_VALUES or path.name == "__init__.py":
            continue
        for name, value in vars(importlib.import_module(module)).items():
            if inspect.isclass(value) and value.__module__ == module and not name.startswith("_"):
                missing += [f"{module}.{name}"] if name not in prsm_core.__all__ else []
    assert not missing


@each_package
@pytest.mark.parametrize("name", ["Nope", "agentstate", "_HOMES_"])
def test_an_unknown_name_is_an_attribute_error(package, name):
    with pytest.raises(AttributeError, match=f"'{package.__name__}' has no attribute '{name}'"):
        getattr(package, name)


@each_package
def test_dir_lists_the_public_names(package):
    assert dir(package) == package.__all__


def test_every_all_is_sorted_and_names_what_exists():
    wrong = []
    for path in package_files():
        for node in parsed(path).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                names = ast.literal_eval(node.value)
                if list(names) != sorted(set(names)):
                    wrong.append(where(path, node))
    assert not wrong
