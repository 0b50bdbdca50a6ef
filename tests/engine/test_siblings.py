"""What siblings are told alike comes first, in one order, so that a vendor's cache serves them."""

from __future__ import annotations

import pytest
from prsm_testing.doubles import session_request

from prsm_core.config.paths import SkillPlaces
from prsm_core.domain.agents import OWN_PART, AgentRole, add_shared
from prsm_core.engine.spawn import choose_servers
from prsm_core.engine.tools.table import TOOLS
from tests.engine.harness import team_settings
from tests.engine.test_skills import put

EXPERTS = {"sql": {"description": "Knows the schema.", "system_prompt": "You know SQL."}}


@pytest.fixture
def places(tmp_path):
    for name in ("home", "workspace"):
        (tmp_path / name).mkdir()
    home, workspace = str(tmp_path / "home"), str(tmp_path / "workspace")
    put(workspace, ".agents/skills", "pdf")
    return SkillPlaces(workspace=workspace, home=home, trusted=True)


async def test_siblings_are_told_alike_up_to_name_region_and_team(opened, places, tmp_path):
    for name in ("api", "ui"):
        (tmp_path / "workspace" / name).mkdir()
    tools = []

    async def child(agent):
        tools.append([tool.name for tool in agent.host.tools])
        await agent.complete()

    async def master(agent):
        await agent.spawn(name="a", region=["api"])
        await agent.spawn(name="b", region=["ui"], model="script/other")
        await agent.collect(2)
        await agent.complete()

    async with opened(skills=places, settings={"experts": EXPERTS}) as team:
        await team.run(master=master, a=child, b=child)
        prompts = [team.provider.requests[name][0].system_prompt for name in "ab"]
    [first, second] = (prompt.rpartition(OWN_PART) for prompt in prompts)
    assert first[0] == second[0]
    assert "- sql: Knows the schema." in first[0]
    assert '- "pdf": ' in first[0]
    assert first[2].startswith("a.\nYou write only below")
    assert "spawn_child's model" in first[2]
    assert tools[0] == tools[1] == [t.spec.name for t in TOOLS if t.spec.name in tools[0]]


def test_the_servers_of_an_agent_are_in_one_order_whoever_names_them():
    servers = {name: {"command": "true"} for name in ("b", "c")}
    settings = team_settings(None, {"mcp_servers": servers})
    given = settings.mcp_servers["b"].to_server()
    chosen = choose_servers(settings, prompt="x", role=AgentRole.WORKER, explicit={"a": given})
    assert list(chosen) == ["a", "b", "c"]


def test_what_is_added_for_all_stands_before_what_is_the_agents_own():
    prompt = f"You work.{OWN_PART}w1.\nThe team.\n\nYou have a worktree."
    added = add_shared(add_shared(prompt, "Notes."), "More.")
    assert added == f"You work.\n\nNotes.\n\nMore.{OWN_PART}w1.\nThe team.\n\nYou have a worktree."
    assert add_shared("A prompt of one's own.", "Notes.") == "A prompt of one's own.\n\nNotes."
    request = session_request("/work", system_prompt=prompt)
    assert request.prompt_with("Notes.") == add_shared(prompt, "Notes.")
