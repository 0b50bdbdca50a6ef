"""Agents are told of skills: which, when, by whom not, and what a session that goes on tells."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest
from prsm_testing.fake_clock import FakeClock

from prsm_core.config.paths import SkillPlaces
from prsm_core.engine.agents.skills import HEAD, skills_in
from prsm_core.interfaces.provider import ProviderCapabilities
from prsm_core.permissions import Redactor
from prsm_core.permissions.skills import Skill
from tests.engine.harness import SESSION, failed
from tests.engine.test_failover import Other

SECRET = "hunter2-hunter2"  # noqa: S105 - as a test has it


@pytest.fixture
def home(tmp_path):
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def workspace(tmp_path):
    (tmp_path / "workspace").mkdir()
    return tmp_path / "workspace"


@pytest.fixture
def places(home, workspace):
    """Return where skills are, of a workspace that is trusted."""
    return SkillPlaces(workspace=str(workspace), home=str(home), trusted=True)


def put(root, folder, name, description="Use it."):
    path = Path(root, folder, name, "SKILL.md")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"---\nname: {name}\ndescription: {description}\n---\n")
    return str(path)


def untrusted(places):
    return SkillPlaces(workspace=places.workspace, home=places.home, trusted=False)


def told(team, name="master"):
    """Return names and paths that a session was told, as in all contexts of its turns."""
    request = team.provider.requests[name][-1]
    prompts = {one.system_prompt for one in team.provider.contexts[name][-1:]}
    assert prompts <= {request.system_prompt}
    return {skill.name: skill.path for skill in skills_in(request.system_prompt)}


async def spawns(agent):
    await agent.call("spawn_child", prompt="work", name="w1")
    await agent.call("spawn_child", prompt="work", name="w2", tools=["Bash"])
    await agent.call("wait_for_message")
    await agent.complete()


async def waits(agent):
    await agent.use(input_tokens=1)
    await agent.hang()


@pytest.mark.requirement("N31")
async def test_all_agents_that_read_are_told_which_skills_there_are(opened, places):
    mine = put(places.home, ".claude/skills", "mail")
    ours = put(places.workspace, ".agents/skills", "pdf")
    async with opened(skills=places) as team:
        await team.run(master=spawns)
    assert told(team) == told(team, "w1") == {"mail": mine, "pdf": ours}
    assert told(team, "w2") == {}  # it has no tool to read them with
    kept = skills_in(team["w1"].descriptor.system_prompt)
    assert kept == (
        Skill("mail", "Use it.", "~/.claude/skills/mail/SKILL.md"),
        Skill("pdf", "Use it.", ".agents/skills/pdf/SKILL.md"),
    )


async def test_without_skills_and_without_places_nothing_is_told(opened, places):
    async with opened(skills=places) as team:
        await team.run(master=spawns)
    assert HEAD not in team.provider.requests["master"][0].system_prompt


@pytest.mark.requirement("N31")
async def test_a_vendor_that_tells_of_skills_itself_is_not_told_of_them(opened, places):
    own = put(places.home, ".claude/skills", "mail")
    put(places.workspace, ".agents/skills", "pdf")
    knows = ProviderCapabilities(enforcement="pre_tool", skills=frozenset({".agents/skills"}))
    async with opened(skills=places, capabilities=knows) as team:
        await team.run(master=spawns)
    assert told(team) == {"mail": own}
    assert len(skills_in(team["master"].descriptor.system_prompt)) == 2


@pytest.mark.requirement("N31")
async def test_who_takes_over_is_told_what_the_vendor_before_told_itself(opened, places):
    ours = put(places.workspace, ".agents/skills", "pdf")
    knows = ProviderCapabilities(enforcement="pre_tool", skills=frozenset({".agents/skills"}))
    team_of: list = []
    other = Other(lambda: team_of[0].provider)

    async def fails(agent):
        raise failed("broken")

    chain = {"defaults": {"provider": "script", "model": "first", "fallbacks": ["other/third"]}}
    fields = {"clock": FakeClock(), "settings": chain, "others": [other.named()]}
    async with opened(skills=places, capabilities=knows, **fields) as team:
        team_of.append(team)
        await team.run(master=fails)
    assert told(team) == {}
    (request,) = other.requests["master"]
    assert [skill.path for skill in skills_in(request.system_prompt)] == [ours]


@pytest.mark.requirement("N31")
async def test_an_agent_that_goes_on_is_told_of_the_skills_it_was_told_of(opened, places):
    mine = put(places.home, ".claude/skills", "mail")
    put(places.workspace, ".agents/skills", "pdf")
    async with opened(skills=places, check=False) as team:
        running = team.start("do it", master=waits)
        await team.seen("turn_started", "master")
        before = told(team)
        await team.engine.shutdown()
        await running
    put(places.home, ".claude/skills", "new")
    shutil.rmtree(Path(places.home, ".claude/skills/mail"))

    async def completes(agent):
        await agent.call("spawn_child", prompt="work", name="w1")
        await agent.call("wait_for_message")
        await agent.complete()

    async with opened(skills=places, check=False) as team:
        team.provider.behaviours.update(master=completes)
        async with asyncio.timeout(20):
            await team.engine.resume()
    assert told(team) == before
    assert before["mail"] == mine
    assert sorted(told(team, "w1")) == ["new", "pdf"]  # who is born now is told what there is now
    assert not [e for e in team.ledger.events("notice") if "skills" in e["text"]]


@pytest.mark.requirement("N31")
@pytest.mark.parametrize("is_off", [False, True])
async def test_what_holds_no_more_is_not_told_on_and_a_person_hears_why(opened, places, is_off):
    mine = put(places.home, ".claude/skills", "mail")
    put(places.workspace, ".agents/skills", "pdf")
    async with opened(skills=places, check=False) as team:
        running = team.start("do it", master=waits)
        await team.seen("turn_started", "master")
        await team.engine.shutdown()
        await running
    now = None if is_off else untrusted(places)
    async with opened(skills=now, check=False) as team:
        async with asyncio.timeout(20):
            await team.engine.resume()
    assert told(team) == ({} if is_off else {"mail": mine})
    (notice,) = [e["text"] for e in team.ledger.events("notice") if "skills" in e["text"]]
    why = "2 {}: context.skills is false" if is_off else "1 {}: the workspace is not trusted"
    assert notice == why.format("of the skills that agents were told of are told no more")


@pytest.mark.requirement("N31")
async def test_a_next_task_tells_its_master_once_what_has_changed(opened, places):
    put(places.home, ".claude/skills", "mail")
    async with opened(skills=places) as team:
        await team.run(master=lambda agent: agent.complete())
        new = put(places.workspace, ".claude/skills", "new")
        master = team["master"].agent_id
        await team.engine.run_continuation("second", master)
        await team.engine.run_continuation("third", master)
        shutil.rmtree(places.home)
        shutil.rmtree(Path(places.workspace, ".claude"))
        await team.engine.run_continuation("fourth", master)
    first, second, third, fourth = (
        one.current_message.content for one in team.provider.contexts["master"]
    )
    assert first == "do it"
    assert [s.name for s in skills_in(second)] == ["mail", "new"]
    assert skills_in(second)[1].path == new
    assert third == "third"
    assert "none any more" in fourth


@pytest.mark.requirement("N31")
async def test_a_secret_of_a_skill_is_neither_told_nor_kept(opened, places, tmp_path):
    put(places.home, ".claude/skills", "mail", f"Log in with {SECRET}.")
    put(places.home, ".claude/skills", SECRET)
    async with opened(skills=places, redactor=Redactor((SECRET,))) as team:
        await team.run(master=spawns)
    request = team.provider.requests["master"][0]
    assert list(told(team)) == ["mail"]
    assert SECRET not in request.system_prompt
    assert SECRET.encode() not in (tmp_path / "ledger.db").read_bytes()


async def test_a_copy_of_a_session_tells_the_same(opened, places):
    put(places.home, ".claude/skills", "mail")
    async with opened(skills=places) as team:
        await team.run(master=spawns)
        copy = await team.engine.fork()
        there, here = await team.store.state(copy), await team.store.state(SESSION)
    for now, was in zip(there.agents, here.agents, strict=True):
        assert skills_in(now.agent.system_prompt) == skills_in(was.agent.system_prompt)
