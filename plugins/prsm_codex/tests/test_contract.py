"""The contract of providers, met by Codex: the real program, and the small one of these tests."""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from prsm_codex.provider import build
from prsm_testing.doubles import RecordingHost, answers, only, run_turn
from prsm_testing.model_server import ModelServer
from prsm_testing.provider_contract import HarmlessContract, Stage
from prsm_testing.provider_scene import call

from plugins.prsm_codex.tests.bridged import PlainOutputs, build_bridged, namespaced
from plugins.prsm_codex.tests.few_points import KilledAtFewPoints
from prsm_core.domain.turns import ToolCallStarted

FAKE = [sys.executable, "-I", "-S", str(Path(__file__).with_name("fake_codex.py"))]
OPTIONS = [{"label": label, "description": label} for label in "AB"]
QUESTION = {"id": "q1", "header": "Pick", "question": "A or B?", "options": OPTIONS}


STEP = {"call": {"tool": "request_user_input", "arguments": {"questions": [QUESTION]}}}


class CodexContract(HarmlessContract):
    command: ClassVar[list[str]] = FAKE
    question_step: ClassVar[Any] = STEP

    def build(self, settings, services):
        return build(settings, services)

    @asynccontextmanager
    async def play(self, scenario):
        async with ModelServer(scenario) as server:
            settings = {"command": self.command, "base_url": server.base_url}
            yield Stage(model=server, settings=settings)


@pytest.mark.requirement("E14")
class TestFakeCodex(KilledAtFewPoints, CodexContract):
    """The real one is killed at all points."""


class TestFakeCodexThatAsks(KilledAtFewPoints, CodexContract):
    """Without the tool hook, by Codex's own requests for approval."""

    def build(self, settings, services):
        return build({**settings, "enforcement": "approval"}, services)


@pytest.mark.live
class TestRealCodexThatAsks(TestFakeCodexThatAsks):
    @pytest.fixture(autouse=True)
    def _real(self, binary):
        type(self).command = [binary]


@pytest.mark.live
class TestRealCodex(CodexContract):
    @pytest.fixture(autouse=True)
    def _real(self, binary):
        type(self).command = [binary]


class ExecContract(CodexContract):
    """`codex exec`: the tools come by MCP, and nothing is told but whole messages."""

    question_step = None
    tells_steps = False

    def build(self, settings, services):
        return build_bridged(settings, services)

    @asynccontextmanager
    async def play(self, scenario):
        async with super().play(namespaced(scenario)) as stage:
            yield replace(stage, model=PlainOutputs(stage.model))

    async def test_an_orchestration_call_reaches_the_host_and_its_answer_the_model(
        self, open_scene
    ):
        """As the contract has it, but MCP knows no id of the model's for a call."""
        host = RecordingHost(note=answers("it was noted"))
        async with (
            open_scene({"call": call("note", "n", text="x y")}, {"say": "done"}) as scene,
            scene.session(host) as session,
        ):
            events = await run_turn(session, "Note it.")
            assert scene.outputs("n") == ["it was noted"]
        (asked,) = host.calls
        assert (asked.name, asked.arguments) == ("note", {"text": "x y"})
        assert only(ToolCallStarted, events) == []


@pytest.mark.live
class TestRealExec(ExecContract):
    # It tells the tokens of a turn at its end alone, so it is not stopped before: see ADR 167.
    ends_unasked = False

    @pytest.fixture(autouse=True)
    def _real(self, binary):
        type(self).command = [binary]
