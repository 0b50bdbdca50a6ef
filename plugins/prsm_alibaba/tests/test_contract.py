"""The contract of providers, met by the preset over each of its backends."""

from __future__ import annotations

from typing import ClassVar

import pytest
from prsm_alibaba.provider import build

from plugins.prsm_codex.tests.few_points import KilledAtFewPoints
from plugins.prsm_codex.tests.vendor_contract import (
    SMALL_CODEX,
    VendorContract,
    as_master_and_worker,
    sends_plain_functions,
)

MODEL = "qwen3.7-max"


class AlibabaContract(VendorContract):
    def build(self, settings, services):
        return build(settings, services)


class TestFakeCodex(KilledAtFewPoints, AlibabaContract):
    backend: ClassVar = {"backend": "codex", "command": list(SMALL_CODEX)}

    @pytest.mark.requirement("E73")
    async def test_the_vendor_is_sent_plain_functions_its_model_and_its_key(self, open_scene):
        await sends_plain_functions(open_scene, MODEL)


@pytest.mark.live
class TestRealCodex(KilledAtFewPoints, AlibabaContract):
    @pytest.fixture(autouse=True)
    def _real(self, codex):
        type(self).backend = {"backend": "codex", "command": [codex]}

    @pytest.mark.requirement("E73")
    async def test_the_vendor_is_sent_plain_functions_its_model_and_its_key(self, open_scene):
        await sends_plain_functions(open_scene, MODEL)


@pytest.mark.live
class TestRealCodingPlan(KilledAtFewPoints, AlibabaContract):
    outlives_early_kills = False  # Claude Code keeps a conversation somewhat later than it begins

    speaks_responses = False
    answers_after_kills = False

    @pytest.fixture(autouse=True)
    def _real(self, claude, tmp_path):
        # The CLI sources the profile of the user's shell before every command.
        env = {"HOME": str(tmp_path)}
        type(self).backend = {"plan": "coding", "command": [claude], "env": env}


@pytest.mark.live
@pytest.mark.requirement("E73")
async def test_a_master_runs_on_claude_code_and_its_worker_on_codex(tmp_path, claude, codex):
    await as_master_and_worker(build, tmp_path, claude, codex, MODEL)
