"""However many wait for however long behind a time limit: together they end by one deadline."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from prsm_testing.fake_clock import FakeClock

from prsm_core.kit.clocks import TOTAL_SECONDS, WAITS_SECONDS, Parting
from prsm_core.loop import leaving


class Hand(FakeClock):
    """A clock that is moved by hand."""

    def __init__(self):
        super().__init__()
        self.at = 1_000.0

    def now(self):
        return self.at


def begun():
    clock = Hand()
    parting = Parting(clock)
    parting.begin()
    leaving.leave_whenever()
    return clock, parting


@given(st.lists(st.one_of(st.none(), st.floats(0.01, 400)), min_size=1, max_size=60))
def test_waits_end_together_and_each_has_some_time(waits):
    clock, parting = begun()
    began = clock.at
    for seconds in waits:
        given_time = parting.rest() if seconds is None else parting.most(seconds)
        assert 0 < given_time <= (seconds or WAITS_SECONDS)
        clock.at += given_time  # in vain
    assert clock.at - began < WAITS_SECONDS < TOTAL_SECONDS


def test_nothing_is_shortened_before_a_limit_or_in_a_session_that_goes_on():
    parting = Parting(FakeClock())
    assert (parting.most(300), parting.rest(), parting.most_for_programs(10)) == (300, None, 10)
    clock, parting = begun()
    assert parting.most(300) < WAITS_SECONDS
    assert parting.most_for_programs(10) < TOTAL_SECONDS - WAITS_SECONDS
    parting.stay()
    assert parting.most(300) == 300
    clock, parting = begun()
    clock.at += WAITS_SECONDS + TOTAL_SECONDS + 1
    assert parting.most(300) == 300


def test_the_loop_has_what_is_left_for_the_process():
    assert leaving.time_to_leave(5.0) == 5.0
    try:
        leaving.leave_within(1.0)
        assert 0 < leaving.time_to_leave(5.0) <= 0.5
        leaving.leave_within(-1.0)
        assert leaving.time_to_leave(5.0) == 0.0
    finally:
        leaving.leave_whenever()
