"""Reads of another's region: noticed, and denied for an outline where that is set."""

from __future__ import annotations

import asyncio
import subprocess
from typing import Any

import pytest
from prsm_regions import execution
from prsm_regions.execution import Regions, check, foreign_reads
from prsm_regions.plugin import prsm_permission_checks
from prsm_testing import PermissionCheckContract

from prsm_core import AgentRole, Deny, PermissionContext, PermissionMode, PermissionRequest

LABELS = {
    execution.READS: "interface",
    execution.OWN: "src/ui",
    execution.OTHERS: "src/core\nlib/one.py",
}
BODY = "class Auth:\n    def check(self, token: str) -> bool:\n" + "        secret = 1\n" * 30


class TestContract(PermissionCheckContract):
    spec = next(iter(prsm_permission_checks()))


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "tree"
    for path, text in (
        ("src/core/auth.py", BODY),
        ("src/ui/app.py", "x = 1\n"),
        ("lib/one.py", BODY),
    ):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    (root / "src/ui/link.py").symlink_to("../core/auth.py")
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    return root


async def _verdict(tree, labels: dict[str, str] = LABELS, **fields: Any) -> Deny | None:
    context = PermissionContext(
        mode=PermissionMode.DEFAULT, role=AgentRole.WORKER, provider="x", workspace=str(tree),
        labels=labels,
    )  # fmt: skip
    return await check(PermissionRequest(agent_id="a", cwd=str(tree), **fields), context)


@pytest.mark.parametrize("path", ["src/core/auth.py", "src/ui/link.py", "lib/../src/core/auth.py"])
async def test_a_body_of_anothers_region_is_denied_and_its_header_shown(tree, path):
    verdict = await _verdict(tree, tool="Read", paths=(path,))
    assert isinstance(verdict, Deny)
    assert "def check(self, token: str) -> bool:" in verdict.reason
    assert "secret" not in verdict.reason


@pytest.mark.parametrize(
    "command",
    [
        "cat src/core/auth.py", "cd src/core && cat auth.py", "head -5 ./src/core/auth.py | cat",
        "true; sed -n 1,9p src/core/auth.py", "cat < src/core/auth.py", "true < src/core/auth.py",
        "grep -rn check .", "rg check", "rg check src", "cat src/core/*.py", "cat src/*/auth.py",
        "bash -c 'cat src/core/auth.py'", "git show HEAD:src/core/auth.py", "git grep check",
        "cat src/ui/link.py", "ls\ncat lib/one.py", "cat 'src/core/auth.py", "/bin/cat lib/one.py",
        "env A=1 timeout 5 cat lib/one.py", "sh -c \"sh -c 'cat lib/one.py'\"",
        "X=$(cat lib/one.py)", "echo `head lib/one.py`", "cat <<E\n$(cat lib/one.py)\nE",
        "cat src/core/$NAME", "for f in a; do cat lib/one.py; done", 'ca"t" lib/one.py',
        "find . -exec cat src/core/auth.py {} +", "if true; then head lib/one.py; fi",
        "f() { cat lib/one.py; }; f", "grep --file=lib/one.py x a",
    ],
)  # fmt: skip
async def test_a_command_that_shows_it_is_denied(tree, command):
    assert isinstance(await _verdict(tree, tool="Bash", command=command), Deny)


@pytest.mark.parametrize(
    "command",
    [
        "cat src/ui/app.py", "rg check src/ui", "grep -rn x src/ui", "pytest src/core",
        "ls src/core",
        "python -m build", "cat README.md", "git status", "echo src/core/auth.py", "cat /etc/hosts",
        "", "rg x src/ui/app.py", "echo 'cat src/core/auth.py'",
        "cat src/ui/$NAME",
        "# cat lib/one.py",
        "echo x > src/ui/out; cat <<'E'\ncat lib/one.py\nE",
    ],
)  # fmt: skip
async def test_other_commands_go_on(tree, command):
    assert await _verdict(tree, tool="Bash", command=command) is None


async def test_writes_and_agents_without_the_label_are_no_matter_of_it(tree):
    assert await _verdict(tree, tool="Edit", paths=("src/core/auth.py",)) is None
    assert await _verdict(tree, {}, tool="Read", paths=("src/core/auth.py",)) is None


async def test_another_worktree_of_the_repository_is_the_same_ground(tree):
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@localhost"]
    for argv in (["add", "."], ["commit", "-qm", "x"], ["worktree", "add", "-q", "../wt"]):
        await asyncio.to_thread(subprocess.run, [*git, *argv], cwd=tree, check=True)
    verdict = await _verdict(tree, tool="Read", paths=(str(tree.parent / "wt/src/core/auth.py"),))
    assert isinstance(verdict, Deny)


@pytest.mark.requirement("R16")
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("Read", {"file_path": "src/core/auth.py"}),
        ("Bash", {"command": "cat src/core/auth.py"}),
        ("Grep", {"path": "src", "pattern": "x"}),
    ],
)
def test_a_read_is_noticed_after_the_fact(tree, tool, arguments):
    (found,) = foreign_reads(
        "a", {"tool": tool, "arguments": arguments}, str(tree), str(tree), Regions.of(LABELS)
    )
    assert (found.agent, found.tool, found.region) == ("a", tool, "src/core")


def test_what_is_read_of_ones_own_is_not_noticed(tree):
    data = {"tool": "Read", "arguments": {"file_path": "src/ui/app.py"}}
    assert not foreign_reads("a", data, str(tree), str(tree), Regions.of(LABELS))
