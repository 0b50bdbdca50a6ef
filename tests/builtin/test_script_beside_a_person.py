"""What a person writes beside the calls of the script provider is of no agent."""

from __future__ import annotations

import shutil

import pytest

from tests.live.test_persons_files import ASKED, FIRST, SECOND, write_beside
from tests.live.test_same_verdict import CALL_DONE, workspace

__all__ = ["workspace"]  # a fixture

EDIT = {"path": "kept", "old": "text", "new": "patched"}
STEPS = [{"shell": FIRST}, {"edit": EDIT}, {"shell": ASKED}, {"shell": SECOND}]


@pytest.mark.requirement("U27")
@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
async def test_what_a_person_writes_between_calls_and_while_one_waits_is_of_no_agent(workspace):
    lanes = {"worker": {"steps": [*STEPS, {"call": CALL_DONE}]}}
    await write_beside(workspace, {"kind": "script", "scenario": {"lanes": lanes}}, "default")
