"""Opens a frontend that stays: on the newest session, on a new one, or on many."""

from __future__ import annotations

import os
import sys
from contextlib import closing
from typing import TYPE_CHECKING

from prsm_core.cli.ledger import is_gone, open_newest
from prsm_core.cli.logs import log_to_file
from prsm_core.cli.places import workspace_paths
from prsm_core.cli.resuming import newest_cut_off, resume_session
from prsm_core.cli.running import (
    PRIVATE,
    build_frontend,
    drive,
    frontend_named,
    interruptible,
    stdout_of,
)
from prsm_core.cli.setup import Once, Setup, load_plugins, load_setup, tell_quarantined
from prsm_core.config.secrets import known_secrets
from prsm_core.domain.agents import PermissionMode
from prsm_core.engine.control.remote import open_remote
from prsm_core.engine.control.session_lock import find_owner
from prsm_core.engine.processes.launcher import install_child_watcher
from prsm_core.errors import ConfigError, PluginError
from prsm_core.hub import open_hub
from prsm_core.interfaces.frontend import FrontendSpec, RunOptions
from prsm_core.loop.output import write_aside
from prsm_core.loop.run import run_to_end
from prsm_core.permissions import Redactor
from prsm_core.terminal.foreground import leaving_nothing_typed, stdin_descriptor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prsm_core.cli.launch import Launch
    from prsm_core.cli.sessions.keepers import Keepers
    from prsm_core.plugins import PluginManager


_HERE = "."  # the folder in which a frontend is opened


def open_staying(launch: Launch, *, is_new: bool) -> int | None:
    """Open the frontend that stays and has the highest priority; None where there is none."""
    plugins = load_plugins(launch, _HERE)
    offered = [spec for spec in plugins.collect(FrontendSpec).values() if spec.stays]
    if not offered:
        return None
    name = max(offered, key=lambda spec: spec.priority).name
    return open_frontend(launch, name, is_new=is_new)


def open_frontend(launch: Launch, name: str, *, is_new: bool, package: str | None = None) -> int:
    """Open a frontend, on the newest session unless `is_new`; return its exit code.

    A single-session frontend resumes the newest run if that was cut off.

    Raises PluginError for an unknown frontend, naming the `package` to install, and for one that
    ends with its run.
    """
    os.umask(PRIVATE)
    write_aside()
    cut_off = None if is_new else _cut_off()
    if cut_off is not None and _is_for_one_session(launch, name):
        return resume_session(
            launch, workspace=_HERE, session=cut_off, detach=False, as_json=False, ui=name
        )
    setups = Setups(launch, ())
    setup = setups.load(_HERE)
    spec = _find(setup.plugins, name, package)
    tell_quarantined(setup.plugins)
    install_child_watcher()
    with leaving_nothing_typed(stdin_descriptor()):
        return run_to_end(_open(setups, setup, spec, is_new=is_new))


def _cut_off() -> str | None:
    """Return the newest session if its run was cut off and nobody owns it."""
    session = run_to_end(newest_cut_off(_HERE))
    if session is None or find_owner(workspace_paths(_HERE).state, session) is not None:
        return None
    return session


def _is_for_one_session(launch: Launch, name: str) -> bool:
    spec = load_plugins(launch, _HERE).collect(FrontendSpec).get(name)
    return spec is not None and spec.scope == "session" and spec.stays


def _find(plugins: PluginManager, name: str, package: str | None) -> FrontendSpec:
    spec = plugins.collect(FrontendSpec).get(name)
    if spec is None:
        plugins.check_not_refused(FrontendSpec, name)
        if package is None:
            return frontend_named(plugins, name)
        raise PluginError(
            f"no plugin that is installed brings the frontend {name}: the package {package} does",
            hint=f"install or update it: {sys.executable} -m pip install -U {package}",
            code="not_installed",
        )
    if spec.scope == "session" and not spec.stays:
        raise PluginError(
            f"frontend {name} ends with its run", hint=f'begin one: prsm run --ui {name} "…"'
        )
    return spec


class Setups:
    """Loads each workspace's settings and trust, and the plugins once."""

    def __init__(self, launch: Launch, sets: Sequence[str]) -> None:
        self.launch = launch
        self._sets = sets
        self._once = Once()
        self._redact: list[Callable[[str], str]] = []

    def load(self, workspace: str) -> Setup:
        """Load what runs in a folder need. Raises ConfigError as `load_setup` does."""
        if is_gone(workspace):
            raise ConfigError(f"{workspace} is no folder to work in")
        setup = load_setup(
            self.launch, workspace, sets=self._sets, begins_run=True, once=self._once
        )
        self._redact.append(Redactor(known_secrets(setup.settings, os.environ)).text)
        return setup

    def keepers(self) -> Keepers:
        """Return all that keep something of sessions beside the ledger."""
        from prsm_core.cli.sessions.keepers import keepers_of  # once a session is deleted

        return keepers_of(load_plugins(self.launch, os.sep), workspace_paths(os.sep))

    def redact(self, text: str) -> str:
        """Take the secrets of all workspaces out of a text."""
        for redact in self._redact:
            text = redact(text)
        return text


async def _open(setups: Setups, setup: Setup, spec: FrontendSpec, *, is_new: bool) -> int:
    frontend = build_frontend(setup.plugins, spec)
    with interruptible():
        session = None if is_new else await _newest()
        options = RunOptions(
            workspace=str(setup.paths.workspace),
            mode=PermissionMode(setup.settings.defaults.mode),
            session=session,
        )
        if spec.scope == "hub":
            logs = setup.paths.state / "logs"
            from prsm_core.cli.errands import CommandErrands  # a frontend of one session needs none

            errands = CommandErrands(setups.launch, (), setups.keepers)
            with stdout_of(frontend), log_to_file(logs, setups.redact), closing(errands):
                async with open_hub(options, setups.load, frontend=spec, errands=errands) as hub:
                    return await frontend.run(hub)
        if session is not None and find_owner(setup.paths.state, session) is not None:
            with stdout_of(frontend):
                async with open_remote(setup.paths.state, session, via=f"prsm {spec.name}") as app:
                    return await frontend.run(app)
        return await drive(setup, options, spec, lambda: frontend)


async def _newest() -> str | None:
    async with open_newest(_HERE) as newest:
        return None if newest is None else newest[1].session_id
