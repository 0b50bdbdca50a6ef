"""How long a person waits for the first sign of `prsm run`, by the clock on the wall."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benchmarks.harness import Finding, compared

if TYPE_CHECKING:
    from benchmarks.harness import Plan

PRSM = """
import sys
from prsm_core.cli import main
sys.exit(main(["run", "say hello", "--provider", "script"]))
"""
# What any command line with plugins must do: parse with click, look for the entry points.
PLAIN = """
from importlib.metadata import entry_points
import click
@click.command(epilog=", ".join(point.name for point in entry_points(group="prsm")))
def run(): click.echo("starts", err=True)
run()
"""
CASE = "first line of prsm run"
RATIO, MILLISECONDS = 1.5, 1000.0  # goals
RUNS = 5  # processes of one measurement


def measure_first_line(plan: Plan) -> list[Finding]:
    """Compare it with the first line of a bare click program, and with a second."""
    found = compared(
        "startup",
        f"{CASE}, beside click",
        partial(first_line, PRSM, plan.count(RUNS)),
        partial(first_line, PLAIN, plan.count(RUNS)),
        plan,
        goal=RATIO,
        unit="ms",
    )
    alone = Finding(benchmark="startup", case=CASE, unit="ms", value=found.value, goal=MILLISECONDS)
    return [found, alone]


def first_line(program: str, runs: int) -> float:
    """Return the milliseconds from a process' start to its first line on stderr."""
    took = 0.0
    with TemporaryDirectory(prefix="prsm-benchmark-") as folder:
        env = {**os.environ, "PRSM_HOME": str(Path(folder, "home"))}
        for _ in range(runs):
            begin = time.perf_counter()
            process = subprocess.Popen(
                [sys.executable, "-c", program],
                cwd=folder,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )
            with process:
                if process.stderr is None or not process.stderr.readline():
                    raise RuntimeError("the process has told nothing")
                took += time.perf_counter() - begin
                process.kill()
    return 1000 * took / runs
