"""What the engine makes of an app-server that misbehaves, in every way that one can."""

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

FAKE = Path(__file__).with_name("fake_codex.py")
NOWHERE = "http://127.0.0.1:1/v1"  # a fault needs no model
ASKS = {"enforcement": "approval"}  # the fault is not that it runs what nobody was asked about

NEVER_BEGAN = [
    Misbehaviour(
        fault="never_greets", error="did not answer initialize within 20 s", turns=0, wait=20
    ),
    Misbehaviour(
        fault="never_opens_a_thread",
        error="did not answer thread/start within 120 s",
        turns=0,
        wait=120,
    ),
    Misbehaviour(fault="opens_nonsense", error="without the id of the thread", turns=0),
]
NEVER_STARTS = Misbehaviour(
    fault="never_starts_a_turn",
    error="did not answer turn/start within 60 s",
    wait=60,
    engine={"idle_timeout_seconds": 120, "retry_attempts": 0},
)
UNASKED = Misbehaviour(
    fault="a_command_never_ends", error="commandExecution that nobody had been asked about"
)
STARTS_NONSENSE = Misbehaviour(fault="starts_nonsense", error="without the id of the turn")


@pytest.mark.requirement("E27", "E28")
class TestMisbehaviour(MisbehaviourContract):
    spec = next(iter(prsm_providers()))
    fake = fake_command(FAKE)
    version = "codex-cli 0.169.0"
    differs: ClassVar = {
        "a_command_never_ends": {"settings": ASKS},
        "says_all_twice": {"settings": ASKS},
        "says_it_in_disorder": {"settings": ASKS},
        "echoes_secrets": {"settings": ASKS, "error": r"^no access with \[redacted\]$"},
        "busy_for_ever": {"error": "last status: 429"},
        "no_access": {"error": "401 bad key"},
        "no_room": {"error": "ran out of room"},
    }
    own_variables = ("CODEX_HOME", "TMPDIR")

    def settings(self, command):
        return {"command": list(command), "base_url": NOWHERE}

    @each(NEVER_BEGAN)
    async def test_a_server_that_answers_nothing_or_nonsense_fails_its_agent(self, tmp_path, row):
        await self.play(tmp_path, row)

    async def test_a_server_that_never_starts_a_turn_is_given_up(self, tmp_path):
        await self.play(tmp_path, NEVER_STARTS)

    async def test_a_server_that_starts_nonsense_is_not_tried_again(self, tmp_path):
        await self.play(tmp_path, STARTS_NONSENSE)

    async def test_a_server_that_runs_what_nobody_was_asked_about_is_not_tried_again(
        self, tmp_path
    ):
        await self.play(tmp_path, UNASKED, settings=self.asking_nobody(tmp_path))

    def asking_nobody(self, folder):
        return self.settings(self.command(folder, UNASKED.fault))

    async def test_a_server_that_ends_later_than_its_close_may_take_leaves_no_socket(
        self, tmp_path
    ):
        """Its grace before a kill is 2 s, and the whole close has half a second."""
        await self.play(tmp_path, Misbehaviour(fault="ignores_term", rush=20))

    async def test_a_server_that_dies_under_two_agents_takes_neither_with_it(self, tmp_path):
        row = Misbehaviour(fault="dies_under_two", tries=2, rush=5)
        prompts = {"mate": "Wait.", "odd": "Go on. [[dies]]"}
        outcome = await self.play(tmp_path, row, prompts=prompts)
        summaries = {name: result.summary for name, result in outcome.results.items()}
        assert summaries == {"mate": "all is well", "odd": "all is well"}
