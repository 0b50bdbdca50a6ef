"""What the engine makes of an agent that misbehaves, in every way that one can."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import pytest
from prsm_acp.config import AcpConfig
from prsm_acp.manifest import McpPlace
from prsm_acp.provider import AcpProvider
from prsm_testing.misbehaviour_contract import Misbehaviour, MisbehaviourContract, each

from plugins.prsm_acp.tests.fake_manifest import FAKE, MANIFEST
from prsm_core.interfaces.provider import ProviderSpec

NEVER_BEGAN = [
    Misbehaviour(
        fault="never_greets", error="did not answer initialize within 60 s", turns=0, wait=60
    ),
    Misbehaviour(
        fault="never_opens_a_session",
        error="did not answer session/new within 120 s",
        turns=0,
        wait=120,
    ),
    Misbehaviour(fault="opens_nonsense", error="opened a session without an id", turns=0),
    Misbehaviour(
        fault="wants_a_login", error="could not open a session: Authentication required", turns=0
    ),
    Misbehaviour(fault="speaks_another_version", error="speaks version 7 of ACP, not 1", turns=0),
    Misbehaviour(fault="keeps_its_mode", error="refused the mode 'ask': no such mode", turns=0),
]
LASTING = [
    Misbehaviour(fault="refuses_to_go_on", error="the model refused to go on"),
    Misbehaviour(fault="refuses_at_once", error="Internal error"),
    Misbehaviour(fault="ends_with_nonsense", error="unknown stop reason", said="said before"),
]
DEAF = Misbehaviour(
    fault="is_deaf_to_a_cancel",
    error="silent for too long",
    wait=60,
    engine={"idle_timeout_seconds": 60, "retry_attempts": 0},
)


def build_odd(settings, services):
    """Build the provider of the misbehaving agent, which takes no part in the tree."""
    manifest = replace(MANIFEST, mcp=McpPlace.NONE)
    return AcpProvider(AcpConfig.from_settings(settings), manifest, services)


@pytest.mark.requirement("E27", "E28")
class TestMisbehaviour(MisbehaviourContract):
    spec = ProviderSpec(name="odd", summary="", factory=build_odd)
    fake = FAKE
    version = "fake-acp 1.0.0"
    differs: ClassVar = {"busy_for_ever": {"error": "Rate limit"}}
    lacks: ClassVar = {
        "transient_error": "ACP tells nothing of what an agent tries again by itself"
    }

    def settings(self, command):
        return {"command": list(command)}

    @each(NEVER_BEGAN)
    async def test_an_agent_that_answers_nothing_or_nonsense_fails_without_a_retry(
        self, tmp_path, row
    ):
        await self.play(tmp_path, row)

    async def test_an_agent_that_is_deaf_to_a_cancel_is_ended(self, tmp_path):
        await self.play(tmp_path, DEAF)

    @each(LASTING)
    async def test_what_the_agent_itself_refuses_is_not_tried_again(self, tmp_path, row):
        await self.play(tmp_path, row)
