"""The core without its default packages, and what each of them brings: in environments of pip."""

from __future__ import annotations

import importlib.util
import json
import shutil

import pytest

from tests.cli.test_install import BUILDERS, DEFAULTS, Clone
from tests.sources import ROOT

COMMANDS = "ls\necho hello"


class Alone(Clone):
    """A clone whose core is installed without what it depends on of ours."""

    def add(self, *folders):
        """Install packages of the clone, and nothing that they depend on."""
        words = [word for folder in folders for word in ("-e", str(self.root / folder))]
        done = self.run("python", "-m", "pip", "install", "-q", "--no-deps", *words)
        assert done.returncode == 0, done.stderr

    def take_away(self, package):
        """Let a package be as if it were not installed, until it is given back."""
        (self.home / package).mkdir(exist_ok=True)
        for path in self.site.glob(f"*{package}*"):
            path.rename(self.home / package / path.name)

    def give_back(self, package):
        """Let a package be there again as pip has installed it."""
        for path in (self.home / package).iterdir():
            path.rename(self.site / path.name)

    def asked(self):
        """Return which commands a run has asked about, and what became of it."""
        done = self.run("prsm", "run", COMMANDS, "--provider", "asking", "--solo", "--json")
        events = [json.loads(line) for line in done.stdout.splitlines()]
        asked = [each["command"] for each in events if each["type"] == "permission_requested"]
        return asked, events[-1]["status"] if events else done.stderr


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    for name in BUILDERS:
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    clone = Alone(tmp_path_factory.mktemp("alone"))
    clone.add(".", *(f"plugins/{name}" for name in DEFAULTS))
    for name in DEFAULTS:
        clone.take_away(name)
    shutil.copy(ROOT / "tests" / "cli" / "asking_plugin.py", clone.site)
    info = clone.site / "prsm_asking-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: prsm-asking\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[prsm]\nasking = asking_plugin\n")
    return clone


def plugin_states(clone):
    """Return the plugins of the clone that are active."""
    return {name for name, state in clone.states().items() if state == "active"}


@pytest.mark.requirement("C2")
def test_the_core_alone_runs_a_task_and_asks_about_every_command(alone):
    assert plugin_states(alone) == {"asking", "builtin"}
    assert alone.asked() == (["ls", "echo hello"], "completed")


def console(clone):
    done = clone.run("prsm", "run", COMMANDS, "--provider", "asking", "--ui", "console")
    return done.returncode == 0 and "completed" in done.stderr


def demo(clone):
    done = clone.run("prsm", "demo", "--json")
    return "run_started" in done.stdout


def files(clone):
    done = clone.run("prsm", "snapshot", "create", "--json")
    return done.returncode == 0 and "id" in json.loads(done.stdout)


def policy(clone):
    return clone.asked()[0] == []


def sandbox(clone):
    required = ("--set", "sandbox.mode=require")
    done = clone.run("prsm", "run", "x", "--provider", "asking", "--json", *required)
    return "prsm-sandbox is not installed" not in done.stderr


BRINGS = {
    "prsm_console": console,
    "prsm_demo": demo,
    "prsm_files": files,
    "prsm_policy": policy,
    "prsm_sandbox": sandbox,
}


@pytest.mark.requirement("C2")
@pytest.mark.parametrize("package", DEFAULTS)
def test_what_a_default_package_brings_appears_with_it_and_goes_with_it(alone, package):
    name = package.removeprefix("prsm_")
    assert not BRINGS[package](alone)
    alone.give_back(package)
    assert name in plugin_states(alone)
    assert BRINGS[package](alone)
    alone.take_away(package)
    assert name not in plugin_states(alone)
