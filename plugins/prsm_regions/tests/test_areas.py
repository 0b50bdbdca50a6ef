"""The eight areas that the specification of parallel regions lists, and where each is tested.

area of the specification      files here
lifecycle                      test_lifecycle
orchestrator                   test_plan, test_plugin, test_runs, test_nested, test_provider,
                               test_worktrees, test_notes, test_settings
router                         test_router, test_owners, test_requests, test_reads,
                               test_reads_in_runs
extension protocol             test_extension, test_editor, test_feeds
sessions of agents, and ports  test_contract, test_ports, test_live
signatures                     test_signatures
cost                           test_costs
bridge to the symbols          test_symbols_index, test_symbols_languages, test_interfaces
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.conftest import report  # noqa: F401 - a fixture

HERE = Path(__file__).parent
# What the specification has of each, and at least as many are here.
SPECIFIED = {
    "lifecycle": 21,
    "orchestrator": 23,
    "router": 18,
    "extension protocol": 11,
    "sessions of agents, and ports": 14,
    "signatures": 9,
    "cost": 5,
    "bridge to the symbols": 3,
}


def areas() -> dict[str, list[str]]:
    """Return the files of each area, as the table above has them."""
    found: dict[str, list[str]] = {}
    area = ""
    for line in (__doc__ or "").splitlines()[3:]:
        name, files = line[:31].strip(), line[31:]
        area = name or area
        found.setdefault(area, []).extend(file.strip() for file in files.split(",") if file.strip())
    return found


def test_every_file_of_tests_is_in_one_area():
    named = [file for files in areas().values() for file in files]
    assert sorted(named) == sorted(
        path.stem for path in HERE.glob("test_*.py") if path != Path(__file__)
    )
    assert areas().keys() == SPECIFIED.keys()


def test_no_test_mocks_what_it_tests():
    """Agents are scripted, on the real engine: nothing of ours is replaced by a mock."""
    for path in HERE.glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imported = {
            name
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for name in (getattr(node, "module", None), *(alias.name for alias in node.names))
        }
        assert "unittest.mock" not in imported
        assert "mock" not in imported


@pytest.mark.long
@pytest.mark.requirement("R30")
def test_each_area_has_at_least_as_many_tests_as_the_specification_lists(report):  # noqa: F811
    argv = [sys.executable, "-m", "pytest", str(HERE), "--collect-only", "-q", "-m", ""]
    said = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=HERE)
    counted = Counter(
        Path(line.partition("::")[0]).stem for line in said.stdout.splitlines() if "::" in line
    )
    assert counted.total() > sum(SPECIFIED.values()), said.stderr
    here = {area: sum(counted[file] for file in files) for area, files in areas().items()}
    assert {area: here[area] for area in SPECIFIED if here[area] < SPECIFIED[area]} == {}
    report(f"regions: tests by area: {here}, in all {counted.total()}")
