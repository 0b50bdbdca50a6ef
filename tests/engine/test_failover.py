"""Another login, another model: an agent goes on where the first one cannot, and says so."""

from __future__ import annotations

import pytest
from prsm_testing.fake_clock import FakeClock

from prsm_core.domain.turns import ErrorKind
from prsm_core.errors import ModelNotAvailableError, ProviderNotAvailableError
from prsm_core.interfaces.provider import ProviderSpec, ProviderStatus
from tests.engine.harness import ScriptedProvider, failed

LOGINS = {
    "api_key_env": "VENDOR_KEY",
    "profiles": [
        {"name": "work", "env": {"VENDOR_KEY": "WORK_KEY"}},
        {"name": "home", "env": {"VENDOR_KEY": "HOME_KEY"}},
    ],
}
FIRST = {"provider": "script", "model": "first"}
FALLBACKS = {
    "defaults": {**FIRST, "fallbacks": ["script/second", "other/third"]},
    "model_registry": {"second": {"max_context": 100_000}, "third": {"max_context": 200_000}},
}


def limited(after=None):
    return failed("slow down", kind=ErrorKind.RATE_LIMIT, retryable=True, after=after)


def refused():
    return failed("who are you?", kind=ErrorKind.AUTH_FAILURE)


@pytest.fixture
def built(monkeypatch):
    """The settings that the scripted provider was built with, in order; both keys are set."""
    monkeypatch.setenv("WORK_KEY", "w")
    monkeypatch.setenv("HOME_KEY", "h")
    seen = []

    def spec(provider):
        def factory(settings, services):
            seen.append(dict(settings))
            provider.services = services
            return provider

        return ProviderSpec(name="script", summary="scripted agents", factory=factory)

    monkeypatch.setattr(ScriptedProvider, "spec", spec)
    return seen


class Other(ScriptedProvider):
    """A second vendor, which plays the behaviours of the first."""

    def __init__(self, first, **fields) -> None:
        super().__init__(**fields)
        self.first = first

    def named(self) -> ProviderSpec:
        def factory(_settings, services):
            self.services = services
            self.behaviours = self.first().behaviours
            return self

        return ProviderSpec(name="other", summary="another vendor", factory=factory)


def notices(team):
    return [notice["text"] for notice in team.ledger.events("notice")]


def model_of(team, name):
    descriptor = team[name].descriptor
    return f"{descriptor.provider}/{descriptor.model}"


@pytest.mark.requirement("N27")
@pytest.mark.parametrize("error", [limited, refused])
async def test_the_next_login_takes_over_at_once(opened, built, error):
    async def master(agent):
        if agent.turn == 1:
            await agent.say("begun")
            raise error()
        await agent.complete()

    async with opened(clock=FakeClock(), settings={"providers": {"script": LOGINS}}) as team:
        result = await team.run("do it", master=master)
        assert result.status == "completed"
        assert [settings["api_key_env"] for settings in built] == ["WORK_KEY", "HOME_KEY"]
        assert all("profiles" not in settings for settings in built)
        [text] = [text for text in notices(team) if "profile" in text]
        assert "'work' rests" in text
        assert "'home' takes over" in text
        assert team.ledger.events("retry_scheduled") == []
        again = team.provider.contexts["master"][1]
        assert [(m.role, m.content) for m in again.history] == [
            ("user", "do it"),
            ("assistant", "begun"),
        ]
        assert again.current_message is None


@pytest.mark.requirement("N27")
async def test_when_no_login_is_left_the_agent_is_held(opened, built):
    async def master(agent):
        raise refused()

    async with opened(clock=FakeClock(), settings={"providers": {"script": LOGINS}}) as team:
        result = await team.run("do it", master=master)
    assert (result.status, result.exit_code) == ("interrupted", 4)
    assert result.error == "master is held by a login: who are you?"
    assert len(built) == 2
    assert len(team.ledger.events("turn_started")) == 2
    errors = [turn["error"]["kind"] for turn in team.ledger.events("turn_finished")]
    assert errors == ["auth_failure", "auth_failure"]


@pytest.mark.requirement("N27")
async def test_a_login_that_opens_no_session_rests_too(opened, built):
    async def master(agent):
        await agent.complete()

    async with opened(clock=FakeClock(), settings={"providers": {"script": LOGINS}}) as team:

        def refuse(request):
            if len(built) == 1:
                raise ProviderNotAvailableError("log in first", code="not_logged_in")

        team.provider.refuse = refuse
        assert (await team.run("do it", master=master)).status == "completed"
    assert [settings["api_key_env"] for settings in built] == ["WORK_KEY", "HOME_KEY"]
    assert len([text for text in notices(team) if "'work' rests" in text]) == 1


async def test_an_agent_that_begins_later_takes_the_login_that_works(opened, built):
    async def master(agent):
        if agent.turn == 1:
            raise limited()
        await agent.spawn("work")
        await agent.collect()
        await agent.complete()

    async with opened(clock=FakeClock(), settings={"providers": {"script": LOGINS}}) as team:
        assert (await team.run("do it", master=master)).status == "completed"
    assert len(built) == 2  # the child shares the second


async def test_a_model_that_keeps_failing_is_replaced_by_the_next_of_the_chain(opened):
    async def master(agent):
        if agent.turn == 1:
            await agent.spawn("work")
            await agent.collect()
            await agent.say("collected")
        if agent.session.request.model != "second":
            raise failed("broken", retryable=True)
        await agent.complete()

    async with opened(
        clock=FakeClock(), engine={"retry_attempts": 1}, settings=FALLBACKS, gives_tokens=True
    ) as team:
        result = await team.run("do it", master=master)
        assert result.status == "completed"
        assert model_of(team, "master") == "script/second"
        [text] = [text for text in notices(team) if "takes over" in text]
        assert text == "model script/first gave up (broken): script/second takes over"
        last = team.provider.contexts["master"][-1]
        assert (last.model, last.token_budget.context_window) == ("second", 100_000)
        assert any('I called "spawn_child"' in message.content for message in last.history)
        assert team.provider.requests["master"][-1].resume_token is None
        row = next(a for a in await team.store.agents("session") if a.descriptor.name == "master")
        assert (row.descriptor.provider, row.descriptor.model) == ("script", "second")


async def test_the_chain_goes_on_with_another_vendor_and_ends(opened):
    team_of: list = []
    other = Other(lambda: team_of[0].provider)

    async def master(agent):
        raise failed("broken")

    async with opened(clock=FakeClock(), settings=FALLBACKS, others=[other.named()]) as team:
        team_of.append(team)
        result = await team.run("do it", master=master)
        assert (result.status, result.error) == ("failed", "broken")
        assert model_of(team, "master") == "other/third"
        models = team.ledger.rows("SELECT model FROM turns ORDER BY id")
        assert models == [("first",), ("second",), ("third",)]
        assert other.contexts["master"][0].token_budget.context_window == 200_000


async def test_a_fallback_without_a_provider_is_one_of_the_first_models_provider(opened):
    team_of: list = []
    other = Other(lambda: team_of[0].provider)

    async def master(agent):
        raise failed("broken")

    chain = {**FALLBACKS, "defaults": {**FIRST, "fallbacks": ["other/third", "second"]}}
    async with opened(clock=FakeClock(), settings=chain, others=[other.named()]) as team:
        team_of.append(team)
        await team.run("do it", master=master)
        assert model_of(team, "master") == "script/second"


async def test_a_model_that_the_provider_does_not_have_is_replaced_too(opened):
    def refuse(request):
        if request.model == "first":
            raise ModelNotAvailableError("no such model")

    async def master(agent):
        await agent.complete()

    async with opened(clock=FakeClock(), settings=FALLBACKS, refuse=refuse) as team:
        result = await team.run("do it", master=master)
        assert (result.status, model_of(team, "master")) == ("completed", "script/second")
        text = "model script/first gave up (no such model): script/second takes over"
        assert text in notices(team)


async def test_a_fallback_that_cannot_be_used_is_left_out_and_named(opened):
    team_of: list = []
    status = ProviderStatus(available=False, reason="other is not logged in")
    other = Other(lambda: team_of[0].provider, status=status)

    async def master(agent):
        raise failed("broken")

    chain = {"defaults": {**FIRST, "fallbacks": ["other/third", "nobody/x"]}}
    async with opened(clock=FakeClock(), settings=chain, others=[other.named()]) as team:
        team_of.append(team)
        result = await team.run("do it", master=master)
        assert result.status == "failed"
        assert "fallback other/third is left out: other is not logged in" in notices(team)
        assert other.requests == {}


async def test_a_wait_that_the_vendor_asks_for_beyond_the_back_off_is_not_waited_for(opened):
    async def master(agent):
        if agent.session.request.model == "first":
            raise limited(after=31)
        await agent.complete()

    async with opened(clock=FakeClock(), settings=FALLBACKS) as team:
        result = await team.run("do it", master=master)
        assert result.status == "completed"
        assert team.clock.now() < 31


async def test_a_turn_that_ran_out_of_its_own_clock_is_no_fault_of_the_model(opened):
    async def master(agent):
        raise failed("out of time", kind=ErrorKind.TIMEOUT)

    async with opened(clock=FakeClock(), settings=FALLBACKS) as team:
        result = await team.run("do it", master=master)
        assert result.status == "failed"
        assert model_of(team, "master") == "script/first"
