"""`prsm providers`: which can be used here, and what stops the others."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from prsm_core.cli.callers import agents_may
from prsm_core.cli.options import json_option, workspace_option

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_core.cli.launch import Launch
    from prsm_core.config.schema import PermissionSettings, Settings
    from prsm_core.engine.providers.listings import ProviderReport

_LOGINS = {True: "yes", False: "no", None: None}


@click.command(short_help="Look which providers can be used.")
@workspace_option
@json_option
@click.pass_obj
@agents_may
def providers(launch: Launch, workspace: str, as_json: bool) -> None:
    """Look which providers can be used: version, login, models, and what they cannot enforce."""
    from prsm_core.cli.setup import load_setup
    from prsm_core.cli.surveying import ask_providers

    setup = load_setup(launch, workspace)
    found = ask_providers(setup.settings, setup.plugins, setup.paths, with_models=True)
    if as_json:
        click.echo(json.dumps([_values(name, found[name]) for name in sorted(found)], indent=2))
    elif found:
        _print(found, setup.settings)
    else:
        from prsm_core.catalog.packages import EXAMPLE

        click.echo("prsm: no provider is installed", err=True)
        click.echo(f"hint: install one, for example: {EXAMPLE}", err=True)


def _values(name: str, report: ProviderReport) -> dict[str, Any]:
    from msgspec import to_builtins

    from prsm_core.engine.door.offers import of_provider, report_provider

    return {
        **to_builtins(report_provider(name, report)),
        "models": [{"id": model.model_id, **of_provider(model)} for model in report.models],
        "models_problem": report.models_problem,
    }


def _print(found: Mapping[str, ProviderReport], settings: Settings) -> None:
    from prsm_core.cli.saying import print_table, say
    from prsm_core.engine.turns.context import describe_ignored
    from prsm_core.kit.text import escape_exact

    headers = ("NAME", "AVAILABLE", "VERSION", "TESTED", "LOGIN", "ENFORCES", "MODELS")
    rows = [_row(name, found[name]) for name in sorted(found)]
    notes = []
    for name in sorted(found):
        status, problem = found[name].status, found[name].models_problem
        if not status.available:
            notes.append(f"{name} cannot be used: {status.reason or 'no reason given'}")
            notes += [f"{name}: {status.hint}"] if status.hint else []
        notes += _shortfall(name, found[name], settings.permissions)
        can = found[name].capabilities if status.available else None
        ignored = "" if can is None else describe_ignored(name, settings, can)
        notes += [ignored] if ignored else []
        notes += [f"{name} cannot list its models: {problem}"] if problem else []
    print_table(headers, rows)
    for note in notes:
        say(escape_exact(note))


def _shortfall(name: str, report: ProviderReport, permissions: PermissionSettings) -> list[str]:
    from prsm_core.domain.agents import PermissionMode
    from prsm_core.engine.providers.levels import describe_shortfall

    status, can = report.status, report.capabilities
    if can is None or not status.available:
        return [f"{name} cannot enforce: {gap}" for gap in status.gaps]
    short = describe_shortfall(permissions, PermissionMode.DEFAULT, can, status)
    return [f"{name} does not enforce all: {short}"] if short else []


def _row(name: str, report: ProviderReport) -> tuple[str | None, ...]:
    status, can = report.status, report.capabilities
    shown = [model for model in report.models if not model.hidden]
    return (
        name,
        "yes" if status.available else "no",
        status.version,
        status.tested,
        _LOGINS[status.logged_in],
        None if can is None else can.enforcement,
        str(len(shown)) if shown else None,
    )
