"""Protected and secret paths, however they are written."""

from __future__ import annotations

import pytest

from prsm_core.permissions.paths import why_not_read, why_not_write


@pytest.mark.parametrize(
    "path",
    [
        ".git/config",
        "sub/.git/hooks/pre-commit",
        ".GIT/config",
        ".prism/config.yaml",
        ".claude/settings.json",
        ".codex",
        ".mcp.json",
        "x/../.mcp.json",
        ".bashrc",
        ".env",
        "deploy/.env.production",
        "id_ed25519",
        "certs/server.key",
        "../outside.txt",
        "/etc/passwd",
        "~/notes",
        "src/../../outside",
        "link/inside",
        "a\0b",
    ],
)
def test_a_protected_secret_or_outside_path_is_not_written_without_asking(tmp_path, path):
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "link").symlink_to(tmp_path)
    assert why_not_write(path, ".", str(workspace)) is not None


@pytest.mark.parametrize(
    "path",
    ["a.py", "./src/new/file.txt", ".gitignore", ".env.example", "src/../a.py", "digital.py"],
)
def test_an_ordinary_path_is_written(tmp_path, path):
    assert why_not_write(path, ".", str(tmp_path)) is None
    assert why_not_write(str(tmp_path / path), str(tmp_path), str(tmp_path)) is None


def test_a_link_to_a_protected_file_is_protected(tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / "innocent").symlink_to(tmp_path / ".git" / "config")
    assert why_not_write("innocent", ".", str(tmp_path)) == ".git is protected"


def test_where_the_workspace_itself_lies_does_not_count(tmp_path):
    workspace = tmp_path / ".claude" / "worktrees" / "one"
    workspace.mkdir(parents=True)
    assert why_not_write("a.py", ".", str(workspace)) is None
    assert why_not_write(".claude/x", ".", str(workspace)) == ".claude is protected"


def test_an_agent_whose_folder_is_protected_may_not_write_in_it(tmp_path):
    (tmp_path / ".git" / "hooks").mkdir(parents=True)
    assert why_not_write("pre-commit", ".git/hooks", str(tmp_path)) == ".git is protected"


def test_an_agent_writes_in_its_own_folder_only(tmp_path):
    (tmp_path / "ui").mkdir()
    assert why_not_write("a.js", "ui", str(tmp_path)) is None
    assert why_not_write("../api/a.py", "ui", str(tmp_path)) is not None


@pytest.mark.parametrize(
    ("path", "is_secret"),
    [
        ("README.md", False),
        (".git/config", False),
        ("/etc/hosts", False),
        ("src/credentials.py", False),
        (".env", True),
        ("/root/.ssh/id_rsa", True),
        ("/proc/self/environ", True),
        ("config/credentials.json", True),
        ("/home/x/.config/gh/hosts.yml", True),
        ("/home/x/.config/prsm/config.yaml", True),
        ("/home/x/.local/state/prsm/runs/01J.lock", True),
        ("/home/x/.local/share/prsm/ledgers/x/ledger.db", True),
        ("/srv/prsm-home/state/runs/01J.key", True),
        ("docs/prsm/runs/01J.lock", False),
    ],
)
def test_secrets_are_not_read_without_asking(tmp_path, path, is_secret):
    assert (why_not_read(path, ".", str(tmp_path)) is not None) == is_secret
