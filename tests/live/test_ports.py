"""An agent in a worktree finds the port of that worktree in the shell of each vendor's program."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from prsm_testing.model_server import ModelServer

from prsm_core.domain.agents import PermissionMode
from tests.live.test_same_verdict import DONE, WORKER, play, workspace
from tests.live.test_surroundings import VENDORS, section_of, steps_of

pytestmark = [
    pytest.mark.live,
    pytest.mark.requirement("U36"),
    pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed"),
]

__all__ = ["workspace"]  # a fixture

COMMANDS = (
    ("init", "-q"),
    ("add", "-A"),
    ("-c", "user.name=n", "-c", "user.email=e@x", "commit", "-qm", "first"),
)


@pytest.fixture
def repository(workspace):
    """The workspace, as a repository with a commit."""
    (workspace / "port.sh").write_text("printenv PRSM_PORT > port.txt\n")
    for command in COMMANDS:
        subprocess.run(["git", *command], cwd=workspace, check=True, capture_output=True)
    return workspace


@pytest.mark.parametrize("name", VENDORS)
async def test_a_worktree_has_a_port_in_the_shell_of_its_agent(repository, name):
    section = section_of(name)
    steps = steps_of(section, "sh port.sh")
    spawn = {"tool": "spawn_child", "arguments": {**WORKER, "worktree": True}}
    async with ModelServer({"lanes": {"worker": {"marker": "", "steps": steps}}}) as server:
        base = f"{server.root_url}/v1" if section["kind"] == "codex" else server.root_url
        await play(
            repository,
            {**section, "base_url": base, "api_key_env": "LIVE_TEST_KEY"},
            {"allow": ["sh port.sh"]},
            lanes={"master": {"steps": [{"call": spawn}, DONE]}},
            mode=PermissionMode.BYPASS,
        )
        assert server.failures == []
    assert 20_000 <= int((repository / "port.txt").read_text()) < 30_000
