"""A follow-up in another mode: the master and those it spawns from then on live on in it."""

from __future__ import annotations

import pytest

from prsm_core.domain.agents import PermissionMode, SpawnRequest
from prsm_core.domain.tools import READ_TOOLS
from prsm_core.domain.writes import ModeSwitched, TurnOpened
from prsm_core.engine.door.local import LocalApp
from prsm_core.engine.door.replay import Played
from prsm_core.errors import ProviderNotAvailableError, StoreError
from prsm_core.interfaces.frontend import RunOptions
from prsm_core.interfaces.provider import ProviderCapabilities
from tests.engine.deaths import DIED, die, dies_at, go_on
from tests.engine.harness import SESSION

pytestmark = pytest.mark.requirement("D3")

PLAN, DEFAULT, EDITS = PermissionMode.PLAN, PermissionMode.DEFAULT, PermissionMode.ACCEPT_EDITS
BYPASS, DELEGATE = PermissionMode.BYPASS, PermissionMode.DELEGATE


def door(team, **options):
    return LocalApp(team.engine, RunOptions(provider="script", **options), team.store, SESSION)


async def finish(run):
    result = await run.result()
    assert result.status == "completed", result


async def lead(agent):
    await agent.spawn("work", name="helper")
    await agent.collect()
    await agent.complete()


def changes(team):
    told = team.ledger.events("agent_mode_changed")
    return [(event["agent"], event["from"], event["to"]) for event in told]


def played_modes(log, rows):
    """Yield each mode that a replay tells of the master."""
    played, last = Played(rows), None
    for event in log:
        played.take(event)
        agents = played.picture().agents
        if agents and (mode := agents[0].descriptor.mode) is not last:
            yield (last := mode)


def modes_of(team, name):
    agent = team[name].descriptor
    return agent.mode, agent.grant.mode


async def test_the_master_and_new_children_live_on_in_the_mode_that_was_set(opened):
    async with opened() as team:
        app = door(team)
        team.provider.behaviours.update(master=lead)
        await finish(await app.runs.start("x", mode=EDITS))

        async def more(agent):
            assert agent.session.request.mode is PLAN
            await agent.spawn("work", name="other")
            await agent.collect()
            await agent.complete()

        await app.runs.set_mode(PLAN)
        team.provider.behaviours.update(master=more)
        await finish(await app.runs.follow_up("more"))
        assert changes(team) == [("master", "accept_edits", "plan")]
        assert modes_of(team, "master") == modes_of(team, "other") == (PLAN, PLAN)
        assert modes_of(team, "helper") == (EDITS, EDITS), "it has ended, and nobody wants it"
        view = await app.view()
        assert (view.mode, view.tree.agents[0].mode) == ("plan", "plan")
        log = [event async for event in team.store.events(SESSION)]
        rows = await team.store.agents(SESSION)
        assert [*played_modes(log, rows)] == ["bypass", "plan"]
        row = (await team.store.agents(SESSION))[0].descriptor
        assert (row.mode, row.grant.mode) == (PLAN, PLAN)
        del team.provider.behaviours["master"]
        await finish(await app.runs.follow_up("once more"))
        assert len(changes(team)) == 1, "the mode is the same"


async def test_a_child_that_begins_again_has_no_more_than_its_master(opened):
    async with opened() as team:
        app = door(team)
        team.provider.behaviours.update(master=lead)
        await finish(await app.runs.start("x", mode=EDITS))

        async def more(agent):
            await agent.call("restart_child", child_id="helper", prompt="again")
            await agent.collect()
            await agent.complete()

        team.provider.behaviours.update(master=more)
        await app.runs.set_mode(DEFAULT)
        await finish(await app.runs.follow_up("more"))
        assert modes_of(team, "helper") == (DEFAULT, DEFAULT)
        await app.runs.set_mode(BYPASS)
        await finish(await app.runs.follow_up("more"))
        assert modes_of(team, "helper") == (DEFAULT, DEFAULT), "nobody has given it more"
        assert changes(team) == [
            ("master", "accept_edits", "default"),
            ("helper", "accept_edits", "default"),
            ("master", "default", "bypass"),
        ]


@pytest.mark.parametrize("mode", [PLAN, DELEGATE, EDITS])
async def test_a_child_that_only_delegates_does_no_more_when_it_begins_again(opened, mode):
    async def first(agent):
        request = SpawnRequest(prompt="x", parent_id=agent.id, name="helper", mode=DELEGATE)
        await team.manager.spawn_agent(request)
        await agent.collect()
        await agent.complete()

    async def more(agent):
        await agent.call("restart_child", child_id="helper", prompt="again")
        await agent.collect()
        await agent.complete()

    async with opened() as team:
        app = door(team)
        team.provider.behaviours.update(master=first)
        await finish(await app.runs.start("x"))
        await app.runs.set_mode(mode)
        team.provider.behaviours.update(master=more)
        await finish(await app.runs.follow_up("more"))
        assert modes_of(team, "helper") == (DELEGATE, PLAN if mode is PLAN else DEFAULT)
        assert len(changes(team)) == 1


@pytest.mark.parametrize("dies_in_turn", [False, True])
async def test_a_mode_that_was_set_survives_a_crash(opened, dies_in_turn):
    async def more(agent):
        await die(team)

    async with opened(check=False) as team:
        app = door(team)
        await finish(await app.runs.start("x"))
        await app.runs.set_mode(PLAN)
        if dies_in_turn:
            team.provider.behaviours.update(master=more)
        else:
            dies_at(team, TurnOpened)
        with pytest.raises(StoreError, match=DIED):
            await (await app.runs.follow_up("more")).result()

    async def goes_on(agent):
        assert agent.session.request.mode is PLAN
        await agent.spawn("work", name="late")
        await agent.collect()
        await agent.complete()

    async with opened() as again:
        assert (await go_on(again, master=goes_on)).status == "completed"
        assert modes_of(again, "master") == modes_of(again, "late") == (PLAN, PLAN)
        assert [told[1:] for told in changes(again)] == [("default", "plan")]


async def test_a_follow_up_of_a_later_process_takes_the_mode_that_its_runs_have(opened):
    async with opened() as first:
        await finish(await door(first).runs.start("x", mode=EDITS))
    async with opened() as second:
        app = door(second)
        await finish(await app.runs.follow_up("more"))
        assert (modes_of(second, "master"), (await app.view()).mode) == (
            (BYPASS, DEFAULT),
            "default",
        )
    async with opened() as third:
        await finish(await door(third, mode=PLAN).runs.follow_up("more"))
        assert modes_of(third, "master") == (PLAN, PLAN)
    assert [told[1:] for told in changes(third)] == [
        ("accept_edits", "default"),
        ("default", "plan"),
    ]


async def test_a_master_that_works_itself_does_so_again_once_it_no_longer_delegates(opened):
    async with opened(engine={"master": "solo"}) as team:
        app = door(team)
        await finish(await app.runs.start("x"))
        for mode in (DELEGATE, EDITS, PLAN):
            await app.runs.set_mode(mode)
            await finish(await app.runs.follow_up("more"))
        asked = [(one.mode, one.native_tools) for one in team.provider.requests["master"]]
        every = asked[0][1]
        assert asked == [(DEFAULT, every), (DELEGATE, READ_TOOLS), (EDITS, every), (PLAN, every)]


async def test_a_mode_of_a_provider_that_enforces_too_little_is_refused_at_once(opened):
    async with opened() as first:
        await finish(await door(first).runs.start("x"))
    async with opened(settings={"permissions": {"require": "pre_tool"}}) as second:
        app = door(second)
        second.provider.capabilities = ProviderCapabilities(enforcement="approval")
        await app.runs.set_mode(PLAN)
        before = len(second.ledger.events())
        with pytest.raises(ProviderNotAvailableError, match="does not enforce enough"):
            await app.runs.follow_up("more")
        await second.engine.journal.flush()
        assert len(second.ledger.events()) == before
        assert (await second.store.agents(SESSION))[0].descriptor.grant.mode is DEFAULT
        second.provider.capabilities = ProviderCapabilities(enforcement="pre_tool")
        await finish(await app.runs.follow_up("more"))
        assert modes_of(second, "master") == (PLAN, PLAN)


async def test_a_mode_is_not_taken_by_a_follow_up_that_is_not_written(opened):
    async with opened() as team:
        app = door(team)
        await finish(await app.runs.start("x"))
        await app.runs.set_mode(PLAN)
        dies_at(team, ModeSwitched)
        with pytest.raises(StoreError, match=DIED):
            await app.runs.follow_up("more")
        assert modes_of(team, "master") == (BYPASS, DEFAULT)
        assert changes(team) == []
