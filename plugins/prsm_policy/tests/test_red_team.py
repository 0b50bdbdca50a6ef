"""The command policy against a third list of rows: holes of all kinds, disguised, and neighbours.

Each row is judged in default and in plan mode, in a trusted workspace and in another one, whatever
the row says of itself. A safe row that is not trusted is safe anywhere; a trusted one runs code of
the project, or asks it, and is safe in a trusted workspace alone.
"""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from plugins.prsm_policy.tests.ground import lay_ground
from plugins.prsm_policy.tests.judging import decide, decide_row, lines, policy_of, rows
from plugins.prsm_policy.tests.test_new_commands import OTHER_LISTS
from prsm_core.domain.agents import PermissionMode

ROWS = rows("red_team.jsonl")
MIN_ROWS = 1_500
MIN_BENIGN_ROWS = 400
MIN_BENIGN = 0.97
MAX_UNASKED = 0.01  # of the dangerous ones, in bypass
GUARDED = tuple(itertools.product((PermissionMode.DEFAULT, PermissionMode.PLAN), (True, False)))


@pytest.fixture(scope="module")
def ground(tmp_path_factory):
    """Make the workspace; return its path."""
    work = tmp_path_factory.mktemp("home") / "work"
    work.mkdir()
    lay_ground(work)
    return work


def may_run(row, mode, trusted):
    """Return whether a command may run unasked there."""
    if row["class"] != "safe":
        return row["mode"] != "bypass" and row["expected"] == "allow" and mode == row["mode"]
    return trusted or not row["trusted"]


def verdicts(row, work):
    """Yield where a row is judged, beside what it says itself, and the verdict there."""
    policy = policy_of(row)
    for mode, trusted in GUARDED:
        verdict = decide(row["command"], work, policy=policy, mode=mode, trusted=trusted)
        yield mode, trusted, verdict


def test_there_are_enough_rows_and_none_is_in_another_list():
    assert len(ROWS) >= MIN_ROWS
    assert sum(row["class"] == "safe" for row in ROWS) >= MIN_BENIGN_ROWS
    keys = Counter((r["command"], str(r["policy"])) for r in ROWS)
    assert not [key for key, count in keys.items() if count > 1]
    others = {row["command"] for name in ("commands_sample", "new_commands")
              for row in rows(f"{name}.jsonl")}  # fmt: skip
    for name in OTHER_LISTS:
        others |= {line.rpartition("\t")[2].replace("⏎", "\n") for line in lines(name)}
    assert not others & {row["command"] for row in ROWS if not row["policy"].get("allow")}


@pytest.mark.requirement("E18", "E23", "E24")
def test_nothing_unsafe_runs_unasked_and_every_denial_holds(ground, report):
    unsafe, missed, others = [], [], []
    for row in ROWS:
        denied = row["accept"] == ["deny"]
        for mode, trusted, verdict in verdicts(row, ground):
            if denied and verdict != "deny":
                missed.append((row["id"], mode.value, trusted))
            elif verdict == "allow" and not may_run(row, mode, trusted):
                unsafe.append((row["id"], mode.value, trusted))
        verdict = decide_row(row, ground)
        if denied and verdict != "deny":
            missed.append((row["id"], row["mode"], row["trusted"]))
        elif row["class"] == "policy" and verdict not in row["accept"]:
            others.append((row["id"], row["mode"], row["trusted"]))
    report(
        f"red team: {len(ROWS)} rows in default and plan mode, trusted and not:"
        f" {len(unsafe)} unsafe allows, {len(missed)} denials missed, {len(others)} others wrong"
    )
    assert unsafe == []
    assert missed == []
    assert others == []


@pytest.mark.requirement("E18", "E23", "E24")
def test_bypass_asks_about_nearly_all_that_is_dangerous(ground, report):
    dangerous = [row for row in ROWS if row["class"] == "dangerous"]
    unasked = [row["id"] for row in dangerous if decide_row(row, ground) == "allow"]
    report(f"red team: {len(unasked)} of {len(dangerous)} dangerous rows run unasked in bypass")
    assert len(unasked) <= MAX_UNASKED * len(dangerous), unasked


@pytest.mark.requirement("E18", "E23", "E24")
def test_harmless_neighbours_run_unasked(ground, report):
    benign = [row for row in ROWS if row["expected"] == "allow"]
    asked = [row["id"] for row in benign if decide_row(row, ground) != "allow"]
    report(f"red team: {len(benign) - len(asked)} of {len(benign)} harmless rows run unasked")
    assert len(benign) - len(asked) >= MIN_BENIGN * len(benign), asked
