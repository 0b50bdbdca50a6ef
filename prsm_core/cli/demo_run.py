"""Runs the demonstration and tells what came of it.

Its settings are its own: neither the user's rules nor a workspace's can change what is shown.
"""

from __future__ import annotations

import asyncio
import os
import shlex
from functools import partial
from typing import TYPE_CHECKING

import click

from prsm_core.builtin import BUILTINS
from prsm_core.builtin.foreground import leaving_nothing_typed, stdin_descriptor
from prsm_core.builtin.script_provider import DEMO
from prsm_core.cli.ledger import open_session
from prsm_core.cli.logs import configure_logging
from prsm_core.cli.places import workspace_ledger, workspace_paths
from prsm_core.cli.plugin_sections import plugin_sections, with_settings
from prsm_core.cli.reading import print_tree
from prsm_core.cli.running import PRIVATE, build_frontend, choose_frontend, drive, interruptible
from prsm_core.cli.sample import changes, lend_sample, sweep
from prsm_core.cli.setup import Setup, tell_quarantined
from prsm_core.config import Settings, load_settings
from prsm_core.domain.agents import AgentState
from prsm_core.engine.processes.launcher import install_child_watcher
from prsm_core.interfaces.frontend import RunOptions
from prsm_core.kit.text import escape_prose
from prsm_core.loop.output import write_aside
from prsm_core.loop.run import run_to_end
from prsm_core.plugins import PluginManager

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from prsm_core.cli.launch import Launch
    from prsm_core.interfaces.frontend import Frontend, FrontendSpec

TASK = "Customers who order for exactly 50.00 pay shipping. Mend it."
OUR_FRONTENDS = ("console", "json")  # for which no plugin is loaded

_INTRO = (
    "A scripted team mends a sample project. No model is asked; the engine, the tools, the "
    "permissions, the ledger and the edits are real."
)
_ASKED = "You will be asked for a permission: the team waits for your answer."


def run_demo(launch: Launch, *, ui: str | None, keep: bool, without: Sequence[str] = ()) -> int:
    """Run the demonstration and return the exit code; see the command."""
    os.umask(PRIVATE)
    write_aside()
    configure_logging(debug=launch.debug)
    plugins = _load_plugins(launch, ui, without)
    spec = choose_frontend(plugins, ui)
    tell_quarantined(plugins)
    state = workspace_paths(os.sep).state  # the same for all; the current folder may be gone
    sweep(state)
    install_child_watcher()
    with leaving_nothing_typed(stdin_descriptor()):
        return run_to_end(_run(plugins, spec, state, keep=keep))


def _load_plugins(launch: Launch, ui: str | None, without: Sequence[str]) -> PluginManager:
    """Load the plugins if a frontend of theirs is wanted; the user's own settings count then."""
    log = {"jsonl": {"path": os.environ.get("PRSM_JSONL")}}
    own = Settings.model_validate({"sinks": log})
    if ui in {None, *OUR_FRONTENDS} or not launch.load_plugins:
        plugins = PluginManager.load(environ=os.environ, builtins=BUILTINS, enabled=False)
        return with_settings(plugins, own)
    load = partial(load_settings, paths=workspace_paths(os.sep), environ=os.environ, trusted=False)
    plugins = PluginManager.load(
        environ=os.environ,
        builtins=BUILTINS,
        disabled=load().settings.plugins.disabled,
        without=without,
    )
    section = {"frontends": plugin_sections(plugins)["frontends"]}
    loaded = load(plugin_sections=section)
    return with_settings(plugins, own).with_settings(loaded.of_plugins)


async def _run(plugins: PluginManager, spec: FrontendSpec, state: Path, *, keep: bool) -> int:
    with interruptible(), lend_sample(state, keep=keep) as folder:
        if spec.name != "json":
            paragraphs = [_INTRO, *([_ASKED] if spec.interactive else [])]
            click.echo("\n".join(map(click.wrap_text, paragraphs)) + "\n", err=True)
        frontend = build_frontend(plugins, spec)
        try:
            code = await _play(plugins, spec, frontend, folder, keep=keep)
        except asyncio.CancelledError:
            if not keep:
                click.echo("prsm: the demo leaves nothing; --keep keeps its project", err=True)
            raise
        failed = await _unfinished(folder)
        if failed:
            click.echo(f"prsm: not completed: {', '.join(failed)}", err=True)
        click.echo(_closing(folder, keep=keep), err=spec.name == "json")
    return code or (1 if failed else 0)


async def _play(
    plugins: PluginManager, spec: FrontendSpec, frontend: Frontend, folder: Path, *, keep: bool
) -> int:
    """Run the scenario, show what came of it, and return the exit code.

    Of a run that is interrupted, its last events are told, but what is kept only where it is.
    """
    paths = workspace_paths(str(folder))
    settings = Settings.model_validate({"providers": {"script": {"scenario": DEMO}}})
    setup = Setup(paths=paths, settings=settings, plugins=plugins, trusted=False, keeps_rules=False)
    options = RunOptions(task=TASK, workspace=str(folder), provider="script", on_ask="allow")
    code = await drive(
        setup, options, spec, lambda: frontend, tells_rest=keep or spec.name == "json"
    )
    if spec.name != "json":
        click.echo("\n" + escape_prose("\n".join(changes(folder))) + "\n")
        if spec.name != "console":  # which has shown the agents already
            await print_tree(str(folder), None, as_json=False)
    return code


async def _unfinished(folder: Path) -> list[str]:
    """Return the names of the agents that have not completed their task."""
    async with open_session(str(folder), None) as (store, info):
        rows = await store.agents(info.session_id)
    agents = (row.descriptor for row in rows)
    return [agent.name for agent in agents if agent.state is not AgentState.COMPLETED]


def _closing(folder: Path, *, keep: bool) -> str:
    where = shlex.quote(str(folder))
    lines = [
        "",
        f"The project:  {folder}",
        f"Its ledger:   {workspace_ledger(str(folder))}",
        *([] if keep else ["The next demo removes both; --keep would have kept them."]),
        "",
        "Look around:",
        *(f"  prsm {words} -C {where}" for words in ("tree", "history fixer", "events")),
        "Then on your own code, with a provider (see: prsm providers):",
        '  prsm run "…"',
    ]
    return "\n".join(lines)
