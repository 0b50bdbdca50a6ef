"""What this repository contributes passes the contracts that it gives to others."""

from __future__ import annotations

import ast
import tomllib
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING

import pytest

from prsm_core.builtin import plugin as builtin_plugin
from prsm_core.distributions import PARTS
from tests.sources import CORE, PLUGINS, ROOT, TESTING, dotted, parsed

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

CONTRACTS = {
    "prsm_providers": "ProviderContract",
    "prsm_permission_checks": "PermissionCheckContract",
    "prsm_model_scorers": "ModelScorerContract",
    "prsm_event_sinks": "EventSinkContract",
    "prsm_frontends": "FrontendContract",
    "prsm_tools": "ToolContract",
    "prsm_command_policies": "CommandPolicyContract",
    "prsm_executors": "ExecutorContract",
    "prsm_workspace_files": "WorkspaceFilesContract",
}
# What a record says of itself, and the contracts of which it then has to pass one: a program has no
# vendor's model to play, and a frontend of many sessions is a person's or a client's.
VARIANTS: dict[tuple[object, ...], set[str]] = {
    ("ProviderSpec", "program", True): {"ProgramProviderContract"},
    ("FrontendSpec", "scope", "hub"): {"HubFrontendContract", "ClientFrontendContract"},
}
OURS = [
    pytest.param(CORE / "builtin" / "plugin.py", ROOT / "tests", id="builtin"),
    *(pytest.param(p / p.name / "plugin.py", p / "tests", id=p.name) for p in PLUGINS),
]


def hooks(module: Path) -> list[ast.FunctionDef]:
    """Return the hooks that a plugin's module implements."""
    functions = (node for node in parsed(module).body if isinstance(node, ast.FunctionDef))
    return [f for f in functions if {"hookimpl"} & {dotted(d) for d in f.decorator_list}]


def parts_without_a_hook(project: Path) -> set[str]:
    """Return the groups of entry points by which a package brings what no hook is asked for."""
    settings = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))
    return {group for group in settings["project"]["entry-points"] if group in PARTS}


def wanted(hook: ast.FunctionDef) -> list[set[str]]:
    """Return, for each record that a hook makes, the contracts of which it has to pass one."""
    made = [
        node
        for node in ast.walk(hook)
        if isinstance(node, ast.Call) and dotted(node.func).endswith("Spec")
    ]
    said = [
        {
            (dotted(node.func), word.arg, word.value.value)
            for word in node.keywords
            if isinstance(word.value, ast.Constant)
        }
        for node in made
    ]
    special = [[VARIANTS[one] for one in each & VARIANTS.keys()] for each in said]
    usual = {CONTRACTS[hook.name]}
    return [found[0] if found else usual for found in special] or [usual]


def classes(paths: Iterable[Path]) -> dict[str, list[str]]:
    """Return the bases of every class in some modules."""
    return {
        node.name: [dotted(base) for base in node.bases]
        for path in paths
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ClassDef)
    }


@cache
def conforming(tests: Path) -> Counter[str]:
    """Count the test classes of a folder by the contract they subclass, directly or not."""
    own = [path for path in tests.rglob("test_*.py") if "Contract" in path.read_text("utf-8")]
    found = (path for plugin in PLUGINS for path in plugin.glob("tests/*_contract.py"))
    shared = [path for path in found if not path.name.startswith("test_")]
    named = classes(own)
    kit = (TESTING / TESTING.name).glob("*_contract.py")
    bases = classes(kit) | classes(shared) | named

    def ancestors(name: str) -> set[str]:
        return {name}.union(*map(ancestors, bases.get(name, ())))

    tested = (ancestors(name) for name in named if name.startswith("Test"))
    return Counter(name for names in tested for name in names)


@pytest.mark.requirement("F12")
@pytest.mark.parametrize(("module", "tests"), OURS)
def test_whatever_a_plugin_of_ours_contributes_passes_the_contract_of_its_kind(module, tests):
    implemented = hooks(module)
    assert implemented or parts_without_a_hook(tests.parent)
    assert {hook.name for hook in implemented} <= CONTRACTS.keys()
    found = conforming(tests)
    missing = [
        (hook.name, accepted)
        for hook in implemented
        for accepted in wanted(hook)
        if not any(found[contract] for contract in accepted)
    ]
    assert missing == []


@pytest.mark.requirement("F12")
@pytest.mark.parametrize("hook", CONTRACTS)
def test_each_record_of_the_core_has_a_contract_test(hook):
    records = list(getattr(builtin_plugin, hook, list)())
    assert conforming(ROOT / "tests")[CONTRACTS[hook]] >= len(records)
