"""What the engine makes of a CLI that misbehaves, in every way that one can."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest
from prsm_claude.plugin import prsm_providers
from prsm_testing.misbehaviour_contract import (
    Misbehaviour,
    MisbehaviourContract,
    each,
    fake_command,
)

from plugins.prsm_claude.tests.faults import LIMIT_SECONDS

FAKE = Path(__file__).with_name("fake_claude.py")
NOWHERE = "http://127.0.0.1:1"  # a fault needs no model

NEVER_BEGAN = [
    Misbehaviour(fault="never_greets", error="did not answer within 60 s", turns=0, wait=60),
    Misbehaviour(fault="refuses_to_greet", error="did not start: no, thanks", turns=0),
    Misbehaviour(fault="is_too_old_to_guard", error="Update Claude Code", turns=0),
]
IGNORES_INTERRUPTS = Misbehaviour(
    fault="ignores_interrupts",
    error="silent for too long",
    wait=60,
    engine={"idle_timeout_seconds": 60, "retry_attempts": 0},
)
LIMIT_WAS_HIT = Misbehaviour(fault="limit_was_hit", tries=2, rush=50)


@pytest.mark.requirement("E12", "E27", "E28")
class TestMisbehaviour(MisbehaviourContract):
    spec = next(iter(prsm_providers()))
    fake = fake_command(FAKE)
    version = "2.1.330 (Claude Code)"
    differs: ClassVar = {
        "no_access": {"error": "401 bad key"},
        "no_room": {"error": "Prompt is too long"},
        "busy_for_ever": {"error": "429 slow down"},
        "echoes_secrets": {"error": r"^no access with \[redacted\]$"},
    }
    key_variable = "ANTHROPIC_API_KEY"
    own_variables = ("CLAUDE_CONFIG_DIR",)
    own_prefixes = ("ANTHROPIC_", "BASH_", "CLAUDE_", "DISABLE_", "ENABLE_", "MCP_")

    def settings(self, command):
        return {"command": list(command), "base_url": NOWHERE}

    @each(NEVER_BEGAN)
    async def test_a_cli_that_answers_nothing_or_nonsense_fails_its_agent(self, tmp_path, row):
        await self.play(tmp_path, row)

    async def test_a_cli_that_ignores_interrupts_is_ended(self, tmp_path):
        await self.play(tmp_path, IGNORES_INTERRUPTS)

    async def test_a_limit_that_tells_its_end_is_waited_for(self, tmp_path):
        outcome = await self.play(tmp_path, LIMIT_WAS_HIT)
        assert outcome.odd.summary == "all is well"
        (pause,) = outcome.retries
        assert LIMIT_SECONDS - 10 < pause < LIMIT_SECONDS + 10
