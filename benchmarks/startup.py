"""startup: `prsm --help` and `prsm --version` as processes of their own, with plugins or few."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benchmarks.first_line import measure_first_line
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
# A plugin as they are: a module with records, and a struct of its settings.
PLUGIN = """
from msgspec import Struct
from prsm_core import EventSinkSpec, ProviderSpec, hookimpl
class Settings(Struct):
    path: str = ""
@hookimpl
def prsm_providers():
    yield ProviderSpec(name="{name}", summary="", factory="{name}_provider:build")
@hookimpl
def prsm_event_sinks():
    yield EventSinkSpec(name="{name}", summary="", factory="{name}_sink:build", settings=Settings)
"""
MANY = 20  # plugins, besides those that are installed here
GOALS = {"--help": 1.3, "--version": 0.5}
RUNS = 5  # processes of one measurement


def measure(plan: Plan) -> list[Finding]:
    """Compare both with a bare click program that scans entry points."""
    with TemporaryDirectory(prefix="prsm-benchmark-") as folder:
        install_plugins(Path(folder), MANY)
        places = {"": "", f", {MANY} plugins more": folder}
        found = [
            compared(
                "startup",
                f"prsm {option}{case}",
                partial(process_cost, PRSM, option, plan.count(RUNS), place),
                partial(process_cost, PLAIN, "--help", plan.count(RUNS), place),
                plan,
                goal=goal,
                unit="ms",
            )
            for case, place in places.items()
            for option, goal in GOALS.items()
        ]
    return [*found, *measure_first_line(plan)]


def install_plugins(folder: Path, count: int) -> None:
    """Write distributions as pip leaves them, each with one plugin."""
    for number in range(count):
        name = f"plugin{number}"
        (folder / f"{name}.py").write_text(PLUGIN.format(name=name))
        info = folder / f"prsm_{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: prsm-{name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[prsm]\n{name} = {name}\n")


def process_cost(program: str, option: str, runs: int, place: str = "") -> float:
    """Return the CPU milliseconds of a process, all of it; `place` is where more plugins are."""
    environ = {**os.environ, "PYTHONPATH": place} if place else None
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for _ in range(runs):
        subprocess.run(
            [sys.executable, "-c", program, option],
            check=True,
            stdout=subprocess.DEVNULL,
            env=environ,
        )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return 1000 * spent / runs
