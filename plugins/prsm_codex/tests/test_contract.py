"""The contract of providers, met by Codex: the real program, and the small one of these tests."""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ClassVar

import pytest
from prsm_codex.provider import build

from prsm_core.testing.model_server import ModelServer
from prsm_core.testing.provider_contract import ProviderContract, Stage

FAKE = [sys.executable, "-I", "-S", str(Path(__file__).with_name("fake_codex.py"))]
OPTIONS = [{"label": label, "description": label} for label in "AB"]
QUESTION = {"id": "q1", "header": "Pick", "question": "A or B?", "options": OPTIONS}


STEP = {"call": {"tool": "request_user_input", "arguments": {"questions": [QUESTION]}}}


class CodexContract(ProviderContract):
    command: ClassVar[list[str]] = FAKE
    question_step = STEP

    def build(self, settings, services):
        return build(settings, services)

    @asynccontextmanager
    async def play(self, scenario):
        async with ModelServer(scenario) as server:
            settings = {"command": self.command, "base_url": server.base_url}
            yield Stage(model=server, settings=settings)


@pytest.mark.requirement("E14")
class TestFakeCodex(CodexContract):
    pass


@pytest.mark.live
class TestRealCodex(CodexContract):
    @pytest.fixture(autouse=True)
    def _real(self, binary):
        type(self).command = [binary]
