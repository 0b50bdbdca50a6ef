"""`prsm sim`: deterministic simulation of agent trees on the real engine."""

from __future__ import annotations

import click

from prsm_core.cli.callers import agents_may
from prsm_core.cli.run_options import finite


@click.command(short_help="Simulate agent trees, faults included, from a seed.")
@click.option("--seed", default="1", show_default=True, metavar="N|A..B", help="What to play.")
@click.option(
    "--faults",
    default="all",
    show_default=True,
    metavar="NAMES",
    help="crash, hang, garbage, 429, duplicate, late, stale, interrupt, restart, slow-sink; "
    "or none.",
)
@click.option(
    "--agents",
    type=click.IntRange(1, 10_000),
    default=30,
    show_default=True,
    help="The most agents of a run.",
)
@click.option(
    "--minutes",
    type=click.FloatRange(0.1),
    callback=finite,
    default=1440.0,
    show_default=True,
    help="Virtual minutes within which a run must end.",
)
@click.option("--jobs", type=click.IntRange(1, 64), default=1, show_default=True, help="Processes.")
@click.option("--stop", is_flag=True, help="Stop at the first seed that breaks a rule.")
@click.option("--json", "as_json", is_flag=True, help="Print one outcome a line.")
@agents_may
def sim(
    seed: str, faults: str, agents: int, minutes: float, jobs: int, stop: bool, as_json: bool
) -> int:
    """Play whole runs from a seed: virtual time, simulated agents, injected faults.

    The engine, its tools, mailboxes, wait graph and permissions are the real ones; providers,
    ledger, clock, sinks and the person are simulated. The same seed gives the same log. Exits
    with 1 when a rule did not hold, and prints the command that replays it.
    """
    from prsm_testing.sim.faults import parse_faults
    from prsm_testing.sim.jobs import play_all
    from prsm_testing.sim.outcome import Report
    from prsm_testing.sim.plan import Plan, parse_seeds

    allowed = parse_faults(faults)
    plans = [
        Plan(seed=number, faults=allowed, agents=agents, minutes=minutes)
        for number in parse_seeds(seed)
    ]
    report = Report(click.echo, as_json=as_json, stop=stop)
    play_all(plans, jobs, report.take)
    report.close()
    return 0 if report.is_clean else 1
