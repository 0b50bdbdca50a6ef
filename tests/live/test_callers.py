"""The shells of real programs write no rule of the person's, in bypass mode too."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import pytest
from prsm_testing.model_server import ModelServer

from tests.live.test_same_verdict import CALL_DONE, SECTIONS, WORKER, master_of, program

pytestmark = [pytest.mark.live, pytest.mark.requirement("D9")]

DEADLINE_S = 240  # for two commands of a vendor's shell, on a busy machine
OWN = {"deny": ["git push"]}
ADD = f"#!/bin/sh\nexec {sys.executable} -m prsm_core policy add allow rm -rf x\n"
# Of what the script does their texts tell nothing.
COMMANDS = ["./ask > plain 2>&1", "env -u PRSM_ENGINE setsid -w ./ask > hidden 2>&1"]


@pytest.fixture
def person(bare_prsm):
    """A `prsm` that goes by the folders of its user, as the shells of agents do."""
    kept = {n: t for n, t in bare_prsm.env.items() if not n.startswith(("PRSM_HOME", "XDG_"))}
    bare_prsm.env = {**kept, "HOME": str(bare_prsm.home)}
    return bare_prsm


@pytest.mark.parametrize("name", ["codex", "claude"])
async def test_a_shell_of_a_vendor_adds_no_rule(person, name):
    section: dict[str, Any] = {"kind": "claude"}
    if name == "claude":
        pytest.importorskip("claude_agent_sdk", reason="claude-agent-sdk is not installed")
    else:
        variable, arguments, vendor = SECTIONS[name]
        section = {**vendor, "command": [program(variable), *arguments]}
    rules = person.home / ".config" / "prsm" / "policy.yaml"
    rules.parent.mkdir(parents=True)
    rules.write_text(json.dumps(OWN))
    script = person.workspace / "ask"
    script.write_text(ADD)
    script.chmod(0o755)
    steps = [*({"shell": text} for text in COMMANDS), {"call": CALL_DONE}, {"hang": True}]
    lanes = {"worker": {"marker": "", "steps": steps}}
    async with asyncio.timeout(DEADLINE_S), ModelServer({"lanes": lanes}) as server:
        url = server.base_url if name == "codex" else server.root_url
        tried = {**section, "base_url": url, "api_key_env": "LIVE_TEST_KEY"}
        master = {"scenario": {"lanes": {"master": {"steps": master_of(WORKER)}}}}
        tried["models"] = ["scripted-1"]
        person.write(
            {
                "defaults": {"provider": "script"},
                "providers": {"script": master, "tried": tried},
            }
        )
        code, out, err = await person.run_async("run", "x", "--mode", "bypass", "--json")
        assert server.failures == []
    assert code == 0, (out, err)
    events = [json.loads(line) for line in out.splitlines()]
    assert not [event for event in events if event["type"] == "permission_requested"]
    for file in ("plain", "hidden"):
        said = (person.workspace / file).read_text()
        assert "policy add is for a person" in said, said
    assert json.loads(rules.read_text()) == OWN
    assert sorted(person.home.rglob("policy.y*ml")) == [rules]
