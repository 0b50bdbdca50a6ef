"""The tables of programs are whole: no field is misspelt, and no program stands in one twice."""

from __future__ import annotations

from pathlib import Path

import prsm_policy.tables
import pytest
from prsm_policy.safe.options import Syntax
from prsm_policy.tables import read_rows

SYNTAX = {*Syntax.__slots__, "is"} - {"names_only", "numeric", "negative", "tame", "apart"}
FIELDS = {
    **dict.fromkeys(["builds", "git", "queries", "readers"], SYNTAX),
    "checks": SYNTAX | {"class", "needs"},
    "choices": {"short"},
    "dangerous_programs": {"programs"},
    "dangers": {"changes", "sends", "loses"},
    "fetchers": {"verbs", "versioned", "letters", "only"},
    "lookups": SYNTAX | {"starts"},
    "loose": {"after"},
    "runners": {"code", "runs", "verbs", "word", "value"},
    "wrappers": {"flags", "valued", "code", "long", "operands", "is"},
}
OF_COMMAND_LINES = {"builds", "checks", "queries"}


def test_all_tables_are_known_here():
    files = Path(prsm_policy.tables.__file__).parent.glob("*.txt")
    assert {file.stem for file in files} == {*FIELDS, "formats"}


@pytest.mark.parametrize("table", FIELDS)
def test_the_fields_of_a_table_are_known(table):
    found = {kind for _, fields in read_rows(table) for kind in fields}
    assert found <= FIELDS[table]


@pytest.mark.parametrize("table", sorted({*FIELDS, "formats"}))
def test_no_two_rows_tell_the_same_of_one_name(table):
    separator = "|" if table in OF_COMMAND_LINES else None
    found = [
        (name.strip(), kind)
        for head, fields in read_rows(table)
        for name in head.split(separator if table != "dangerous_programs" else "\n")
        for kind in fields or [""]
    ]
    assert len(found) == len(set(found))
