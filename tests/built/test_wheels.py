"""What users install: wheels of the core and of each plugin, in an environment of their own."""

from __future__ import annotations

import email
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from prsm_core.cli.plugins import KINDS
from prsm_core.version import __version__
from tests.built.fill_wheelhouse import is_complete
from tests.sources import CORE, PLUGINS, ROOT

if TYPE_CHECKING:
    from collections.abc import Sequence

VARIABLE = "PRSM_WHEELHOUSE"
DEADLINE = 300.0  # for one command; they take seconds
PACKAGES = {"prsm_core": CORE, **{path.name: path / path.name for path in PLUGINS}}
HOOKS = {
    "provider": "prsm_providers",
    "check": "prsm_permission_checks",
    "scorer": "prsm_model_scorers",
    "sink": "prsm_event_sinks",
    "frontend": "prsm_frontends",
}
WORDS = {"check": "permission check", "scorer": "model scorer", "sink": "event sink"}

HAS_WHEELHOUSE = is_complete(Path(os.environ.get(VARIABLE, "/nowhere")))
needs_wheelhouse = pytest.mark.skipif(
    not HAS_WHEELHOUSE,
    reason=f"{VARIABLE} names no filled folder: tests/built/fill_wheelhouse.py fills one",
)


def call(argv: Sequence[object], cwd: Path, **environ: str) -> str:
    """Run a command in a clean environment; return its stdout."""
    names = ("HOME", "LANG", "PATH", "TMPDIR", "PIP_CERT", "PIP_DISABLE_PIP_VERSION_CHECK")
    done = subprocess.run(
        [str(word) for word in argv],
        cwd=cwd,
        env={**{n: os.environ[n] for n in names if n in os.environ}, **environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert done.returncode == 0, f"{argv}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def build(folder, *projects):
    """Build wheels as their authors would, but without a network; return their folder."""
    offline = ["--no-deps", "--no-index", "--no-build-isolation", "--quiet"]
    call(
        [sys.executable, "-m", "pip", "wheel", *offline, "--wheel-dir", folder, *projects],
        folder.parent,
    )
    return folder


@dataclass(frozen=True)
class Installed:
    """An environment with wheels in it: its interpreter, and what pip may install into it."""

    python: Path
    sources: tuple[Path, ...]
    home: Path

    @classmethod
    def empty(cls, folder: Path, *sources: Path) -> Installed:
        venv = folder / "venv"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
        return cls(venv / "bin" / "python", sources, folder / "home")

    def pip(self, *words: object) -> str:
        """Install into this environment, from its sources alone."""
        found = [f"--find-links={source}" for source in self.sources]
        pip = [sys.executable, "-m", "pip", "--python", self.python, "install", "--no-index"]
        return call([*pip, "--no-compile", "--quiet", *found, *words], self.python.parent)

    def run(self, *words: object, cwd: Path) -> str:
        """Run a program of this environment."""
        binary, path = self.python.parent, os.environ["PATH"]
        home = {"PRSM_HOME": str(self.home), "PATH": f"{binary}{os.pathsep}{path}"}
        return call([binary / str(words[0]), *words[1:]], cwd, **home)

    def plugins(self, cwd: Path) -> dict[str, dict[str, object]]:
        """Return what `prsm plugins` says of each."""
        return {
            row["name"]: row for row in json.loads(self.run("prsm", "plugins", "--json", cwd=cwd))
        }


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """The wheels of the core and of every plugin, by the name of the package."""
    folder = build(tmp_path_factory.mktemp("built") / "wheels", ROOT, *PLUGINS)
    found = {path.name.split("-")[0]: path for path in folder.glob("*.whl")}
    yield found
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def empty(wheels, tmp_path_factory):
    """An environment that had nothing in it, with all wheels and what they ask for."""
    folder = tmp_path_factory.mktemp("empty")
    made = Installed.empty(folder, Path(os.environ[VARIABLE]), wheels["prsm_core"].parent)
    made.pip(*(name.replace("_", "-") for name in wheels))
    yield made
    shutil.rmtree(folder)  # it holds a vendor's whole program


@pytest.fixture(scope="module")
def authors(request, wheels, tmp_path_factory):
    """Where a plugin is written: the empty environment, or one that sees what this one has."""
    if HAS_WHEELHOUSE:
        return request.getfixturevalue("empty")
    made = Installed.empty(tmp_path_factory.mktemp("authors"), wheels["prsm_core"].parent)
    seen = sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
    base = str(made.python.parents[1])
    site = Path(sysconfig.get_path("purelib", vars={"base": base}))
    lines = [f"import site; site.addsitedir({path!r})\n" for path in seen]
    (site / "seen.pth").write_text("".join(lines), encoding="utf-8")
    made.pip("--no-deps", "--ignore-installed", "prsm-core", "prsm-testing")
    return made


@pytest.fixture(scope="module")
def written(authors, tmp_path_factory):
    """A plugin of each kind as `prsm plugins new` writes it, built and installed by pip."""
    folder = tmp_path_factory.mktemp("written")
    for kind in KINDS:
        authors.run("prsm", "plugins", "new", kind, f"own-{kind}", cwd=folder)
    projects = {kind: folder / f"prsm-own-{kind}" for kind in KINDS}
    built = build(folder / "wheels", *projects.values())
    authors.pip("--no-deps", "--ignore-installed", *sorted(built.glob("*.whl")))
    return projects


@pytest.mark.requirement("C2")
@pytest.mark.parametrize("package", PACKAGES)
def test_a_wheel_holds_its_package_and_nothing_else(package, wheels):
    with zipfile.ZipFile(wheels[package]) as wheel:
        held = {name for name in wheel.namelist() if not name.endswith("/")}
    about = f"{package}-{__version__}.dist-info"
    assert {name.split("/")[0] for name in held} == {package, about}
    sources = PACKAGES[package]
    paths = [
        path for path in sources.rglob("*") if path.is_file() and "__pycache__" not in path.parts
    ]
    assert {f"{package}/{path.relative_to(sources)}" for path in paths} <= held


@needs_wheelhouse
@pytest.mark.requirement("C2")
def test_every_plugin_is_active_where_nothing_but_wheels_is_installed(empty, tmp_path):
    found = empty.plugins(tmp_path)
    assert found.keys() >= {path.name.removeprefix("prsm_") for path in PLUGINS}
    for name, row in found.items():
        if not name.startswith("own-"):
            assert (row["state"], row["version"]) == ("active", __version__), row["error"]
    where = empty.run("python", "-c", "import prsm_core; print(prsm_core.__file__)", cwd=tmp_path)
    assert Path(where).is_relative_to(empty.python.parents[1])


def needs(wheel: Path) -> list[Requirement]:
    """Return what a wheel asks for here, without extras."""
    with zipfile.ZipFile(wheel) as archive:
        [about] = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        message = email.message_from_bytes(archive.read(about))
    found = map(Requirement, message.get_all("Requires-Dist", []))
    return [one for one in found if one.marker is None or one.marker.evaluate({"extra": ""})]


@pytest.fixture(scope="module")
def offered(wheels):
    """All wheels that pip would find, by the name of the project."""
    paths = [*wheels.values(), *Path(os.environ[VARIABLE]).glob("*.whl")]
    return {canonicalize_name(path.name.split("-")[0]): path for path in paths}


@needs_wheelhouse
@pytest.mark.requirement("C2")
@pytest.mark.parametrize("plugin", [path.name for path in PLUGINS])
def test_a_plugin_alone_brings_the_core_and_what_it_needs(plugin, offered):
    """`pip install prsm-codex` where nothing is yet: each thing that is asked for is found."""
    name = canonicalize_name(plugin)
    names, asked = {name}, [name]
    while asked:
        more = {canonicalize_name(one.name) for one in needs(offered[asked.pop()])} - names
        names |= more
        asked += more
    assert {"prsm-core", name, "pluggy"} <= names
    assert ("pytest" in names) is (plugin == "prsm_testing")
    assert "hatchling" not in names


@needs_wheelhouse
@pytest.mark.requirement("C2", "U10")
def test_the_demo_runs_where_nothing_but_wheels_is_installed(empty, tmp_path):
    events = [
        json.loads(line) for line in empty.run("prsm", "demo", "--json", cwd=tmp_path).splitlines()
    ]
    assert (events[-1]["type"], events[-1]["status"]) == ("run_finished", "completed")
    assert len([event for event in events if event["type"] == "agent_spawned"]) == 4


@pytest.mark.requirement("C5", "F12")
@pytest.mark.parametrize("kind", KINDS)
def test_a_new_plugin_is_built_and_installed_and_passes_its_contract(kind, authors, written):
    folder = written[kind]
    # Not the sources: what is tested is what was installed.
    shutil.rmtree(folder / f"prsm_own_{kind}")
    said = authors.run("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=folder)
    assert " passed" in said
    assert "failed" not in said


@pytest.mark.requirement("C5", "C6")
def test_new_plugins_of_all_kinds_are_active_and_tell_their_records(authors, written, tmp_path):
    found = authors.plugins(tmp_path)
    for kind, hook in HOOKS.items():
        row = found[f"own-{kind}"]
        assert (row["state"], row["hooks"]) == ("active", [hook]), row["error"]
        assert (row["distribution"], row["version"]) == (f"prsm-own-{kind}", "0.1.0")
        [record] = row["records"]
        assert (record["kind"], record["name"]) == (WORDS.get(kind, kind), f"own-{kind}")
