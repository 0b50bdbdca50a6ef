"""`prsm policy replay` and `prsm policy suggest`: what recorded runs say about rules."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from prsm_core.cli.callers import agents_may
from prsm_core.cli.options import json_option, workspace_option

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from prsm_core.cli.launch import Launch
    from prsm_core.cli.setup import Setup
    from prsm_core.permissions.replay import Recorded, Replayed, Suggestion
    from prsm_core.policies.port import CommandPolicy

MAX_COVERED = 8  # commands that are shown below a suggested rule

sessions_argument = click.argument("sessions", nargs=-1, metavar="[SESSION]…")


@click.command(short_help="Judge the commands of recorded runs by other rules.")
@sessions_argument
@click.option(
    "--with",
    "other",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A policy file that takes the place of your own; else the rules in force.",
)
@click.option("--all", "shows_all", is_flag=True, help="Show what stays as it was, too.")
@workspace_option
@json_option
@click.pass_obj
@agents_may
def replay(
    launch: Launch,
    sessions: tuple[str, ...],
    other: Path | None,
    shows_all: bool,
    workspace: str,
    as_json: bool,
) -> None:
    """Judge every command of recorded runs again, and show what would change. Nothing is run.

    SESSION is the beginning of an id; without one all runs of this repository are judged. Commands
    are judged in the folder as it is today, by the rules alone: the repeat guard and the checks of
    plugins have no part in it.
    """
    from prsm_core.permissions.replay import SAME
    from prsm_core.permissions.replay import replay as judge_again

    commands, policy, trusted = _loaded(launch, workspace, sessions, other)
    rows = judge_again(commands, policy, trusted)
    shown = [row for row in rows if shows_all or row.fate is not SAME[row.outcome]]
    if as_json:
        click.echo(json.dumps({"counts": _counts(rows), "rows": list(map(_row, shown))}, indent=2))
        return
    _print_replay(rows, shown)


@click.command(short_help="Propose rules for what you approved again and again.")
@sessions_argument
@click.option(
    "--min",
    "least",
    type=click.IntRange(min=2),
    default=3,
    show_default=True,
    help="How often it must have been approved.",
)
@workspace_option
@json_option
@click.pass_obj
@agents_may
def suggest(
    launch: Launch, sessions: tuple[str, ...], least: int, workspace: str, as_json: bool
) -> None:
    """Propose narrow rules for what you approved often, with all that they would have covered.

    No rule is proposed for what is dangerous, nor one that covers something you refused. Nothing
    is changed: each proposal comes with the command that adds it.
    """
    from prsm_core.permissions.replay import suggest as propose

    commands, policy, trusted = _loaded(launch, workspace, sessions, None)
    found = propose(commands, policy, trusted, least=least)
    if as_json:
        click.echo(json.dumps(list(map(_suggestion, found)), indent=2))
        return
    if not found:
        click.echo(f"nothing harmless was approved {least} times or more", err=True)
    for each in found:
        _print_suggestion(each)


def _loaded(
    launch: Launch, workspace: str, sessions: Sequence[str], other: Path | None
) -> tuple[list[Recorded], CommandPolicy, frozenset[str]]:

    from prsm_core.cli.recorded import read_recorded
    from prsm_core.cli.setup import load_setup
    from prsm_core.loop.run import run_to_end

    setup = load_setup(launch, workspace)
    commands = run_to_end(read_recorded(workspace, sessions))
    trusted = frozenset({str(setup.paths.workspace)} if setup.trusted else ())
    return commands, _policy(setup, other), trusted


def _policy(setup: Setup, other: Path | None) -> CommandPolicy:
    from prsm_core.cli.judging import policy_of
    from prsm_core.config.policy_file import read_policy

    policy = read_policy(setup.paths, setup.snapshot, user=other)
    if other is not None and policy.problems:
        raise click.UsageError("; ".join(policy.problems))
    return policy_of(setup, policy)


def _counts(rows: Iterable[Replayed]) -> dict[str, dict[str, int]]:
    """Return how many commands there were by outcome, and how many there are by fate."""
    then, now = Counter[str](), Counter[str]()
    for row in rows:
        then[row.outcome.value] += row.times
        now[row.fate.value] += row.times
    return {"then": dict(then), "now": dict(now)}


def _row(row: Replayed) -> dict[str, object]:
    return {
        "command": row.command,
        "times": row.times,
        "then": row.outcome.value,
        "now": row.fate.value,
        "reason": row.reason,
    }


def _print_replay(rows: Sequence[Replayed], shown: Sequence[Replayed]) -> None:
    from prsm_core.cli.table import print_table
    from prsm_core.kit.text import first_line

    counts = _counts(rows)
    then, now = (
        ", ".join(f"{times} {name}" for name, times in sorted(counts[when].items()))
        for when in ("then", "now")
    )
    click.echo(f"then: {then or 'no commands'}", err=True)
    click.echo(f"now:  {now or 'no commands'}", err=True)
    if not shown:
        click.echo("nothing would change", err=True)
        return
    cells = [
        (str(row.times), row.outcome.value, row.fate.value, first_line(row.command), row.reason)
        for row in shown
    ]
    print_table(("TIMES", "THEN", "NOW", "COMMAND", "REASON"), cells)


def _suggestion(found: Suggestion) -> dict[str, object]:
    return {
        "rule": list(found.rule),
        "approved": found.approved,
        "covered": [{"command": command, "times": times} for command, times in found.covered],
    }


def _print_suggestion(found: Suggestion) -> None:
    from prsm_core.kit.text import escape_exact, first_line

    rule = shlex.join(found.rule)
    click.echo(f"{escape_exact(rule)}: approved {found.approved} times; it would have covered")
    for command, times in found.covered[:MAX_COVERED]:
        click.echo(f"  {times:>4}  {first_line(command)}")
    if len(found.covered) > MAX_COVERED:
        click.echo(f"  and {len(found.covered) - MAX_COVERED} other commands (--json lists all)")
    click.echo(f"  to add it: prsm policy add allow {escape_exact(rule)}")
