"""`prsm policy`: what becomes of a command, the rules behind it, and what runs say of them."""

from __future__ import annotations

import json
import shlex
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from prsm_core.commands import agents_may, json_option, text_argument, workspace_option

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from prsm_core.commands import Launch, PolicyDesk
    from prsm_core.policies import CommandPolicy, Judgement
    from prsm_policy.recorded import Recorded
    from prsm_policy.replay import Replayed, Suggestion

MAX_COVERED = 8  # commands that are shown below a suggested rule

sessions_argument = click.argument("sessions", nargs=-1, metavar="[SESSION]…")

MODES = ("default", "accept_edits", "bypass", "plan", "delegate")
VERDICTS = ("allow", "ask", "deny")
# By verdict; whoever only wants to run what needs nobody takes 0 for yes.
EXIT_CODES = {"allow": 0, "deny": 1, "ask": 4}

verdict_argument = click.argument("verdict", type=click.Choice(VERDICTS))
words_argument = click.argument("words", nargs=-1, required=True, metavar="WORD…")
project_option = click.option(
    "--project", is_flag=True, help="The workspace's .prism/policy.yaml instead of your own."
)


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
    from prsm_policy.replay import SAME
    from prsm_policy.replay import replay as judge_again

    commands, policy, trusted = _loaded(launch, workspace, sessions, other)
    rows = judge_again(commands, policy, trusted)
    shown = [row for row in rows if shows_all or row.fate is not SAME[row.outcome]]
    if as_json:
        click.echo(
            json.dumps({"counts": _counts(rows), "rows": list(map(_replayed_row, shown))}, indent=2)
        )
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
    from prsm_policy.replay import suggest as propose

    commands, policy, trusted = _loaded(launch, workspace, sessions, None)
    suggestions = propose(commands, policy, trusted, least=least)
    if as_json:
        click.echo(json.dumps(list(map(_suggestion, suggestions)), indent=2))
        return
    if not suggestions:
        click.echo(f"nothing harmless was approved {least} times or more", err=True)
    for each in suggestions:
        _print_suggestion(each)


def _loaded(
    launch: Launch, workspace: str, sessions: Sequence[str], other: Path | None
) -> tuple[list[Recorded], CommandPolicy, frozenset[str]]:
    from prsm_core.commands import PolicyDesk, run_to_end
    from prsm_policy.recorded import read_recorded

    desk = PolicyDesk(launch, workspace)
    commands = run_to_end(read_recorded(workspace, sessions))
    try:
        policy = desk.policy(other)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    return commands, policy, frozenset({desk.workspace} if desk.trusted else ())


def _counts(rows: Iterable[Replayed]) -> dict[str, dict[str, int]]:
    """Return how many commands there were by outcome, and how many there are by fate."""
    then, now = Counter[str](), Counter[str]()
    for row in rows:
        then[row.outcome.value] += row.times
        now[row.fate.value] += row.times
    return {"then": dict(then), "now": dict(now)}


def _replayed_row(row: Replayed) -> dict[str, object]:
    return {
        "command": row.command,
        "times": row.times,
        "then": row.outcome.value,
        "now": row.fate.value,
        "reason": row.reason,
    }


def _print_replay(rows: Sequence[Replayed], shown: Sequence[Replayed]) -> None:
    from prsm_core.commands import print_table
    from prsm_core.kit import first_line

    for when, counts in _counts(rows).items():
        listed = ", ".join(f"{times} {name}" for name, times in sorted(counts.items()))
        click.echo(f"{when + ':':<5} {listed or 'no commands'}", err=True)
    if not shown:
        click.echo("nothing would change", err=True)
        return
    cells = [
        (str(row.times), row.outcome.value, row.fate.value, first_line(row.command), row.reason)
        for row in shown
    ]
    print_table(("TIMES", "THEN", "NOW", "COMMAND", "REASON"), cells)


def _suggestion(each: Suggestion) -> dict[str, object]:
    return {
        "rule": list(each.rule),
        "approved": each.approved,
        "covered": [{"command": command, "times": times} for command, times in each.covered],
    }


def _print_suggestion(each: Suggestion) -> None:
    from prsm_core.kit import escape_exact, first_line

    rule = escape_exact(shlex.join(each.rule))
    click.echo(f"{rule}: approved {each.approved} times; it would have covered")
    for command, times in each.covered[:MAX_COVERED]:
        click.echo(f"  {times:>4}  {first_line(command)}")
    if len(each.covered) > MAX_COVERED:
        click.echo(f"  and {len(each.covered) - MAX_COVERED} other commands (--json lists all)")
    click.echo(f"  to add it: prsm policy add allow {rule}")


@click.group(short_help="Check commands, and edit the rules on them.")
def policy() -> None:
    """Check what becomes of shell commands, and edit the rules on them.

    A rule is the first words of a command: `deny git push` forbids `git push --tags`, too. Deny
    beats ask beats allow, and it finds a command however it is wrapped or nested.
    """


@policy.command(short_help="Say what becomes of a command.")
@text_argument("command", "[COMMAND]", required=False)
@click.option("--mode", type=click.Choice(MODES), default="default", show_default=True)
@click.option("--tool", metavar="NAME", help="A call of this tool instead of a command.")
@click.option("--arguments", metavar="JSON", default="{}", help="What the tool is called with.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON; without COMMAND read rows.")
@workspace_option
@click.pass_obj
@agents_may
def check(
    launch: Launch,
    command: str | None,
    mode: str,
    tool: str | None,
    arguments: str,
    as_json: bool,
    workspace: str,
) -> None:
    """Say whether COMMAND would run, be asked about, or be denied, and why. It is not run.

    The permission checks of plugins are asked as in a run, also about calls of tools: with --tool
    spawn_child about an agent that would spawn one.

    The exit code is 0 for allow, 1 for deny, 4 for ask. With --json and without COMMAND, rows are
    read from stdin, one JSON object a line: command, or tool and arguments, and if they differ
    from what holds here id, mode, trusted, cwd, and policy (allow, ask, deny) with policy_source
    (user, workspace). For each a line with id, verdict, reason and rule is printed, and check
    where a check of a plugin decides. A row that is wrong is told at the end, and the others are
    judged all the same.
    """
    from prsm_core.commands import PolicyDesk

    desk = PolicyDesk(launch, workspace)
    desk.check_plugins()
    given = _given(command, tool, arguments)
    if given is None:
        if not as_json:
            raise click.UsageError("name a command or a tool, or give rows on stdin with --json")
        _check_rows(desk, mode)
        return
    answer = _checked(given, desk, mode, desk.policy())
    if as_json:
        click.echo(json.dumps(answer))
    else:
        from prsm_core.kit import escape_exact

        by = f" (the check {answer['check']})" if "check" in answer else ""
        click.echo(f"{answer['verdict']}: {escape_exact(answer['reason'])}{by}")
    click.get_current_context().exit(EXIT_CODES[str(answer["verdict"])])


policy.add_command(replay)
policy.add_command(suggest)


@policy.command("list", short_help="List the rules.")
@workspace_option
@json_option
@click.pass_obj
@agents_may
def list_rules(launch: Launch, workspace: str, as_json: bool) -> None:
    """List the rules of the configuration and of the policy files, and where they stand."""
    from prsm_core.commands import PolicyDesk, print_table

    rows = list(PolicyDesk(launch, workspace).rules())
    if as_json:
        click.echo(json.dumps(rows, indent=2))
    elif rows:
        cells = [
            (row["verdict"], " ".join(row["words"]), row["layer"], row["origin"], row["note"])
            for row in rows
        ]
        print_table(("VERDICT", "RULE", "LAYER", "WHERE", "NOTE"), cells)


@policy.command(short_help="Add a rule.", context_settings={"ignore_unknown_options": True})
@verdict_argument
@words_argument
@project_option
@workspace_option
def add(verdict: str, words: tuple[str, ...], project: bool, workspace: str) -> None:
    """Add the rule VERDICT on commands that begin with these words.

    It goes to your own policy file, or with --project to the workspace's.
    """
    _edit(verdict, words, workspace, project=project, adds=True)


@policy.command(short_help="Remove a rule.", context_settings={"ignore_unknown_options": True})
@verdict_argument
@words_argument
@project_option
@workspace_option
def remove(verdict: str, words: tuple[str, ...], project: bool, workspace: str) -> None:
    """Remove the rule VERDICT on commands that begin with these words."""
    _edit(verdict, words, workspace, project=project, adds=False)


def _given(command: str | None, tool: str | None, arguments: str) -> Mapping[str, Any] | None:
    """Return the row that the command line gives, None without one."""
    if tool is None:
        return None if command is None else {"command": command}
    if command is not None:
        raise click.UsageError("name a command or a tool, not both")
    try:
        given = json.loads(arguments)
    except ValueError as error:
        raise click.UsageError(f"--arguments is not JSON: {error}") from error
    row = {"tool": tool, "arguments": given}
    if not _says_what(row):
        raise click.UsageError("--arguments is no JSON object")
    return row


def _says_what(row: object) -> bool:
    if not isinstance(row, dict):
        return False
    is_call = isinstance(row.get("tool"), str) and isinstance(row.get("arguments", {}), dict)
    return isinstance(row.get("command"), str) or is_call


def _check_rows(desk: PolicyDesk, mode: str) -> None:
    """Judge the rows of stdin; raises UsageError behind the last one if some were wrong."""
    policy = desk.policy()
    wrong: list[str] = []
    for number, line in enumerate(sys.stdin, start=1):
        if not line.strip():
            continue
        try:
            answer = _checked(_row_of(line), desk, mode, policy)
        except click.UsageError as error:
            wrong.append(f"line {number} of stdin: {error.message}")
        else:
            click.echo(json.dumps(answer))
    if wrong:
        raise click.UsageError("\n".join(wrong))


def _row_of(line: str) -> Mapping[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"it is not JSON: {error}") from error
    if not _says_what(row):
        raise click.UsageError("it has no command")
    return row  # type: ignore[no-any-return]


def _checked(
    row: Mapping[str, Any], desk: PolicyDesk, mode: str, policy: CommandPolicy
) -> dict[str, Any]:
    from prsm_core import PermissionMode
    from prsm_core.policies import CommandSetting

    name = row.get("mode", mode)
    if name not in MODES:
        raise click.UsageError(f"{name!r} is no mode; modes: {', '.join(MODES)}")
    setting = CommandSetting(
        mode=PermissionMode(name),
        cwd=row.get("cwd", "."),
        workspace=desk.workspace,
        trusted=row.get("trusted", desk.trusted),
    )
    if (given := row.get("policy")) is not None:
        try:
            policy = desk.policy_of(given, is_workspace=row.get("policy_source") == "workspace")
        except (AttributeError, TypeError, ValueError) as error:
            raise click.UsageError(f"its policy is wrong: {error}") from None
    command = row.get("command")
    if isinstance(command, str):
        judgement = desk.judge_command(command, policy, setting)
    else:
        judgement = desk.judge_tool(row["tool"], row.get("arguments", {}), policy, setting)
    return {"id": row.get("id"), **_told(judgement)}


def _told(judgement: Judgement) -> dict[str, Any]:
    from prsm_core import Ask, Deny

    verdict = judgement.verdict
    check = verdict.check if isinstance(verdict, Ask | Deny) else None
    return {
        "verdict": type(verdict).__name__.lower(),
        "reason": verdict.reason,
        "rule": judgement.rule,
        **({} if check is None else {"check": check}),
    }


def _edit(
    verdict: str, words: tuple[str, ...], workspace: str, *, project: bool, adds: bool
) -> None:
    from prsm_core.commands import edit_rule
    from prsm_core.kit import escape_exact

    try:
        path, rule, changed = edit_rule(workspace, verdict, words, project=project, adds=adds)
    except ValueError as error:
        raise click.UsageError(f"the rule {error}") from None
    if adds:
        what = "added" if changed else "has already"
    else:
        what = "removed" if changed else "does not have"
    click.echo(escape_exact(f"{path}: {what} {verdict} {' '.join(rule)}"))
    if not changed and not adds:
        click.get_current_context().exit(1)
