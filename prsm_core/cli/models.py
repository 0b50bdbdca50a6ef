"""`prsm models`: which there are, which are new, and which fits a task."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from prsm_core.catalog.categories import CATEGORIES, GENERAL
from prsm_core.catalog.selection import FITTING
from prsm_core.cli.callers import agents_may
from prsm_core.cli.options import json_option, text_argument, workspace_option

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from prsm_core.catalog.ranking import Ranking
    from prsm_core.cli.launch import Launch
    from prsm_core.cli.setup import Setup
    from prsm_core.domain.models import ModelCapability, TaskProfile
    from prsm_core.door import ModelRow
    from prsm_core.engine.providers.listings import ProviderReport

NONE_COULD = 3  # no provider could be used
_HEADERS = ("PROVIDER", "MODEL", "ALIASES", "TIER", "COST", "SPEED", "CONTEXT", "FROM")
_NEW_HEADERS = ("PROVIDER", "MODEL", "NAME", "CONTEXT", "EFFORTS")

complexity_option = click.option(
    "--complexity", type=click.Choice(list(FITTING)), help="How hard the task is."
)


@click.group(short_help="List, discover, rank and recommend models.")
def models() -> None:
    """List, discover, rank and recommend models.

    The registry is what the section model_registry of the configuration says of models; only
    models in it are ranked. Where none of them fits a task, what providers list is recommended.
    """


@models.command("list", short_help="List all models that are known.")
@click.option("--provider", metavar="NAME", help="Only the models of this provider.")
@workspace_option
@json_option
@click.pass_obj
@agents_may
def list_models(launch: Launch, provider: str | None, workspace: str, as_json: bool) -> int:
    """List all models: those of the configuration, and those that providers list just now.

    A provider that cannot list its models is told of. Exits with 3 if none of them can.
    """
    from prsm_core.cli.model_rows import unused_entries
    from prsm_core.cli.setup import load_setup
    from prsm_core.engine.door.offers import known_models

    setup = load_setup(launch, workspace)
    found = _discovered(setup, provider)
    rows = known_models(
        setup.settings, {name: report.models for name, report in found.items()}, provider
    )
    cells = [
        (
            row.provider,
            row.model,
            " ".join(row.aliases) or None,
            row.tier,
            _number(row.cost_factor),
            _number(row.speed_factor),
            _number(row.context_window),
            " ".join(row.known_from),
        )
        for row in rows
        if not row.hidden
    ]
    notes = unused_entries(setup.settings)
    if not rows:
        notes.append("no model is known")
    return _print_found(rows, found, as_json, (_HEADERS, cells), notes)


@models.command(short_help="Show models that the registry does not have.")
@workspace_option
@json_option
@click.pass_obj
@agents_may
def discover(launch: Launch, workspace: str, as_json: bool) -> int:
    """Ask all providers at once for their models, and show those that are not in the registry.

    A provider that cannot list its models is told of. Exits with 3 if none of them can.
    """
    from prsm_core.cli.model_rows import new_models
    from prsm_core.cli.setup import load_setup

    setup = load_setup(launch, workspace)
    found = _discovered(setup, None)
    rows = new_models(setup.settings, found)
    cells = [
        (
            row["provider"],
            row["model"],
            row["display_name"],
            _number(row["context_window"]),
            " ".join(row["reasoning_efforts"]) or None,
        )
        for row in rows
        if not row["hidden"]
    ]
    notes = [] if rows else ["no provider lists a model that the registry does not have"]
    return _print_found(rows, found, as_json, (_NEW_HEADERS, cells), notes)


@models.command(short_help="Rank the models of the registry.")
@click.argument("category", type=click.Choice(CATEGORIES), required=False, metavar="[CATEGORY]")
@complexity_option
@workspace_option
@json_option
@click.pass_obj
@agents_may
def rank(
    launch: Launch, category: str | None, complexity: str | None, workspace: str, as_json: bool
) -> None:
    """Rank the models of the registry for a CATEGORY of tasks, a complexity, or both.

    Categories: code-review, architecture, complex-reasoning, planning, documentation,
    simple-tasks, agentic, search, exploration, tool-use, coding, general.

    With a complexity the tier that fits best comes first. The score is the weighted mean of all
    model scorers.
    """
    from prsm_core.catalog.selection import build_model_registry
    from prsm_core.cli.setup import load_setup
    from prsm_core.domain.models import TaskProfile

    if category is None and complexity is None:
        raise click.UsageError("name a category of tasks, or give --complexity")
    setup = load_setup(launch, workspace)
    task = TaskProfile(description="", category=category or GENERAL, complexity=complexity)
    registry = build_model_registry(setup.settings)
    ranking = _ranking(setup, registry, task)
    rows = [entry.to_dict() for entry in ranking.models]
    _print_ranked(rows, task, as_json, list(ranking.problems))


@models.command(short_help="Recommend models for a task.")
@text_argument("task", "TASK")
@complexity_option
@workspace_option
@json_option
@click.pass_obj
@agents_may
def recommend(
    launch: Launch, task: str, complexity: str | None, workspace: str, as_json: bool
) -> None:
    """Recommend the best models for TASK, as agents are: only those that they may use.

    They are of installed providers, and among defaults.peer_models where there are any. Where the
    registry has none that fits, they are what the usable providers list.
    """
    from prsm_core.catalog.categories import categorize
    from prsm_core.catalog.ranking import RECOMMENDED
    from prsm_core.cli.model_rows import offered_rows, usable_models
    from prsm_core.cli.setup import load_setup
    from prsm_core.domain.models import TaskProfile

    if not task.strip():
        raise click.UsageError("the task is blank")
    setup = load_setup(launch, workspace)
    profile = TaskProfile(description=task, category=categorize(task), complexity=complexity)
    usable, notes = usable_models(setup.settings, setup.plugins)
    ranking = _ranking(setup, usable, profile)
    rows = [entry.to_dict() for entry in ranking.models[:RECOMMENDED]]
    if not rows:
        rows = offered_rows(setup.settings, _discovered(setup, None), complexity)
    _print_ranked(rows, profile, as_json, [*ranking.problems, *notes])


def _discovered(setup: Setup, provider: str | None) -> Mapping[str, ProviderReport]:
    from prsm_core.cli.surveying import ask_providers

    return ask_providers(
        setup.settings, setup.plugins, setup.paths, with_models=True, only=provider
    )


def _print_found(
    rows: Sequence[ModelRow] | Sequence[Mapping[str, Any]],
    found: Mapping[str, ProviderReport],
    as_json: bool,
    table: tuple[Sequence[str], Sequence[Sequence[str | None]]],
    notes: Sequence[str],
) -> int:
    from msgspec import to_builtins

    from prsm_core.cli.model_rows import listing_problems
    from prsm_core.cli.saying import print_table

    problems = listing_problems(found)
    if as_json:
        told = [{"provider": name, "problem": why} for name, why in problems.items()]
        shown = to_builtins(rows)
        click.echo(json.dumps({"models": shown, "problems": told, "notes": list(notes)}, indent=2))
    else:
        headers, cells = table
        if cells:
            print_table(headers, cells)
        _note(f"{name} cannot list its models: {why}" for name, why in problems.items())
        _note(notes)
    return NONE_COULD if found and len(problems) == len(found) else 0


def _ranking(setup: Setup, known: Iterable[ModelCapability], task: TaskProfile) -> Ranking:
    from prsm_core.catalog.ranking import rank_models
    from prsm_core.interfaces.scorer import ModelScorerSpec
    from prsm_core.plugins.printing import stdout_kept

    with stdout_kept():
        return rank_models(known, task, setup.plugins.collect(ModelScorerSpec).values())


def _print_ranked(
    shown: Sequence[Mapping[str, Any]], task: TaskProfile, as_json: bool, problems: list[str]
) -> None:
    from prsm_core.cli.saying import print_table

    if as_json:
        about = {"category": task.category, "complexity": task.complexity}
        click.echo(json.dumps({**about, "models": shown, "problems": problems}, indent=2))
        return
    if shown:
        headers = ("MODEL", "TIER", "SCORE", "COST", "REASON")
        rows = [
            (
                row["model"],
                row["tier"],
                None if row["score"] is None else f"{row['score']:.2f}",
                _number(row["cost_factor"]),
                row["reason"],
            )
            for row in shown
        ]
        print_table(headers, rows)
    else:
        problems.append("no model fits; the section model_registry says what is known of models")
    _note(problems)


def _note(texts: Iterable[str]) -> None:
    from prsm_core.cli.saying import say
    from prsm_core.kit.text import escape_prose

    for text in texts:
        say(f"prsm: note: {escape_prose(text)}", err=True)


def _number(value: float | None) -> str | None:
    return None if value is None else f"{value:.10g}"
