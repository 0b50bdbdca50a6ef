"""Each call across the boundary to a provider ends: in time, or with the provider's name."""

from __future__ import annotations

import asyncio
import inspect
from contextlib import asynccontextmanager
from typing import Any

import pytest
from prsm_testing.fake_clock import FakeClock

from prsm_core import (
    Provider,
    ProviderCapabilities,
    ProviderSession,
    ProviderSpec,
    ProviderStatus,
    StopReason,
    TurnEnded,
)
from prsm_core.engine.guarded.provider import GuardedProvider, GuardedSession, Limits
from prsm_core.plugins.guard import Guest, TooLateError
from tests.engine.harness import DEADLINE

pytestmark = pytest.mark.requirement("C5", "E61")

SOON = Limits(models=0.02, open=100.0, end=50.0, vendor=0.02)
GUEST = Guest("provider", "slow")
# These are bounded elsewhere: a turn by the clocks of silence and of the agent, the two below by
# constants that other parts of the engine share.
BY_CLOCKS_OF_A_TURN = {"run_turn"}
BY_CONSTANTS = {"probe", "aclose"}


class Held:
    """Waits until it is released; it may swallow that it is cancelled."""

    def __init__(self, *, swallows: bool) -> None:
        self.released = asyncio.Event()
        self.swallows = swallows
        self.cancelled = 0

    async def wait(self) -> None:
        while not self.released.is_set():
            try:
                await self.released.wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                if not self.swallows:
                    raise


class SlowSession(ProviderSession):
    def __init__(self, held: Held, slow: str) -> None:
        self.held = held
        self.slow = slow

    async def run_turn(self, context):
        yield TurnEnded(StopReason.END_TURN)

    async def steer(self, text, images=()):
        await self.held.wait()
        return True

    async def interrupt(self):
        await self.held.wait()

    async def park(self):
        await self.held.wait()
        return True


class Slow(Provider):
    """Holds on in the one of its calls that it is told of."""

    capabilities = ProviderCapabilities(enforcement="pre_tool")

    def __init__(self, slow: str, *, swallows: bool = False) -> None:
        self.slow = slow
        self.held = Held(swallows=swallows)
        self.closed = 0

    async def _act(self, call: str) -> None:
        if call == self.slow:
            await self.held.wait()

    async def probe(self):
        await self._act("probe")
        return ProviderStatus(available=True)

    async def list_models(self):
        await self._act("list_models")
        return ()

    async def knows_model(self, model):
        await self._act("knows_model")
        return True

    @asynccontextmanager
    async def open_session(self, request, host):
        await self._act("open_session")
        try:
            yield SlowSession(self.held, self.slow)
        finally:
            self.closed += 1
            await self._act("end")

    async def aclose(self):
        await self._act("aclose")

    def spec(self):
        return ProviderSpec(name="slow", summary="", factory=lambda *_: self)


def calls_of(kind: type) -> set[str]:
    return {
        name
        for name, value in vars(kind).items()
        if not name.startswith("_") and inspect.isfunction(value)
    }


CALLS: dict[str, Any] = {
    "list_models": lambda provider, _: provider.list_models(),
    "knows_model": lambda provider, _: provider.knows_model("m"),
    "interrupt": lambda _, session: session.interrupt(),
    "park": lambda _, session: session.park(),
    "steer": lambda _, session: session.steer("hurry"),
}


def test_no_call_of_the_interface_is_forgotten():
    bounded = {*CALLS, "open_session", "prepare", *BY_CONSTANTS, *BY_CLOCKS_OF_A_TURN}
    assert calls_of(Provider) | calls_of(ProviderSession) == bounded


def guarded(provider: Slow) -> GuardedProvider:
    return GuardedProvider(provider, GUEST, FakeClock(), SOON)


@pytest.mark.parametrize("swallows", [False, True], ids=["lets-go", "swallows-it"])
@pytest.mark.parametrize("call", sorted(CALLS))
async def test_a_call_that_does_not_end_is_too_late_by_name(caplog, call, swallows):
    provider = Slow(call, swallows=swallows)
    session = GuardedSession(SlowSession(provider.held, call), GUEST, SOON)
    async with asyncio.timeout(DEADLINE):
        if call in {"steer", "park"}:  # the prompt stays where it is, the call is told of later
            assert await CALLS[call](guarded(provider), session) is False
            assert f"provider slow {call}: it did not end within 0.02 s" in caplog.text
        else:
            with pytest.raises(TooLateError, match=f"provider slow {call}: it did not end within"):
                await CALLS[call](guarded(provider), session)
    assert provider.held.cancelled >= 1
    assert ("left behind" in caplog.text) is swallows
    provider.held.released.set()


@asynccontextmanager
async def opening(provider: Slow, clock: FakeClock, stuck: list[str]):
    """Open a session of a slow provider in a task; yield that task."""
    request: Any = None
    one = GuardedProvider(provider, GUEST, clock, SOON)

    class Owner:
        def on_stuck(self) -> None:
            stuck.append("stuck")

    async def run() -> str:
        async with one.open_session(request, request, Owner()):
            return "opened"

    task = asyncio.get_running_loop().create_task(run())
    try:
        async with asyncio.timeout(DEADLINE):
            yield task
    finally:
        provider.held.released.set()
        await asyncio.wait([task])


@pytest.mark.parametrize(
    ("slow", "what", "seconds"),
    [("open_session", "open_session", 100), ("end", "the end of its session", 50)],
)
async def test_a_session_that_is_not_opened_or_ended_is_too_late_by_name(slow, what, seconds):
    provider, clock = Slow(slow), FakeClock()
    stuck: list[str] = []
    async with opening(provider, clock, stuck) as task:
        await clock.sleep(seconds - 1)
        assert not task.done()
        await clock.sleep(2)
        with pytest.raises(TooLateError) as raised:
            await task
    told = f"provider slow {what}: it did not end within {seconds} s"
    assert raised.value.message == told
    assert (stuck, provider.held.cancelled) == ([], 1)
    assert task.cancelling() == 0  # the next wait of the caller is its own


@pytest.mark.parametrize(("slow", "seconds"), [("open_session", 100), ("end", 50)])
async def test_a_session_that_swallows_it_is_given_up(caplog, slow, seconds):
    provider, clock = Slow(slow, swallows=True), FakeClock()
    stuck: list[str] = []
    async with opening(provider, clock, stuck) as task:
        await clock.sleep(seconds + 1)
        assert (stuck, provider.held.cancelled) == ([], 1)
        await clock.sleep(5)
        assert stuck == ["stuck"]
        assert "provider slow does not end its" in caplog.text
        provider.held.released.set()
        if slow == "open_session":  # what comes too late does not count, and is ended
            with pytest.raises(TooLateError):
                await task
            assert provider.closed == 1


async def test_who_is_cancelled_meanwhile_is_cancelled_and_not_late():
    provider, clock = Slow("open_session"), FakeClock()
    stuck: list[str] = []
    async with opening(provider, clock, stuck) as task:
        await clock.sleep(10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await clock.sleep(1000)
    assert stuck == []


async def test_a_session_that_opens_in_time_has_no_deadline_while_it_is_open():
    provider, clock = Slow("nothing"), FakeClock()
    request: Any = None
    one = GuardedProvider(provider, GUEST, clock, SOON)
    async with one.open_session(request, request):
        await clock.sleep(10_000)
    assert provider.closed == 1


@pytest.mark.parametrize("swallows", [False, True], ids=["lets-go", "swallows-it"])
@pytest.mark.parametrize("slow", ["open_session", "end"])
async def test_in_a_run_the_agent_fails_and_the_run_ends(opened, slow, swallows):
    provider = Slow(slow, swallows=swallows)
    limits = {"open_timeout_seconds": 77.0}
    async with asyncio.timeout(DEADLINE):
        async with opened(clock=FakeClock(), others=[provider.spec()], engine=limits) as team:
            result = await team.run("do it", {"provider": "slow"})
            provider.held.released.set()
    assert result.status == "failed"
    if slow == "open_session":
        told = "does not end the opening" if swallows else "open_session: it did not end within 77"
        assert told in result.error
        assert "provider slow" in result.error
