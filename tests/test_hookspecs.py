"""The hooks are sync, documented by examples that run, and change on purpose only."""

from __future__ import annotations

import ast
import inspect
import json
import re
import runpy
import textwrap
from types import SimpleNamespace

import msgspec
import pluggy
import pytest

import prsm_core
import prsm_core.files
import prsm_core.policies
from prsm_core import hookspecs
from prsm_core.executors import ExecutorSpec
from tests.contract import GOLDEN, describe, hooks
from tests.sources import CORE, parsed

HOOKS = hooks()
PROMISES = {
    "prsm_providers": prsm_core.ProviderSpec,
    "prsm_permission_checks": prsm_core.PermissionCheckSpec,
    "prsm_model_scorers": prsm_core.ModelScorerSpec,
    "prsm_event_sinks": prsm_core.EventSinkSpec,
    "prsm_frontends": prsm_core.FrontendSpec,
    "prsm_tools": prsm_core.ToolContribution,
    "prsm_command_policies": prsm_core.policies.CommandPolicySpec,
    "prsm_workspace_files": prsm_core.files.WorkspaceFilesSpec,
    "prsm_executors": ExecutorSpec,
}
TOOL = {"description": "", "arguments": msgspec.Struct, "roles": frozenset({"master"})}


class Pair(msgspec.Struct, array_like=True):
    """What a list holds by place."""


class Tree(msgspec.Struct):
    """What holds itself."""

    inner: Tree


HOW_TO_CHANGE = """The contract with plugins and scripts has changed.
A new hook, name, event field or record field with a default is compatible; anything renamed,
removed or without a default breaks plugins that are already installed. If it is meant, write the
new contract with `python tests/contract.py` and commit the difference with its reason."""


def example_of(hook: str) -> str:
    """Return the code after `Example::` of a hook's docstring."""
    documentation = inspect.getdoc(getattr(hookspecs, hook)) or ""
    match = re.search(r"^Example::\n\n((?:    .*\n|\n)+)", documentation, flags=re.MULTILINE)
    assert match, f"{hook} has no example"
    return textwrap.dedent(match[1])


@pytest.fixture
def run_example(tmp_path):
    """Run a hook's example as the module it shows and return what that module holds."""

    def run(hook: str) -> SimpleNamespace:
        path = tmp_path / f"{hook}.py"
        path.write_text(example_of(hook), encoding="utf-8")
        return SimpleNamespace(**runpy.run_path(str(path)))

    return run


@pytest.mark.requirement("C1")
def test_there_are_exactly_the_eight_hooks():
    assert set(HOOKS) == set(PROMISES)


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_is_sync_and_plural_and_called_for_every_plugin(hook):
    function = getattr(hookspecs, hook)
    assert not inspect.iscoroutinefunction(function)
    assert hook.endswith("s")
    assert function.__annotations__["return"] == f"Iterable[{PROMISES[hook].__name__}]"
    assert not function.prsm_spec["firstresult"]
    assert not function.prsm_spec["historic"]


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_says_what_it_contributes_when_it_is_called_and_what_it_returns(hook):
    documentation = inspect.getdoc(getattr(hookspecs, hook)) or ""
    assert documentation.startswith("Contribute ")
    assert "each asked once at start-up" in (hookspecs.__doc__ or "")
    assert "\nReturns:\n" in documentation


@pytest.mark.parametrize("hook", HOOKS)
def test_the_example_of_a_hook_takes_its_exact_arguments(hook):
    implementation = next(
        node
        for node in ast.walk(ast.parse(example_of(hook)))
        if isinstance(node, ast.FunctionDef) and node.name == hook
    )
    assert [argument.arg for argument in implementation.args.args] == HOOKS[hook]


@pytest.mark.parametrize("hook", HOOKS)
def test_the_example_of_a_hook_registers_and_returns_its_records(hook, run_example):
    manager = pluggy.PluginManager("prsm")
    manager.add_hookspecs(hookspecs)
    manager.register(run_example(hook))
    manager.check_pending()
    (contributed,) = getattr(manager.hook, hook)()
    (record,) = contributed
    assert isinstance(record, PROMISES[hook])


@pytest.mark.parametrize(
    ("command", "denied"), [("git push --force", True), ("git push", False), (None, False)]
)
async def test_the_example_check_denies_force_pushes_and_has_no_other_opinion(
    command, denied, run_example
):
    (record,) = run_example("prsm_permission_checks").prsm_permission_checks()
    request = prsm_core.PermissionRequest(agent_id="a", tool="Bash", command=command)
    verdict = await record.check(request, None)
    assert isinstance(verdict, prsm_core.Deny) if denied else verdict is None


def test_the_contract_imports_only_pluggy_at_run_time():
    imported = {
        node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
        for node in parsed(CORE / "hookspecs.py").body
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    assert imported == {"__future__", "typing", "pluggy"}


def test_the_public_contract_is_the_recorded_one():
    assert describe() == json.loads(GOLDEN.read_text(encoding="utf-8")), HOW_TO_CHANGE


@pytest.mark.parametrize("spec", PROMISES.values())
@pytest.mark.parametrize("name", ["", "Upper", "9lives", "a b", "x" * 65])
def test_a_record_refuses_what_is_no_name(spec, name):
    required = {
        "priority": 0, "check": "a:b", "weight": 1.0, "score": "a:b", "factory": "a:b",
        "interactive": False, "handler": "a:b", "when": "a:b", **TOOL,
    }  # fmt: skip
    fields = {key: value for key, value in required.items() if key in spec.__struct_fields__}
    with pytest.raises(ValueError, match="is not a name"):
        spec(name=name, summary="", **fields)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"roles": frozenset()}, "its roles are some of expert, master"),
        ({"roles": frozenset({"boss"})}, "its roles are some of"),
        ({"arguments": {"type": "object"}}, "its arguments are a msgspec struct"),
        ({"arguments": Pair}, "its arguments are a msgspec struct"),
        ({"arguments": Tree}, "Tree holds itself"),
        ({"labels": "A/b"}, "label prefix: 'A/b' is not a name"),
        ({"section": "x", "settings": "a:b"}, "shares one; not both"),
        ({"is_repeatable": True, "labels": "x"}, "what is repeatable changes nothing"),
        ({"is_repeatable": True, "acts_outside": True}, "what is repeatable changes nothing"),
    ],
)
def test_a_tool_refuses_what_it_cannot_be(fields, problem):
    given = {"name": "look", "summary": "", **TOOL, "handler": "a:b", "when": "a:b"}
    with pytest.raises((TypeError, ValueError), match=re.escape(problem)):
        prsm_core.ToolContribution(**{**given, **fields})


def test_a_sink_refuses_an_unknown_overflow_rule():
    with pytest.raises(ValueError, match="overflow 'block' is unknown"):
        prsm_core.EventSinkSpec(name="audit", summary="", factory="a:b", overflow="block")
