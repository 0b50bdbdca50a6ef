"""What the engine makes of a headless Gemini that misbehaves, in every way that one can."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest
from prsm_gemini.plugin import prsm_providers
from prsm_testing.misbehaviour_contract import Misbehaviour, MisbehaviourContract, fake_command

from plugins.prsm_gemini.tests.fake_gemini import VERSION

FAKE = Path(__file__).with_name("fake_gemini.py")
LONG_PROMPT = "x" * 200_000  # more than a pipe holds
ONCE = {"tries": 1, "kind": "unknown"}  # only a signal's victim is started again
NO_RESULT = {"error": r"without a result \(exit code 0\)$", "kind": "unknown"}


@pytest.mark.requirement("E27", "E28")
class TestMisbehaviour(MisbehaviourContract):
    """Each turn is a process of its own: what one does at its start it does in a turn."""

    spec = next(iter(prsm_providers()))
    fake = fake_command(FAKE)
    version = VERSION
    differs: ClassVar = {
        "dies_at_start": {"error": r"exit code 1\): fatal: the key \[redacted\]", "turns": 1},
        "leaves_at_start": {**NO_RESULT, "turns": 1},
        "leaves_in_the_turn": {**NO_RESULT, **ONCE},
        "exits_3": {"error": r"exit code 3\): the disk is full$", **ONCE},
        "half_a_line": {"error": r"\(exit code 3\)$", **ONCE},
        "endless_line": ONCE,
        "long_line": ONCE,
        "asks_at_the_terminal": ONCE,
        "leaves_a_family": ONCE,
        "a_child_holds_the_pipe": ONCE,
        "terminal_tricks": {"error": r"exit code 5\): \[bold\]lost cause$", **ONCE},
        "closes_stdout": {"error": "it closed its output and went on"},
        "ignores_term": {"wait": 5},
        "busy_for_ever": {"error": "Resource has been exhausted"},
        "no_room": {"error": "exceeds the maximum number of tokens"},
    }
    key_variable = "GEMINI_API_KEY"
    own_variables = ("BASH_ENV", "COLORTERM", "GEMINI_CLI_HOME", "NO_COLOR", "TMPDIR")
    own_prefixes = ("GEMINI_",)

    def settings(self, command):
        return {"command": list(command), "backend": "headless", "api_key_env": "LOOPBACK_KEY"}

    async def test_a_prompt_that_nobody_reads_keeps_no_deadline_from_its_end(self, tmp_path):
        row = Misbehaviour(
            fault="hears_no_more",
            error="did not begin within 60 s",
            kind="timeout",
            wait=60,
            engine={"retry_attempts": 0},
        )
        await self.play(tmp_path, row, prompts={"odd": LONG_PROMPT})
