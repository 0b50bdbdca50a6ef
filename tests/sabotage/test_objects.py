"""Each saboteur in the real engine: the run goes on or fails in order, and its name is told."""

from __future__ import annotations

import asyncio
import inspect
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
from prsm_testing.fake_clock import FakeClock

from prsm_core import (
    AssistantMessage,
    EventSink,
    EventSinkSpec,
    Frontend,
    ModelScorerSpec,
    PermissionCheckSpec,
    Provider,
    ProviderCapabilities,
    ProviderSession,
    ProviderSpec,
    ProviderStatus,
    StopReason,
    TurnEnded,
)
from prsm_core.catalog.ranking import rank_models
from prsm_core.cli.running import GuardedFrontend
from prsm_core.domain.models import ModelCapability, ModelTier, TaskProfile
from prsm_core.domain.permissions import Allow, Deny
from prsm_core.engine.providers.listings import survey
from prsm_core.errors import ProviderNotAvailableError, PrsmError
from prsm_core.loop.interrupts import noting_interrupts, raise_interrupt
from prsm_core.plugins.guard import Guest
from tests.engine.harness import DEADLINE, open_team
from tests.permissions.brokers import broker, make_context, uses
from tests.sabotage.cases import TABLE, Case, Stubborn, cases

pytestmark = pytest.mark.requirement("C5", "F9")


async def done(case: Case) -> Any:
    """Do the deed, in the task that calls."""
    found = case.deed()
    return await found if inspect.isawaitable(found) else found


@pytest.fixture(autouse=True)
def noting():
    """Note SIGINT, as the command does: a KeyboardInterrupt without it is nobody's Ctrl-C."""
    with noting_interrupts(raise_interrupt):
        yield


@pytest.fixture
def opened(tmp_path):
    return partial(open_team, tmp_path, clock=FakeClock())


def test_the_table_has_a_hundred_cases_and_more_of_all_kinds():
    assert len(TABLE) >= 200
    assert {case.kind.split()[0] for case in TABLE} == {
        "sink",
        "scorer",
        "check",
        "provider",
        "frontend",
    }


class Sink(EventSink):
    """Does what its case says, at the call that it is about."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.got = 0

    async def write(self, batch):
        await self.act("sink write")
        self.got += len(batch)

    async def aclose(self):
        await self.act("sink aclose")

    async def act(self, call):
        if call == self.case.kind:
            await asyncio.sleep(0)
            await done(self.case)


def sink_spec(case: Case) -> EventSinkSpec:
    def build(_run, _settings):
        return case.deed() if case.kind == "sink factory" else Sink(case)

    return EventSinkSpec(name="bad", summary="", factory=build)


@pytest.mark.parametrize("case", cases("sink factory", "sink write", "sink aclose"), ids=str)
async def test_a_sink(opened, caplog, case):
    async with asyncio.timeout(DEADLINE):
        async with opened(sinks=[sink_spec(case)]) as team:
            assert (await team.run("do it")).status == "completed"
    notices = [event["text"] for event in team.ledger.events("notice")]
    told = " ".join([*notices, caplog.text])
    assert "event sink bad" in told
    assert case.told in told
    if case.kind == "sink write":
        lost = sum(event["count"] for event in team.ledger.events("sink_dropped"))
        kinds = [event["type"] for event in team.ledger.events()]
        assert lost == len(kinds) - kinds.count("sink_dropped") - kinds.count("run_finished")


def model(name):
    return ModelCapability(
        model_id=name, provider="p", tier=ModelTier.STRONG, affinities={}, cost_factor=1
    )


@pytest.mark.parametrize("case", cases("scorer"), ids=str)
def test_a_scorer(case):
    bad = ModelScorerSpec(name="bad", summary="", weight=1, score=lambda *_: case.deed())
    good = ModelScorerSpec(name="good", summary="", weight=1, score=lambda *_: 0.5)
    task = TaskProfile(description="", category="coding")
    ranking = rank_models([model("a"), model("b")], task, [bad, good])
    assert [entry.score for entry in ranking.models] == [0.5, 0.5]
    [problem] = ranking.problems
    assert problem.startswith("model scorer bad is left out: ")
    assert case.told in problem


@pytest.mark.parametrize("case", cases("check"), ids=str)
async def test_a_check(tmp_path, case):
    async def check(_request, _context):
        await asyncio.sleep(0)
        return await done(case)

    spec = PermissionCheckSpec(
        name="bad", summary="", priority=1, check=check, timeout=case.seconds
    )
    one = broker(checks=[spec], trusted_checks=["bad"])
    async with asyncio.timeout(DEADLINE):
        verdict = await one.decide(uses("Read", "x"), make_context(tmp_path))
    assert isinstance(verdict, Deny)
    assert verdict.check == "bad"
    assert "the permission check bad " in verdict.reason
    assert case.told in verdict.reason


@pytest.mark.parametrize("answer", [None, Allow()], ids=["without", "with-an-allow"])
async def test_a_check_that_never_lets_go(tmp_path, answer):
    stubborn = Stubborn()

    async def check(_request, _context):
        return await stubborn(answer)

    spec = PermissionCheckSpec(name="bad", summary="", priority=1, check=check, timeout=0.05)
    async with asyncio.timeout(DEADLINE):
        one = broker(checks=[spec], trusted_checks=["bad"])
        verdict = await one.decide(uses("Read", "x"), make_context(tmp_path))
        stubborn.released.set()
    assert verdict == Deny("the permission check bad gave no verdict within 0.05 s")


class Session(ProviderSession):
    def __init__(self, case: Case, host) -> None:
        self.case = case
        self.host = host

    def run_turn(self, context):
        return self.case.deed() if self.case.kind == "provider stream" else self.stream()

    async def stream(self):
        yield AssistantMessage("so far")
        if self.case.kind == "provider run_turn":
            await asyncio.sleep(0)
            await done(self.case)
        if self.case.kind == "provider event":
            yield self.case.deed()
        await self.host.call_tool("task_complete", {"summary": "done"})
        yield TurnEnded(StopReason.END_TURN)

    async def steer(self, text, images=()):
        return await done(self.case)


class Saboteur(Provider):
    def __init__(self, case: Case) -> None:
        self.case = case

    @property
    def capabilities(self):  # type: ignore[override]
        if self.case.kind == "provider capabilities":
            return self.case.deed()
        return ProviderCapabilities(enforcement="pre_tool")

    async def probe(self):
        if self.case.kind == "provider probe":
            return await done(self.case)
        return ProviderStatus(available=True)

    async def list_models(self):
        return await done(self.case) if self.case.kind == "provider list_models" else ()

    @asynccontextmanager
    async def open_session(self, request, host):
        if self.case.kind == "provider open_session":
            await asyncio.sleep(0)
            await done(self.case)
        yield self.case.deed() if self.case.kind == "provider session" else Session(self.case, host)

    async def aclose(self):
        if self.case.kind == "provider aclose":
            await done(self.case)


def provider_spec(case: Case) -> ProviderSpec:
    def build(_settings, _services):
        return case.deed() if case.kind == "provider factory" else Saboteur(case)

    return ProviderSpec(name="bad", summary="", factory=build)


BEFORE = cases("provider factory", "provider capabilities", "provider probe")
WITHIN = cases(
    *("provider open_session", "provider session", "provider stream", "provider run_turn"),
    "provider event",
)


@pytest.fixture
def soon(monkeypatch):
    """Let the deadlines of a case, which are of a loop's own time, be over when it says."""

    def hurry(seconds):
        for name in ("PROBE_SECONDS", "CLOSE_SECONDS"):
            monkeypatch.setattr(f"prsm_core.engine.guarded.provider.{name}", seconds)

    return hurry


@pytest.mark.parametrize("case", BEFORE, ids=str)
async def test_a_provider_that_fails_before_a_run(opened, soon, case):
    soon(case.seconds)
    async with asyncio.timeout(DEADLINE), opened(others=[provider_spec(case)]) as team:
        with pytest.raises(ProviderNotAvailableError) as raised:
            await team.run("do it", {"provider": "bad"})
        assert raised.value.exit_code == 3
        assert (await team.run("do it", {"provider": "script"})).status == "completed"
    assert "provider bad" in raised.value.message
    assert case.told in raised.value.message


@pytest.mark.parametrize("case", [*BEFORE, *cases("provider list_models")], ids=str)
async def test_a_provider_that_fails_in_a_survey_spoils_no_other(opened, soon, case):
    soon(case.seconds)
    async with asyncio.timeout(DEADLINE), opened(others=[provider_spec(case)]) as team:
        registry = team.engine.providers
        found = await survey(registry, ["bad", "script"], with_models=True, seconds=case.seconds)
    assert found["script"].status.available
    assert found["script"].models_problem is None
    told = found["bad"].status.reason or found["bad"].models_problem or ""
    assert case.told in told
    assert "provider bad" in told or told.startswith("no answer")


@pytest.mark.parametrize("case", WITHIN, ids=str)
async def test_a_provider_that_fails_in_a_session_fails_its_agent_by_name(opened, case):
    async with asyncio.timeout(DEADLINE), opened(others=[provider_spec(case)]) as team:
        result = await team.run("do it", {"provider": "bad"})
    assert (result.status, result.exit_code) == ("failed", 1)
    assert "provider bad" in result.error
    assert case.told in result.error
    if case.kind == "provider event":
        assert result.summary == "so far"


@pytest.mark.parametrize("case", cases("provider aclose"), ids=str)
async def test_a_provider_that_fails_as_it_is_closed(opened, soon, caplog, case):
    soon(case.seconds)
    async with asyncio.timeout(DEADLINE):
        async with opened(others=[provider_spec(case)]) as team:
            assert (await team.run("do it", {"provider": "bad"})).status == "completed"
    assert "provider bad" in caplog.text
    assert case.told in caplog.text


@pytest.mark.parametrize("case", cases("provider steer"), ids=str)
async def test_a_provider_that_fails_to_steer_leaves_the_prompt_where_it_is(opened, caplog, case):
    from prsm_core.engine.guarded.provider import GuardedSession

    session: Any = Session(case, None)
    guarded = GuardedSession(session, Guest("provider", "bad"))
    assert await guarded.steer("hurry") is False
    assert "provider bad" in caplog.text
    assert case.told in caplog.text


async def test_a_provider_that_never_lets_go_of_its_probe(opened, soon):
    soon(0.05)
    stubborn = Stubborn()
    case = Case("provider probe", "", stubborn, "")
    async with asyncio.timeout(DEADLINE), opened(others=[provider_spec(case)]) as team:
        with pytest.raises(ProviderNotAvailableError, match="provider bad: the probe did not end"):
            await team.run("do it", {"provider": "bad"})
        stubborn.released.set()


class Face(Frontend):
    def __init__(self, case: Case) -> None:
        self.case = case

    async def run(self, app):
        await asyncio.sleep(0)
        code: Any = await done(self.case)
        return code


@pytest.mark.parametrize("case", cases("frontend run"), ids=str)
async def test_a_frontend(case):
    app: Any = None
    with pytest.raises(PrsmError) as raised:
        await GuardedFrontend(Face(case), Guest("frontend", "bad")).run(app)
    assert raised.value.exit_code == 1
    assert raised.value.message.startswith("frontend bad ")
    assert case.told in raised.value.message


async def test_a_frontend_without_an_exit_code_has_failed():
    app: Any = None
    case = Case("frontend run", "none", lambda: None, "")
    assert await GuardedFrontend(Face(case), Guest("frontend", "bad")).run(app) == 1
