"""Whole runs from a seed: every rule holds, and the same seed gives the same log."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from prsm_testing.sim.faults import FAULTS, parse_faults
from prsm_testing.sim.plan import Plan
from prsm_testing.sim.rules import RULES
from prsm_testing.sim.world import simulate

from tests.sources import ROOT


@pytest.mark.requirement("F3", "E30", "E31")
@pytest.mark.parametrize("first", range(1, 51, 10))
def test_every_rule_holds_in_ten_seeds(first):
    for seed in range(first, first + 10):
        outcome = simulate(Plan(seed=seed, agents=12))
        assert outcome.holds, (outcome.violations, outcome.plan.command)


@pytest.mark.requirement("E31")
def test_an_agent_whose_turn_ends_is_part_of_no_knot_though_its_call_still_waits():
    """Its budget ends the turn while a call waits; meanwhile its parent waits for its end."""
    outcome = simulate(Plan(seed=794, agents=30))
    assert outcome.holds, (outcome.violations, outcome.plan.command)


@pytest.mark.requirement("F1")
def test_fifty_agents_wait_as_the_definition_says():
    """Each knot acted on is the least fixpoint's, and none is left alone."""
    checked = 0
    for seed in (2, 5, 8):
        outcome = simulate(Plan(seed=seed, agents=50, faults=parse_faults("none")))
        assert outcome.holds, (outcome.violations, outcome.plan.command)
        checked += outcome.checked["victims"]
    assert checked > 0


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_each_fault_strikes_alone(fault):
    injected = 0
    for seed in range(1, 40):
        outcome = simulate(Plan(seed=seed, agents=6, faults=frozenset({fault})))
        assert outcome.holds, (outcome.violations, outcome.plan.command)
        assert set(outcome.faults) <= {fault}
        injected += outcome.faults.get(fault, 0)
        if injected:
            return
    pytest.fail(f"{fault} never struck")


def test_most_rules_are_checked_in_a_few_seeds():
    checked: set[str] = set()
    for seed in range(1, 16):
        checked |= simulate(Plan(seed=seed, agents=8)).checked.keys()
    assert set(RULES) <= checked


def test_a_seed_gives_the_same_outcome_again():
    plan = Plan(seed=11, agents=12)
    assert simulate(plan).to_dict() == simulate(plan).to_dict()


@pytest.mark.requirement("F3")
def test_a_seed_gives_the_same_log_whatever_the_order_of_sets():
    """Hashes of strings, and with them the order of sets, differ from process to process."""
    digests = set()
    for hash_seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-m", "prsm_testing.sim", "all", "12", "1440"],
            input="12\n18\n",
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
        )
        digests.add(tuple(json.loads(line)["digest"] for line in done.stdout.splitlines()))
    assert len(digests) == 1
    assert all(len(digest) == 16 for digest in next(iter(digests)))


def test_different_seeds_give_different_logs():
    digests = {simulate(Plan(seed=seed, agents=4)).digest for seed in range(60, 66)}
    assert len(digests) == 6


def test_a_run_that_outlives_its_virtual_time_is_told():
    outcome = simulate(Plan(seed=1, agents=12, minutes=0.1))
    assert [found.rule for found in outcome.violations] == ["ends"]
