"""What is importable from prsm_core: complete, sorted, and visible to type checkers."""

from __future__ import annotations

import ast
import importlib
import inspect

import pytest

import prsm_core
from tests.sources import CORE, package_files, parsed, where

PUBLIC_ROOMS = ("errors", "interfaces", "domain")
# Contracts between the engine and a store, of no use to other plugins.
PRIVATE_VALUES = {"prsm_core.domain.ids", "prsm_core.domain.steps"}


def _assigned(name: str) -> object:
    for node in parsed(CORE / "__init__.py").body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return ast.literal_eval(node.value)
    raise LookupError(name)


def _homes() -> dict[str, str]:
    homes = _assigned("_HOMES")
    assert isinstance(homes, dict)
    return {name: module for module, names in homes.items() for name in names}


def _type_checked() -> dict[str, str]:
    block = next(
        node
        for node in parsed(CORE / "__init__.py").body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in imports for alias in node.names}


def test_type_checkers_see_exactly_what_is_imported_lazily():
    assert _type_checked() == _homes()


def test_the_public_names_are_exactly_those_with_a_home():
    assert _assigned("__all__") == sorted(_homes())


@pytest.mark.parametrize("name", prsm_core.__all__)
def test_a_public_name_comes_from_its_home(name):
    home = importlib.import_module(_homes()[name])
    assert getattr(prsm_core, name) is getattr(home, name)


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


@pytest.mark.parametrize("name", ["Nope", "agentstate", "_HOMES_"])
def test_an_unknown_name_is_an_attribute_error(name):
    with pytest.raises(AttributeError, match=f"'prsm_core' has no attribute '{name}'"):
        getattr(prsm_core, name)


def test_dir_lists_the_public_names():
    assert dir(prsm_core) == prsm_core.__all__


def test_every_all_is_sorted_and_names_what_exists():
    wrong = []
    for path in package_files():
        for node in parsed(path).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                names = ast.literal_eval(node.value)
                if list(names) != sorted(set(names)):
                    wrong.append(where(path, node))
    assert not wrong
