"""Runs demonstrations in folders and by settings of their own, out of reach of a person's rules."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

from prsm_core.builtin import BUILTINS
from prsm_core.cli.ledger import open_session
from prsm_core.cli.logs import configure_logging
from prsm_core.cli.places import workspace_ledger, workspace_paths
from prsm_core.cli.plugin_sections import plugin_sections, with_settings
from prsm_core.cli.reading import print_tree
from prsm_core.cli.running import PRIVATE, build_frontend, choose_frontend, drive, interruptible
from prsm_core.cli.setup import Setup, tell_quarantined
from prsm_core.config import Settings, load_settings
from prsm_core.domain.agents import AgentState
from prsm_core.domain.record import Record
from prsm_core.engine.processes.launcher import install_child_watcher
from prsm_core.interfaces.frontend import FrontendSpec, RunOptions
from prsm_core.loop.output import write_aside
from prsm_core.loop.run import run_to_end
from prsm_core.plugins import PluginManager
from prsm_core.terminal.foreground import leaving_nothing_typed, stdin_descriptor

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from pathlib import Path

    from prsm_core.cli.launch import Launch

    Body = Callable[["ScratchRun"], Awaitable[int]]

OUR_FRONTENDS = ("console", "json")  # for which no plugin of others is loaded


class ScratchRun(Record, frozen=True, kw_only=True):
    """What a command makes a demonstration with.

    Attributes:
        plugins: Those that are loaded.
        frontend: The one that shows the run.
        state: The person's folder of state, the same for all workspaces.
    """

    plugins: PluginManager
    frontend: FrontendSpec
    state: Path

    async def play(
        self, folder: Path, task: str, *, provider: str, settings: Mapping[str, Any], is_kept: bool
    ) -> int:
        """Run a task in a folder with the frontend, and return the exit code.

        Where nobody can be asked, what agents ask is allowed. Of a run that is interrupted the
        last events are told, but what the ledger has only where the folder is kept.
        """
        frontend = build_frontend(self.plugins, self.frontend)
        setup = Setup(
            paths=workspace_paths(str(folder)),
            settings=Settings.of(settings),
            plugins=self.plugins,
            trusted=False,
            keeps_rules=False,
        )
        options = RunOptions(task=task, workspace=str(folder), provider=provider, on_ask="allow")
        tells_rest = is_kept or self.frontend.name == "json"
        return await drive(setup, options, self.frontend, lambda: frontend, tells_rest=tells_rest)

    def ledger(self, folder: Path) -> Path:
        """Return the ledger of the runs in a folder."""
        return workspace_ledger(str(folder))

    async def print_tree(self, folder: Path) -> None:
        """Print the agents of the newest run in a folder."""
        await print_tree(str(folder), None, as_json=False)

    async def unfinished(self, folder: Path) -> list[str]:
        """Return the names of the agents that have not completed their task."""
        async with open_session(str(folder), None) as (store, info):
            rows = await store.agents(info.session_id)
        agents = (row.descriptor for row in rows)
        return [agent.name for agent in agents if agent.state is not AgentState.COMPLETED]


def run_scratch(launch: Launch, body: Body, *, ui: str | None, without: Sequence[str] = ()) -> int:
    """Let a command run a task in a folder of its own, by settings of its own: a demonstration.

    Args:
        launch: The context object of the command.
        body: `await body(run)` makes the folder, runs the task in it and returns the exit code.
            Signals that end a run cancel it.
        ui: The frontend's name; None leaves the choice to the core.
        without: Names of plugins not to load, as --without-plugin gives them.

    Returns:
        What `body` returns.

    Raises:
        PluginError: there is no such frontend.
    """
    os.umask(PRIVATE)
    write_aside()
    configure_logging(debug=launch.debug)
    plugins = _load_plugins(launch, ui, without)
    frontend = choose_frontend(plugins, ui)
    tell_quarantined(plugins)
    # The state is that of all workspaces: the current folder may be gone.
    run = ScratchRun(plugins=plugins, frontend=frontend, state=workspace_paths(os.sep).state)

    async def play() -> int:
        with interruptible():
            return await body(run)

    install_child_watcher()
    with leaving_nothing_typed(stdin_descriptor()):
        return run_to_end(play())


def _load_plugins(launch: Launch, ui: str | None, without: Sequence[str]) -> PluginManager:
    """Load the plugins of others if a frontend of theirs is wanted; their settings count then."""
    log = {"jsonl": {"path": os.environ.get("PRSM_JSONL")}}
    own = Settings.of({"sinks": log})
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
