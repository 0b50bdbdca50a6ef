"""How often `prsm` looks for garbage: counted in a process of its own, as the installed command."""

import gc
import json
import os
import subprocess
import sys

import pytest

from prsm_core.cli import main
from prsm_core.loop.leaving import OBJECTS

SCENARIO = {"lanes": {"master": {"steps": [{"say": "done"}]}}}
PROGRAM = """
import atexit, gc, json, sys
looks, sizes = [], []

def look(phase, info):
    if phase == "start":
        looks.append(info["generation"])
    else:
        sizes.append(len(gc.get_objects()))

@atexit.register
def tell():
    left = len(gc.get_objects())
    kept = gc.get_freeze_count()
    print(json.dumps({"looks": looks, "sizes": sizes, "left": left, "kept": kept}))

gc.callbacks.append(look)
from prsm_core.cli import main
sys.exit(main())
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What a process says of a run: its looks for garbage, what is looked at at its end."""
    folder = tmp_path_factory.mktemp("garbage")
    scenario = folder / "scenario.yaml"
    scenario.write_text(json.dumps(SCENARIO))
    asked = ["run", "it", "--provider", "script", "--set", f"providers.script.scenario={scenario}"]
    env = {**os.environ, "PRSM_HOME": str(folder / "home"), "PRSM_PLUGINS": ""}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *asked],
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_run_looks_for_garbage_a_few_times_where_python_would_a_hundred_times(told):
    assert len(told["looks"]) <= 10


def test_what_is_imported_is_not_looked_through(told):
    assert max(told["sizes"]) < OBJECTS / 5


def test_what_goes_with_the_process_is_not_looked_through_again(told):
    assert told["kept"] > OBJECTS
    assert told["left"] < told["kept"] / 100


def test_a_program_that_calls_the_command_line_keeps_its_own_ways():
    threshold, frozen = gc.get_threshold(), gc.get_freeze_count()
    assert main(["--help"]) == 0
    assert gc.get_threshold() == threshold
    assert gc.get_freeze_count() <= frozen, "what was frozen before may go, nothing is added"
