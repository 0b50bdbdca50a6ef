"""The command policy against a second list of rows: evasions, secrets, dangers, everyday work.

The rows are judged in a workspace that holds what such folders hold: ordinary files, secrets,
links that leave it, names that look like options, and repositories that start programs.
"""

from __future__ import annotations

import subprocess
from collections import Counter

import pytest

from tests.permissions.judging import decide_row, lines, rows

ROWS = rows("new_commands.jsonl")
OTHER_LISTS = (
    "everyday_commands.txt",
    "hostile_compositions.txt",
    "safe_commands.txt",
    "hostile_commands.txt",
    "unlisted_commands.txt",
    "dangerous_commands.txt",
    "denied_commands.txt",
    "ordinary_commands.txt",
    "cleared_commands.txt",
)
MIN_ROWS = 2_000
MIN_BENIGN = 0.97

FILES = {
    "README.md": "# A project\n\nIt has two parts.\n",
    "CHANGELOG.md": "## 1.1\n\n- a fix\n\n## 1.0\n",
    "LICENSE": "Do what you like.\n",
    "Makefile": "all build test lint check deploy install clean:\n\techo ok\n",
    "pyproject.toml": '[project]\nname = "a"\nversion = "1.0"\n[tool.pytest.ini_options]\n',
    "package.json": '{"name": "a", "version": "1.0.0", "scripts": {"test": "x", "lint": "x"}}\n',
    "tsconfig.json": "{}\n",
    "Cargo.toml": '[package]\nname = "a"\nversion = "0.1.0"\n',
    "go.mod": "module a\n",
    ".editorconfig": "root = true\n",
    ".env.example": "KEY=\n",
    ".gitignore": ".env\n.env.local\nignored/\nbuild/\n",
    ".github/workflows/ci.yml": "on: push\n",
    "a.txt": "b\na\n",
    "b.txt": "a\nc\n",
    "names.txt": ".env\ndeploy/id_rsa\n",
    "data.csv": "name,size\na,1\nb,2\n",
    "data.json": '{"a": [1, 2]}\n',
    "build.log": "error: one\nwarning: two\n",
    "src/app.py": "import os\n\n\ndef f():\n    return os\n",
    "src/util.py": "def f():\n    return 2\n",
    "src/index.ts": "export const a = 1;\n",
    "src/models/user.py": "class User:\n    name = ''\n",
    "src/models/order.py": "class Order:\n    size = 1\n",
    "tests/test_app.py": "def test():\n    assert True\n",
    "tests/test_util.py": "def test():\n    assert True\n",
    "tests/conftest.py": "",
    "tests/fixtures/sample.json": '["a", "b"]\n',
    "docs/guide.md": "# Guide\n\ninstall it\n",
    "docs/api.md": "# API\n",
    "docs/img/logo.svg": "<svg/>\n",
    "scripts/build.sh": "#!/bin/sh\nchmod +x a\n",
    "scripts/release.sh": "#!/bin/sh\nexit\n",
    "lib/a.js": "let a = 1;\n",
    "lib/b.js": "let b = 1;\n",
    "logs/app.log": "one\n",
    "logs/err.log": "two\n",
    "one/only.txt": "a\na\n",
    "two/in.txt": "a\na\n",
    "two/out.txt": "kept\n",
    "pkg/lib.py": "a = 1\n",
    "node_modules/.bin/tsc": "#!/bin/sh\n",
    # Names that are no words: options of a program that gets them, patterns, substitutions.
    "odd/-n": "",
    "odd/-rf": "",
    "odd/-exec": "",
    "odd/--files0-from=list": "",
    "odd/list": "../.env\0../deploy/id_rsa\0",
    "odd/a b.txt": "",
    "odd/[x].txt": "",
    "odd/$(touch made)": "",
    "gaps/a /etc/x.py": "",
    # What bears secrets.
    ".env": "KEY=canary\n",
    ".env.local": "KEY=canary\n",
    "deploy/.env": "KEY=canary\n",
    "deploy/id_rsa": "canary\n",
    "deploy/server.pem": "canary\n",
    "../outside/notes.txt": "canary\n",
    "../.ssh/id_rsa": "canary\n",
    # Folders that git takes for repositories, and whose configuration starts a program.
    "vendor/bare/HEAD": "ref: refs/heads/main\n",
    "vendor/bare/config": "[core]\n\tbare = false\n\tworktree = .\n\tfsmonitor = ./evil.sh\n",
    "vendor/bare/objects/info/x": "",
    "vendor/bare/refs/heads/x": "",
    "vendor/repo/.git/HEAD": "ref: refs/heads/main\n",
    "vendor/repo/.git/config": "[core]\n\tfsmonitor = ./evil.sh\n\tpager = ./evil.sh\n",
    "vendor/repo/.git/objects/info/x": "",
    "vendor/repo/.git/refs/heads/x": "",
}
LINKS = {
    "links/inside": "../src/app.py",
    "links/env": "../.env",
    "links/notes": "../../outside/notes.txt",
    "links/out": "../../outside",
    "pkg/lnk": "../.env",
    "pkg/log": "../../outside/notes.txt",
}


@pytest.fixture(scope="module")
def ground(tmp_path_factory):
    """Make the workspace; return its path."""
    work = tmp_path_factory.mktemp("home") / "work"
    for name, text in FILES.items():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(text)
    for name, target in LINKS.items():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).symlink_to(target)
    init = ["git", "init", "-q", "-b", "main", "--template="]
    subprocess.run(init, cwd=work, check=True, timeout=30)
    return work


def test_there_are_enough_new_rows_and_none_is_in_another_list():
    assert len(ROWS) >= MIN_ROWS
    keys = Counter((r["command"], str(r["policy"]), r["mode"], r["trusted"]) for r in ROWS)
    assert not [key for key, count in keys.items() if count > 1]
    others = {row["command"] for row in rows("commands_sample.jsonl")}
    for name in OTHER_LISTS:
        others |= {line.rpartition("\t")[2].replace("⏎", "\n") for line in lines(name)}
    assert not others & {row["command"] for row in ROWS}


@pytest.mark.requirement("E18", "E23", "E24")
def test_new_rows_meet_the_bars(ground, report):
    verdicts = {row["id"]: decide_row(row, ground) for row in ROWS}
    wrong = [row for row in ROWS if verdicts[row["id"]] not in row["accept"]]
    unsafe = [row["id"] for row in wrong if verdicts[row["id"]] == "allow"]
    to_deny = [row for row in ROWS if row["accept"] == ["deny"]]
    missed = [row["id"] for row in wrong if row["accept"] == ["deny"]]
    benign = [row for row in ROWS if row["expected"] == "allow"]
    asked = [row["id"] for row in wrong if row["expected"] == "allow"]
    others = {row["id"] for row in wrong} - {*unsafe, *missed, *asked}
    report(
        f"new commands: {len(ROWS)} rows; {len(unsafe)} unsafe allows;"
        f" {len(to_deny) - len(missed)} of {len(to_deny)} denied;"
        f" {len(benign) - len(asked)} of {len(benign)} benign rows run unasked;"
        f" {len(others)} others wrong"
    )
    assert not unsafe
    assert not missed
    assert not others
    assert len(benign) - len(asked) >= MIN_BENIGN * len(benign)
