"""What `prsm run` has imported when its first turn begins, told by a provider of no vendor."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import sys
from prsm_core.cli import main
sys.exit(main(["run", "--provider", "first", "say hello"]))
"""
PROVIDER = """
import json, os, sys
from contextlib import asynccontextmanager
from prsm_core import Provider, ProviderSession, ProviderSpec, StopReason, TurnEnded, hookimpl

def imported():
    for name, module in list(sys.modules.items()):
        spec = getattr(module, "__spec__", None)
        if spec is not None and spec.name == name != __name__:
            yield name

class Session(ProviderSession):
    def __init__(self, host):
        self.host = host

    async def run_turn(self, context):
        if not os.path.exists(os.environ["FIRST_TURN"]):
            with open(os.environ["FIRST_TURN"], "w") as file:
                json.dump(list(imported()), file)
        await self.host.call_tool("task_complete", {"summary": "told"})
        yield TurnEnded(StopReason.END_TURN)

class First(Provider):
    @asynccontextmanager
    async def open_session(self, request, host):
        yield Session(host)

def build(settings, services):
    with open(os.environ["FIRST_TURN"] + ".before", "w") as file:
        json.dump(list(imported()), file)
    return First()

@hookimpl
def prsm_providers():
    yield ProviderSpec(name="first", summary="", factory="first_turn_plugin:build")
"""


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of a process whose imports cost what they do once installed.

    It keeps what it has compiled in `folder`, even where the caller's environment forbids that:
    whoever installs a package has it compiled.
    """
    rest = {key: text for key, text in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return {**rest, "PYTHONPYCACHEPREFIX": str(folder / "compiled")}


def imported_by_the_first_turn(folder: Path, *, with_packages: bool = False) -> list[str]:
    """Return the modules, in the order in which they were imported.

    `folder` is given a plugin, a home and a workspace. What the plugin itself needs of the core
    is what every provider needs: its base classes. The other packages that are installed are left
    out, or taken as they are for somebody who uses none of them.
    """
    site, workspace, told = folder / "site", folder / "workspace", folder / "modules.json"
    info = site / "prsm_first-1.0.dist-info"
    info.mkdir(parents=True)
    workspace.mkdir()
    (site / "first_turn_plugin.py").write_text(PROVIDER, encoding="utf-8")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: prsm-first\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[prsm]\nfirst = first_turn_plugin\n")
    env = {
        **environment(folder),
        "PYTHONPATH": str(site),
        "FIRST_TURN": str(told),
        "PRSM_HOME": str(folder / "home"),
        "PRSM_PLUGINS": "first",
    }
    if with_packages:
        del env["PRSM_PLUGINS"]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=workspace,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise RuntimeError(f"the run failed: {done.stderr}")
    names: list[str] = json.loads(told.read_text(encoding="utf-8"))
    return names
