"""What is judged safe really changes nothing: it runs in a folder that is compared afterwards."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from plugins.prsm_policy.tests.judging import decide, lines

# They run what a project brings, wait for ever, or are not installed where tests run.
_LEFT_OUT = re.compile(
    r"pytest|unittest|npm|npx|yarn|pnpm|cargo|go |ruff|black|mypy|pyright|flake8|eslint|tsc|make"
    r"|pip|tail -f|version|docker|kubectl|java|rustup|jq|df|poetry|node|deno|bun|perl|php"
)
FILES = {
    "README.md": "hello\nworld\n",
    "src/app.py": "print(1)\n",
    "tests/test_app.py": "x = 1\n",
    "a.txt": "b\na\n",
    "b.txt": "a\nc\n",
    "f": "foo 1\nbar 2\n",
    "data.csv": "a,b\n1,2\n",
    "build.log": "error\n",
}


@pytest.fixture
def place(tmp_path):
    for name, text in FILES.items():
        path = tmp_path / "work" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    work = tmp_path / "work"
    for command in ("init -q -b main", "add .", "commit -q -m first"):
        subprocess.run(["git", *command.split()], cwd=work, env=environment(tmp_path), check=True)
    return tmp_path


def environment(place):
    names = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b"}
    names |= {"GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
    return {"PATH": os.environ["PATH"], "HOME": str(place), "GIT_OPTIONAL_LOCKS": "0", **names}


def tree(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(Path(folder).rglob("*"))
    }


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.long)])
def test_safe_commands_change_no_file(place, every):
    work = place / "work"
    commands = [line for line in lines("safe_commands.txt") if not _LEFT_OUT.search(line)]
    assert len(commands) > 400
    commands = commands[::every]
    before = tree(work)
    for start in range(0, len(commands), 25):
        batch = commands[start : start + 25]
        for command in batch:
            assert decide(command, work) == "allow", command
            subprocess.run(
                ["bash", "--noprofile", "--norc", "-c", "--", command],
                cwd=work,
                env=environment(place),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=20,
                check=False,
            )
        assert tree(work) == before, batch
