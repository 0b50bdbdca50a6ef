"""The `sim` command: what it prints, and when it fails."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile

import click
import pytest
from prsm_testing.sim.command import sim
from prsm_testing.sim.faults import FAULTS
from prsm_testing.sim.plan import Plan
from prsm_testing.sim.rules import RULES
from prsm_testing.sim.world import simulate

from prsm_core.cli import main


def test_each_seed_has_a_line_and_each_rule_its_count(capsys):
    assert main(["sim", "--seed", "1..3", "--agents", "4"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines[:3]] == ["seed 1", "seed 2", "seed 3"]
    assert [line.split()[1] for line in lines[4:]] == list(RULES)
    assert all(line.startswith("held") for line in lines[4:])


def test_two_processes_print_what_one_does_in_the_same_order(capsys):
    assert main(["sim", "--seed", "4..7", "--agents", "4", "--json"]) == 0
    alone = capsys.readouterr().out
    assert main(["sim", "--seed", "4..7", "--agents", "4", "--json", "--jobs", "2"]) == 0
    assert capsys.readouterr().out == alone
    assert [json.loads(line).get("seed") for line in alone.splitlines()] == [4, 5, 6, 7, None]


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_where_no_temporary_folder_can_be_made_the_cure_is_told(capsys, monkeypatch, jobs):
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere/at-all")
    assert main(["sim", "--seed", "1..2", "--agents", "4", "--jobs", jobs]) == 2
    said, cure = capsys.readouterr().err.splitlines()
    assert said.startswith("prsm: no temporary folder can be made: No such file or directory")
    assert cure == "hint: TMPDIR names another folder for temporary files"


@pytest.mark.requirement("F3")
def test_a_seed_that_breaks_a_rule_is_named_with_the_command_that_replays_it(capsys):
    options = ["--faults", "none", "--agents", "12", "--minutes", "0.1"]
    assert main(["sim", "--seed", "1..2", *options]) == 1
    out = capsys.readouterr().out
    assert "BROKEN ends" in out
    [replay, *_] = [line for line in out.splitlines() if line.startswith("replay: ")]
    words = replay.removeprefix("replay: prsm ").split()
    seed = int(words[2])
    assert words == ["sim", "--seed", str(seed), *options]
    first = simulate(Plan(seed=seed, faults=frozenset(), agents=12, minutes=0.1))
    assert first.violations
    assert main([*words, "--json"]) == 1
    again = json.loads(capsys.readouterr().out.splitlines()[0])
    assert again == first.to_dict()


def test_stop_ends_with_the_first_seed_that_breaks_a_rule(capsys):
    options = ["--agents", "12", "--minutes", "0.1", "--stop", "--json"]
    assert main(["sim", "--seed", "1..5", *options]) == 1
    *outcomes, summary = map(json.loads, capsys.readouterr().out.splitlines())
    assert summary["broken"] == [outcomes[-1]["seed"]]
    assert all(not outcome["violations"] for outcome in outcomes[:-1])


def test_the_help_names_every_fault():
    [faults] = [option for option in sim.params if option.name == "faults"]
    assert isinstance(faults, click.Option)
    names = (faults.help or "").partition(";")[0].split(", ")
    assert sorted(names) == sorted(FAULTS)


@pytest.mark.parametrize(
    ("option", "value"),
    [("--seed", "x"), ("--seed", "5..2"), ("--faults", "crash,earthquake"), ("--agents", "0")],
)
def test_a_wrong_option_is_a_usage_error(option, value, capsys):
    assert main(["sim", option, value]) == 2
    assert capsys.readouterr().err


def test_the_command_line_loads_no_double_until_it_simulates():
    code = "import sys; from prsm_core.cli import main; main(['sim', '--help']);print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    ours = {name for name in done.stdout.split() if name.startswith("prsm_testing")}
    assert ours == {"prsm_testing", "prsm_testing.sim", "prsm_testing.sim.command"}
