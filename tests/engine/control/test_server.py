"""What other processes can do to a running session, on a real engine."""

import asyncio
import os
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec import convert

from prsm_core.domain.permissions import Answer, PermissionRequest
from prsm_core.door import OpenPermission, RequestOutcome
from prsm_core.engine.control.client import open_control
from prsm_core.engine.door.local import LocalApp
from prsm_core.errors import MessageRoutingError, PrsmError
from prsm_core.interfaces.frontend import RunOptions
from tests.engine.control_peers import DEADLINE, serving
from tests.engine.harness import SESSION

PROGRAM = Path(sys.executable).resolve()


@pytest.fixture
async def served(opened, tmp_path):
    """A team with a person, and a client of its control socket."""
    async with opened(interactive=True) as team:
        app = LocalApp(team.engine, RunOptions(), team.store, SESSION)
        async with serving(tmp_path, app), open_control(tmp_path, SESSION) as client:
            yield team, client


async def hang(agent):
    await agent.hang()


async def begun(team, name):
    """Wait until an agent that somebody is about to spawn is in its first turn."""
    await team.seen("agent_spawned", name=name)
    await team.seen("turn_started", name)


async def parent(agent):
    await agent.spawn()
    await agent.hang()


async def test_kill_ends_an_agent_and_its_descendants_and_names_them(served):
    team, client = served
    run = team.start(master=parent, w1=parent, w2=hang)
    await begun(team, "w2")
    assert list(await client.agents.kill("w1")) == ["w1", "w2"]
    assert {team[name].state.value for name in ("w1", "w2")} == {"killed"}
    assert not team["master"].has_ended
    assert list(await client.agents.kill("master")) == ["master"]
    result = await run
    assert (result.status, result.error) == ("killed", "killed by the user")


async def test_killing_twice_says_that_the_agent_has_ended(served):
    team, client = served
    run = team.start(master=parent, w1=hang)
    await begun(team, "w1")
    await client.agents.kill("w1")
    before = team.ledger.written()
    with pytest.raises(MessageRoutingError, match=r"w1 has ended already \(killed\)") as ended:
        await client.agents.kill("w1")
    assert ended.value.code == "agent_ended"
    assert team.ledger.written() == before
    await client.agents.kill("master")
    await run


async def test_an_unknown_agent_is_the_engines_own_error(served):
    team, client = served
    run = team.start(master=hang)
    await begun(team, "master")
    with pytest.raises(MessageRoutingError, match="'w9' is no agent") as unknown:
        await client.agents.kill("w9")
    assert (unknown.value.code, unknown.value.hint) == ("unknown_agent", "known: master")
    with pytest.raises(MessageRoutingError) as misspelt:
        await client.agents.kill("mastr")
    assert misspelt.value.hint == "known: master; did you mean 'master'?"
    await client.agents.kill(team["master"].agent_id[:6])
    await run


async def test_a_prompt_reaches_a_running_agent_and_a_restart_an_ended_one(served):
    team, client = served
    prompted, restarted = asyncio.Event(), asyncio.Event()

    async def worker(agent):
        if agent.turn > 1:
            await agent.complete(f"again: {agent.text}")
            return
        await prompted.wait()
        message = await agent.call("wait_for_message")
        await agent.complete(f"told: {message['text']}")

    async def master(agent):
        await agent.spawn()
        results = await agent.collect(1)
        await restarted.wait()
        results += await agent.collect(1)
        await agent.complete(" / ".join(result["summary"] for result in results))

    run = team.start(master=master, w1=worker)
    await begun(team, "w1")
    await client.agents.prompt("w1", "grüße")
    prompted.set()
    await team.seen("agent_state_changed", "w1", to="completed")
    await client.agents.restart("w1", "more")
    restarted.set()
    assert (await run).summary == "told: grüße / again: more"


async def test_the_tree_is_that_of_the_ledger(served):
    team, client = served
    run = team.start(master=parent, w1=hang)
    await begun(team, "w1")
    [master] = (await client.agents.tree()).agents
    assert [(node.name, node.state) for node in master.walk()] == [
        ("master", "running"),
        ("w1", "running"),
    ]
    await client.agents.kill("master")
    await run


async def test_a_permission_is_listed_and_answered_once(served):
    team, client = served

    async def master(agent):
        request = PermissionRequest(agent_id=agent.id, tool="Bash", command="make all", cwd="/")
        verdict = await agent.host.authorize(request)
        await agent.complete(type(verdict).__name__)

    run = team.start(master=master)
    asked = await team.seen("permission_requested")
    [request] = await client.requests.open()
    told = {"agent": team["master"].agent_id, "name": "master", "opened_at": asked.ts}
    assert request == convert({**asked.data, **told, "kind": "permission"}, OpenPermission)
    with pytest.raises(PrsmError, match="'allow_rule' is no answer") as refused:
        await client.requests.resolve(request.request, "allow_rule")
    assert "once" in str(refused.value.hint)
    assert await client.requests.resolve(request.request, "once")
    assert not await client.requests.resolve(request.request, "deny")
    assert (await run).summary == "Allow"
    assert list(await client.requests.open()) == []


async def test_a_question_is_listed_and_answered_once(served):
    team, client = served

    async def master(agent):
        answer = await agent.call("ask_user", question="Which?", options=["red", "blue"])
        await agent.complete(f"{answer['choices']} {answer['text']}")

    run = team.start(master=master)
    await team.seen("question_asked")
    [request] = await client.requests.open()
    assert (request.kind, request.question) == ("question", "Which?")
    assert not await client.requests.resolve(request.request, "once"), "it is no permission"
    assert await client.requests.answer(request.request, Answer(choices=("blue",), text="dark"))
    assert not await client.requests.answer(request.request, Answer(text="late"))
    assert (await run).summary == "['blue'] dark"


@pytest.mark.requirement("D9", "D10")
async def test_who_answered_and_from_where_is_told_to_whoever_comes_late(served, tmp_path):
    team, late = served

    async def master(agent):
        request = PermissionRequest(agent_id=agent.id, tool="Bash", command="make all", cwd="/")
        await agent.host.authorize(request)
        await agent.call("ask_user", question="Which?")
        await agent.complete()

    run = team.start(master=master)
    async with open_control(tmp_path, SESSION, via="prsm attach") as first:
        asked = await team.seen("permission_requested")
        request = asked.data["request"]
        assert await late.requests.outcome(request) is None
        assert await first.requests.resolve(request, "deny")
        assert not await late.requests.resolve(request, "once")
        via = f"prsm attach, pid {os.getpid()}, {PROGRAM}"
        ended = RequestOutcome(request=request, verdict="deny", by="user", via=via)
        assert await late.requests.outcome(request[:8]) == ended
        question = (await team.seen("question_asked")).data["request"]
        assert await first.requests.answer(question, Answer(text="that one"))
    assert (await late.requests.outcome(question)).via == via
    await run
    [answered] = team.ledger.events("question_answered")
    assert (answered["by"], answered["via"]) == ("user", via)


async def test_of_two_answers_at_once_one_wins(served, tmp_path):
    team, first = served

    async def master(agent):
        answer = await agent.call("ask_user", question="Which?")
        await agent.complete(answer["text"])

    run = team.start(master=master)
    asked = await team.seen("question_asked")
    async with open_control(tmp_path, SESSION) as second:
        taken = await asyncio.gather(
            first.requests.answer(asked.data["request"], Answer(text="one")),
            second.requests.answer(asked.data["request"], Answer(text="two")),
        )
    assert sorted(taken) == [False, True]
    assert (await run).summary == ("one" if taken[0] else "two")


@pytest.mark.parametrize(
    ("asked", "ended", "refused"),
    [
        ("permission_requested", "permission_resolved", {"verdict": "deny"}),
        ("question_asked", "question_answered", {"answer": None}),
    ],
)
async def test_killing_an_agent_that_asks_ends_its_request(served, asked, ended, refused):
    team, client = served

    async def master(agent):
        if asked == "question_asked":
            await agent.call("ask_user", question="Which?")
        request = PermissionRequest(agent_id=agent.id, tool="Bash", command="make all", cwd="/")
        await agent.host.authorize(request)

    run = team.start(master=master)
    event = await team.seen(asked)
    await client.agents.kill("master")
    assert (await run).status == "killed"
    await team.seen(ended, request=event.data["request"], **refused)
    assert list(await client.requests.open()) == []
    assert await team.store.open_requests(SESSION) == []


async def test_an_agent_that_waits_for_its_first_slot_can_be_killed(opened):
    async with opened(engine={"max_concurrent_agents": 1}) as team:

        async def master(agent):
            await agent.spawn()
            await agent.hang()

        run = team.start(master=master)
        await team.seen("agent_spawned", name="w1")
        result = await team.manager.kill_agent(team["w1"].agent_id)
        assert result.error_kind == "killed"
        assert team.ledger.states("w1") == ["pending", "killed"]
        assert team.provider.requests["w1"] == []
        await team.manager.kill_agent(team["master"].agent_id)
        assert (await run).status == "killed"


async def test_an_agent_that_is_starting_can_be_killed(opened):
    opening, never = asyncio.Event(), asyncio.Event()
    async with opened() as team:
        open_session = team.provider.open_session

        @asynccontextmanager
        async def slow_start(request, host):
            opening.set()
            await never.wait()
            async with open_session(request, host) as session:
                yield session

        team.provider.open_session = slow_start
        run = team.start()
        async with asyncio.timeout(DEADLINE):
            await opening.wait()
        await team.manager.kill_agent(team["master"].agent_id)
        assert team.ledger.states("master") == ["pending", "starting", "killed"]
        assert (await run).status == "killed"


async def test_killing_keeps_what_the_agent_has_said(opened):
    said = asyncio.Event()

    async def master(agent):
        await agent.begin_to_say("half a sen")
        said.set()
        await agent.hang()

    async with opened() as team:
        run = team.start(master=master)
        async with asyncio.timeout(DEADLINE):
            await said.wait()
        result = await team.manager.kill_agent(team["master"].agent_id, "enough")
        assert (result.summary, result.error, result.success) == ("half a sen", "enough", False)
        assert (await run).summary == "half a sen"
