"""The scripted application behaves to a frontend as the engine's does."""

import asyncio
import inspect
from contextlib import aclosing

import pytest
from prsm_testing import ScriptedApp, settle
from prsm_testing.app_double import COMPLETED

from prsm_core import (
    Answer,
    AppHandle,
    ConfigError,
    MessageRoutingError,
    ProviderNotAvailableError,
    RunOptions,
)
from prsm_core.engine.door.local import LocalApp
from prsm_core.interfaces.app_handle import (
    Agents,
    Changes,
    Requests,
    Runs,
    Sessions,
    Snapshots,
)


async def kinds(app, count, after=0):
    async with asyncio.timeout(10), aclosing(app.events(after)) as events:
        return [(await anext(events)).type for _ in range(count)]


def signatures(cls):
    return {
        name: list(inspect.signature(value).parameters)
        for name, value in inspect.getmembers(cls, inspect.isfunction)
        if not name.startswith("_")
    }


@pytest.mark.parametrize("application", [ScriptedApp, LocalApp])
def test_an_application_has_every_method_of_the_handle(application):
    wanted = signatures(AppHandle)
    assert {name: signatures(application).get(name) for name in wanted} == wanted


def test_the_double_has_the_methods_of_each_group_as_they_are_declared(prsm_app):
    for group in (Runs, Agents, Requests, Changes, Snapshots, Sessions):
        wanted, made = (
            signatures(group),
            signatures(type(getattr(prsm_app, group.__name__.lower()))),
        )
        assert {name: made.get(name) for name in wanted} == wanted


async def test_a_run_has_events_in_order_and_the_result_the_test_gives(prsm_app):
    run = await prsm_app.runs.start("count", model="x")
    assert (await prsm_app.started()) is run
    assert prsm_app.overrides == {"model": "x"}
    prsm_app.say("notice", level="info", text="a")
    prsm_app.finish()
    assert await run.result() == COMPLETED
    assert await kinds(prsm_app, 3) == ["run_started", "notice", "run_finished"]
    assert await kinds(prsm_app, 1, after=2) == ["run_finished"]


async def test_a_reader_gets_what_is_said_later_and_no_delta_from_before(prsm_app):
    await prsm_app.runs.start("count")
    prsm_app.say("text_delta", "m", live=True, text="before")
    async with asyncio.TaskGroup() as group:
        reading = group.create_task(kinds(prsm_app, 3))
        await settle()
        assert prsm_app.readers == 1
        prsm_app.say("text_delta", "m", live=True, text="after")
        prsm_app.finish()
    assert reading.result() == ["run_started", "text_delta", "run_finished"]
    assert prsm_app.readers == 0


async def test_a_request_is_answered_once_and_by_an_option_it_offers(prsm_app):
    prsm_app.spawn()
    prsm_app.say("permission_requested", "m", request="r", tool="Edit", options=["once", "deny"])
    (request,) = await prsm_app.requests.open()
    assert (request.kind, request.name, request.tool) == ("permission", "master", "Edit")
    with pytest.raises(ConfigError, match="'always' is no answer"):
        await prsm_app.requests.resolve("r", "always")
    assert not await prsm_app.requests.answer("r", Answer(text="x")), "it is no question"
    assert await prsm_app.requests.resolve("r", "once")
    assert not await prsm_app.requests.resolve("r", "deny")
    assert await prsm_app.requests.open() == []
    assert await prsm_app.answered("r") == "once"
    assert await kinds(prsm_app, 3) == [
        "agent_spawned",
        "permission_requested",
        "permission_resolved",
    ]


async def test_a_question_that_was_answered_elsewhere_takes_no_answer(prsm_app):
    prsm_app.say("question_asked", "m", request="q", question="Which?", options=[])
    prsm_app.say("question_answered", "m", request="q", answer=None, by="timeout")
    assert not await prsm_app.requests.answer("q", Answer(text="x"))
    assert prsm_app.answers == []


async def test_the_person_waits_for_an_answer(prsm_app):
    prsm_app.say("question_asked", "m", request="q", question="Which?", options=[])
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        waiting = group.create_task(prsm_app.answered("q"))
        await settle()
        await prsm_app.requests.answer("q", Answer(text="red"))
    assert waiting.result() == Answer(text="red")


async def test_orders_to_agents_are_kept_and_unknown_agents_refused(prsm_app):
    prsm_app.spawn()
    prsm_app.spawn("w", "w1", parent="m")
    await prsm_app.agents.prompt("w1", "faster")
    await prsm_app.agents.restart("w", "again")
    assert await prsm_app.agents.kill("w1") == ["w1"]
    assert prsm_app.prompts == [("w", "faster", "queue")]
    assert (prsm_app.restarted, prsm_app.killed) == ([("w", "again")], ["w"])
    with pytest.raises(MessageRoutingError, match="'w2'"):
        await prsm_app.agents.kill("w2")


async def test_the_tree_and_the_histories_hold_what_was_said(prsm_app):
    prsm_app.spawn()
    prsm_app.spawn("w", "w1", parent="m")
    prsm_app.say("agent_state_changed", "w", **{"from": "pending", "to": "running"}, reason=None)
    prsm_app.say("message_completed", "w", turn="t", role="assistant", text="three")
    (master,) = (await prsm_app.agents.tree()).agents
    (worker,) = master.children
    assert (worker.id, worker.name, worker.state) == ("w", "w1", "running")
    (entry,) = await prsm_app.agents.history("w1")
    assert (entry.kind, entry.text) == ("text", "three")


async def test_a_run_may_be_refused_and_a_second_one_is():
    app = ScriptedApp(RunOptions(task="x"))
    app.refusal = ProviderNotAvailableError("no provider is installed")
    with pytest.raises(ProviderNotAvailableError):
        await app.runs.start("x")
    app.refusal = None
    with pytest.raises(RuntimeError, match="has not started a run"):
        app.finish()
    await app.runs.start("x")
    with pytest.raises(ConfigError, match="runs a task already"):
        await app.runs.start("x")
