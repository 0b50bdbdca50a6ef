"""The record of requirements is true in both directions."""

from __future__ import annotations

import pytest

from tests.requirements import REQUIREMENTS, load, marked, synced

SYNC = "run: python tests/requirements.py --sync"


def test_every_mark_names_a_known_requirement():
    unknown = {key: places for key, places in marked().items() if key not in REQUIREMENTS}
    assert not unknown, f"marks with ids that tests/data/requirements.txt does not know: {unknown}"


def test_every_built_requirement_is_proven_by_a_test():
    built = {key for key, row in REQUIREMENTS.items() if row.state == "built"}
    unproven = sorted(built - marked().keys())
    assert not unproven, f"built, but no test is marked with: {', '.join(unproven)}; {SYNC}"


def test_no_open_requirement_is_marked_as_proven():
    proven = {
        key: places
        for key, places in marked().items()
        if key in REQUIREMENTS and REQUIREMENTS[key].state == "open"
    }
    assert not proven, f"listed as open, but tests claim to prove them; {SYNC}\n{proven}"


def test_the_manifest_holds_every_row_of_every_chapter():
    chapters = {"E": 97, "D": 26, "N": 32, "A": 20, "R": 31, "C": 8, "U": 40, "F": 17}
    expected = [f"{letter}{n}" for letter, size in chapters.items() for n in range(1, size + 1)]
    assert list(REQUIREMENTS) == expected


@pytest.mark.parametrize(
    "line", ["E1 done text", "E1 open", "e1 open text", "E1 open a\nE1 open b"]
)
def test_a_malformed_or_repeated_row_is_refused(line):
    with pytest.raises(ValueError, match="is not a row or repeats an id"):
        load(line)


def test_sync_says_of_every_row_whether_a_test_proves_it_and_changes_nothing_else():
    text = "# head\nE1 open one\nE2 open two\nE10 open ten\nE3 built three\nE4 built open\n"
    after = "# head\nE1 built one\nE2 open two\nE10 open ten\nE3 built three\nE4 open open\n"
    assert synced(text, {"E1", "E3"}) == after
