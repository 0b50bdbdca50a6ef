"""Checks of what PRSM runs on: Python, its own packages, the terminal."""

from __future__ import annotations

import codecs
import os
import platform
import sys
from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from prsm_core.cli.checkup.finding import broken, ok, warning
from prsm_core.config.schema import SandboxSettings
from prsm_core.distributions import CORE, GROUP, Distribution, distributions
from prsm_core.domain.boxes import Box
from prsm_core.engine.processes.boxes import ProgramBoxes
from prsm_core.engine.processes.executor import choose_executor
from prsm_core.engine.processes.launcher import ProcessLauncher
from prsm_core.engine.processes.sandbox import CommandSandbox
from prsm_core.engine.processes.table import find_lineage
from prsm_core.errors import StoreError
from prsm_core.kit.clocks import SystemClock
from prsm_core.loop.run import run_to_end
from prsm_core.plugins.pins import core_pins, satisfies
from prsm_core.store.connection import sqlite_version
from prsm_core.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prsm_core.cli.checkup.finding import Finding
    from prsm_core.cli.checkup.setup import CheckedSetup
    from prsm_core.config import Paths
    from prsm_core.executors import BoxState, SandboxState

_NEVER_IN_IT = "vendors' own programs never are"


def check_python() -> Iterator[Finding]:
    """Look at the interpreter, its SQLite, and the kernel."""
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    python = f"{platform.python_implementation()} {platform.python_version()}"
    if sys.platform != "linux" or not Path("/proc/self/stat").exists():
        yield broken("python", f"{system} has no /proc", "run PRSM on Linux, with /proc mounted")
        return
    try:
        yield ok("python", f"{python} with SQLite {sqlite_version()} on {system}")
    except StoreError as error:
        yield broken("python", error.message, error.hint or "install a newer Python")


def check_packages(installed: Iterable[Distribution] | None = None) -> Iterator[Finding]:
    """Look whether the packages of PRSM are of one release, each of them there once."""
    found: defaultdict[str, list[Distribution]] = defaultdict(list)
    for dist in distributions(sys.path) if installed is None else installed:
        if dist.name == CORE or GROUP in dist.places:
            found[dist.name].append(dist)
    bad = [finding for dists in found.values() for finding in _problems(dists)]
    if CORE not in found:
        cure = "install it as the README says; without that no plugin can be found"
        bad.append(warning("packages", f"{CORE} is not installed, it runs from its sources", cure))
    yield from bad
    if not bad:
        listed = sorted(f"{name} {dists[0].version}" for name, dists in found.items())
        yield ok("packages", ", ".join(listed))


def check_sandbox(setup: CheckedSetup, paths: Paths) -> Iterator[Finding]:
    """Look from inside whether shell commands and gates can be shut in here."""
    state = run_to_end(_sandbox_state(setup, paths))
    if state.is_active and not state.gaps:
        yield ok("sandbox", f"shell commands and gates can be shut in; {_NEVER_IN_IT}")
    elif state.is_active:
        cure = "allow user namespaces on this machine"
        yield warning("sandbox", f"it has gaps here: {'; '.join(state.gaps)}; {_NEVER_IN_IT}", cure)
    else:
        why = f"shell commands and gates run without one: {state.reason}; {_NEVER_IN_IT}"
        cure = "mend what it names, or set sandbox.mode to off"
        yield warning("sandbox", why, cure) if state.is_wanting else ok("sandbox", why)


async def _sandbox_state(setup: CheckedSetup, paths: Paths) -> SandboxState:
    async with ProcessLauncher(SystemClock()) as launcher:
        sandbox = CommandSandbox(
            SandboxSettings(),
            executor=choose_executor(setup.plugins, setup.settings),
            workspace=str(paths.workspace),
            launcher=launcher,
            state_dir=paths.state,
        )
        try:
            return await sandbox.examine()
        finally:
            sandbox.close()


def check_boxes(setup: CheckedSetup) -> Iterator[Finding]:
    """Look by a trial what boxes of agents can be made with here, and which limits they hold."""
    state = run_to_end(_box_state(setup))
    gaps = state.gaps(Box(memory=2**30, cpus=1, pids=100))
    if not gaps:
        yield ok("boxes", f"agents can be put in boxes by {state.runtime}, with all limits")
    elif not state.is_wanting:
        yield ok("boxes", f"{'; '.join(gaps)}")
    else:
        cure = "hand control groups to this user, or do without box.agents"
        yield warning("boxes", "; ".join(gaps), cure)


async def _box_state(setup: CheckedSetup) -> BoxState:
    executor = choose_executor(setup.plugins, setup.settings)
    with TemporaryDirectory(prefix="prsm-doctor-boxes-") as folder:
        async with ProcessLauncher(SystemClock()) as launcher:
            boxes = ProgramBoxes(launcher, Path(folder), executor)
            try:
                return await boxes.examine()
            finally:
                boxes.close()


def check_answers() -> Iterator[Finding]:
    """Look whether an engine here can tell people from agents, and say what it cannot tell."""
    if find_lineage(os.getpid()) is None:
        text = "the ancestors of a process cannot be seen, so nobody can answer by `prsm answer`"
        yield warning("answers", text, "mount /proc without hidepid, or with gid= of your group")
        return
    yield ok(
        "answers",
        "what agents start may not answer for people; a guarantee in the sandbox only: elsewhere "
        "they can read the key, or have tmux, at, cron or systemd-run start something",
    )


def check_terminal(encoding: str | None) -> Iterator[Finding]:
    """Look whether stdout can take what agents say."""
    try:
        name = codecs.lookup(encoding or "utf-8").name
    except LookupError:
        name = str(encoding)
    if name == "utf-8":
        yield ok("terminal", "takes UTF-8")
    else:
        yield warning("terminal", f"takes {name} only, agents write UTF-8", "export LC_ALL=C.UTF-8")


def _problems(dists: list[Distribution]) -> Iterator[Finding]:
    name, versions = dists[0].name, [dist.version for dist in dists]
    for dist in dists:
        if dist.problem is not None:
            yield broken("packages", dist.problem, "install what that folder is of again")
    for pin in core_pins(dists[0].requires):
        if not satisfies(__version__, pin):
            yield broken(
                "packages",
                f"{name} {versions[0]} needs {CORE} {pin}; this is {__version__}",
                f"install {CORE} and {name} together, of one release",
            )
    if len(versions) > 1:
        yield warning(
            "packages",
            f"{name} is installed {len(versions)} times: {', '.join(versions)}",
            f"pip uninstall {name}, once for each, then install it again",
        )
