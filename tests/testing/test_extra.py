"""Without pytest `prsm_core.testing` says how to get it; what needs no pytest works without."""

from __future__ import annotations

import subprocess
import sys

import pytest

import prsm_core.testing

EXTRA = vars(prsm_core.testing)["EXTRA"]

# An import of these finds nothing, as in an environment where they are not installed.
MISSING = """
import sys
from importlib.abc import MetaPathFinder

class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {missing!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
"""
CONTRACTS = [name for name in dir(prsm_core.testing) if name.endswith("Contract")]


def run_without(missing: set[str], code: str) -> subprocess.CompletedProcess[str]:
    script = MISSING.format(missing=missing) + code
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.requirement("F12")
@pytest.mark.parametrize("missing", EXTRA)
@pytest.mark.parametrize("name", CONTRACTS)
def test_a_contract_without_pytest_names_the_extra_that_brings_it(missing, name):
    done = run_without({missing}, f"from prsm_core.testing import {name}")
    last = done.stderr.rstrip().splitlines()[-1]
    package = missing.replace("_", "-")
    assert last == (
        f"ImportError: prsm_core.testing.{name} needs {package}, which is not installed: "
        "pip install 'prsm-core[testing]'"
    )


def test_the_doubles_need_no_pytest():
    code = "from prsm_core.testing import FakeClock, ModelServer, RecordingHost, ScriptedApp"
    done = run_without(set(EXTRA), code)
    assert done.returncode == 0, done.stderr


def test_a_screen_without_its_emulator_names_the_extra_that_brings_it():
    code = """
from prsm_core.testing import open_terminal
with open_terminal() as terminal:
    terminal.type("x")
    try:
        terminal.screen
    except ImportError as error:
        told = str(error)
print(told)
"""
    done = run_without({"pyte"}, code)
    assert done.stdout == (
        "prsm_core.testing.Terminal.screen needs pyte, which is not installed: "
        "pip install 'prsm-core[testing]'\n"
    ), done.stderr


def test_another_module_that_is_missing_is_told_as_it_is():
    done = run_without({"pluggy"}, "from prsm_core.testing import ModelScorerContract")
    assert "No module named 'pluggy'" in done.stderr.rstrip().splitlines()[-1]
