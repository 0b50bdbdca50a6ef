"""`prsm policy`: what becomes of a command, the rules that decide it, and what runs say of them."""

from __future__ import annotations

import json
import shlex
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from prsm_core.cli.callers import agents_may
from prsm_core.cli.options import json_option, text_argument, workspace_option

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from prsm_core.cli.launch import Launch
    from prsm_core.cli.setup import Setup
    from prsm_core.config.policy_file import Policy
    from prsm_core.domain.agents import PermissionMode
    from prsm_core.permissions.replay import Recorded, Replayed, Suggestion
    from prsm_core.policies.port import CommandPolicy, Judgement

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
    from prsm_core.permissions.replay import SAME
    from prsm_core.permissions.replay import replay as judge_again

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

    from prsm_core.cli.judging import read_recorded
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


def _replayed_row(row: Replayed) -> dict[str, object]:
    return {
        "command": row.command,
        "times": row.times,
        "then": row.outcome.value,
        "now": row.fate.value,
        "reason": row.reason,
    }


def _print_replay(rows: Sequence[Replayed], shown: Sequence[Replayed]) -> None:
    from prsm_core.cli.saying import print_table
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
    from prsm_core.cli.setup import load_setup, tell_quarantined
    from prsm_core.plugins.needed import check_required

    setup = load_setup(launch, workspace)
    check_required(setup.plugins, setup.settings.permissions.required)
    tell_quarantined(setup.plugins)
    given = _given(command, tool, arguments)
    if given is None:
        if not as_json:
            raise click.UsageError("name a command or a tool, or give rows on stdin with --json")
        _check_rows(setup, mode)
        return
    answer = _checked(given, setup, mode, _store(setup))
    if as_json:
        click.echo(json.dumps(answer))
    else:
        from prsm_core.kit.text import escape_exact

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
    from prsm_core.cli.saying import print_table

    rows = _listed(launch, workspace)
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
    """Return whether a row holds a command, or a tool with its arguments."""
    if not isinstance(row, dict):
        return False
    is_call = isinstance(row.get("tool"), str) and isinstance(row.get("arguments", {}), dict)
    return isinstance(row.get("command"), str) or is_call


def _check_rows(setup: Setup, mode: str) -> None:
    """Judge the rows of stdin; raises UsageError behind the last one if some were wrong."""
    store = _store(setup)
    wrong: list[str] = []
    for number, line in enumerate(sys.stdin, start=1):
        if not line.strip():
            continue
        try:
            answer = _checked(_row_of(line), setup, mode, store)
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
    row: Mapping[str, Any], setup: Setup, mode: str, store: CommandPolicy
) -> dict[str, Any]:
    from prsm_core.cli.judging import judge_command, judge_tool
    from prsm_core.policies.port import CommandSetting

    setting = CommandSetting(
        mode=_mode(row.get("mode", mode)),
        cwd=row.get("cwd", "."),
        workspace=str(setup.paths.workspace),
        trusted=row.get("trusted", setup.trusted),
    )
    given = row.get("policy")
    if given is not None:
        store = _given_store(setup, given, is_workspace=row.get("policy_source") == "workspace")
    command = row.get("command")
    if isinstance(command, str):
        judgement = judge_command(command, setup, store, setting)
    else:
        judgement = judge_tool(row["tool"], row.get("arguments", {}), setup, store, setting)
    return {"id": row.get("id"), **_told(judgement)}


def _mode(name: str) -> PermissionMode:
    from prsm_core.domain.agents import PermissionMode

    try:
        return PermissionMode(name)
    except ValueError:
        raise click.UsageError(f"{name!r} is no mode; modes: {', '.join(MODES)}") from None


def _store(setup: Setup) -> CommandPolicy:
    from prsm_core.cli.judging import policy_of
    from prsm_core.config.policy_file import read_policy

    return policy_of(setup, read_policy(setup.paths, setup.snapshot))


def _given_store(setup: Setup, given: Mapping[str, Any], *, is_workspace: bool) -> CommandPolicy:
    from prsm_core.cli.judging import own_state_of, policy_of_rules
    from prsm_core.policies.port import CommandRules
    from prsm_core.policies.written import Written

    try:
        allow, ask, deny = (
            tuple(map(_rule_words, given.get(verdict) or ())) for verdict in VERDICTS
        )
    except (AttributeError, TypeError, ValueError) as error:
        raise click.UsageError(f"its policy is wrong: {error}") from None
    rules = CommandRules(
        allow=() if is_workspace else allow,
        ask=ask,
        deny=deny,
        workspace_allow=allow if is_workspace else (),
        own=own_state_of(setup),
        written=Written(),
    )
    return policy_of_rules(setup, rules)


def _rule_words(rule: str | Sequence[str]) -> tuple[str, ...]:
    from prsm_core.config.policy_file import MAX_WORDS

    words = tuple(rule.split()) if isinstance(rule, str) else tuple(rule)
    if not words or len(words) > MAX_WORDS or not all(words):
        raise ValueError(f"a rule has 1 to {MAX_WORDS} words: {rule!r}")
    return words


def _told(judgement: Judgement) -> dict[str, Any]:
    from prsm_core.cli.judging import check_of

    verdict = judgement.verdict
    check = check_of(verdict)
    return {
        "verdict": type(verdict).__name__.lower(),
        "reason": verdict.reason,
        "rule": judgement.rule,
        **({} if check is None else {"check": check}),
    }


def _listed(launch: Launch, workspace: str) -> list[dict[str, Any]]:
    import os

    from prsm_core.cli.setup import load_setup
    from prsm_core.config import load_settings
    from prsm_core.config.policy_file import read_policy

    setup = load_setup(launch, workspace)
    loaded = load_settings(
        paths=setup.paths, environ=os.environ, trusted=setup.trusted, snapshot=setup.snapshot
    )
    rows: list[dict[str, Any]] = []
    for verdict in VERDICTS:
        for index, words in enumerate(getattr(loaded.settings.permissions, verdict)):
            key = f"permissions.{verdict}"
            origin = loaded.sources.get(f"{key}[{index}]") or loaded.sources.get(key, "")
            rows.append(_row(verdict, words, "configuration", origin))
        rows += _of_files(read_policy(setup.paths, setup.snapshot), verdict, trusted=setup.trusted)
    return rows


def _of_files(policy: Policy, verdict: str, *, trusted: bool) -> list[dict[str, Any]]:
    rows = []
    for rule in policy.rules:
        if rule.verdict == verdict:
            holds = trusted or verdict != "allow" or rule.layer == "user"
            note = "" if holds else "ignored: the workspace is not trusted"
            rows.append(_row(verdict, rule.words, rule.layer, rule.origin, note))
    return rows


def _row(
    verdict: str, words: Sequence[str], layer: str, origin: str, note: str = ""
) -> dict[str, Any]:
    return {
        "verdict": verdict,
        "words": list(words),
        "layer": layer,
        "origin": origin,
        "note": note,
    }


def _edit(
    verdict: str, words: tuple[str, ...], workspace: str, *, project: bool, adds: bool
) -> None:
    from prsm_core.cli.places import workspace_paths
    from prsm_core.config.own_rules import change_rule, policy_path
    from prsm_core.kit.text import escape_exact

    paths, rule = workspace_paths(workspace), _split(words, verdict)
    path = policy_path(paths, project=project)
    changed = change_rule(paths, verdict, rule, project=project, adds=adds)
    click.echo(escape_exact(f"{path}: {_what_happened(changed, adds)} {verdict} {' '.join(rule)}"))
    if not changed and not adds:
        click.get_current_context().exit(1)


def _split(words: tuple[str, ...], verdict: str) -> tuple[str, ...]:
    """Return the words of a rule; a single one may be all of them in quotes."""
    from prsm_core.config.policy_file import parse_rule

    try:
        return parse_rule(words[0] if len(words) == 1 else list(words), verdict)
    except ValueError as error:
        raise click.UsageError(f"the rule {error}") from None


def _what_happened(changed: bool, adds: bool) -> str:
    if adds:
        return "added" if changed else "has already"
    return "removed" if changed else "does not have"
