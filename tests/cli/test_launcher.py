"""The group: what it imports, how it ends, what it says when something goes wrong."""

import importlib.metadata
import json
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from prsm_core.cli import main
from prsm_core.cli.boundary import report
from prsm_core.cli.group import COMMANDS, cli
from prsm_core.cli.launch import Launch
from prsm_core.errors import ConfigError, PrsmError

HEAVY = {
    "asyncio",
    "dataclasses",
    "importlib.metadata",
    "jsonschema",
    "mcp",
    "platformdirs",
    "pluggy",
    "pydantic",
    "sqlite3",
    "yaml",
}


LIGHT = (
    "",
    ".cli",
    ".cli.callers",
    ".cli.group",
    ".cli.launch",
    ".distributions",
    ".loop",
    ".loop.interrupts",
    ".version",
)


def loaded_after(*args):
    """Return the modules that a fresh interpreter has loaded after a command."""
    script = (
        "import sys, json\nfrom prsm_core.cli import main\ncode = main(sys.argv[1:])\n"
        "print(json.dumps([code, sorted(sys.modules)]), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *args], capture_output=True, text=True, check=True
    )
    code, modules = json.loads(done.stderr.splitlines()[-1])
    assert code == 0
    return set(modules)


# Commands of packages that need not be installed; prsm-testing is, for the tests run on it.
MAY_BE_ABSENT = {
    name for name, (place, _) in COMMANDS.items() if not place.startswith((".", "prsm-testing"))
}


@pytest.mark.parametrize("args", [(), ("--help",)])
def test_help_imports_no_command_no_plugin_and_nothing_heavy(args):
    modules = loaded_after(*args)
    assert not modules & HEAVY
    ours = {name for name in modules if name.startswith("prsm_")}
    assert ours == {f"prsm_core{name}" for name in LIGHT}


def test_the_version_is_told_without_the_command_line():
    modules = loaded_after("--version")
    assert not modules & (HEAVY | {"click", "importlib.metadata"})


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in MAY_BE_ABSENT])
def test_the_help_of_a_command_imports_nothing_heavy(name):
    modules = loaded_after(name, "--help")
    assert not modules & (HEAVY - {"dataclasses"})
    assert not {name for name in modules if name.startswith("prsm_core.engine")}


def test_the_table_tells_what_each_command_says_of_itself():
    context = click.Context(cli)
    for name, (_, summary) in COMMANDS.items():
        command = cli.get_command(context, name)
        if command is None and name in MAY_BE_ABSENT:
            continue  # its package is not installed
        assert command is not None
        assert command.name == name
        assert command.short_help == summary


def test_help_lists_every_command_with_its_summary():
    result = CliRunner().invoke(cli, ["--help"])
    assert result.exit_code == 0
    for name, (_, summary) in COMMANDS.items():
        assert f"  {name} " in result.output
        assert summary in result.output


def test_prsm_alone_prints_its_help(prsm):
    done = prsm()
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("Usage: prsm ")


def test_the_version_is_that_of_the_distribution(prsm):
    done = prsm("--version")
    assert (done.code, done.err) == (0, "")
    assert done.out == f"prsm, version {importlib.metadata.version('prsm-core')}\n"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("rnu",), "No such command 'rnu'"),
        (("--wrong",), "No such option"),
        (("--mode", "fly"), "'fly' is not one of 'interactive', 'extension'"),
        (("--mode", "extension", "--ui", "tui"), "leave one out"),
        (("--mode", "extension", "run", "x"), "--mode stands behind a command that takes it"),
        (("run",), "Missing argument 'TASK'"),
        (("run", ""), "the task is blank"),
        (("run", " \n"), "the task is blank"),
        (("run", "x", "--mode", "wild"), "'wild' is not one of"),
        (("run", "x", "--timeout", "nan"), "greater than 0"),
        (("run", "x", "--timeout", "-1"), "greater than 0"),
        (("run", "x", "--timeout", "inf"), "greater than 0"),
        (("run", "x", "--workspace", "nowhere"), "does not exist"),
        (("run", "x", "--new", "--session", "s"), "exclude each other"),
        (("run", "x", "--json", "--ui", "console"), "exclude each other"),
        (("events", "--after", "-1"), "-1 is not in the range"),
        (("history",), "Missing argument 'AGENT'"),
        (("config",), "Usage: prsm config"),
    ],
)
def test_wrong_usage_exits_with_2_and_creates_nothing(prsm, tmp_path, args, message):
    done = prsm(*args)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert not (tmp_path / "home").exists()


def aborted(cause):
    """Return what click makes of an error that it takes for the end of a person's input."""
    error = click.Abort()
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (ConfigError("it is wrong", hint="mend it"), 2, "prsm: it is wrong\nhint: mend it\n"),
        (PrsmError("a\x1b[2Jb"), 1, "prsm: a\\x1b[2Jb\n"),
        (KeyboardInterrupt(), 130, "prsm: interrupted\n"),
        (click.Abort(), 130, "prsm: interrupted\n"),
        (
            aborted(EOFError("marshal data too short")),
            1,
            "prsm: internal error: EOFError: marshal data too short\n"
            "hint: prsm --debug … shows the traceback\n",
        ),
        (click.ClickException("bad"), 1, "Error: bad\n"),
        (
            RuntimeError("oh"),
            1,
            "prsm: internal error: RuntimeError: oh\nhint: prsm --debug … shows the traceback\n",
        ),
        (
            ExceptionGroup("", [ValueError("x"), ExceptionGroup("", [ConfigError("inner")])]),
            2,
            "prsm: inner\n",
        ),
        (BaseExceptionGroup("", [KeyboardInterrupt(), ValueError()]), 130, "prsm: interrupted\n"),
    ],
)
def test_an_error_is_one_line_with_its_cure(capsys, error, code, said):
    assert report(error, debug=False) == code
    assert capsys.readouterr() == ("", said)


def test_the_traceback_is_shown_with_debug_only(prsm, workspace):
    (workspace / ".prism").symlink_to("elsewhere")
    quiet = prsm("policy", "list")
    assert (quiet.code, quiet.out) == (2, "")
    assert "Traceback" not in quiet.err
    loud = prsm("--debug", "policy", "list")
    assert loud.code == 2
    assert loud.err.startswith("Traceback")
    assert loud.err.endswith(quiet.err)


def test_a_closed_reader_of_stdout_ends_a_command_silently(start_prsm):
    process = start_prsm("config", "schema", stdout=subprocess.PIPE)
    process.stdout.close()
    process.stdout = None
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (1, b"")


def test_the_boundary_reports_a_lost_reader_without_words(capfd):
    assert report(BrokenPipeError(), debug=False) == 1
    assert capfd.readouterr().err == ""


def test_options_before_the_command_reach_it():
    seen = Launch()
    CliRunner().invoke(cli, ["--debug", "--no-plugins"], obj=seen)
    assert (seen.debug, seen.load_plugins) == (True, False)


def test_main_without_arguments_takes_those_of_the_process(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["prsm", "--version"])
    assert main() == 0
    assert "version" in capsys.readouterr().out
