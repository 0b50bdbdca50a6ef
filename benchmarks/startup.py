"""startup: `prsm --help` and `prsm --version` as processes of their own."""

from __future__ import annotations

import resource
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.harness import compared

if TYPE_CHECKING:
    from benchmarks.harness import Finding, Plan

PRSM = "import sys; from prsm_core.cli import main; sys.exit(main())"
# What any command line with plugins must do: parse with click, look for the entry points.
PLAIN = """
from importlib.metadata import entry_points
import click
@click.group(epilog=", ".join(point.name for point in entry_points(group="prsm")))
def cli(): pass
@cli.command()
def run(): "Run."
cli()
"""
GOALS = {"--help": 1.3, "--version": 0.5}
RUNS = 5  # processes of one measurement


def measure(plan: Plan) -> list[Finding]:
    """Compare both with a bare click program that scans entry points."""
    return [
        compared(
            "startup",
            f"prsm {option}",
            partial(process_cost, PRSM, option, plan.count(RUNS)),
            partial(process_cost, PLAIN, "--help", plan.count(RUNS)),
            plan,
            goal=goal,
            unit="ms",
        )
        for option, goal in GOALS.items()
    ]


def process_cost(program: str, option: str, runs: int) -> float:
    """Return the CPU milliseconds of a process, all of it."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for _ in range(runs):
        subprocess.run(
            [sys.executable, "-c", program, option], check=True, stdout=subprocess.DEVNULL
        )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return 1000 * spent / runs
