"""What has another name in the testing room is still to be had by its old one, and told once."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

OLD = {
    "prsm_core.testing:OddTeam": "prsm_core.testing:MisbehavingTeam",
    "prsm_core.testing.odd_team:OddTeam": "prsm_core.testing:MisbehavingTeam",
    "prsm_core.testing.odd_team:Outcome": "prsm_core.testing.misbehaving_team:Outcome",
    "prsm_core.testing.odd_faults:OddTurn": "prsm_core.testing.faults:FakeTurn",
    "prsm_core.testing.odd_faults:shared_faults": "prsm_core.testing.faults:shared_faults",
}

# Each is taken twice, by one package.
TAKE = """
import importlib, json, sys, warnings
def take(place):
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)
found = {}
for old, new in json.loads(sys.argv[1]).items():
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found[old] = [take(old) is take(old) is take(new), [str(w.message) for w in told]]
    assert all(issubclass(w.category, DeprecationWarning) for w in told), told
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def taken():
    """What became of each name in an interpreter of its own."""
    argv = [sys.executable, "-c", TAKE, json.dumps(OLD)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.requirement("C5")
@pytest.mark.parametrize("old", OLD)
def test_an_old_name_is_what_the_new_one_is_and_told_once(taken, old):
    is_same, told = taken[old]
    assert is_same
    new = OLD[old].replace(":", ".")
    assert [text.partition(": ")[2] for text in told] == [
        f"{old.replace(':', '.')} goes in prsm-core 0.2: use {new}"
    ]
