"""The master knows its team: three vendors' real programs, and no model configured."""

from __future__ import annotations

import importlib.util
import json
import re

import pytest
from prsm_testing.model_server import ModelServer

pytestmark = pytest.mark.live

VENDORS = ("claude", "codex", "gemini")
KEY = {"api_key_env": "LIVE_TEST_KEY"}
HEAD = "For spawn_child's model, usable now:"


def leading() -> dict:
    """Return a master that gives one child to each vendor, by the vendor's name alone."""
    children = [
        {"prompt": f"[[lane:{vendor}]] Say who you are.", "model": vendor, "name": f"of-{vendor}"}
        for vendor in VENDORS
    ]
    steps = [
        {
            "call": {
                "id": "best",
                "tool": "recommend_model",
                "arguments": {"task_description": "Say who you are."},
            }
        },
        {
            "expect": [f"{vendor}/default" for vendor in VENDORS],
            "call": {"tool": "spawn_children_parallel", "arguments": {"children": children}},
        },
        {"call": {"tool": "wait_for_message", "arguments": {"all": True}}},
        {"call": {"tool": "task_complete", "arguments": {"summary": "one of each"}}},
        {"say": "done"},
    ]
    finish = {"call": {"tool": "task_complete", "arguments": {"summary": "here"}}}
    return {
        "lanes": {
            "master": {"marker": "One child of each vendor", "steps": steps},
            **{vendor: {"steps": [finish, {"say": "done"}]} for vendor in VENDORS},
        }
    }


def members(request) -> set[str]:
    """Return all providers that a request names as ones that children may have."""
    teams = re.findall(re.escape(HEAD) + r"((?:\\+n- \w+: [^\"\\]+)+)", json.dumps(request.body))
    return {name for team in teams for name in re.findall(r"- (\w+): ", team)}


def sections(prsm, gemini, server) -> dict:
    return {
        "claude": {"base_url": server.root_url, **KEY},
        "codex": {"command": [prsm.codex], "base_url": server.base_url, **KEY},
        "gemini": {"command": [gemini], "base_url": server.root_url, **KEY},
    }


@pytest.mark.requirement("E61", "E64")
@pytest.mark.parametrize("vendor", VENDORS)
async def test_a_master_of_each_vendor_is_told_its_team_and_gives_each_a_child(
    prsm, gemini, vendor
):
    if importlib.util.find_spec("claude_agent_sdk") is None:
        pytest.skip("claude-agent-sdk is not installed")
    async with ModelServer(leading()) as server:
        prsm.write({"providers": sections(prsm, gemini, server)})
        argv = ("run", "--json", "--provider", vendor, "One child of each vendor")
        code, out, err = await prsm.run_async(*argv)
        events = [json.loads(line) for line in out.splitlines()]
        assert code == 0, (events[-1:], err)
        assert server.failures == []
        first, second, *_ = (r for r in server.requests if r.lane == "master")
    assert members(first) == {vendor}, "no other one was looked at"
    assert members(second) == set(VENDORS), "the first answer tells of them"
    spawned = {
        e["name"]: (e["provider"], e["model"]) for e in events if e["type"] == "agent_spawned"
    }
    assert spawned == {
        "master": (vendor, "default"),
        **{f"of-{name}": (name, "default") for name in VENDORS},
    }
    await prsm.until_gone()
    assert prsm.processes() == []


@pytest.mark.requirement("E64")
async def test_a_model_that_a_real_program_does_not_list_ends_the_run_before_it_begins(
    prsm, gemini
):
    """Gemini's program lists its models wherever its server is; no model is asked for anything."""
    async with ModelServer(leading()) as server:
        prsm.write({"providers": sections(prsm, gemini, server)})
        argv = ("run", "--json", "--provider", "gemini", "--model", "gemini-2.5-prp", "Build it")
        code, out, err = await prsm.run_async(*argv)
        assert (code, out) == (2, ""), err
        assert "gemini-2.5-pro" in err
        assert "prsm models list" in err
        assert server.requests == []
