"""Commands that installed packages bring: listed, found, refused and run."""

from __future__ import annotations

import json
import subprocess
import sys

import click
import pytest

from prsm_core.cli.callers import is_guarded
from prsm_core.cli.group import COMMANDS, cli, only_one, package_commands
from prsm_core.errors import PluginError

GREET = """
import click

@click.command()
@click.argument("name", default="you")
@click.pass_obj
def greet(launch, name):
    "Greet somebody."
    click.echo(f"hello {name}, debug {launch.debug}")
"""
LOADED = """
import json, sys
from prsm_core.cli import main
main(sys.argv[1:])
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""


class Packages:
    """A folder of installed distributions that bring commands."""

    def __init__(self, folder):
        self.folder = folder
        self.folder.mkdir()

    def add(
        self, name, code=GREET, *, project=None, place=None, plugin=None, summary="Says hello."
    ):
        project = project or f"acme-{name}"
        module = project.replace("-", "_")
        (self.folder / f"{module}.py").write_text(code)
        info = self.folder / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {project}\nVersion: 1.0\nSummary: {summary}\n"
            "\nSummary: of the description\n"
        )
        place = place or f"{module}:greet"
        points = f"[console_scripts]\nx = y:z\n\n[prsm.commands]\n{name} = {place}\n"
        points += f"\n[prsm]\n{plugin} = {module}\n" if plugin else ""
        (info / "entry_points.txt").write_text(points)


@pytest.fixture
def packages(tmp_path, monkeypatch):
    made = Packages(tmp_path / "site")
    monkeypatch.setenv("PYTHONPATH", str(made.folder))
    return made


@pytest.fixture
def is_fresh():
    """An interpreter reads its path as it starts."""
    return True


def test_a_command_of_a_package_runs_with_what_stood_before_it(packages, prsm_process):
    packages.add("greet")
    done = prsm_process("--debug", "greet", "ada")
    assert (done.code, done.out, done.err) == (0, "hello ada, debug True\n", "")


def test_help_lists_it_behind_our_own_and_imports_nothing_of_it(packages):
    packages.add("greet", "raise RuntimeError('imported')", summary="Says\x1b[2J hello.")
    done = subprocess.run(
        [sys.executable, "-c", LOADED, "--help"], capture_output=True, text=True, check=True
    )
    lines = done.stdout.split("Commands:\n")[1].splitlines()
    assert [line.split()[0] for line in lines] == [*COMMANDS, "greet"]
    assert lines[-1].split(maxsplit=1) == ["greet", "Says [2J hello."]
    loaded = set(json.loads(done.stderr.splitlines()[-1]))
    assert not loaded & {"acme_greet", "importlib.metadata", "pluggy", "pydantic"}


def test_its_own_help_does_not_read_the_settings(packages, prsm_process, tmp_path):
    packages.add("greet")
    config = tmp_path / "home" / "config.yaml"
    config.parent.mkdir()
    config.write_text("[")
    done = prsm_process("greet", "--help")
    assert (done.code, "Greet somebody." in done.out) == (0, True)
    assert prsm_process("greet").code == 2


def test_of_two_that_bring_one_name_neither_runs_and_both_are_named(packages, prsm_process):
    packages.add("greet")
    packages.add("greet", project="other-greet")
    done = prsm_process("greet")
    assert (done.code, done.out) == (2, "")
    assert "acme-greet and other-greet both bring it, so neither runs" in done.err
    assert "Brought by two packages: neither runs." in prsm_process("--help").out


def test_nobody_else_brings_a_command_of_ours(packages, prsm_process):
    packages.add("tree", "raise RuntimeError('imported')")
    assert prsm_process("tree", "--help").out.startswith("Usage: prsm tree")
    assert "Says hello." not in prsm_process("--help").out


@pytest.mark.parametrize("switched_off", ["greet", "greetings"])
def test_a_disabled_package_is_not_imported(packages, prsm_process, tmp_path, switched_off):
    packages.add("greet", "raise RuntimeError('imported')", plugin="greetings")
    config = tmp_path / "home" / "config.yaml"
    config.parent.mkdir()
    config.write_text(f"plugins: {{disabled: [{switched_off}]}}\n")
    done = prsm_process("greet")
    assert (done.code, done.out) == (2, "")
    assert "command greet of acme-greet is disabled by plugins.disabled" in done.err
    assert f"take {switched_off} off that list" in done.err


def test_the_variable_disables_too(packages, prsm_process, monkeypatch):
    packages.add("greet", "raise RuntimeError('imported')")
    monkeypatch.setenv("PRSM_DISABLED_PLUGINS", "other, greet")
    done = prsm_process("greet")
    assert "is disabled by PRSM_DISABLED_PLUGINS" in done.err


def test_without_plugins_no_package_runs(packages, prsm_process):
    packages.add("greet", "raise RuntimeError('imported')")
    done = prsm_process("--no-plugins", "greet")
    assert (done.code, done.out) == (2, "")
    assert "leave out --no-plugins" in done.err


@pytest.mark.parametrize(
    ("code", "place", "said"),
    [
        ("raise OSError('broken')", None, "cannot be loaded: OSError: broken"),
        ("greet = 1", None, "acme_greet:greet is no click command, but of type int"),
        (GREET, "acme_greet:nobody", "has no attribute 'nobody'"),
        (GREET, "acme_greet", "cannot be loaded"),
    ],
)
def test_one_that_cannot_be_loaded_names_its_package(packages, prsm_process, code, place, said):
    packages.add("greet", code, place=place)
    done = prsm_process("greet")
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert "reinstall acme-greet" in done.err


def test_a_name_that_could_not_be_typed_is_left_out(packages, monkeypatch):
    packages.add("--help")
    packages.add("Two words", project="acme-two")
    monkeypatch.setattr(sys, "path", [str(packages.folder)])
    assert package_commands() == {}


def test_a_distribution_that_is_there_twice_counts_once(packages, tmp_path, monkeypatch):
    packages.add("greet")
    again = Packages(tmp_path / "again")
    again.add("greet", summary="Says it again.")
    folders = [packages.folder, again.folder, packages.folder, tmp_path / "no"]
    monkeypatch.setattr(sys, "path", [str(folder) for folder in folders])
    [offer] = package_commands()["greet"]
    found = offer.distribution
    assert (found.summary, found.name) == ("Says hello.", "acme-greet")


def test_one_of_ours_that_is_absent_says_what_to_install(packages, monkeypatch):
    packages.add("greet")
    monkeypatch.setattr(sys, "path", [str(packages.folder)])
    offers = package_commands()["greet"]
    with pytest.raises(PluginError) as caught:
        only_one("greet", offers, package="prsm-greet")
    assert caught.value.code == "not_installed"
    assert "the package prsm-greet brings it" in caught.value.message
    assert caught.value.hint == "prsm install greet"


def test_it_is_for_people_unless_it_says_otherwise(packages, monkeypatch):
    packages.add("greet")
    monkeypatch.syspath_prepend(str(packages.folder))
    command = cli.get_command(click.Context(cli), "greet")
    assert command is not None
    assert is_guarded(command)


def test_a_shell_is_offered_it(packages):
    packages.add("greet")
    environ = {"_PRSM_COMPLETE": "bash_complete", "COMP_WORDS": "prsm gre", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-c", "from prsm_core.cli import main; main()"],
        env={**environ, "PYTHONPATH": str(packages.folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "plain,greet\n"


def test_a_misspelt_name_may_be_one_of_a_package(packages, prsm_process):
    packages.add("greet")
    assert "'greet'" in prsm_process("grete").err
