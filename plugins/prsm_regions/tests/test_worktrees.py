"""Runs whose agents have worktrees: what leaves one, what does not, and where there can be none."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from plugins.prsm_regions.tests.conftest import done, lane, of_type, planner

TWO = [
    {"name": "ui", "description": "the page", "region": "ui"},
    {"name": "core", "description": "the parser", "region": "core"},
]


def writes(path: str, text: str) -> dict[str, Any]:
    return {"shell": f"mkdir -p $(dirname {path}) && printf %s '{text}' > {path}"}


def git(prsm, *argv: str) -> None:
    who = ["-c", "user.name=t", "-c", "user.email=t@localhost"]
    subprocess.run(["git", *who, *argv], cwd=prsm.workspace, check=True, capture_output=True)


@pytest.fixture
def repository(prsm):
    git(prsm, "init", "-q")
    git(prsm, "add", ".")
    git(prsm, "commit", "-qm", "begin")
    return prsm


@pytest.mark.requirement("R18", "R20")
def test_of_a_worktree_its_region_lands_a_stray_makes_it_partial_and_a_retry_mends_it(repository):
    prsm = repository
    (prsm.workspace / "core" / "dirty.py").write_text("mine = 1\n")  # nobody has committed it
    again = {"expect": ["core/stray.py"], "shell": "rm core/stray.py"}
    sees_dirty = {"shell": "cat core/dirty.py"}
    lanes = {
        "planner": planner(json.dumps(TWO)),
        "ui": lane(
            "ui",
            writes("ui/page.py", "page = 1"),
            writes("core/stray.py", "stray = 1"),
            done("page made"),
            again,
            done("stray taken back"),
        ),
        "core": lane(
            "core",
            sees_dirty,
            {"expect": ["mine = 1"], **writes("core/parser.py", "parse = 1")},
            done("parser made"),
        ),
    }
    prsm.play(lanes, worktrees=True)
    told = prsm.regions("--on-ask", "allow")
    assert told.stdout.count("COMPLETED") == 2, told.stdout + told.stderr
    asked = of_type(prsm.events(), "question_asked")[-1]["question"]
    assert "PARTIAL" in asked
    assert "core/stray.py" in asked
    landed = {str(path.relative_to(prsm.workspace)) for path in prsm.workspace.glob("*/*.py")}
    assert landed == {"ui/page.py", "core/auth.py", "core/dirty.py", "core/parser.py"}
    assert (prsm.workspace / "core" / "dirty.py").read_text() == "mine = 1\n"


@pytest.mark.long
@pytest.mark.requirement("R8")
def test_without_git_subtasks_fail_with_the_cure(prsm):
    prsm.play({"planner": planner(json.dumps(TWO)), "ui": lane("ui"), "core": lane("core")},
              worktrees=True, retries=0)  # fmt: skip
    told = prsm.regions("--on-ask", "allow")
    assert told.stdout.count("FAILED") == 2, told.stdout + told.stderr
    assert "git init" in told.stdout
