"""regions: a whole run of five subtasks against the same five agents, spawned by one call."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from benchmarks.harness import Absent, Finding, compared

if TYPE_CHECKING:
    from benchmarks.harness import Plan

PRSM = "import sys; from prsm_core.cli import main; sys.exit(main())"
NAMES = ("web", "api", "store", "docs", "tools")
GOAL = 1.3
_TEXT = "def handler(request):\n    return request.path\n\n\nclass Store:\n    size = 0\n"


def measure(plan: Plan) -> list[Finding | Absent]:
    """Compare two runs, each a process: led by the program, and led by a scripted master."""
    case = f"a run of {len(NAMES)} subtasks"
    if find_spec("prsm_regions") is None:
        return [Absent(benchmark="regions", case=case, why="prsm-regions is not installed")]
    with TemporaryDirectory(prefix="prsm-benchmark-") as folder:
        place = Place(Path(folder))
        led = Run(place, "--provider", "regions", "--on-ask", "allow", "do it")
        called = Run(place, "--provider", "script", "--on-ask", "allow", "lead them")
        nothing = Run(place, "--provider", "script", "--on-ask", "allow", "end it")

        def at_once() -> float:
            nothing()  # beside each pair, so that all three have the same neighbours
            return called()

        whole = compared("regions", case, led, at_once, plan, goal=GOAL, unit="ms")
        return [whole, _within(f"{case}, without a run that does nothing", led, called, nothing)]


def _within(case: str, led: Run, called: Run, nothing: Run) -> Finding | Absent:
    """Compare what two kinds of runs take beyond their start."""
    start = min(nothing.costs)
    value, base = min(led.costs) - start, min(called.costs) - start
    if min(value, base) <= 0:
        why = "a run that does nothing took as much: more pairs tell them apart"
        return Absent(benchmark="regions", case=case, why=why)
    return Finding(
        benchmark="regions",
        case=case,
        unit="ms",
        value=value,
        reference=base,
        ratio=value / base,
    )


class Run:
    """One kind of run, and what each took in ms of CPU."""

    def __init__(self, place: Place, *words: str) -> None:
        self._place = place
        self._words = words
        self.costs: list[float] = []

    def __call__(self) -> float:
        """Run it once; return what it took."""
        self.costs.append(self._place.cost(*self._words))
        return self.costs[-1]


class Place:
    """A small workspace, and a home of PRSM whose agents play a scenario."""

    def __init__(self, folder: Path) -> None:
        self._workspace = folder / "workspace"
        # Alone: what other plugins take for their start is in both, and would hide the rest.
        alone = {"PRSM_HOME": str(folder / "home"), "PRSM_PLUGINS": "regions"}
        self._env = {**os.environ, **alone}
        for name in NAMES:
            (self._workspace / name).mkdir(parents=True)
            (self._workspace / name / "code.py").write_text(_TEXT)
        config = Path(json.loads(self._prsm("config", "path", "--json"))["user"])
        config.parent.mkdir(parents=True, exist_ok=True)
        script = {"scenario": {"lanes": lanes()}}
        # JSON is YAML, too.
        config.write_text(
            json.dumps({"providers": {"script": script, "regions": {"planner": "script"}}})
        )

    def cost(self, *words: str) -> float:
        """Return the ms of CPU of one run, which has to succeed."""
        before = _cpu()
        self._prsm("run", *words)
        return 1e3 * (_cpu() - before)

    def _prsm(self, *words: str) -> str:
        told = subprocess.run(
            [sys.executable, "-c", PRSM, *words],
            cwd=self._workspace,
            env=self._env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if told.returncode:
            raise RuntimeError(f"prsm {words[0]} failed: {told.stderr}")
        return told.stdout


def lanes() -> dict[str, Any]:
    """Return what the planner, the master and the five agents play; they ask for nothing."""
    rows = [{"name": name, "description": "make it", "region": name} for name in NAMES]
    children = [{"prompt": f"[[lane:{name}]] make it", "region": [name]} for name in NAMES]
    wait = {"call": {"tool": "wait_for_message", "arguments": {"all": True}}}
    spawn = {"call": {"tool": "spawn_children_parallel", "arguments": {"children": children}}}
    return {
        "planner": {"marker": "Split a task into subtasks", "steps": [_done(json.dumps(rows))]},
        "idle": {"marker": "end it", "steps": [_done("nothing")]},
        "master": {"marker": "lead them", "steps": [spawn, wait, _done("all")]},
        **{f"of-{name}": {"marker": f"/{name}/**", "steps": [_done("made")]} for name in NAMES},
        **{name: {"steps": [_done("made")]} for name in NAMES},
    }


def _done(summary: str) -> dict[str, Any]:
    return {"call": {"tool": "task_complete", "arguments": {"summary": summary}}}


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
