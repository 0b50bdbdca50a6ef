"""What the watch of a loop does is counted in looks, so it is played here without a clock."""

from __future__ import annotations

import asyncio
import itertools
import logging
import queue
import signal
import sys
import threading
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from prsm_core.loop.blame import Place, note_module, place_of_frame
from prsm_core.loop.blocking import (
    ENDED_AFTER,
    LOOK_SECONDS,
    SLOW_AFTER,
    TOLD_AFTER,
    BlockedError,
    LoopWatch,
    Ticker,
    watched,
)

pytestmark = pytest.mark.requirement("C5", "F9")


def some_code() -> None:
    """Stand for code that blocks."""


def other_code() -> None:
    """Stand for code that goes on."""


PLUGIN = Place(some_code.__code__, 7, "prsm-bad 1.0", is_plugin=True)
CORE = Place(some_code.__code__, 7, "prsm-core 0.1")


class SlowLoop:
    """A loop that answers when the test says so."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def call_soon_threadsafe(self, callback: Any) -> None:
        self.asked.append(callback)

    def answer(self) -> None:
        while self.asked:
            self.asked.pop()()


class Watching:
    """A watch whose loop, thread and signal are the test's."""

    def __init__(self, place: Place | None) -> None:
        self.loop = SlowLoop()
        loop: Any = self.loop
        self.ended = 0
        self.watch = LoopWatch(loop, lambda: place, self._end)

    def _end(self) -> None:
        self.ended += 1

    def look(self, times: int) -> None:
        for _ in range(times):
            self.watch.look()


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.levelno == logging.WARNING]


@pytest.fixture
def caplog(caplog):
    caplog.set_level(logging.INFO, "prsm.engine")
    return caplog


def test_a_loop_that_answers_is_asked_each_time_and_nothing_is_told(caplog):
    one = Watching(PLUGIN)
    for _ in range(100):
        one.watch.look()
        assert len(one.loop.asked) == 1
        one.loop.answer()
    assert (caplog.records, one.ended) == ([], 0)


def test_who_blocks_is_told_once_after_three_looks_and_ended_after_twelve(caplog):
    one = Watching(PLUGIN)
    one.look(1 + TOLD_AFTER - 1)
    assert warnings_in(caplog) == []
    one.look(1)
    [told] = warnings_in(caplog)
    assert told.startswith("some_code of prsm-bad 1.0 (")
    assert told.endswith("has blocked all agents for 3 s: it does not return")
    one.look(ENDED_AFTER - TOLD_AFTER - 1)
    assert one.ended == 0
    one.look(1)
    assert one.ended == 1
    one.look(5)  # what heeds no signal is sent one again at each look
    assert one.ended == 6
    assert len(warnings_in(caplog)) == 1


@pytest.mark.parametrize("place", [CORE, None], ids=["the core's own", "what a debugger holds"])
def test_what_is_no_plugins_is_never_ended(caplog, place):
    one = Watching(place)
    one.look(100)
    assert one.ended == 0
    assert len(warnings_in(caplog)) == (place is CORE)


def test_a_slow_process_blames_nobody(caplog):
    """Each look finds other code: it does return, as soon as it has the processor."""
    places = [CORE, replace(CORE, code=other_code.__code__)]
    one = Watching(None)
    one.watch._where = lambda: places[next(turn) % 2]
    turn = itertools.count()
    one.look(1 + SLOW_AFTER - 1)
    assert warnings_in(caplog) == []
    one.look(30)
    assert warnings_in(caplog) == ["all agents have waited for 6 s for this machine: it is busy"]
    assert one.ended == 0


def test_while_a_plugin_is_still_loaded_other_code_is_not_blamed_before_it_is_ended(caplog):
    one = Watching(PLUGIN)
    one.watch._loading = lambda: ["slowly"]
    one.look(ENDED_AFTER)
    told = "all agents have waited for 3 s for this machine: plugin slowly is still being loaded"
    assert (warnings_in(caplog), one.ended) == ([told], 0)
    one.look(1)
    assert (len(warnings_in(caplog)), one.ended) == (2, 1)


def test_who_blocks_a_slow_process_in_the_end_is_ended_all_the_same(caplog):
    one = Watching(None)
    other = replace(CORE, code=other_code.__code__)
    places = itertools.chain([CORE, other] * 2, itertools.repeat(PLUGIN))
    one.watch._where = lambda: next(places)
    one.look(1 + 4 + TOLD_AFTER)
    assert "has blocked all agents" in warnings_in(caplog)[-1]
    one.look(ENDED_AFTER)
    assert one.ended > 0


def test_a_loop_that_goes_on_is_told_of_and_starts_anew(caplog):
    one = Watching(PLUGIN)
    one.look(1 + ENDED_AFTER - 1)
    one.loop.answer()
    one.look(1)
    assert caplog.records[-1].message == "the event loop goes on after about 11 s"
    one.look(TOLD_AFTER - 1)
    assert (len(warnings_in(caplog)), one.ended) == (1, 0)


@settings(max_examples=100, deadline=None)
@given(stretches=st.lists(st.integers(min_value=0, max_value=20), max_size=12))
def test_whatever_it_looks_at_each_stretch_counts_for_itself(stretches):
    told: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = told.append  # type: ignore[assignment,method-assign]
    logger = logging.getLogger("prsm.engine")
    logger.addHandler(handler)
    try:
        one = Watching(PLUGIN)
        for blocked in stretches:
            one.look(1 + blocked)
            one.loop.answer()
    finally:
        logger.removeHandler(handler)
    warned = [record for record in told if record.levelno == logging.WARNING]
    assert len(warned) == sum(blocked >= TOLD_AFTER for blocked in stretches)
    assert one.ended == sum(max(0, blocked - ENDED_AFTER + 1) for blocked in stretches)


class Condemned(Watching):
    """A watch that has sent its signal; the handler runs in the frame that the test gives."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.look(1 + ENDED_AFTER)

    def interrupt(self) -> None:
        self.watch.interrupt(signal.SIGURG, sys._getframe(1))


# Whose tests were run before may count as a plugin, too: so no frame of a test is looked at.
SOURCE = """
def blocks(waits):
    waits()

def asks_without_end(seen, ready, asked, most):
    for look in range(most):  # as `time.sleep` does, it ends by an exception only
        seen.append(look)
        ready.acquire()
        asked.put(True)
"""


def plugin_module(name: str) -> ModuleType:
    module = ModuleType(name)
    exec(compile(SOURCE, f"{name}.py", "exec"), module.__dict__)  # noqa: S102 - a plugin's code
    note_module(name)
    return module


def place_in(module: ModuleType) -> Place:
    found: list[Place | None] = []
    module.blocks(lambda: found.append(place_of_frame(sys._getframe(1))))
    assert found[0] is not None
    assert found[0].is_plugin
    return found[0]


def test_the_exception_is_raised_in_the_code_that_was_told_of_only():
    guilty, innocent = plugin_module("guilty_plugin"), plugin_module("innocent_plugin")
    one = Condemned(place_in(guilty))
    innocent.blocks(one.interrupt)  # the signal came when the other one had gone on
    one.look(1)
    with pytest.raises(BlockedError, match="it has blocked all agents for 13 s"):
        guilty.blocks(one.interrupt)
    guilty.blocks(one.interrupt)  # once for each look


def test_a_loop_that_has_answered_meanwhile_gets_no_exception():
    guilty = plugin_module("quick_plugin")
    one = Condemned(place_in(guilty))
    one.loop.answer()
    guilty.blocks(one.interrupt)


class Ticks(Ticker):
    """Looks when it is `asked`; `ready` is released once the last look is over."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: queue.Queue[bool] = queue.Queue()
        self.ready = threading.Semaphore(0)

    def wait(self) -> bool:
        self.ready.release()
        return self.asked.get()

    def stop(self) -> None:
        self.asked.put(False)


def test_code_that_never_returns_ends_at_its_twelfth_look_in_a_real_loop(caplog):
    ticks, plugin = Ticks(), plugin_module("endless_plugin")
    seen: list[int] = []

    async def main() -> None:
        with pytest.raises(BlockedError):
            plugin.asks_without_end(seen, ticks.ready, ticks.asked, 10 * ENDED_AFTER)

    loop = asyncio.new_event_loop()
    try:
        with watched(loop, ticks):
            loop.run_until_complete(main())
    finally:
        loop.close()
    assert ENDED_AFTER <= len(seen) <= ENDED_AFTER + 4
    # Before it stands what plugins of other tests, which never end, keep this process from.
    told = warnings_in(caplog)[-1]
    assert told.startswith(
        "asks_without_end of plugin code endless_plugin (endless_plugin.py, line "
    )


def test_the_watch_leaves_its_signal_as_it_was_and_no_thread():
    before, threads = signal.getsignal(signal.SIGURG), threading.active_count()
    loop = asyncio.new_event_loop()
    with watched(loop, Ticks()):
        assert signal.getsignal(signal.SIGURG) != before
    loop.close()
    assert signal.getsignal(signal.SIGURG) == before
    assert threading.active_count() == threads


def test_the_real_ticker_looks_each_second_until_it_is_stopped():
    assert LOOK_SECONDS == 1.0
    ticker = Ticker()
    ticker.stop()
    assert ticker.wait() is False
