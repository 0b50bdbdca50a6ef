"""The command policy against kinds of harm: formats, data bases, fetching, git, agents, and more.

Each kind stands in the list with what it gets in default, plan and bypass mode; beside what does
harm stand harmless commands that look like it.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import pytest

from plugins.prsm_policy.tests.judging import decide, lines
from prsm_core.domain.agents import PermissionMode

MODES = (PermissionMode.DEFAULT, PermissionMode.PLAN, PermissionMode.BYPASS)
MIN_ROWS = 1_500


class Row(NamedTuple):
    """A command, its kind, and the verdicts on it by mode."""

    kind: str
    verdicts: tuple[str, ...]
    command: str


def _rows():
    found, kind, verdicts = [], "", ""
    for line in lines("kinds_of_harm.txt"):
        if line.startswith("## "):
            kind, _, verdicts = line[3:].partition(": ")
        else:
            found.append(Row(kind, tuple(verdicts.split()), line))
    return found


ROWS = _rows()
KINDS = sorted({row.kind for row in ROWS})


def test_there_are_enough_rows_and_each_is_there_once():
    assert len(ROWS) >= MIN_ROWS
    assert not [row for row, count in Counter(row.command for row in ROWS).items() if count > 1]


@pytest.mark.requirement("E18", "E23", "E24")
@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_gets_its_verdicts(kind, report):
    rows = [row for row in ROWS if row.kind == kind]
    found = {row: tuple(decide(row.command, mode=mode) for mode in MODES) for row in rows}
    wrong = [(*row, found[row]) for row in rows if found[row] != row.verdicts]
    harmful = [row for row in rows if row.verdicts[-1] == "ask"]
    report(
        f"kinds of harm, {kind}: {len(rows)} rows, {len(harmful)} to ask about in bypass mode;"
        f" {len(wrong)} wrong"
    )
    assert not wrong


@pytest.mark.requirement("E18", "E23")
def test_what_asks_in_a_trusted_workspace_asks_in_an_untrusted_one():
    rows = [row for row in ROWS if row.verdicts[0] == "ask"]
    allowed = [row for row in rows if decide(row.command, trusted=False) != "ask"]
    assert not allowed
