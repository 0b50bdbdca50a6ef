"""What the distribution contributes, held against the contracts of its kinds."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import ClassVar

import pytest
from prsm_protocols.places import PAGES
from prsm_protocols.plugin import prsm_permission_checks, prsm_tools
from prsm_testing import PermissionCheckContract, ToolContract

from plugins.prsm_protocols.tests.conftest import IDLE, INBOX

TOOLS = {spec.name: spec for spec in prsm_tools()}


class TestProtocolStates(PermissionCheckContract):
    (spec,) = prsm_permission_checks()

    async def test_who_has_no_protocol_is_let_alone(self):
        assert await self.ask("rm -rf build") is None


class OfProtocols(ToolContract):
    """Calls in a trusted workspace with two pages."""

    labels: ClassVar[dict[str, str]] = {"protocol": "inbox"}

    @pytest.fixture(autouse=True)
    def _pages(self, tmp_path, monkeypatch):
        monkeypatch.setenv("PRSM_HOME", str(tmp_path / "home"))
        self.workspace = tmp_path / "work"
        (self.workspace / PAGES).mkdir(parents=True)
        for name, text in (("inbox", INBOX), ("idle", IDLE)):
            (self.workspace / PAGES / f"{name}.md").write_text(text)

    def call(self, args, **fields):
        return super().call(args, workspace=str(self.workspace), trusted=True, **fields)

    async def test_where_nothing_is_trusted_it_says_so(self):
        call = super().call(self.samples[0], workspace=str(self.workspace))
        with pytest.raises(Exception, match="not trusted"):
            await self.answer(call)


class TestStateTransition(OfProtocols):
    spec = TOOLS["state_transition"]
    samples = ({"to": "deep_work"}, {}, {"to": "gone", "context": {"a": [1]}}, {"to": ""})

    async def test_it_moves_its_agent(self):
        call = self.call({"to": "deep_work"}, agent_id="a", now=100.0)
        assert (await self.answer(call))["state"] == "deep_work"
        assert call.changes.keys() == {
            "protocols/agent", "protocols/protocol", "protocols/since", "protocols/state",
        }  # fmt: skip


class TestMessageSend(OfProtocols):
    spec = TOOLS["message_send"]
    samples = ({"to": "nobody", "text": "hello"},)


class TestMessageNext(OfProtocols):
    spec = TOOLS["message_next"]
    samples = ({}, {"seconds": 0}, {"seconds": None})


class TestMeasure(OfProtocols):
    spec = TOOLS["measure"]
    samples = ({"name": "steps"}, {"name": "x", "value": 1.5, "data": {"a": None}})


def test_the_plugin_imports_nothing_heavy():
    code = "import sys, prsm_protocols.plugin; sys.exit('markdown_it' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.requirement("F8")
def test_an_agent_under_a_protocol_pays_little_for_its_tools():
    told = [
        {"name": tool.name, "description": tool.spec.description, "schema": tool.spec.input_schema}
        for tool in TOOLS.values()
        if not tool.programs
    ]
    assert len(json.dumps(told, separators=(",", ":"))) < 1300
