"""A workspace, a home with secrets, and a sandbox over both."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from prsm_testing.doubles import SANDBOX

from prsm_core.config.schema import SandboxSettings
from prsm_core.engine.processes.executor import CommandSandbox
from prsm_core.engine.processes.launcher import ProcessLauncher
from prsm_core.kit.clocks import SystemClock
from tests.engine.sandboxes import Shell
from tests.person import room


@pytest.fixture
def outside_temp():
    """A folder that no temp folder hides."""
    folder = room()
    folder.mkdir(parents=True)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def home(outside_temp, request):
    """The home of a person; outside the temp folder unless a test wants it there ("temp")."""
    if getattr(request, "param", None) != "temp":
        yield _with_secrets(outside_temp / "home")
        return
    with tempfile.TemporaryDirectory(prefix="prsm-tests-") as place:
        yield _with_secrets(Path(place, "home"))


def _with_secrets(folder):
    (folder / ".ssh").mkdir(parents=True)
    (folder / ".ssh" / "id_rsa").write_text("private")
    (folder / ".netrc").write_text("password")
    (folder / "notes").write_text("notes")
    return folder


@pytest.fixture
def workspace(tmp_path):
    folder = tmp_path / "work"
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "config").write_text("[core]\n")
    (folder / "a.txt").write_text("a")
    return folder


@pytest.fixture
async def opened(home, workspace, outside_temp):
    """Opens a sandbox with some settings; returns a function that runs a command in it."""
    state = outside_temp / "state"
    state.mkdir(mode=0o700)
    (state / "ledger.db").write_text("ledger")
    async with ProcessLauncher(SystemClock()) as launcher:
        made = []

        def open_sandbox(work=workspace, private=(), tree_of=lambda _: None, **settings):
            sandbox = CommandSandbox(
                SandboxSettings.of(settings),
                executor=SANDBOX,
                workspace=str(work),
                launcher=launcher,
                state_dir=state,
                private=private,
                home=home,
                tree_of=tree_of,
            )
            made.append(sandbox)
            return Shell(launcher, sandbox, work)

        yield open_sandbox
        for sandbox in made:
            sandbox.close()
