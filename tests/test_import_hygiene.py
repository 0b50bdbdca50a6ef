"""What is imported when: start-up stays cheap because heavy modules wait until they are used."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

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
    loaded = modules_after("import prsm_core.testing.pytest_plugin")
    ours = {name for name in loaded if name.startswith("prsm_")}
    assert ours == {"prsm_core", "prsm_core.testing", "prsm_core.testing.pytest_plugin"}


def test_the_kit_loads_what_is_named():
    loaded = modules_after("from prsm_core.kit import VersionRange")
    assert "prsm_core.kit.version" in loaded
    assert not {"prsm_core.kit.hook_gate", "prsm_core.kit.section"} & loaded


def test_a_contract_is_loaded_when_it_is_named():
    loaded = modules_after("import prsm_core.testing")
    assert {name for name in loaded if name.startswith("prsm_")} == {
        "prsm_core",
        "prsm_core.testing",
    }
    loaded = modules_after("from prsm_core.testing import ModelScorerContract")
    assert "prsm_core.testing.scorer_contract" in loaded
    assert not {"prsm_core.testing.model_server", "prsm_core.store"} & loaded


@pytest.mark.parametrize("module", ["app", "toolserver.bridge", "toolserver.client"])
def test_mcp_is_loaded_when_something_speaks_it_and_not_before(module):
    assert not heavy_after(f"import prsm_core.{module}") & {"anyio", "mcp", "mcp_types"}


def test_help_loads_no_plugin_and_nothing_heavy():
    code = """
import contextlib, io
from prsm_core.cli import main
with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
    main(["--help"])
"""
    loaded = {name.split(".")[0] for name in modules_after(code)}
    assert not loaded & {*HEAVY, "pluggy"}
