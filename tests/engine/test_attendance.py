"""A person who comes and goes: how long a request waits while nobody is there."""

from __future__ import annotations

import pytest
from prsm_testing import ScriptedApp
from prsm_testing.fake_clock import FakeClock

from prsm_core.domain.permissions import Allow, Deny, PermissionRequest, Question
from prsm_core.engine.control.client import open_control
from tests.engine.control_peers import SESSION, serving

MINUTE = 60.0


def bash(agent):
    return PermissionRequest(agent_id=agent.id, tool="Bash", command="make it", cwd=".")


@pytest.fixture
def may_be_left(opened):
    """Open a team whose person may be away for five minutes."""

    def open_one(**fields):
        person = {"unattended_s": 5 * MINUTE}
        return opened(interactive=True, person=person, clock=FakeClock(), **fields)

    return open_one


async def test_a_permission_that_nobody_is_there_for_is_refused_and_the_reason_says_so(may_be_left):
    async def master(agent):
        verdict = await agent.host.authorize(bash(agent))
        assert isinstance(verdict, Deny)
        assert "`prsm attach` in a terminal" in verdict.reason
        assert team.clock.now() == pytest.approx(5 * MINUTE, abs=1)
        await agent.complete()

    async with may_be_left() as team:
        result = await team.run("do it", master=master)
    assert (result.exit_code, [one.kind for one in result.problems]) == (4, ["refused"])
    [resolved] = team.ledger.events("permission_resolved")
    assert (resolved["verdict"], resolved["by"]) == ("deny", "unattended")


async def test_as_long_as_somebody_is_there_a_request_waits_for_the_persons_time(may_be_left):
    async def attend(agent):
        for _ in range(20):
            team.engine.requests.attend()
            await team.clock.sleep(MINUTE)

    async def master(agent):
        agent.session.provider.services.start_soon(attend, agent, name="attend")
        assert isinstance(await agent.host.authorize(bash(agent)), Deny)
        assert team.clock.now() == pytest.approx(24 * MINUTE, abs=1), "the last sign and five more"
        await agent.complete()

    async with may_be_left() as team:
        await team.run("do it", master=master)


async def test_the_persons_time_is_the_longest_that_a_request_waits(may_be_left):
    async def attend(agent):
        while True:
            team.engine.requests.attend()
            await team.clock.sleep(MINUTE)

    async def master(agent):
        agent.session.provider.services.start_soon(attend, agent, name="attend")
        await agent.host.authorize(bash(agent))
        assert team.clock.now() == pytest.approx(10 * MINUTE, abs=1)
        await agent.complete()

    async with may_be_left(engine={"human_timeout_seconds": 10 * MINUTE}) as team:
        await team.run("do it", master=master)
    [resolved] = team.ledger.events("permission_resolved")
    assert resolved["by"] == "timeout"


async def test_an_answer_from_somebody_who_never_attended_counts(may_be_left):
    async def answer(agent):
        asked = await team.seen("permission_requested")
        team.engine.requests.resolve(asked.data["request"], "permission", {"verdict": "once"})

    async def master(agent):
        agent.session.provider.services.start_soon(answer, agent, name="answer")
        assert isinstance(await agent.host.authorize(bash(agent)), Allow)
        await agent.complete()

    async with may_be_left() as team:
        await team.run("do it", master=master)


async def test_a_question_that_nobody_is_there_for_has_no_answer(may_be_left):
    async def master(agent):
        outcome = await agent.outcome("ask_user", {"question": "which?"})
        assert "`prsm attach`" in outcome.data["error"]["message"]
        assert "`prsm attach`" in (await agent.host.ask_user(Question(text="and now?"))).text
        await agent.complete()

    async with may_be_left() as team:
        await team.run("do it", master=master)


async def test_whoever_is_there_says_so_over_the_control_socket(tmp_path):
    app = ScriptedApp()
    async with serving(tmp_path, app), open_control(tmp_path, SESSION) as client:
        await client.requests.attend()
        await client.requests.attend()
    assert app.attended == 2
