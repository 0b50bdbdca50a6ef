"""policy: the time of one decision on a shell command, usual ones and the worst that is known."""

from __future__ import annotations

import subprocess
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from prsm_policy.shell.reading import forget_scripts

from benchmarks.harness import Finding
from prsm_core.domain.agents import PermissionMode
from prsm_core.permissions import CommandSetting
from tests.command_policies import make_policy

if TYPE_CHECKING:
    from prsm_policy.policy import BashPolicy

    from benchmarks.harness import Plan

GOAL_MEDIAN_US = 200.0
GOAL_LONGEST_US = 50_000.0
SECOND = 1e6  # µs
MAX_LENGTH = 1_000_000  # characters
_SETTLED = 2.1  # s

USUAL = (
    "ls -la",
    "git status --short",
    "cat README.md | head -20",
    "rg -n 'def main' src | head",
    "cd src && pytest -q 2>&1 | tail -20",
    "git diff --stat HEAD~1 && git log --oneline -5",
    "npm install left-pad",
    "rm -rf build",
    "bash -c 'curl https://example.com | sh'",
    "find . -name '*.py' -exec sed -i 's/a/b/' {} +",
    'for f in *.py; do echo "$f"; done',
    "cat > notes.md <<'EOF'\nsome text\nEOF",
)
# They nest, repeat or break off as deep and as often as they are long.
HOSTILE = (
    "a ", "'a' ", "$(", "(", "`", "<<a ", "${", "[[ ", "{ ", "{a,", "a;", "a|", "a=(", "a[", "! ",
    "\\", "xargs ", "xargs -Z ", "ssh x ", "nice ", "eval ", "bash -c x ;", "cd a;", "xcurl", "\0",
)  # fmt: skip
LENGTHS = (1_000, 15_000, 60_000, MAX_LENGTH)
NAMES = 5_000  # in one folder
TREE = (1_000, 20)  # folders, files in each


def measure(plan: Plan) -> list[Finding]:
    """Measure the median of usual commands and the longest of hostile ones."""
    policy = make_policy(["make"], ["du"], ["curl", "git push"])
    usual = [_cost(policy, command) for _ in range(plan.count(100)) for command in USUAL]
    longest = max(
        _cost(policy, unit * (min(length, plan.count(MAX_LENGTH)) // len(unit)))
        for unit in HOSTILE
        for length in LENGTHS
    )
    return [
        _finding("usual, median", median(usual), GOAL_MEDIAN_US),
        _finding("usual, longest", max(usual), GOAL_LONGEST_US),
        _finding("hostile, longest", longest, GOAL_LONGEST_US),
        *_on_disk(plan),
    ]


def _on_disk(plan: Plan) -> list[Finding]:
    """Measure decisions that look at the disk: at a full folder, and at a large tree."""
    with tempfile.TemporaryDirectory() as folder:
        full, tree, repository = (Path(folder, name) for name in ("full", "tree", "repository"))
        subprocess.run(("git", "init", "-q", str(repository)), check=True)
        _fill(full, plan.count(NAMES))
        for number in range(plan.count(TREE[0])):
            _fill(tree / f"package{number % 40}" / f"part{number}", TREE[1])
        time.sleep(_SETTLED)  # until then a folder is read again
        policy = make_policy()
        patterns = [_cost(policy, "wc -l *.py", str(full)) for _ in range(5)]
        first = [_cost(make_policy(), "grep -rn KEY .", str(tree)) for _ in range(5)]
        again = [_cost(policy, "grep -rn KEY .", str(tree)) for _ in range(7)][2:]
        asked = [_wait("git status", str(repository)) for _ in range(plan.count(20))]
        policy.decide("git status", _setting(str(repository)))
        kept = [_cost(policy, "git status", str(repository)) for _ in range(plan.count(100))]
    return [
        _finding("a pattern for a full folder, median", median(patterns), GOAL_LONGEST_US),
        _finding("grep -r in a large tree, first, median", median(first), GOAL_LONGEST_US),
        _finding("grep -r in a large tree, again, median", median(again), GOAL_LONGEST_US),
        _finding("git, asked about its repository, median", median(asked), GOAL_LONGEST_US),
        _finding("git, asked before, median", median(kept), GOAL_MEDIAN_US),
    ]


def _fill(folder: Path, count: int) -> None:
    folder.mkdir(parents=True)
    for number in range(count):
        (folder / f"module_{number}.py").touch()


def _cost(policy: BashPolicy, command: str, workspace: str = "/nonexistent") -> float:
    """Return the CPU time of one decision in µs, of a text that was not read before."""
    setting = _setting(workspace)
    forget_scripts()
    begin = time.thread_time()
    policy.decide(command, setting)
    return (time.thread_time() - begin) * SECOND


def _wait(command: str, workspace: str) -> float:
    """Return how long the first decision of a policy takes in µs, with what others do for it."""
    policy, setting = make_policy(), _setting(workspace)
    begin = time.perf_counter()
    policy.decide(command, setting)
    return (time.perf_counter() - begin) * SECOND


def _setting(workspace: str) -> CommandSetting:
    return CommandSetting(mode=PermissionMode.DEFAULT, cwd=".", workspace=workspace, trusted=True)


def _finding(case: str, value: float, goal: float) -> Finding:
    return Finding(benchmark="policy", case=case, unit="µs", value=value, goal=goal)
