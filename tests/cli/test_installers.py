"""prsm install where a tool manages the environment, or nobody may write to it."""

from __future__ import annotations

import json
import shutil

import pytest

from tests.cli.test_install import DEFAULTS, Clone, clone, pristine

__all__ = ["clone", "pristine"]  # fixtures

PIPX, UV = "pipx_metadata.json", "uv-receipt.toml"
TELL = 'echo "$PIPX_HOME|$UV_TOOL_DIR|$UV_TOOL_BIN_DIR|$@" > {told}; exit 3'
RECEIPT = """\
[tool]
requirements = [
    {{ name = "prsm-core", editable = "{root}" }},
    {{ name = "six", specifier = ">=1.16" }},
    {{ name = "rich", extras = ["jupyter"] }},
    {{ name = "mine", directory = "/home/me/mine" }},
]
python = "3.11"
entrypoints = [
    {{ name = "prsm", install-path = "/home/me/bin/prsm", from = "prsm-core" }},
]
"""


def managed(clone: Clone, name: str, text: str = "{}"):
    """Make the environment look like one that a tool manages; taken back by `unmanaged`."""
    path = clone.environment / name
    path.write_text(text)
    return path


def folder(clone, name):
    return str(clone.root / "plugins" / f"prsm_{name}")


@pytest.fixture
def unmanaged(clone):
    yield clone
    for name in (PIPX, UV):
        (clone.environment / name).unlink(missing_ok=True)


@pytest.mark.requirement("C2")
def test_into_an_environment_of_pipx_pipx_injects(unmanaged, clone):
    told = clone.home / "told"
    clone.program("pipx", TELL.format(told=told))
    managed(clone, PIPX)
    done = clone.run("prsm", "install", "minimax")
    assert done.returncode == 1
    assert "pipx failed with exit code 3" in done.stderr
    words = f"inject --editable environment {folder(clone, 'codex')} {folder(clone, 'minimax')}"
    assert told.read_text().strip() == f"|||{words}"


def test_pipx_is_told_which_home_the_environment_is_of(pristine, tmp_path):
    clone = Clone(tmp_path / "pipx" / "venvs")
    clone.install_core("-e")
    told = clone.home / "told"
    clone.program("pipx", TELL.format(told=told))
    managed(clone, PIPX)
    assert clone.run("prsm", "install", "codex").returncode == 1
    assert told.read_text().startswith(f"{tmp_path}/pipx|||inject --editable environment ")


@pytest.mark.requirement("C2")
def test_a_tool_of_uv_is_made_anew_with_all_that_belongs_to_it(unmanaged, clone):
    told = clone.home / "told"
    clone.program("uv", TELL.format(told=told))
    managed(clone, UV, RECEIPT.format(root=clone.root))
    done = clone.run("prsm", "install", "codex")
    assert done.returncode == 1
    words = (
        f"tool install --python 3.11 --editable {clone.root} --with six>=1.16 --with rich[jupyter] "
        f"--with /home/me/mine --with-editable {folder(clone, 'codex')}"
    )
    assert told.read_text().strip() == f"|{clone.environment.parent}|/home/me/bin|{words}"


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        (PIPX, "{}", "pipx inject --editable environment {codex}"),
        (UV, RECEIPT, "uv tool install --python 3.11 --editable {root} --with 'six>=1.16'"),
    ],
)
def test_without_that_tool_the_line_to_type_is_told(unmanaged, clone, name, text, line):
    managed(clone, name, text.format(root=clone.root) if name == UV else text)
    done = clone.run("prsm", "install", "codex")
    assert done.returncode == 2
    assert "manages the environment of" in done.stderr
    assert line.format(codex=folder(clone, "codex"), root=clone.root) in done.stderr
    assert clone.own() == {"prsm_core", *DEFAULTS}


@pytest.mark.parametrize(
    "receipt",
    [
        "no toml [",
        "[tool]\nrequirements = []\nentrypoints = []\n",
        '[tool]\nentrypoints = []\nrequirements = [{ name = "prsm-core", git = "https://x" }]\n',
    ],
)
def test_a_receipt_that_is_not_understood_is_not_guessed_at(unmanaged, clone, receipt):
    clone.program("uv", "exit 0")
    managed(clone, UV, receipt)
    done = clone.run("prsm", "install", "codex")
    assert done.returncode == 2
    assert "its uv-receipt.toml is not understood" in done.stderr
    assert clone.own() == {"prsm_core", *DEFAULTS}


def test_an_environment_that_cannot_be_written_to_is_told_before_anything_is_done(clone):
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        pytest.skip("bwrap is not installed")
    inside = (bwrap, "--bind", "/", "/", "--dev", "/dev", "--ro-bind", *[str(clone.site)] * 2)
    done = clone.run("prsm", "install", "codex", through=inside)
    assert done.returncode == 2, done.stderr
    assert f"the core is in {clone.site}, to which this user may not write" in done.stderr
    assert clone.own() == {"prsm_core", *DEFAULTS}


def test_the_packages_that_the_system_manages_are_left_to_it(clone):
    """As Debian marks its own Python: by a file beside the standard library."""
    look = (
        "import sys, sysconfig, json; sys.prefix = sys.base_prefix\n"
        "sysconfig.get_path = lambda name, *a: sys.argv[1]\n"
        "from prsm_core.cli.installing import find_installer\n"
        "from prsm_core.errors import ConfigError\n"
        "try:\n    find_installer({})\n"
        "except ConfigError as error:\n    print(json.dumps([error.message, error.hint]))\n"
    )
    marked = clone.home / "lib"
    marked.mkdir()
    (marked / "EXTERNALLY-MANAGED").write_text("")
    done = clone.run("python", "-c", look, str(marked))
    message, hint = json.loads(done.stdout)
    assert "the system manages the packages of" in message
    assert "python3 -m venv .venv" in hint
