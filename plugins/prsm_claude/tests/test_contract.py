"""The contract of providers, met by Claude: the real program, and the small one of these tests."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import ClassVar

import pytest
from prsm_claude.provider import build
from prsm_testing.model_server import ModelServer
from prsm_testing.provider_contract import HarmlessContract, Stage

from plugins.prsm_claude.tests.conftest import FAKE

OPTIONS = [{"label": label, "description": label} for label in "AB"]
QUESTION = {"header": "Pick", "question": "A or B?", "options": OPTIONS, "multiSelect": False}
STEP = {"call": {"tool": "AskUserQuestion", "arguments": {"questions": [QUESTION]}}}


class ClaudeContract(HarmlessContract):
    command: ClassVar[list[str]] = FAKE
    env: ClassVar[dict[str, str]] = {}
    question_step = STEP
    answers_after_kills = False  # Claude Code itself says of such a call that its end is unknown

    @pytest.fixture(autouse=True)
    def _home(self, tmp_path):
        # The CLI sources the profile of the user's shell before every command.
        type(self).env = {"HOME": str(tmp_path)}

    def build(self, settings, services):
        return build(settings, services)

    @asynccontextmanager
    async def play(self, scenario):
        async with ModelServer(scenario) as server:
            settings = {"command": self.command, "base_url": server.root_url, "env": self.env}
            yield Stage(model=server, settings=settings)


@pytest.mark.requirement("E14")
class TestFakeClaude(ClaudeContract):
    pass


@pytest.mark.live
class TestRealClaude(ClaudeContract):
    outlives_early_kills = False  # Claude Code keeps a conversation somewhat later than it begins

    @pytest.fixture(autouse=True)
    def _real(self, binary):
        type(self).command = [binary]
