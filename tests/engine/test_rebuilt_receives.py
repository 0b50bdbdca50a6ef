"""What a call has received whose answer no model has acted on, where its session is lost.

The next session is given the conversation as history, and acts on what it hears.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from prsm_core.domain.messages import MessageType
from prsm_core.domain.writes import AgentNoted, CallClosed, MessageSent, ReceivesUndone
from prsm_core.engine.door.local import LocalApp
from prsm_core.errors import StoreError
from prsm_core.interfaces.frontend import RunOptions
from tests.engine.deaths import DIED, die, go_on, run_to_death
from tests.engine.harness import SESSION

if TYPE_CHECKING:
    from prsm_core.domain.steps import Step

pytestmark = pytest.mark.requirement("F2")


def dies_once(team, happens) -> None:
    """Let the engine die once a step is durable of which `happens` is true."""
    commit = team.store.commit

    async def cut_off(step):
        done = await commit(step)
        if happens(step) and team.store.broken is None:
            team.store.broken = StoreError(DIED)
            team.engine.journal.note("notice", level="info", text="which nobody hears")
        return done

    vars(team.store)["commit"] = cut_off


async def go_on_to_death(opened, happens=None, **behaviours):
    """Go on until something happens, or until the master has a session; return the ledger."""

    async def hears(_):
        await die(team)

    async with opened(check=False) as team:
        if happens is not None:
            dies_once(team, happens)
        with pytest.raises(StoreError, match=DIED):
            await go_on(team, **{"master": hears, "a": asks, **behaviours})
    return team.ledger


def door(team):
    return LocalApp(team.engine, RunOptions(provider="script"), team.store, SESSION)


def asked(step) -> bool:
    return any(one.message.type is MessageType.QUESTION for one in step.all(MessageSent))


def received(step) -> bool:
    """Whether a call was answered by a message."""
    return any(one.consumed for one in step.all(CallClosed))


def reminded(step) -> bool:
    return any("reminder" in one.result for one in step.all(CallClosed))


def undone(step) -> bool:
    return step.find(ReceivesUndone) is not None


async def spawns(agent):
    """Spawn a child that asks, and wait for what it says."""
    await agent.spawn(name="a")
    await agent.call("wait_for_message")
    await agent.hang()


async def asks(agent):
    said = await agent.call("ask_parent", question="which?")
    await agent.complete(said["answer"])


async def answers(agent, message):
    about = {"child_id": "a", "correlation_id": message["correlation_id"]}
    await agent.call("respond_to_child", response="blue", **about)
    [result] = await agent.collect()
    await agent.complete(result["summary"])


async def waits_again(agent):
    """Do what a model does that knows its history, and acts on what it hears."""
    message = await agent.call("wait_for_message")
    assert message["type"] == "question", message
    assert "reminder" not in message
    await answers(agent, message)


def check_asked_once(team, result) -> None:
    assert (result.status, result.summary) == ("completed", "blue")
    assert team.ledger.events("deadlock_detected") == []
    kinds = "SELECT type, count(*) FROM inbox GROUP BY type ORDER BY type"
    assert team.ledger.rows(kinds) == [("answer", 1), ("question", 1), ("task_result", 1)]
    assert team.ledger.one("SELECT count(*) FROM inbox WHERE ended IS NULL") == 0


@pytest.mark.parametrize("first", [asked, received])
@pytest.mark.parametrize("second", [None, received, undone])
async def test_a_question_that_a_lost_session_was_given_is_received_again(opened, first, second):
    async with opened(check=False) as team:
        dies_once(team, first)
        await run_to_death(team, master=spawns, a=asks)
    if (first, second) != (received, received):  # else nothing is left to be received
        await go_on_to_death(opened, second)
    async with opened() as again:
        check_asked_once(again, await go_on(again, master=waits_again, a=asks))


@pytest.mark.parametrize("deaths", [1, 3])
async def test_a_reminder_counts_once_a_session_that_lives_has_it(opened, deaths):
    """Those that were lost with their sessions count as never given."""

    async def forgets(agent):
        await agent.spawn(name="a")
        await agent.call("wait_for_message")
        await agent.call("wait_for_message")
        await agent.hang()

    async def waits(agent):
        await agent.call("wait_for_message")
        await agent.hang()

    async def hears(agent):
        message = await agent.call("wait_for_message")
        assert message["reminder"]
        await answers(agent, message)

    async with opened(check=False) as team:
        dies_once(team, reminded)
        await run_to_death(team, master=forgets, a=asks)
    for _ in range(deaths - 1):
        await go_on_to_death(opened, reminded, master=waits)
    async with opened() as again:
        result = await go_on(again, master=hears, a=asks)
    assert (result.status, result.summary) == ("completed", "blue")
    knots = again.ledger.events("deadlock_detected")
    assert {knot["action"] for knot in knots} <= {"reminder"}


async def test_that_a_question_was_shown_again_is_noted_by_the_step_that_shows_it(opened):
    """Noted before, it would count as shown after a death that nobody was shown it in."""

    async def forgets(agent):
        await agent.spawn(name="a")
        await agent.call("wait_for_message")
        [about] = team["master"].questions
        team["master"].note(reminded=(about,), reminders=(about,))
        assert team["master"].next_reminder().message.correlation_id == about
        await agent.call("get_budget")
        await team.engine.journal.flush()
        await answers(agent, await agent.call("wait_for_message"))

    steps: list[Step] = []
    async with opened() as team:
        dies_once(team, steps.append)  # which is never true
        await team.run("do it", master=forgets, a=asks)
    owed = [
        (bool(noted.notes.reminders), reminded(step))
        for step in steps
        for noted in step.all(AgentNoted)
        if noted.notes.reminded
    ]
    assert (True, False) in owed
    assert (False, False) not in owed[: owed.index((False, True))]


async def test_a_result_that_a_lost_session_was_given_is_received_again_whole(opened):
    """In a history it would be cut."""
    summary = "x" * 5000

    async def reports(agent):
        await agent.complete(summary)

    async def hears(agent):
        [result] = await agent.collect()
        await agent.complete(str(len(result["summary"])))

    async with opened(check=False) as team:
        dies_once(team, received)
        await run_to_death(team, master=spawns, a=reports)
    await go_on_to_death(opened)
    async with opened() as again:
        result = await go_on(again, master=hears)
    assert (result.status, result.summary) == ("completed", "5000")
    assert again.ledger.one("SELECT count(*) FROM inbox") == 1


async def test_a_child_whose_result_is_unread_again_is_not_taken_for_another_task(opened):
    async def reports(agent):
        await agent.complete("first")

    async def spawns_another(agent):
        assert not (await agent.call("spawn_child", prompt="more"))["reused"]
        assert (await agent.call("wait_for_message"))["summary"] == "first"
        assert (await agent.call("spawn_child", prompt="again"))["reused"]
        await agent.collect(2)
        await agent.complete()

    async with opened(check=False) as team:
        dies_once(team, received)
        await run_to_death(team, master=spawns, a=reports)
    async with opened() as again:
        assert (await go_on(again, master=spawns_another)).status == "completed"


async def test_what_a_person_says_is_received_again(opened):
    async def waits(agent):
        await agent.spawn(name="a")
        assert (await agent.call("wait_for_message"))["type"] == "user_prompt"
        await agent.hang()

    async def hears(agent):
        message = await agent.call("wait_for_message")
        await agent.complete(message["text"])

    async def stays(agent):
        await agent.hang()

    async with opened(check=False) as team:
        dies_once(team, received)
        running = team.start("do it", master=waits, a=stays)
        await team.seen("agent_state_changed", "master", to="waiting_for_child")
        await door(team).agents.prompt("master", "stop")
        with pytest.raises(StoreError, match=DIED):
            await running
    await go_on_to_death(opened, a=stays)
    async with opened(check=False) as again:

        async def mastered(agent):
            message = await agent.call("wait_for_message")
            await again.manager.kill_agent(again["a"].agent_id)
            await agent.complete(message["text"])

        result = await go_on(again, master=mastered, a=stays)
    assert (result.status, result.summary) == ("completed", "stop")


@pytest.mark.parametrize("deaths", [1, 2, 3])
async def test_a_prompt_that_no_model_has_answered_is_the_prompt_of_the_next_session(
    opened, deaths
):
    """As history it is no question any more, and its asker is told that nobody answers."""

    async def ends_its_turn(agent):
        if agent.turn == 1:
            await agent.spawn(name="a")
        else:
            await die(dying)

    async def hears(agent):
        assert "which?" in agent.text
        assert not [one for one in agent.context.history if "which?" in one.content]
        about = agent.text.split("correlation_id ")[1].split(")")[0]
        await answers(agent, {"correlation_id": about})

    async with opened(check=False) as dying:
        await run_to_death(dying, master=ends_its_turn, a=asks)
    for _ in range(deaths - 1):
        await go_on_to_death(opened)
    async with opened() as again:
        check_asked_once(again, await go_on(again, master=hears, a=asks))


async def test_the_task_is_the_prompt_of_a_session_that_goes_on_before_its_model_spoke(opened):
    async with opened(check=False) as team:
        await run_to_death(team, master=lambda _: die(team))
    await go_on_to_death(opened)
    async with opened() as again:
        assert (await go_on(again)).status == "completed"
    [context] = again.provider.contexts["master"]
    assert (context.current_message.content, context.history) == ("do it", ())


async def test_a_refusal_that_tells_a_prompt_is_made_again(opened):
    """An expert has no wait: what holds it is delivered by the refusal of its end."""
    settings = {"settings": {"experts": {"sage": {"system_prompt": "You know."}}}}

    async def consults(agent):
        await agent.call("consult_expert", expert_id="sage", question="which?")
        await agent.complete()

    async def ends(agent):
        await door(team).agents.prompt(agent.name, "mind the tests")
        await agent.refused("task_complete", summary="done")
        await agent.hang()

    async def ends_again(agent):
        assert await agent.refused("task_complete", summary="done") == "unread_prompt"
        await agent.complete()

    async with opened(check=False, **settings) as team:
        dies_once(team, received)
        await run_to_death(team, master=consults, e1=ends)
    async with opened(**settings) as again:
        assert (await go_on(again, master=consults, e1=ends_again)).status == "completed"
