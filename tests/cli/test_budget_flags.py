"""`prsm run` with a budget, as a user runs it."""

import json

import pytest

TASK = ("run", "do it", "--provider", "script")
SPEND = {"say": "working", "usage": {"input_tokens": 900, "output_tokens": 200}}


@pytest.fixture
def scenario(tmp_path):
    """Write a scenario and return the option that names it."""

    def write(**lanes):
        path = tmp_path / "scenario.yaml"
        path.write_text(json.dumps({"lanes": {name: {"steps": s} for name, s in lanes.items()}}))
        return ("--set", f"providers.script.scenario={path}")

    return write


@pytest.fixture
def spenders(scenario):
    """A master that spends all, with a child whose result would give it one more turn."""
    spawn = {"call": {"tool": "spawn_child", "arguments": {"prompt": "x", "name": "w1"}}}
    return scenario(master=[spawn, SPEND, {"say": "never"}], w1=[{"say": "done"}])


@pytest.mark.requirement("U14")
def test_a_run_over_its_budget_fails_and_says_what_to_raise(prsm_process, spenders):
    done = prsm_process(*TASK, *spenders, "--budget-tokens", "1000")
    assert done.code == 1
    [line] = [line for line in done.err.splitlines() if line.startswith("error: ")]
    assert "the budget of the run is used up" in line
    assert "of 1,000 tokens used" in line
    assert line.endswith("raise --budget-tokens or budgets.tokens")
    assert "the budget of tokens is nearly used up" in done.err
    tree = json.loads(prsm_process("tree", "--json").out)
    [master] = tree["agents"]
    assert (master["state"], master["usage_self"]["provenance"]["tokens"]) == ("failed", "measured")
    assert master["usage_subtree"]["unknown_turns"] == {"tokens": 0, "cost": 2}


def test_a_run_within_its_budget_is_not_bothered(prsm_process, spenders):
    done = prsm_process(*TASK, *spenders, "--json", "--budget-tokens", "100000")
    events = [json.loads(line) for line in done.out.splitlines()]
    assert (done.code, events[-1]["status"]) == (0, "completed")
    assert events[-1]["provenance"] == {"tokens": "measured", "cost": "unknown"}
    assert not [e for e in events if e["type"].startswith("budget_")]


def test_the_flag_beats_the_configuration(prsm_process, spenders):
    limits = ("--set", "budgets.tokens=1000")
    assert prsm_process(*TASK, *spenders, *limits).code == 1
    assert prsm_process(*TASK, *spenders, *limits, "--budget-tokens", "100000").code == 0


def test_dollars_that_nobody_tells_are_warned_of(prsm_process, spenders):
    done = prsm_process(*TASK, *spenders, "--budget-usd", "0.5")
    assert done.code == 0
    assert "told nothing of its usd" in done.err


@pytest.mark.parametrize(
    "flag",
    [
        ("--budget-usd", "0"),
        ("--budget-usd", "nan"),
        ("--budget-tokens", "0"),
        ("--budget-tokens", "1.5"),
    ],
)
def test_a_budget_is_a_number_above_zero(prsm, flag):
    done = prsm("run", "x", *flag)
    assert done.code == 2
    assert flag[0] in done.err
