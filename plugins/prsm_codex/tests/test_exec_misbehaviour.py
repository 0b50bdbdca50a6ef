"""What the engine makes of a `codex exec` that misbehaves, in every way that one can."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest
from prsm_codex.plugin import prsm_providers
from prsm_testing.misbehaviour_contract import (
    Misbehaviour,
    MisbehaviourContract,
    each,
    fake_command,
)

FAKE = Path(__file__).with_name("exec_script.py")
LONG_PROMPT = "x" * 200_000  # more than a pipe holds
ONCE = {"tries": 1}  # what it did cannot be told, so only a signal's victim is started again
ENDURED = [
    Misbehaviour(fault="closes_its_input"),
    Misbehaviour(fault="lingers_after_its_result", wait=5),
]


@pytest.mark.requirement("E27", "E28")
class TestMisbehaviour(MisbehaviourContract):
    """Each turn is a process of its own: what one does at its start it does in a turn."""

    spec = next(iter(prsm_providers()))
    fake = fake_command(FAKE)
    version = "codex-cli 0.161.0"  # without the hook that asks
    differs: ClassVar = {
        "dies_at_start": {"error": r"exit code 1: fatal: the key \[redacted\]", "turns": 1},
        "leaves_at_start": {"error": r"without a result \(exit code 0\)$", "turns": 1},
        "leaves_in_the_turn": {"error": r"without a result \(exit code 0\)$", **ONCE},
        "exits_3": ONCE,
        "half_a_line": ONCE,
        "endless_line": ONCE,
        "long_line": ONCE,
        "asks_at_the_terminal": ONCE,
        "leaves_a_family": ONCE,
        "a_child_holds_the_pipe": ONCE,
        "terminal_tricks": ONCE,
        "ignores_term": {"wait": 5},
        "echoes_secrets": {"error": r"401: no access with \[redacted\]$"},
        "busy_for_ever": {"error": "last status: 429"},
        "no_access": {"error": "401 Unauthorized: bad key"},
        "no_room": {"error": "ran out of room"},
    }
    own_variables = ("CODEX_HOME", "TMPDIR")

    def settings(self, command):
        return {
            "command": list(command),
            "backend": "exec",
            "base_url": "http://127.0.0.1:1/v1",
        }

    @each(ENDURED)
    async def test_what_a_process_of_one_turn_can_do_is_endured(self, tmp_path, row):
        outcome = await self.play(tmp_path, row, prompts={"odd": LONG_PROMPT})
        assert outcome.odd.summary == "all is well"

    async def test_a_prompt_that_nobody_reads_keeps_no_deadline_from_its_end(self, tmp_path):
        row = Misbehaviour(
            fault="hears_no_more",
            error="silent for too long",
            wait=60,
            engine={"idle_timeout_seconds": 60, "retry_attempts": 0},
        )
        await self.play(tmp_path, row, prompts={"odd": LONG_PROMPT})

    async def test_an_exit_code_counts_more_than_a_completed_turn(self, tmp_path):
        row = Misbehaviour(fault="completes_but_exits_3", error="ended: exit code 3")
        outcome = await self.play(tmp_path, row)
        assert outcome.texts == ["all is well"]
