"""The tutorials and examples are followed as they stand: written, installed, tested and run."""

from __future__ import annotations

import ast
import json
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import prsm_testing
import pytest

import prsm_core
from tests.documents import TUTORIALS, blocks_of, command_lines
from tests.sources import ROOT

EXAMPLES = sorted((ROOT / "docs" / "examples").glob("prsm_*"))
PLUGINS = {
    "across": ["prsm_frontends"],
    "echo": ["prsm_providers"],
    "no-force": ["prsm_permission_checks"],
    "phase": ["prsm_permission_checks", "prsm_tools"],
    "plain": ["prsm_frontends"],
    "tally": ["prsm_event_sinks"],
    "thrift": ["prsm_model_scorers"],
}
DEADLINE = 120.0  # for one command; they take seconds
MAX_PLUGIN, MAX_PAGES = 100, 180  # lines

# Nothing is downloaded, not even the build backend.
SCRIPTS = {
    "pip": (
        "#!/bin/sh\ncommand=$1\nshift\n"
        'exec {python} -m pip "$command" --no-index --no-build-isolation --quiet "$@"\n'
    ),
    "pytest": '#!/bin/sh\nexec {python} -m pytest -p no:cacheprovider "$@"\n',
}

each_tutorial = pytest.mark.parametrize("tutorial", TUTORIALS, ids=lambda path: path.stem)


def blocks(tutorial: Path):
    return list(blocks_of(tutorial.read_text(encoding="utf-8"), tutorial))


def modules_of(tutorial: Path) -> dict[str, str]:
    return {b.file: b.text for b in blocks(tutorial) if b.file and b.language == "python"}


def write_tutorial(tutorial: Path, folder: Path) -> None:
    folder.mkdir()
    for block in blocks(tutorial):
        if block.file:
            path = folder / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")


@dataclass(frozen=True)
class World:
    """An environment with prsm-core and all plugins, and the folders they come from."""

    folder: Path
    environ: dict[str, str]

    def run(self, command: str, cwd: Path, home: Path, **environ: str) -> str:
        """Run a command line as it stands in a document; return its stdout."""
        done = subprocess.run(
            shlex.split(command),
            cwd=cwd,
            env={**self.environ, "PRSM_HOME": str(home), **environ},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DEADLINE,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout


def make_environment(folder: Path) -> Path:
    """Make a fresh environment that sees what this one has; its pip installs into it alone."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    seen = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    lines = [f"import site; site.addsitedir({path!r})" for path in sorted(seen)]
    (site / "seen.pth").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for name, script in SCRIPTS.items():
        path = folder / "bin" / name
        path.write_text(script.format(python=shlex.quote(f"{folder}/bin/python")))
        path.chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> World:
    folder = tmp_path_factory.mktemp("authors")
    venv = make_environment(folder / "venv")
    for tutorial in TUTORIALS:
        write_tutorial(tutorial, folder / tutorial.stem)
    for example in EXAMPLES:
        shutil.copytree(example, folder / example.name)
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PRSM")}
    path = f"{venv / 'bin'}{os.pathsep}{environ['PATH']}"
    made = World(folder, {**environ, "PATH": path, "VIRTUAL_ENV": str(venv)})
    projects = " ".join(shlex.quote(str(folder / p.stem)) for p in (*TUTORIALS, *EXAMPLES))
    made.run(
        f"pip install --no-deps --ignore-installed {shlex.quote(str(ROOT))} {projects}",
        folder,
        folder / "home",
    )
    return made


@pytest.mark.requirement("C5")
@each_tutorial
def test_every_command_of_a_tutorial_works(tutorial, world, tmp_path):
    lines = [
        line
        for block in blocks(tutorial)
        if block.language == "console"
        for line in command_lines(block.text)
    ]
    folder = world.folder / tutorial.stem
    said = {line: world.run(line, folder, tmp_path) for line in lines}
    assert [line.split()[:2] for line in lines[:3]] == [
        ["pip", "install"],
        ["pytest"],
        ["prsm", "plugins"],
    ]
    assert " passed" in said["pytest"]
    wanted = {
        "tutorial-provider": "Say hello.",
        "tutorial-policy": "force pushes are not allowed here",
    }
    assert wanted[tutorial.stem] in said[lines[-1]]


@pytest.mark.requirement("C5", "F12")
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_passes_its_contract(example, world, tmp_path):
    said = world.run("pytest", world.folder / example.name, tmp_path)
    assert " passed" in said


@pytest.mark.requirement("C5")
def test_prsm_finds_all_six_kinds_of_plugin(world, tmp_path):
    rows = json.loads(world.run("prsm plugins --json", tmp_path, tmp_path / "home"))
    found = {row["name"]: row for row in rows}
    for name, hooks in PLUGINS.items():
        assert (found[name]["state"], found[name]["hooks"]) == ("active", hooks)
        assert (found[name]["distribution"], found[name]["version"]) == (f"prsm-{name}", "1.0")


@pytest.mark.requirement("C5")
def test_a_run_uses_provider_frontend_sink_and_policy_of_the_authors(world, tmp_path):
    said = world.run(
        "prsm run --provider echo --ui plain --set permissions.required=[no-force-push] Hello!",
        tmp_path,
        tmp_path / "home",
        PRSM_TALLY=str(tmp_path / "tally.json"),
    )
    assert said == "master: Hello!\nHello!\n"
    counts = json.loads((tmp_path / "tally.json").read_text())["events"]
    events = world.run("prsm events --json", tmp_path, tmp_path / "home").splitlines()
    kinds = [json.loads(line)["type"] for line in events]
    assert counts == {kind: kinds.count(kind) for kind in kinds}
    assert (counts["run_started"], counts["run_finished"]) == (1, 1)


@pytest.mark.requirement("C5")
def test_a_frontend_of_many_sessions_runs_two_at_once(world, tmp_path):
    """Each in a folder of its own, with the settings of that folder."""
    home, folders = tmp_path / "home", [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
    section = {"task": "Hello!", "folders": [str(folder) for folder in folders]}
    home.mkdir()
    settings = {"defaults": {"provider": "echo"}, "frontends": {"across": section}}
    (home / "config.yaml").write_text(json.dumps(settings))
    said = world.run("prsm --ui across", folders[0], home).splitlines()
    ends = [f"{folder}: completed: Hello!" for folder in folders]
    assert sorted(line for line in said if "completed" in line) == sorted(ends)
    starts = [line.rpartition(" ")[2] for line in said if "runs in session" in line]
    for folder in folders:
        tree = json.loads(world.run("prsm tree --json", folder, home))
        assert tree["session"] in starts


def sources() -> dict[str, str]:
    """Return the Python files of the plugins, tests included."""
    found = {name: text for tutorial in TUTORIALS for name, text in modules_of(tutorial).items()}
    for example in EXAMPLES:
        for path in example.rglob("*.py"):
            found[str(path.relative_to(example))] = path.read_text(encoding="utf-8")
    return found


SOURCES = sources()


@pytest.mark.requirement("C5")
@pytest.mark.parametrize("name", [name for name in SOURCES if "test_" not in name])
def test_a_plugin_is_shorter_than_100_lines(name):
    assert len(SOURCES[name].splitlines()) < MAX_PLUGIN


@pytest.mark.requirement("C5")
@pytest.mark.parametrize("name", SOURCES)
def test_a_plugin_and_its_test_use_public_names_only(name):
    public = {"prsm_core": prsm_core, "prsm_testing": prsm_testing}
    ours = tuple(public)
    for node in ast.walk(ast.parse(SOURCES[name])):
        if isinstance(node, ast.Import):
            assert not [alias.name for alias in node.names if alias.name.startswith(ours)]
        elif isinstance(node, ast.ImportFrom) and str(node.module).startswith(ours):
            assert {alias.name for alias in node.names} <= set(public[str(node.module)].__all__)


def test_there_is_a_plugin_of_each_kind():
    assert len(TUTORIALS) + len(EXAMPLES) == len(PLUGINS)
    assert len({hook for hooks in PLUGINS.values() for hook in hooks}) == 6


@each_tutorial
def test_a_tutorial_is_short(tutorial):
    assert len(tutorial.read_text(encoding="utf-8").splitlines()) <= MAX_PAGES
