"""What is imported when: start-up stays cheap because heavy modules wait until they are used."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec

import pytest

from benchmarks.first_turn import imported_by_the_first_turn

# Everything that costs more than a few milliseconds, and everything of a plugin or a vendor.
HEAVY = {
    "anyio",
    "asyncio",
    "hypothesis",
    "jsonschema",
    "mcp",
    "mcp_types",
    "platformdirs",
    "prsm_codex",
    "pydantic",
    "pytest",
    "sqlite3",
    "textual",
    "yaml",
    "tree_sitter",
    "tree_sitter_bash",
}


# What a run has no use for before its first turn: see the modules that import them late.
NOT_BEFORE_THE_FIRST_TURN = {
    "ctypes": "nothing: the shim's prctl is enough",
    "difflib": "the first name that nobody has, or the first edit that is shown",
    "logging.handlers": "nothing: the log file sets itself aside",
    "prsm_console.keyboard": "a terminal to be typed on",
    "prsm_console.live_screen": "a terminal to be drawn on",
    "prsm_sandbox.sandbox": "the first command or box",
    "prsm_core.catalog.categories": "the first model that is asked for by its task",
    "prsm_core.catalog.ranking": "the first model that is asked for by its task",
    "prsm_core.config.json_schema": "the first key that is wrong",
    "prsm_core.engine.door.completion": "the first word that a person has completed",
    "prsm_core.engine.door.history": "the first look of a person",
    "prsm_core.engine.door.offers": "the first look of a person",
    "prsm_core.engine.door.view": "the first look of a person",
    "prsm_files.session.evidence.command_log": "the first claim",
    "prsm_files.session.evidence.witness": "the first claim about files",
    "prsm_policy.by_text": "the first command",
    "prsm_policy.danger": "the first command",
    "prsm_core.policies.names": "the first path",
    "prsm_core.permissions.paths": "the first path",
    "prsm_policy.policy": "the first command",
    "prsm_policy.safe": "the first command",
    "prsm_policy.shell.reading": "the first command",
    "prsm_files.artifacts": "the first claim about files",
    "termios": "a terminal",
    "tomllib": "an installation from a clone",
    "tree_sitter": "the first command that is not plain",
}


MOST_MODULES = 313

COUNT_DATACLASSES = """
import importlib, json, sys
for name in json.load(sys.stdin):
    if name.startswith("prsm_core"):
        importlib.import_module(name)
print(json.dumps(sorted(
    f"{module}.{name}"
    for module, loaded in list(sys.modules.items())
    if module.startswith("prsm_core")
    for name, thing in vars(loaded).items()
    if isinstance(thing, type)
    if thing.__module__ == module and "__dataclass_fields__" in vars(thing)
)))
"""


def modules_after(code: str) -> set[str]:
    """Return the top-level modules that a fresh interpreter has loaded after `code`."""
    script = f"{code}\nimport sys, json; print('\\n' + json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def heavy_after(code: str) -> set[str]:
    return {name.split(".")[0] for name in modules_after(code)} & HEAVY


def test_importing_the_core_loads_nothing_but_itself():
    before = modules_after("")
    assert modules_after("import prsm_core") - before == {"__future__", "prsm_core"}


def test_the_hook_contract_needs_pluggy_and_nothing_of_ours():
    loaded = modules_after("from prsm_core import hookimpl")
    ours = {name for name in loaded if name.startswith("prsm_")}
    assert ours == {"prsm_core", "prsm_core.hookspecs"}
    assert "pluggy" in loaded


@pytest.mark.parametrize("package", ["domain.events", "domain.turns", "errors", "interfaces.store"])
def test_values_and_interfaces_need_the_standard_library_only(package):
    assert not heavy_after(f"import prsm_core.{package}")


def test_building_records_imports_nothing_heavy():
    code = "from prsm_core import ProviderSpec\nProviderSpec(name='x', summary='', factory='a:b')"
    assert not heavy_after(code)


def test_the_pytest_plugin_loads_nothing_of_the_core():
    loaded = modules_after("import prsm_testing.pytest_plugin")
    ours = {name for name in loaded if name.startswith("prsm_")}
    assert ours == {"prsm_core", "prsm_testing", "prsm_testing.pytest_plugin"}


def test_the_kit_loads_what_is_named():
    loaded = modules_after("from prsm_core.kit import VersionRange")
    assert "prsm_core.kit.version" in loaded
    assert not {"prsm_core.kit.hook_gate", "prsm_core.kit.section"} & loaded


def test_a_contract_is_loaded_when_it_is_named():
    loaded = modules_after("import prsm_testing")
    assert {name for name in loaded if name.startswith("prsm_")} == {
        "prsm_core",
        "prsm_testing",
    }
    loaded = modules_after("from prsm_testing import ModelScorerContract")
    assert "prsm_testing.scorer_contract" in loaded
    assert not {"prsm_testing.model_server", "prsm_core.store"} & loaded


def test_help_loads_no_plugin_and_nothing_heavy():
    code = """
import contextlib, io
from prsm_core.cli import main
with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
    main(["--help"])
"""
    loaded = {name.split(".")[0] for name in modules_after(code)}
    assert not loaded & {*HEAVY, "pluggy"}


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    return tmp_path_factory.mktemp("run")


@pytest.fixture(scope="module")
def by_the_first_turn(run_folder):
    """The modules that `prsm run` has imported when the first turn begins."""
    return frozenset(imported_by_the_first_turn(run_folder))


def test_a_provider_is_built_before_the_engine_is_imported(by_the_first_turn, run_folder):
    before = set(json.loads((run_folder / "modules.json.before").read_text()))
    late = {"prsm_core.app", "prsm_core.engine.engine", "prsm_core.store", "sqlite3"}
    assert not late & before
    assert late <= by_the_first_turn


@pytest.mark.parametrize("module", NOT_BEFORE_THE_FIRST_TURN)
def test_what_waits_is_not_imported_before_the_first_turn(by_the_first_turn, module):
    within = {name for name in by_the_first_turn if f"{name}.".startswith(f"{module}.")}
    assert not within, f"{module} waits for {NOT_BEFORE_THE_FIRST_TURN[module]}"


@pytest.mark.parametrize("module", NOT_BEFORE_THE_FIRST_TURN)
def test_what_waits_is_there_to_be_imported(module):
    assert find_spec(module) is not None


def test_a_run_has_all_of_its_engine_by_the_first_turn(by_the_first_turn):
    assert {"asyncio", "msgspec", "sqlite3", "prsm_core.engine.engine"} <= by_the_first_turn
    assert "pydantic" not in by_the_first_turn


def test_no_dataclass_is_made_before_the_first_turn(by_the_first_turn):
    done = subprocess.run(
        [sys.executable, "-c", COUNT_DATACLASSES],
        input=json.dumps(sorted(by_the_first_turn)),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    # A class made by @dataclass compiles its methods, which takes ten times as long as a record.
    assert json.loads(done.stdout) == []


def test_few_modules_are_imported_before_the_first_turn(by_the_first_turn):
    own = [name for name in by_the_first_turn if name.split(".")[0] == "prsm_core"]
    assert len(own) <= MOST_MODULES


# What of a package a run imports that does not use it.
OF_A_PACKAGE_THAT_IS_NOT_USED = {
    "plugin": "it says what the package brings",
    "places": "of prsm_protocols: where its sink may not be seen to write",
    # The sink and the check of prsm_protocols hear every run: that is their use.
    **dict.fromkeys(
        ("measurement", "labels", "page", "problems", "section", "tool_names"),
        "of prsm_protocols: its sink hears every run",
    ),
}


@pytest.mark.requirement("U37")
def test_a_package_that_is_installed_and_not_used_imports_nothing_but_what_it_brings(
    by_the_first_turn, tmp_path
):
    """Whatever packages there are here; a vendor's library comes with the first session."""
    more = set(imported_by_the_first_turn(tmp_path, with_packages=True)) - by_the_first_turn
    assert {name for name in more if not name.startswith("prsm_")} == set(), "no run needs them"
    packages = {name for name in more if not name.startswith("prsm_core.")}
    assert {name.partition(".")[2] for name in packages} <= {"", *OF_A_PACKAGE_THAT_IS_NOT_USED}
