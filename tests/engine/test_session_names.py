"""A model names a session, once and only where the settings want it."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prsm_testing.fake_clock import FakeClock

from prsm_core.domain.ids import Ids
from prsm_core.domain.steps import Step
from prsm_core.domain.writes import SessionNamed
from prsm_core.engine.agents.side_query import LONGEST, SYSTEM_PROMPT, clean
from tests.engine.harness import SESSION, failed

BY_MODEL = {
    "defaults": {"provider": "script", "model": "dear"},
    "sessions": {"auto_name": "model", "name_model": "script/cheap"},
}


def saying(text):
    async def name(agent):
        await agent.use(input_tokens=50, output_tokens=4, total_tokens=54)
        await agent.say(text)

    return name


async def name_in(store):
    [info] = await store.sessions()
    return info.name


async def patient(agent):
    """End as a master once the question about the name is over."""
    await agent.use(input_tokens=100, output_tokens=10, total_tokens=110)
    naming = [task for task in asyncio.all_tasks() if task.get_name() == "naming the session"]
    if naming:
        await asyncio.wait(naming)
    await agent.complete("done")


def told(team):
    notices = team.ledger.events("notice")
    return [each["text"] for each in notices if "names the session" in each["text"]]


async def rename(team, name):
    """Name the session as `prsm sessions rename` does, from another process."""
    ids, at = Ids(team.clock.time), team.clock.time()
    step = Step(
        step_id=f"{SESSION}:name:{ids.ulid()}",
        session_id=SESSION,
        run_id=team.engine.journal.run_id,
        agent_id=None,
        at=at,
        writes=(SessionNamed(name=name),),
    )
    await team.store.commit(step)


@pytest.mark.parametrize("given", [{}, {"sessions": {"auto_name": "task", "name_model": "cheap"}}])
async def test_nobody_is_asked_who_was_not_wanted(opened, given):
    async with opened(settings=given) as team:
        result = await team.run("mend the shop", **{"master-name": saying("The shop")})
        assert result.status == "completed"
        assert await name_in(team.store) is None
    assert list(team.provider.requests) == ["master"]


async def test_a_cheap_model_names_the_session_and_its_tokens_count(opened):
    async with opened(settings=BY_MODEL) as team:
        answer = saying('\n "Mending  the\x07 shop" \nwith more')
        result = await team.run("mend the shop", master=patient, **{"master-name": answer})
        assert await name_in(team.store) == "Mending the shop"
    [request], [context] = (
        of["master-name"] for of in (team.provider.requests, team.provider.contexts)
    )
    assert (request.model, context.model) == ("cheap", "cheap")
    assert context.system_prompt == SYSTEM_PROMPT
    assert context.current_message.content == "mend the shop"
    assert request.agent_id != team.provider.requests["master"][0].agent_id
    assert result.usage.total_tokens == 110 + 54
    assert told(team) == []
    assert team.ledger.one("SELECT count(*) FROM turns") == 1


async def test_a_name_that_a_person_gave_stays(opened):
    asked, named = asyncio.Event(), asyncio.Event()

    async def answer(agent):
        asked.set()
        await named.wait()
        await agent.say("another")

    async with opened(settings=BY_MODEL) as team:

        async def master(agent):
            await asked.wait()
            await rename(team, "the person's")
            named.set()
            await team.settled()
            await agent.complete("done")

        result = await team.run("do it", master=master, **{"master-name": answer})
        assert result.status == "completed"
        assert await name_in(team.store) == "the person's"
    assert told(team) == []


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (saying(" ''\n\n"), "the answer has no words"),
        (None, "script/cheap: it broke"),
    ],
)
async def test_what_fails_is_told_and_the_task_stays_its_name(opened, answer, why):
    async def breaks(agent):
        raise failed("it broke")

    async with opened(settings=BY_MODEL) as team:
        behaviours = {"master-name": answer or breaks}
        result = await team.run("do it", master=patient, **behaviours)
        assert (result.status, await name_in(team.store)) == ("completed", None)
    [text] = told(team)
    assert text == f"no model names the session, which is called by its task: {why}"


async def test_a_model_that_there_is_not_is_told(opened):
    given = {**BY_MODEL, "models": {"cheap": {"provider": "nowhere", "model_id": "c"}}}
    given["sessions"] = {"auto_name": "model", "name_model": "cheap"}
    async with opened(settings=given) as team:
        result = await team.run("do it", master=patient)
        assert result.status == "completed"
    [text] = told(team)
    assert "nowhere" in text


async def test_the_end_of_a_run_waits_for_no_name(opened):
    asked = asyncio.Event()

    async def hangs(agent):
        asked.set()
        await agent.hang()

    async def master(agent):
        await asked.wait()
        await agent.complete("done")

    async with opened(settings=BY_MODEL) as team:
        result = await team.run("do it", master=master, **{"master-name": hangs})
        assert (result.status, await name_in(team.store)) == ("completed", None)
        again = await team.run("do more", **{"master-name": saying("late")})
        assert again.status == "completed"
        assert await name_in(team.store) is None
    assert len(team.provider.requests["master-name"]) == 1, "a session is asked about once"
    assert told(team) == []


async def test_a_model_that_does_not_answer_is_given_a_minute(opened):
    async def hangs(agent):
        await agent.hang()

    async with opened(settings=BY_MODEL, clock=FakeClock()) as team:
        result = await team.run("do it", master=patient, **{"master-name": hangs})
        assert result.status == "completed"
    [text] = told(team)
    assert "60 s" in text


async def test_after_a_death_nobody_is_asked_again(opened):
    asked = asyncio.Event()

    async def hangs(agent):
        asked.set()
        await agent.hang()

    async with opened(settings=BY_MODEL, check=False, gives_tokens=True) as team:
        _ = team.start("do it", master=hangs, **{"master-name": hangs})
        await asked.wait()
        await team.seen("turn_started")
    async with opened(settings=BY_MODEL) as again:
        assert (await again.engine.resume()).status == "completed"
        assert await name_in(again.store) is None
    assert "master-name" not in again.provider.requests


@given(st.text())
def test_a_name_is_one_short_line_that_acts_on_no_terminal(text):
    name = clean(text)
    assert name is None or (0 < len(name) <= LONGEST and name.isprintable())
    assert name is None or clean(name) == name


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        ("**Shop repair**", "Shop repair"),
        ("# Shop\nmore", "Shop"),
        ("", None),
        ("\u202e\x1b[2J", "[2J"),
        ("x" * 99, "x" * 59 + "\u2026"),
        ("läuft 日本", "läuft 日本"),
    ],
)
def test_answers_become_names(answer, name):
    assert clean(answer) == name
