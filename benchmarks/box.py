"""box: what a start in a box costs, against runc itself on the same bundle."""

from __future__ import annotations

import asyncio
import gc
import json
import resource
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from prsm_sandbox.box_runtimes import RUNC, BoxStart, find_runtime, runc_config
from prsm_sandbox.box_view import box_view
from prsm_testing.doubles import SANDBOX

from benchmarks.harness import Absent, compared
from prsm_core.domain.boxes import Box
from prsm_core.engine.processes.executor import ProgramBoxes
from prsm_core.engine.processes.launcher import ProcessLauncher, install_child_watcher
from prsm_core.kit.clocks import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.harness import Finding, Plan

STARTS = 10  # of one measurement
GOAL = 1.5
CASE = "a start in a box, and its end"
PROGRAM = ("true",)
BOX = Box(memory=256 * 2**20, cpus=1, pids=64)


def measure(plan: Plan) -> list[Finding | Absent]:
    """Compare starts by the engine, shim and removal and all, with those by runc."""
    program = find_runtime(RUNC)
    if program is None:
        return [Absent(benchmark="box", case=CASE, why="runc is not installed")]
    install_child_watcher()
    with tempfile.TemporaryDirectory() as name, asyncio.Runner() as runner:
        folder, times = Path(name), plan.count(STARTS)
        launcher = ProcessLauncher(SystemClock())
        runner.run(launcher.__aenter__())
        boxes = ProgramBoxes(launcher, folder / "state", SANDBOX)
        state = runner.run(boxes.examine())
        if state.runtime != RUNC or state.gaps(BOX):
            why = "; ".join((state.reason, *state.gaps(BOX)))
            return [Absent(benchmark="box", case=CASE, why=why)]
        bare = (program, "--root", str(folder / "bare"), "run", "--bundle", _bundle(folder), "bare")
        found = compared(
            "box",
            CASE,
            lambda: _cost(lambda: runner.run(_start(boxes, folder, times)), times),
            lambda: _cost(lambda: _run(bare, times), times),
            plan,
            goal=GOAL,
            unit="ms",
        )
        boxes.close()
        runner.run(launcher.aclose())
    return [found]


async def _start(boxes: ProgramBoxes, folder: Path, times: int) -> None:
    """Start a program in boxes, one after the other."""
    for _ in range(times):
        process = await boxes.start(PROGRAM, name="boxed", box=BOX, cwd=str(folder))
        if code := await process.wait():
            raise RuntimeError(f"it ended with {code}: {process.stderr_tail}")


def _bundle(folder: Path) -> str:
    """Make the bundle that a box has, as a file of its own; return its folder."""
    view = box_view(BOX, str(folder), str(Path.home()))
    env = {"PATH": "/usr/bin:/bin"}
    start = BoxStart(name="bare", argv=PROGRAM, env=env, view=view, box=BOX, limits=BOX.limits)
    root = folder / "bundle" / "rootfs"
    root.mkdir(parents=True)
    for link, target in view.links:
        (root / link).symlink_to(target)
    config = runc_config(start, str(root), None, swap=False)
    (folder / "bundle" / "config.json").write_text(json.dumps(config))
    return str(folder / "bundle")


def _run(argv: tuple[str, ...], times: int) -> None:
    for _ in range(times):
        subprocess.run(argv, check=True, stdin=subprocess.DEVNULL, capture_output=True)


def _cost(work: Callable[[], object], times: int) -> float:
    """Return the CPU milliseconds of each start: of this process and of all that have ended."""
    gc.collect()
    begin = _cpu_seconds()
    work()
    return 1e3 * (_cpu_seconds() - begin) / times


def _cpu_seconds() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime
