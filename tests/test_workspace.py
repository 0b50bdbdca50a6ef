"""Every package of the repository is declared the same way, everywhere it must be."""

from __future__ import annotations

import ast
import configparser
import re
import shutil
import subprocess
import tomllib
from typing import TYPE_CHECKING, Any

import pytest

from prsm_core.distributions import DEFAULT_PACKAGES
from prsm_core.version import __version__
from tests.sources import CORE, PLUGINS, ROOT, TESTING, parsed

if TYPE_CHECKING:
    from pathlib import Path

each_plugin = pytest.mark.parametrize("plugin", PLUGINS, ids=lambda path: path.name)


def load(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))


CONFIG = load(ROOT)
VERSION = __version__
IMPORTLINTER = CONFIG["tool"]["importlinter"]
CONTRACTS = {contract["id"]: contract for contract in IMPORTLINTER["contracts"]}


def editables(name: str) -> list[str]:
    return (ROOT / name).read_text(encoding="utf-8").split("\n")[:-1]


def tox(section: str, key: str) -> str:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(ROOT / "tox.ini", encoding="utf-8")
    return parser[section][key]


@each_plugin
def test_a_plugin_is_named_after_its_folder(plugin):
    project = load(plugin)["project"]
    assert project["name"] == plugin.name.replace("_", "-")
    assert (plugin / plugin.name / "__init__.py").is_file()
    assert load(plugin)["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == [plugin.name]


@each_plugin
def test_a_plugin_moves_in_lockstep_with_the_core(plugin):
    project = load(plugin)["project"]
    major, minor, _ = VERSION.split(".")
    assert project["version"] == VERSION
    assert project["requires-python"] == CONFIG["project"]["requires-python"]
    assert f"prsm-core>={major}.{minor},<{major}.{int(minor) + 1}" in project["dependencies"]


@each_plugin
def test_a_plugin_registers_one_module_under_its_short_name(plugin):
    short = plugin.name.removeprefix("prsm_")
    assert load(plugin)["project"]["entry-points"]["prsm"] == {short: f"{plugin.name}.plugin"}
    assert (plugin / plugin.name / "plugin.py").is_file()


@pytest.mark.parametrize("folder", [ROOT, *PLUGINS], ids=lambda path: path.name)
def test_a_package_is_complete_and_an_index_would_take_it(folder):
    package = CORE if folder == ROOT else folder / folder.name
    assert (package / "py.typed").is_file()
    project = load(folder)["project"]
    assert (folder / project["readme"]).is_file()
    assert project["license"] == "MIT"
    assert project["description"].strip()
    assert "Typing :: Typed" in project["classifiers"]
    # By this an index refuses a package: it is for those that are never to be published.
    assert not [name for name in project["classifiers"] if name.startswith("Private ::")]


def names_of(requirements: list[str]) -> set[str]:
    """Return the distributions that are required, without their versions."""
    return {re.split(r"[\[<>=~!; ]", requirement, maxsplit=1)[0] for requirement in requirements}


def imported_by(package: Path) -> set[str]:
    """Return the packages that the modules below a folder import, wherever in them."""
    found: set[str] = set()
    for path in package.rglob("*.py"):
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                found.add((node.module or "").partition(".")[0])
    return found


@pytest.mark.requirement("C4")
def test_what_is_built_upon_is_required_where_it_is_used_and_used_where_it_is_required():
    core = {"pluggy", "pyyaml", "msgspec", "platformdirs", "click"}
    assert core <= names_of(CONFIG["project"]["dependencies"])
    assert {name if name != "pyyaml" else "yaml" for name in core} <= imported_by(CORE)
    [claude] = [plugin for plugin in PLUGINS if plugin.name == "prsm_claude"]
    assert "claude-agent-sdk" in names_of(load(claude)["project"]["dependencies"])
    # For the program that comes with it: it costs more to import than all of a run.
    assert "claude_agent_sdk" in (claude / claude.name / "provider.py").read_text()
    assert "claude_agent_sdk" not in imported_by(CORE) | imported_by(claude / claude.name)
    assert {"pytest", "pytest-asyncio"} <= names_of(CONFIG["dependency-groups"]["test"])
    assert CONFIG["tool"]["pytest"]["ini_options"]["asyncio_mode"] == "auto"
    assert names_of([tox("tox", "requires")]) == {"tox"}


def test_contracts_run_on_what_our_own_tests_run_on():
    """The oldest versions that the package takes are those that this repository asks for."""
    shared = {"pytest", "pytest-asyncio", "pyte"}
    needed = load(TESTING)["project"]["dependencies"]
    asked = [requirement for requirement in needed if names_of([requirement]) <= shared]
    assert names_of(asked) == shared
    assert set(asked) <= set(CONFIG["dependency-groups"]["test"])


@each_plugin
def test_a_plugin_has_tests(plugin):
    assert list((plugin / "tests").rglob("test_*.py"))


def test_one_list_installs_the_core_and_every_plugin_together():
    defaults = [path for path in PLUGINS if path.name.replace("_", "-") in DEFAULT_PACKAGES]
    others = [path for path in PLUGINS if path not in defaults]
    core = ["-e .", *(f"-e {path.relative_to(ROOT)}" for path in defaults)]
    assert editables("requirements.txt") == core
    every = ["-r requirements.txt", *(f"-e {path.relative_to(ROOT)}" for path in others)]
    assert editables("requirements-dev.txt") == every


def test_the_core_depends_on_its_default_packages_alone_of_ours():
    named = names_of(CONFIG["project"]["dependencies"])
    assert {name for name in named if name.startswith("prsm-")} == DEFAULT_PACKAGES


def test_import_linter_knows_every_plugin():
    names = [path.name for path in PLUGINS]
    assert IMPORTLINTER["root_packages"] == ["prsm_core", *names]
    assert set(names) <= set(CONTRACTS["core-alone"]["forbidden_modules"])
    others = [name for name in names if name != TESTING.name]
    assert CONTRACTS["public-surface"]["source_modules"] == others
    assert CONTRACTS["independent-plugins"]["modules"] == others
    assert CONTRACTS["processes"]["source_modules"] == ["prsm_core", *names]


def test_import_linter_forbids_plugins_every_room_of_the_core():
    """But for `commands`, `executors`, `files`, and names of the door, the kit and policies."""
    rooms = {
        path.stem
        for path in CORE.iterdir()
        if not path.name.startswith("_")
        and (path.suffix == ".py" or (path / "__init__.py").exists())
    }
    forbidden = {
        name.partition(".")[2].removesuffix(".*")
        for name in CONTRACTS["public-surface"]["forbidden_modules"]
    }
    assert forbidden == rooms - {"commands", "executors", "files"}


def test_mypy_checks_every_package_and_every_test_folder():
    packages, tests, imports = tox("testenv:types", "commands").strip().splitlines()
    names = ["prsm_core", *(path.name for path in PLUGINS), "benchmarks"]
    assert re.findall(r"-p (\w+)", packages) == names
    folders = ["tests", *(f"{path.relative_to(ROOT)}/tests" for path in PLUGINS)]
    assert tests.split()[2:] == folders
    assert imports.split()[0] == "lint-imports"


def test_tox_runs_every_gate_by_default():
    envs = [name.strip() for name in tox("tox", "env_list").split(",")]
    assert envs == ["lint", "types", "core", "py311"]


def test_the_set_up_of_tox_fetches_what_the_wheels_need():
    folder = "{work_dir}{/}wheelhouse"
    assert tox("testenv:core", "set_env") == f"PRSM_WHEELHOUSE = {folder}"
    assert tox("testenv:core", "commands_pre") == f"python tests/built/fill_wheelhouse.py {folder}"
    assert (ROOT / "tests" / "built" / "fill_wheelhouse.py").is_file()


def test_what_a_tool_leaves_beside_a_file_is_in_no_package():
    """It would be in the wheel, with code that is nobody's any more."""
    left = {".orig", ".rej", ".bak", ".swp"}
    places = [CORE, *PLUGINS, ROOT / "tests", ROOT / "docs", ROOT / "benchmarks"]
    assert not [path for place in places for path in place.rglob("*") if path.suffix in left]


def test_no_tests_or_plugins_folder_is_a_package():
    folders = [ROOT / "tests", ROOT / "plugins", *PLUGINS]
    folders += [path / "tests" for path in PLUGINS]
    markers = [folder / "__init__.py" for folder in folders]
    markers += [
        path for folder in folders if folder.name == "tests" for path in folder.rglob("__init__.py")
    ]
    assert not [path for path in markers if path.exists()]


def ci(folder: Path, readme: str) -> subprocess.CompletedProcess[str]:
    """Run the CI script in a copy of the repository that has only this README."""
    (folder / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", folder / ".ci" / "run")
    (folder / "README.md").write_text(readme, encoding="utf-8")
    argv = ["bash", str(folder / ".ci" / "run")]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(("first", "live", "code"), [(0, 0, 0), (7, 0, 7), (0, 8, 8), (7, 8, 7)])
def test_ci_runs_the_test_command_of_the_readme_and_then_the_live_tests(
    tmp_path, first, live, code
):
    tox = tmp_path / ".venv" / "bin" / "tox"
    tox.parent.mkdir(parents=True)
    tox.write_text(f'#!/bin/sh\necho "tox $*"\nexit {live}\n', encoding="utf-8")
    tox.chmod(0o755)
    other = "```\nno\n```\n"
    command = f"Run\n\n```console\n$ pwd && exit {first}\n```\n"
    done = ci(tmp_path, f"# X\n{other}## Test it\n{command}## More\n{other}")
    assert done.returncode == code
    lines = [f"+ pwd && exit {first}", str(tmp_path)]
    assert done.stdout.splitlines() == [*lines, "+ .venv/bin/tox run -e live", "tox run -e live"]


@pytest.mark.parametrize(
    "section", ["", "```\na\nb\n```\n", "```\n```\n", "```\na\n```\n```\nb\n```\n", "no fence\n"]
)
def test_ci_fails_loudly_unless_there_is_exactly_one_command(tmp_path, section):
    done = ci(tmp_path, f"## Test it\n{section}## More\n```\nother\n```\n")
    assert done.returncode == 1
    assert "one fenced block of one line expected" in done.stderr
