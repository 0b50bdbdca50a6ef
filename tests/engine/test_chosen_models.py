"""A person chooses the model that an agent goes on with: between two turns, and for good."""

from __future__ import annotations

import pytest

from prsm_core.domain.writes import AgentEnded, AgentNoted, ModelSwitched
from prsm_core.engine.door.local import set_model
from prsm_core.errors import ConfigError, ModelNotAvailableError, ProviderNotAvailableError
from tests.engine.deaths import die, dies_after, go_on, run_to_death
from tests.engine.harness import SESSION, failed

FIRST = {"defaults": {"provider": "script", "model": "first"}}


def model_of(team, name):
    descriptor = team[name].descriptor
    return f"{descriptor.provider}/{descriptor.model}"


async def choose(team, text, name="master"):
    return await set_model(team.engine, team[name].agent_id, text)


async def choose_and_prompt(team, text):
    """Choose a model in the midst of the master's turn, and have another turn follow."""
    assert await choose(team, text) == f"script/{text}"
    await team.engine.prompting.prompt(team["master"].agent_id, "go on", "queue")


def notices(team):
    return [notice["text"] for notice in team.ledger.events("notice")]


async def test_the_turn_that_runs_ends_on_its_model_and_the_next_is_of_the_chosen_one(opened):
    models = []

    async def master(agent):
        models.append(agent.session.request.model)
        if agent.turn == 1:
            await choose_and_prompt(team, "second")
            await agent.say("begun")
            assert model_of(team, "master") == "script/first"
            return
        await agent.complete()

    async with opened(settings=FIRST) as team:
        assert (await team.run("do it", master=master)).status == "completed"
        assert model_of(team, "master") == "script/second"
        again = team.provider.contexts["master"][1]
    assert models == ["first", "second"]
    assert [(m.role, m.content) for m in again.history] == [
        ("user", "do it"),
        ("assistant", "begun"),
    ]
    assert again.current_message.content.endswith("go on")
    [told] = team.ledger.events("agent_model_changed")
    assert (told["provider"], told["model"]) == ("script", "second")
    assert notices(team)[-2:] == [
        "its next turn is of model script/second: a person has chosen it",
        "model script/second takes over from script/first, as was chosen",
    ]


@pytest.mark.parametrize("dies", [AgentNoted, ModelSwitched])
async def test_it_holds_after_a_death(opened, dies):
    """Whether the engine dies as soon as it was chosen, or once the agent had taken it."""
    models = []

    async def master(agent):
        models.append(agent.session.request.model)
        if models[-1] == "second":
            await agent.complete()
        elif len(models) == 1:
            if dies is ModelSwitched:
                dies_after(team, dies)
            await choose_and_prompt(team, "second")
            if dies is AgentNoted:
                await die(team)

    async with opened(check=False, settings=FIRST) as team:
        await run_to_death(team, master=master)
    async with opened(settings=FIRST) as again:
        assert (await go_on(again, master=master)).status == "completed"
        assert model_of(again, "master") == "script/second"
    assert models[0] == "first"
    assert models[-1] == "second"


async def test_an_agent_that_has_ended_takes_it_in_its_next_life(opened):
    """Also where it was chosen in its last turn, and none followed; nothing is told between."""
    models = []

    async def master(agent):
        models.append(agent.session.request.model)
        if len(models) == 1:
            await choose(team, "second")
        await agent.complete()

    async with opened(settings=FIRST) as team:
        await team.run("do it", master=master)
        assert model_of(team, "master") == "script/first"
        before = len(team.ledger.events())
        await team.engine.run_continuation("more", team["master"].agent_id)
        assert await choose(team, "third") == "script/third"
        assert await choose(team, "fourth") == "script/fourth"
        await team.engine.run_continuation("still more", team["master"].agent_id)
    assert models == ["first", "second", "fourth"]
    assert team.ledger.events()[before]["type"] == "run_started"


async def test_an_agent_of_an_earlier_process_takes_it_where_it_goes_on(opened):
    """One that was cut off: nobody runs it when the model is chosen, by another engine."""
    models = []

    async def master(agent):
        models.append(agent.session.request.model)
        if len(models) == 1:
            await team.engine.prompting.prompt(team["master"].agent_id, "go on", "queue")
            await die(team)
        if agent.turn > 1:
            await agent.complete()

    async with opened(check=False, settings=FIRST) as team:
        await run_to_death(team, master=master)
        cut_off = team["master"].agent_id
    async with opened(check=False, settings=FIRST) as beside:
        assert await set_model(beside.engine, cut_off, "second") == "script/second"
        [row] = await beside.store.agents(SESSION)
        assert row.chosen.name == "script/second"
    async with opened(settings=FIRST) as again:
        assert (await go_on(again, master=master)).status == "completed"
    assert (models[0], models[-1]) == ("first", "second")


async def test_one_that_cannot_be_used_gives_way_to_the_one_before(opened):
    """Where its session does not open, or its turns fail for good."""

    async def master(agent):
        if agent.turn == 1:
            await choose_and_prompt(team, "second")
        elif agent.turn == 2:
            raise failed("there is no such model")
        elif agent.turn == 3:
            team.provider.refuse = refuse
            await choose_and_prompt(team, "third")
        else:
            await agent.complete()

    def refuse(request):
        if request.model == "third":
            raise ProviderNotAvailableError("log in first")

    async with opened(settings=FIRST) as team:
        assert (await team.run("do it", master=master)).status == "completed"
        assert model_of(team, "master") == "script/first"
    said = [text for text in notices(team) if "gave up" in text]
    assert said == [
        "model script/second gave up (there is no such model): script/first takes over",
        "model script/third gave up (log in first): script/first takes over",
    ]


async def test_what_is_no_model_of_a_provider_that_is_there_is_refused(opened):
    """With the nearest names; the agent keeps what it has, and nothing is told of it."""

    async def master(agent):
        before = len(team.ledger.events("notice"))
        for wrong, error, hint in (
            ("scrapt/second", ModelNotAvailableError, "script"),
            ("  ", ConfigError, "prsm models list"),
        ):
            with pytest.raises(error) as refused:
                await choose(team, wrong)
            assert hint in (refused.value.hint or "")
        assert await choose(team, "first") == "script/first"
        assert team["master"].notes.chosen is None
        assert len(team.ledger.events("notice")) == before
        await agent.complete()

    async with opened(settings=FIRST) as team:
        assert (await team.run("do it", master=master)).status == "completed"


async def test_the_model_that_it_has_takes_a_choice_back(opened):
    async def master(agent):
        if agent.turn == 1:
            await choose_and_prompt(team, "second")
            await choose(team, "first")
            return
        await agent.complete()

    async with opened(settings=FIRST) as team:
        assert (await team.run("do it", master=master)).status == "completed"
    assert team.ledger.events("agent_model_changed") == []
    assert notices(team)[-1] == "it keeps its model: a person has chosen it"


async def test_a_choice_dies_with_no_end_that_is_written_meanwhile(opened):
    """It is chosen in the last turn; the engine dies as the agent has ended."""

    async def master(agent):
        dies_after(team, AgentEnded)
        await choose(team, "second")
        await agent.complete()

    async with opened(check=False, settings=FIRST) as team:
        await run_to_death(team, master=master)
    async with opened(check=False, settings=FIRST) as again:
        [row] = await again.store.agents(SESSION)
        assert row.chosen.name == "script/second"
