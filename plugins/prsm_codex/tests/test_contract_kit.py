"""The contract of providers finds what it is for: each known defect fails its test."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from plugins.prsm_codex.tests.mutants import DEFECTS

ROOT = Path(__file__).parents[3]
MUTANTS = Path(__file__).with_name("mutants.py")


def test_every_defect_fails_the_test_that_is_there_for_it():
    nodes = [f"{MUTANTS}::Test{mutant.__name__}::{test}" for mutant, test in DEFECTS.items()]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rA", "--tb=no", "-p", "no:cacheprovider", *nodes],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    failed = set(re.findall(r"^FAILED \S+::Test(\w+)::", done.stdout, flags=re.MULTILINE))
    missed = [mutant.__name__ for mutant in DEFECTS if mutant.__name__ not in failed]
    assert not missed, done.stdout + done.stderr
