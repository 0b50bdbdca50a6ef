"""Why a turn is ended before its own end, and what is said of it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from prsm_testing.fake_clock import FakeClock

from prsm_core.config.schema import Settings
from prsm_core.domain.turns import ErrorKind, StepEnded, StopReason
from prsm_core.engine.turns.limits import TurnStop
from prsm_core.errors import AgentTimeoutError
from prsm_core.interfaces.provider import ProviderSession
from prsm_core.kit.background import Background

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from prsm_core.domain.images import Image
    from prsm_core.domain.turns import AssembledContext, ProviderEvent


class Interrupted(ProviderSession):
    """A session that only takes note of its interruption."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def run_turn(self, context: AssembledContext) -> AsyncIterator[ProviderEvent]:
        """Say one thing."""
        yield StepEnded()

    async def steer(self, text: str, images: Sequence[Image] = ()) -> bool:
        """Take nothing."""
        raise AssertionError(text)

    async def interrupt(self) -> None:
        """Take note of it."""
        self.asked.set()


class Owner:
    """Whose turn ends by itself."""

    async def give_up(self) -> None:
        """Is for one that does not let go."""
        pytest.fail("its turn has ended")


def life(moved: list[str]) -> Any:
    """Return the life of an agent that takes note of moving."""
    record = SimpleNamespace(descriptor=SimpleNamespace(name="w1"))
    return SimpleNamespace(record=record, moved=lambda: moved.append("w1"))


@pytest.mark.requirement("E38")
@pytest.mark.parametrize(
    ("which", "setting"),
    [
        ("reasoning", "agent_timeout_seconds"),
        ("idle", "idle_timeout_seconds"),
        ("tool", "tool_timeout_seconds"),
    ],
)
async def test_a_clock_that_runs_out_is_an_error_that_names_what_allows_more(which, setting):
    session = Interrupted()
    failed: list[tuple[str, Exception]] = []
    async with Background(lambda *error: failed.append(error), FakeClock()) as background:
        stop = TurnStop(background, FakeClock(), session, life([]), Owner())
        stop.begin(asyncio.current_task())
        assert stop.end() is None
        stop.expire(which)
        await session.asked.wait()
        stop.over()
    assert isinstance(stop.expired, AgentTimeoutError)
    assert stop.expired.hint == f"engine.{setting} allows more"
    assert hasattr(Settings().engine, setting)
    end = stop.end()
    assert end is not None
    assert end.error is not None
    assert (end.stop_reason, end.error.kind) == (StopReason.TIMEOUT, ErrorKind.TIMEOUT)
    assert end.error.message == stop.expired.message
    assert not failed


@pytest.fixture
async def alone():
    """Yield what stops a turn without a session, and who has moved."""
    moved: list[str] = []
    async with Background(lambda *error: pytest.fail(str(error)), FakeClock()) as background:
        yield TurnStop(background, FakeClock(), Interrupted(), life(moved), Owner()), moved


async def test_a_turn_that_is_cut_off_waits_for_nobody_from_then_on(alone):
    """Before its task has heard of it: else others that end then find themselves in a knot."""
    stop, moved = alone

    async def turn() -> None:
        stop.begin(asyncio.current_task(), is_alone=True)
        await asyncio.Event().wait()

    async with asyncio.TaskGroup() as group:
        task = group.create_task(turn())
        await asyncio.sleep(0)
        stop.expire("tool")
        assert (moved, task.done()) == (["w1"], False)
    assert task.cancelled()


async def test_a_turn_that_its_own_task_cuts_off_hears_of_it_where_it_settles(alone):
    """As where the answer to its last call uses a budget up: nothing is cancelled after that."""
    stop, _ = alone

    async def settled() -> str:
        stop.begin(asyncio.current_task(), is_alone=True)
        stop.expire("tool")
        try:
            await stop.hear()
        except asyncio.CancelledError:
            assert stop.take_back()
        await asyncio.sleep(0)
        return "closed"

    async with asyncio.TaskGroup() as group:
        task = group.create_task(settled())
    assert task.result() == "closed"


async def test_a_turn_that_nobody_cuts_off_hears_nothing(alone):
    stop, _ = alone
    stop.begin(asyncio.current_task(), is_alone=True)
    await stop.hear()
    assert not stop.take_back()
