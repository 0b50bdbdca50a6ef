"""What is loaded when: few need all of the package, and none pays for the rest."""

from __future__ import annotations

import subprocess
import sys


def loaded_after(code: str) -> set[str]:
    script = f"import sys; {code}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    return set(done.stdout.split())


def test_the_doubles_load_no_pytest():
    code = "from prsm_testing import FakeClock, ModelServer, RecordingHost, ScriptedApp"
    assert not {"pytest", "pytest_asyncio", "pyte"} & loaded_after(code)


def test_the_simulator_loads_no_pytest():
    assert not {"pytest", "pytest_asyncio", "pyte"} & loaded_after("import prsm_testing.sim.world")
