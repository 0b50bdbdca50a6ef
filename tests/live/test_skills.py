"""Real CLIs list skills of some folders themselves; PRSM tells their models of the others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from prsm_testing.model_server import ModelServer

from tests.live.real_clis import configuration, find_clis

pytestmark = pytest.mark.live

STEPS = [{"call": {"tool": "task_complete", "arguments": {"summary": "done"}}}]
SCENARIO = {"lanes": {"master": {"marker": "Which skills?", "steps": STEPS}}}
KINDS = ("agents", "claude", "codex", "gemini")


def put(root, place, kind):
    """Write a skill whose description nobody else has."""
    path = Path(root, f".{kind}/skills/{place}-{kind}/SKILL.md")
    path.parent.mkdir(parents=True)
    path.write_text(f"---\nname: {place}-{kind}\ndescription: told-{place}-{kind}.\n---\nDo so.\n")


async def times_told(prsm, provider, clis, *options):
    """Return how often the first request of a run tells of each skill."""
    home = prsm.home / "home"
    home.mkdir()
    prsm.env["HOME"] = str(home)
    for kind in KINDS:
        put(prsm.workspace, "workspace", kind)
        put(home, "home", kind)
    async with ModelServer(SCENARIO) as server:
        prsm.write(configuration(provider, clis, home, server))
        code, out, err = await prsm.run_async("run", *options, "Which skills?")
        assert (code, out) == (0, "done\n"), err
        first = next(one for one in server.requests if one.lane == "master")
    text = json.dumps(first.body)
    names = [f"{place}-{kind}" for place in ("home", "workspace") for kind in KINDS]
    return {name: text.count(f"told-{name}.") for name in names}


@pytest.mark.requirement("N31")
@pytest.mark.parametrize("provider", ["codex", "claude", "gemini", "gemini-headless", "acp"])
async def test_each_skill_is_told_once_whoever_tells_it(bare_prsm, provider):
    told = await times_told(bare_prsm, provider, find_clis(provider), "--trust")
    assert told == dict.fromkeys(told, 1)


@pytest.mark.parametrize("provider", ["codex", "claude"])
async def test_of_a_workspace_that_is_not_trusted_only_its_vendor_tells(bare_prsm, provider):
    told = await times_told(bare_prsm, provider, find_clis(provider))
    lists = {"codex": {"workspace-agents", "workspace-codex"}, "claude": set()}[provider]
    assert told == {name: int(name.startswith("home") or name in lists) for name in told}


async def test_without_skills_only_the_vendor_tells(bare_prsm):
    options = ("--trust", "--set", "context.skills=false")
    told = await times_told(bare_prsm, "codex", find_clis("codex"), *options)
    lists = {"home-agents", "workspace-agents", "workspace-codex"}
    assert told == {name: int(name in lists) for name in told}
