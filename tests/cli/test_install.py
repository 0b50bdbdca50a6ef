"""prsm install: our own packages beside the core, whole or not at all; real pip, no network."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sysconfig
import venv
from pathlib import Path

import pytest

from prsm_core.catalog.packages import OWN_PACKAGES, find_clone, find_own, with_needs
from prsm_core.cli.installing import sources_of
from prsm_core.distributions import DEFAULT_PACKAGES
from prsm_core.errors import ConfigError
from prsm_core.version import __version__
from tests.sources import ROOT

DEADLINE = 120.0
DEFAULTS = sorted(name.replace("-", "_") for name in DEFAULT_PACKAGES)
DEFAULT_NAMES = {name.removeprefix("prsm-") for name in DEFAULT_PACKAGES}
BUILDERS = ("pip", "hatchling", "editables")
LEFT_OUT = shutil.ignore_patterns("tests", "__pycache__", "node_modules", ".*")


class Clone:
    """A clone of the repository, with an environment in which its core is installed."""

    def __init__(self, folder: Path):
        self.root = folder / "clone"
        self.environment = folder / "environment"
        self.bin = folder / "bin"
        self.home = folder / "home"
        self.bin.mkdir(parents=True)
        self.home.mkdir()
        self.root.mkdir()
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(ROOT / name, self.root)
        for name in ("prsm_core", "plugins"):
            shutil.copytree(ROOT / name, self.root / name, ignore=LEFT_OUT)
        venv.EnvBuilder(with_pip=False, symlinks=True).create(self.environment)
        for entry in Path(sysconfig.get_path("purelib")).iterdir():
            if "prsm" not in entry.name and entry.suffix != ".pth" and entry.name[0] != "_":
                (self.site / entry.name).symlink_to(entry)
        self.env = {
            "PATH": f"{self.bin}:/usr/bin:/bin",
            "HOME": str(self.home),
            "PRSM_HOME": str(self.home / "prsm"),
            "LANG": "C.UTF-8",
            "PIP_NO_INDEX": "1",
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_NO_BUILD_ISOLATION": "0",  # pip's way to say that there is to be none
        }

    @property
    def site(self) -> Path:
        """Where its packages are."""
        [site] = self.environment.glob("lib/python*/site-packages")
        return site

    def run(self, *argv, through=(), **env):
        """Run a program of the environment from the user's home, as an argument of others."""
        program = self.environment / "bin" / argv[0]
        return subprocess.run(
            [*through, str(program), *argv[1:]],
            cwd=self.home,
            env={**self.env, **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DEADLINE,
        )

    def install_core(self, *how):
        """Install the core and its default packages with pip; from then on `prsm` is there."""
        folders = [self.root, *(self.root / "plugins" / name for name in DEFAULTS)]
        words = [word for folder in folders for word in (*how, str(folder))]
        done = self.run("python", "-m", "pip", "install", "-q", *words)
        assert done.returncode == 0, done.stderr

    def own(self):
        """Return what of ours is in the environment."""
        names = (path.name for path in self.site.iterdir() if "prsm" in path.name)
        return {re.split(r"-\d|\.pth", name)[0].removeprefix("_editable_impl_") for name in names}

    def states(self):
        """Return what became of each plugin, as a new process sees it."""
        done = self.run("prsm", "plugins", "--json")
        return {row["name"]: row["state"] for row in json.loads(done.stdout)}

    def program(self, name, script):
        """Put a program on the PATH."""
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path


@pytest.fixture(scope="module")
def pristine(tmp_path_factory):
    """A clone whose core is installed, to be copied by nobody: tests take away what they add."""
    for name in BUILDERS:
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    clone = Clone(tmp_path_factory.mktemp("clone"))
    clone.install_core("-e")
    return clone


@pytest.fixture
def clone(pristine):
    yield pristine
    left = pristine.own() - {"prsm_core", *DEFAULTS}
    if left:
        done = pristine.run("python", "-m", "pip", "uninstall", "-qy", *left)
        assert done.returncode == 0, done.stderr
    shutil.rmtree(pristine.root / "plugins")
    shutil.copytree(ROOT / "plugins", pristine.root / "plugins", ignore=LEFT_OUT)
    shutil.rmtree(pristine.bin)
    pristine.bin.mkdir()


@pytest.mark.requirement("C2")
def test_a_package_of_the_clone_is_put_beside_the_core_and_is_there_at_once(clone):
    assert "codex" not in clone.states()
    done = clone.run("prsm", "install", "codex")
    assert done.returncode == 0, done.stderr
    assert f"prsm-codex {__version__} is installed beside the core" in done.stdout
    assert "`codex`, which is not on your PATH" in done.stdout
    assert clone.states()["codex"] == "active"
    again = clone.run("prsm", "install", "prsm_codex")
    assert (again.returncode, "is installed already" in again.stdout) == (0, True)


def test_what_a_package_needs_of_ours_comes_with_it_and_the_program_that_is_there_is_told(clone):
    codex = clone.program("codex", "echo codex-cli 0.169.0")
    done = clone.run("prsm", "install", "minimax")
    assert done.returncode == 0, done.stderr
    assert {"minimax", "codex"} <= clone.states().keys()
    assert f"It runs {codex}." in done.stdout


def test_what_does_not_load_is_taken_away_again(clone):
    plugin = clone.root / "plugins" / "prsm_minimax" / "prsm_minimax" / "plugin.py"
    plugin.write_text("raise RuntimeError('half a checkout')\n")
    done = clone.run("prsm", "install", "minimax")
    assert done.returncode == 1
    assert "prsm-minimax was installed and does not load" in done.stderr
    assert "half a checkout" in done.stderr
    assert clone.own() == {"prsm_core", *DEFAULTS}


def test_what_pip_cannot_install_leaves_nothing(clone):
    project = clone.root / "plugins" / "prsm_minimax" / "pyproject.toml"
    text = project.read_text().replace('"prsm-codex>=', '"no-such-package-of-anybody>=')
    project.write_text(text)
    done = clone.run("prsm", "install", "minimax")
    assert done.returncode == 1
    assert "pip failed with exit code 1" in done.stderr
    assert "no-such-package-of-anybody" in done.stderr
    assert clone.own() == {"prsm_core", *DEFAULTS}


def test_an_interrupt_leaves_nothing(clone, tmp_path):
    """It comes while the second of two packages is built, by a builder that waits for it."""
    bell = tmp_path / "bell"
    os.mkfifo(bell)
    folder = clone.root / "plugins" / "prsm_minimax"
    project = folder / "pyproject.toml"
    backend = 'requires = []\nbuild-backend = "slow"\nbackend-path = ["."]'
    text = project.read_text()
    project.write_text(re.sub(r"requires = .*\nbuild-backend = .*", backend, text, count=1))
    folder.joinpath("slow.py").write_text(
        f"import os, time\nopen({str(bell)!r}, 'w').close()\ntime.sleep(1000)\n"
    )
    process = subprocess.Popen(
        [str(clone.environment / "bin" / "prsm"), "install", "minimax"],
        cwd=clone.home,
        env=clone.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with bell.open("rb") as rung:
        assert rung.read() == b""
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=DEADLINE)
    assert process.returncode == 130, err
    assert clone.own() == {"prsm_core", *DEFAULTS}


@pytest.mark.parametrize("name", ["requests", "prsm-kodex", "prsm-core", "acp-evil"])
def test_any_other_name_is_refused_with_the_line_that_a_person_may_type(clone, name):
    done = clone.run("prsm", "install", name)
    assert done.returncode == 2
    assert f"{name} is none of this project's packages" in done.stderr
    line = f"{clone.environment}/bin/python -m pip install {name}"
    assert line in done.stderr.replace("python3", "python")
    assert clone.own() == {"prsm_core", *DEFAULTS}


@pytest.mark.parametrize("name", ["../x", "-r/etc/passwd", "a b", "git+https://x.test/y", ""])
def test_what_is_no_name_is_in_no_line(clone, name):
    done = clone.run("prsm", "install", "--", name)
    assert done.returncode == 2
    assert "is no name of a package" in done.stderr
    assert "pip install" not in done.stderr


def test_outside_a_clone_nothing_is_installed_and_nobody_is_asked(tmp_path):
    for name in BUILDERS:
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    clone = Clone(tmp_path)
    clone.install_core()
    asked = tmp_path / "asked"
    for name in ("pip", "uv", "npm"):
        clone.program(name, f"touch {asked}")
    done = clone.run("prsm", "install", "codex", PIP_NO_INDEX="0")
    assert done.returncode == 2
    assert "prsm-codex is on no index yet" in done.stderr
    assert "clone the repository" in done.stderr
    assert not asked.exists()
    assert clone.own() == {"prsm_core", *DEFAULTS}


def test_with_uv_alone_uv_installs(clone):
    """Where the environment has no pip; a script plays uv, and says what it was told."""
    told = clone.home / "told"
    clone.program("uv", f'echo "$@" > {told}; exit 3')
    hidden = clone.site / "pip"
    hidden.rename(clone.home / "pip")
    try:
        done = clone.run("prsm", "install", "codex")
    finally:
        (clone.home / "pip").rename(hidden)
    assert done.returncode == 1
    assert "uv failed with exit code 3" in done.stderr
    python = str(clone.environment / "bin" / "python")
    words = told.read_text().split()
    assert words[:3] == ["pip", "install", "--python"]
    assert words[3].startswith(python)
    assert words[4:] == ["--editable", str(clone.root / "plugins" / "prsm_codex")]


NPM = """
while [ $# -gt 0 ]; do case $1 in --prefix) shift; prefix=$1;; esac; last=$1; shift; done
mkdir -p "$prefix/bin"; echo "$last" > "$prefix/asked"
printf '#!/bin/sh\\necho codex-cli 0.169.0\\n' > "$prefix/bin/codex"; chmod +x "$prefix/bin/codex"
"""


def test_the_vendors_program_comes_with_npm_into_the_users_prefix(clone):
    clone.program("npm", NPM)
    done = clone.run("prsm", "install", "codex", "--cli", "--prefix", "~/tools")
    assert done.returncode == 0, done.stderr
    prefix = clone.home / "tools"
    assert f"{prefix}/bin/codex is codex-cli 0.169.0" in done.stdout
    assert (prefix / "asked").read_text().strip() == OWN_PACKAGES["codex"].npm
    assert f"providers.codex.command to {prefix}/bin/codex" in done.stdout


@pytest.mark.parametrize(
    ("script", "told"),
    [(None, "npm is not installed"), ("echo E404 >&2; exit 4", "npm failed with exit code 4")],
)
def test_where_npm_does_not_do_it_that_is_told_and_the_package_stays(clone, script, told):
    if script is not None:
        clone.program("npm", script)
    done = clone.run("prsm", "install", "codex", "--cli", PATH=f"{clone.bin}")
    assert done.returncode == 1
    assert told in done.stderr
    assert clone.states()["codex"] == "active"


def test_the_list_is_that_of_the_repository():
    folders = {path.parent.name for path in (ROOT / "plugins").glob("*/pyproject.toml")}
    assert folders == {package.distribution.replace("-", "_") for package in OWN_PACKAGES.values()}
    for package in OWN_PACKAGES.values():
        project = (ROOT / "plugins" / f"prsm_{package.name}" / "pyproject.toml").read_text()
        needs = set(re.findall(r'"prsm-(\w+)>=', project)) - {"core", *DEFAULT_NAMES}
        assert set(package.needs) == needs, package.name


def test_the_help_names_each_package(prsm):
    done = prsm("install", "--help")
    listed = re.search(r"is one of: ([^.]+)\.", done.out)
    assert listed is not None, done.out
    assert re.split(r",\s+", listed[1]) == list(OWN_PACKAGES)


def test_the_programs_are_asked_for_in_the_versions_that_the_plugins_take():
    for name in ("codex", "gemini"):
        text = (ROOT / "plugins" / f"prsm_{name}" / f"prsm_{name}" / "provider.py").read_text()
        oldest, below = (
            ".".join(re.findall(rf"{field}=\((\d+), (\d+), (\d+)\)", text)[0])
            for field in ("tested_from", "below")
        )
        assert str(OWN_PACKAGES[name].npm).endswith(f"@>={oldest} <{below}")


def test_once_the_names_are_published_each_is_asked_for_in_the_version_of_the_core():
    package = find_own("minimax")
    assert package is not None
    assert [one.name for one in with_needs(package)] == ["codex", "minimax"]
    with pytest.raises(ConfigError, match="on no index yet"):
        sources_of(package, None, published=False)
    assert sources_of(package, None, published=True) == {
        "prsm-codex": (f"prsm-codex=={__version__}",),
        "prsm-minimax": (f"prsm-minimax=={__version__}",),
    }


def test_a_folder_that_only_looks_like_a_clone_is_none(tmp_path):
    core = tmp_path / "prsm_core"
    core.mkdir()
    (tmp_path / "plugins").mkdir()
    assert find_clone(core) is None
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "mine"\n')
    assert find_clone(core) is None
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "prsm-core"\n')
    assert find_clone(core) == tmp_path
