"""Pages of what a session has around it: models, providers, its budget, its rules, its settings.

Each is made of what the core tells, as lines; what it does not tell is said with the reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET

from prsm_core.kit import escape_exact, format_duration
from prsm_tui.model import words
from prsm_tui.model.board import DIM, HEAD, PLAIN, WARNING, Board, BoardLine
from prsm_tui.model.spoken import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from prsm_core import RunOptions
    from prsm_core.door import (
        BudgetLine,
        BudgetReport,
        ModelRow,
        PolicyReport,
        PolicyRule,
        ProviderReport,
    )
    from prsm_tui.model.session import Session

MODELS, PROVIDERS, BUDGET, POLICY, SETTINGS = "models", "providers", "budget", "policy", "settings"
_BAR = 20  # cells
_VERDICTS = ("deny", "ask", "allow")
_NONE = "none: what is known to change nothing runs, all else goes by the mode"
_KINDS: Mapping[str, str] = {
    "tokens": "tokens",
    "usd": "dollars",
    "turns": "turns",
    "spawns": "agents",
}


def failed(title: str, why: str) -> Board:
    """Return the page of what cannot be told."""
    return Board(title, [BoardLine(why, WARNING)])


def models_board(rows: Sequence[ModelRow], session: Session) -> Board:
    """Return which model is in force and which comes, then all by provider; each can be picked."""
    seen = [row for row in rows if not row.hidden]
    lines = [*_in_force(session), BoardLine("")]
    provider = None
    for row in seen:
        if row.provider != provider:
            provider = row.provider
            lines.append(BoardLine(escape_exact(str(provider)), HEAD))
        lines.append(BoardLine(_model(row), PLAIN, f"{row.provider}/{row.model}"))
    hidden = len(rows) - len(seen)
    if hidden:
        lines.append(BoardLine(f"and {hidden} that their providers hide: prsm models list", DIM))
    if not rows:
        lines.append(BoardLine("no model is known", DIM))
    hint = "Enter: the chosen agent goes on with that model"
    return Board(f"models: {len(seen)}", lines, hint)


def _in_force(session: Session) -> Iterator[BoardLine]:
    master, asked = session.master(), session.asked_model or "what is configured"
    if master is None:
        first = f"a master of {escape_exact(session.next_model)}" if session.next_model else asked
        yield BoardLine(f"the first task: {first}", HEAD)
        return
    yield BoardLine(f"now: {master.name} has {master.models}", HEAD)
    others = {agent.models for agent in session.agents.values()} - {master.models}
    if others:
        yield BoardLine(f"agents below it have {', '.join(sorted(others))}", HEAD)


def _model(row: ModelRow) -> str:
    window, efforts = row.context_window, row.reasoning_efforts
    parts = [
        f"tier {row.tier}" if row.tier else "",
        f"cost x{row.cost_factor:g}" if row.cost_factor is not None else "",
        f"speed x{row.speed_factor:g}" if row.speed_factor is not None else "",
        f"window {words.amount(window)}" if isinstance(window, int) else "",
        f"also {', '.join(map(str, row.aliases))}" if row.aliases else "",
        f"efforts {', '.join(map(str, efforts))}" if efforts else "",
    ]
    told = escape_exact(" · ".join(part for part in parts if part))
    return f"  {escape_exact(str(row.model)):<28} {told}".rstrip()


def providers_board(rows: Sequence[ProviderReport]) -> Board:
    """Return the providers, those that can be used first, and why others cannot."""
    lines: list[BoardLine] = []
    for row in sorted(rows, key=lambda one: not one.available):
        can = row.available
        parts = [
            "ready" if can else "not ready",
            f"version {row.version}" if row.version else "",
            _truth(row.logged_in, "logged in", "not logged in"),
            f"permissions: {row.enforcement}" if row.enforcement else "",
            _truth(row.resume, "resumes", "does not resume"),
        ]
        text = escape_exact(" · ".join(part for part in parts if part))
        name = escape_exact(row.name)
        lines.append(BoardLine(f"{'x' if can else '!'} {name:<12} {text}", PLAIN if can else DIM))
        lines += [BoardLine(f"    {shown(text)}", DIM) for text in (row.reason, row.hint) if text]
        lines += [BoardLine(f"    not there: {shown(gap)}", DIM) for gap in row.gaps]
    ready = sum(row.available for row in rows)
    return Board(f"providers: {ready} of {len(rows)} ready", lines or [BoardLine("none", DIM)])


def _truth(value: object, yes: str, no: str) -> str:
    return "" if value is None else yes if value else no


def budget_board(told: BudgetReport, session: Session) -> Board:
    """Return what the newest run has used, and each of its agents."""
    lines = [BoardLine(f"used: {shown(told.spent)}", HEAD)]
    for kind, amount in told.run.items():
        lines.append(BoardLine(f"  {_KINDS.get(kind, kind):<8} {_amount(kind, amount)}"))
    lines += [BoardLine(""), BoardLine("by agent, with all below it", HEAD)]
    rows = list(session.rows())
    for agent in rows:
        name = f"{'  ' * min(agent.depth, 8)}{agent.name}"
        used = f"{words.tokens(agent.spent_below):>8} {words.cost(agent.spent_below):>9}"
        own = f"itself {words.tokens(agent.spent)} {words.cost(agent.spent)}"
        lines.append(BoardLine(f"  {name:<28} {used}   {own}"))
    if not rows:
        lines.append(BoardLine("  no agent has begun", DIM))
    why = "limits are those of the configuration: prsm config show"
    return Board("budget of the newest run", [*lines, BoardLine(""), BoardLine(why, DIM)])


def _amount(kind: str, amount: BudgetLine) -> str:
    used, limit = amount.used, amount.limit
    sign = "$" if kind == "usd" else ""
    parts = ["? used" if used is None else f"{sign}{_number(used)} used"]
    if amount.reserved:
        parts.append(f"{sign}{_number(amount.reserved)} reserved")
    if limit is UNSET:
        return " · ".join([*parts, "no limit"])
    share = min(1.0, max(0.0, (used or 0) / limit)) if limit else 1.0
    full = round(share * _BAR)
    left = 0 if amount.left is UNSET else amount.left
    parts.append(f"{sign}{_number(left)} of {sign}{_number(limit)} left")
    return f"[{'#' * full}{'.' * (_BAR - full)}] {share:.0%} · {' · '.join(parts)}"


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.3f}"


def policy_board(told: PolicyReport, session: Session) -> Board:
    """Return what was granted, and the rules on commands and tools, the strongest first."""
    lines = [BoardLine(f"mode: {session.mode} (of runs that begin from now on: /mode)", HEAD)]
    lines += [BoardLine(""), BoardLine("granted always in this session", HEAD)]
    for grant in told.grants:
        name = session.name_of(grant.agent_id)
        what = escape_exact(grant.command or grant.tool)
        lines.append(BoardLine(f"  {name} and all below it: {what}"))
    if not told.grants:
        lines.append(BoardLine("  nothing", DIM))
    if not told.rules:
        lines += [BoardLine(""), BoardLine("rules on commands", HEAD), BoardLine(f"  {_NONE}", DIM)]
    for verdict in _VERDICTS:
        own = [rule for rule in told.rules if rule.verdict == verdict]
        if own:
            lines += [BoardLine(""), BoardLine(f"{verdict}: commands that begin so", HEAD)]
            lines += [BoardLine(f"  {_rule(rule)}") for rule in own]
    if told.tools:
        lines += [BoardLine(""), BoardLine("whole tools", HEAD)]
        lines += [BoardLine(f"  {escape_exact(f'{tool}: {v}')}") for tool, v in told.tools.items()]
    where = "deny beats ask beats allow; rules are edited by: prsm policy add, remove"
    return Board("rules and grants", [*lines, BoardLine(""), BoardLine(where, DIM)])


def _rule(rule: PolicyRule) -> str:
    words_ = escape_exact(" ".join(rule.words))
    return f"{words_}  (of the workspace)" if rule.layer == "workspace" else words_


def settings_board(options: RunOptions, session: Session, *, owns: bool) -> Board:
    """Return what runs of this session have, and where that is changed."""
    limit = "none" if options.timeout_s is None else format_duration(options.timeout_s)
    waits = options.unattended_s
    rows = {
        "session": session.id,
        "workspace": options.workspace,
        "runs end with this screen": "yes" if owns else "no: another process has them",
        "mode": f"{session.mode}   (/mode)",
        "provider": options.provider or "as is configured",
        "model of a new master": session.next_model or options.model or "as is configured",
        "effort": options.effort or "as is configured",
        "time limit of a run": limit,
        "a request waits, alone": "as if you were there" if waits is None else f"{waits:g} s",
    }
    lines = [BoardLine(f"{name:<26} {escape_exact(str(value))}") for name, value in rows.items()]
    why = (
        "These hold for this session. What is configured is in files, which the core reads when a "
        "session opens: `prsm config show` shows all of it with its origin, `prsm config path` "
        "names the files."
    )
    return Board("settings of this session", [*lines, BoardLine(""), BoardLine(why, DIM)])
