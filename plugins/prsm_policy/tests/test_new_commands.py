"""The command policy against a second list of rows: evasions, secrets, dangers, everyday work.

The rows are judged in a workspace that holds what such folders hold: ordinary files, secrets,
links that leave it, names that look like options, and repositories that start programs.
"""

from __future__ import annotations

from collections import Counter

import pytest

from plugins.prsm_policy.tests.ground import lay_ground
from plugins.prsm_policy.tests.judging import decide_row, lines, rows

ROWS = rows("new_commands.jsonl")
OTHER_LISTS = (
    "everyday_commands.txt",
    "hostile_compositions.txt",
    "safe_commands.txt",
    "hostile_commands.txt",
    "unlisted_commands.txt",
    "dangerous_commands.txt",
    "denied_commands.txt",
    "ordinary_commands.txt",
    "cleared_commands.txt",
)
MIN_ROWS = 2_000
MIN_BENIGN = 0.97


@pytest.fixture(scope="module")
def ground(tmp_path_factory):
    """Make the workspace; return its path."""
    work = tmp_path_factory.mktemp("home") / "work"
    lay_ground(work)
    return work


def test_there_are_enough_new_rows_and_none_is_in_another_list():
    assert len(ROWS) >= MIN_ROWS
    keys = Counter((r["command"], str(r["policy"]), r["mode"], r["trusted"]) for r in ROWS)
    assert not [key for key, count in keys.items() if count > 1]
    others = {row["command"] for row in rows("commands_sample.jsonl")}
    for name in OTHER_LISTS:
        others |= {line.rpartition("\t")[2].replace("⏎", "\n") for line in lines(name)}
    assert not others & {row["command"] for row in ROWS}


@pytest.mark.requirement("E18", "E23", "E24")
def test_new_rows_meet_the_bars(ground, report):
    verdicts = {row["id"]: decide_row(row, ground) for row in ROWS}
    wrong = [row for row in ROWS if verdicts[row["id"]] not in row["accept"]]
    unsafe = [row["id"] for row in wrong if verdicts[row["id"]] == "allow"]
    to_deny = [row for row in ROWS if row["accept"] == ["deny"]]
    missed = [row["id"] for row in wrong if row["accept"] == ["deny"]]
    benign = [row for row in ROWS if row["expected"] == "allow"]
    asked = [row["id"] for row in wrong if row["expected"] == "allow"]
    others = {row["id"] for row in wrong} - {*unsafe, *missed, *asked}
    report(
        f"new commands: {len(ROWS)} rows; {len(unsafe)} unsafe allows;"
        f" {len(to_deny) - len(missed)} of {len(to_deny)} denied;"
        f" {len(benign) - len(asked)} of {len(benign)} benign rows run unasked;"
        f" {len(others)} others wrong"
    )
    assert not unsafe
    assert not missed
    assert not others
    assert len(benign) - len(asked) >= MIN_BENIGN * len(benign)
