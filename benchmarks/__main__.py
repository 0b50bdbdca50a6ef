"""The command: `python -m benchmarks [--json] [NAME …]`."""

from __future__ import annotations

import importlib
import json
from typing import TYPE_CHECKING

import click

from benchmarks.harness import PAIRS, Plan
from prsm_core.loop.leaving import collect_seldom

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.harness import Absent, Finding

NAMES = (
    "startup",
    "first",
    "spawn",
    "ask",
    "tree",
    "redaction",
    "memory",
    "flood",
    "turn",
    "events",
    "deadlock",
    "detect",
    "kill",
    "box",
    "request",
    "proxy",
    "beside",
    "policy",
    "door",
    "replay",
    "resume",
    "growth",
    "workspace",
    "symbols",
    "regions",
    "protocols",
    "bridge",
    "tui",
)
# Real CLIs at work, or every call traced, for minutes: these run when they are named.
NAMED = ("walks", "peers")


def run_benchmark(name: str, plan: Plan) -> list[Finding | Absent]:
    """Run one benchmark."""
    found: list[Finding | Absent] = importlib.import_module(f"benchmarks.{name}").measure(plan)
    return found


@click.command()
@click.argument("names", metavar="[NAME]…", nargs=-1, type=click.Choice((*NAMES, *NAMED)))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
@click.option("--pairs", default=PAIRS, show_default=True, help="Interleaved pairs of each case.")
@click.option("--scale", default=1.0, show_default=True, help="Factor on the amounts of work.")
def main(names: Sequence[str], as_json: bool, pairs: int, scale: float) -> None:
    """Measure PRSM against references of the same moment; print medians and goals.

    A goal that is missed is printed as missed and is no failure: see docs/benchmarks.md.
    """
    collect_seldom()  # as every command of prsm does
    plan = Plan(pairs=pairs, scale=scale)
    for name in names or NAMES:
        for finding in run_benchmark(name, plan):
            click.echo(json.dumps(finding.to_dict()) if as_json else finding.to_line())


if __name__ == "__main__":
    main()
