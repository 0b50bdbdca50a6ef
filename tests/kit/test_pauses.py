"""What a vendor's message says of how long to wait."""

from __future__ import annotations

import time
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prsm_core.kit import read_pause


@pytest.fixture(autouse=True)
def somewhere(monkeypatch):
    """A time zone that counts otherwise in winter."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


NOW = datetime(2026, 11, 29, 15, 30).astimezone


@pytest.mark.requirement("U29")
@pytest.mark.parametrize(
    ("message", "seconds"),
    [
        ("Please try again in 1.2s.", 1.2),
        ("try again in 250ms", 0.25),
        ("try again in 20 ms", 0.02),
        ("Try again in 2m", 120.0),
        ("Please retry in 1.5s.", 1.5),
        ("retry-after: 7", 7.0),
        ("Retry-After 90", 90.0),
        ("Try again in 3 days 4 hours 5 minutes.", 3 * 86400 + 4 * 3600 + 300),
        ("try again in 1 hour and 10 seconds", 3610.0),
        ("Your quota will reset after 3h4m5s.", 3 * 3600 + 245),
        ("try again at 5:30 PM.", 7200.0),
        ("or try again at 3:30 PM", 86400.0),
        ("try again at 12:30 AM", 9 * 3600.0),
        ("Try again at Nov 30th, 2026 3:30 PM.", 86400.0),
        ("try again at May 2nd, 2027 4:30 PM", 154 * 86400.0),
        ("try again at Feb 30th, 2027 3:30 PM", None),
        ("try again at Nov 1st, 2026 3:30 PM", 0.0),
        ("try again later", None),
        ("later", None),
    ],
)
def test_the_time_to_wait_is_read(message, seconds):
    assert read_pause(message, NOW().timestamp()) == seconds


def test_a_time_of_day_says_nothing_without_the_present_one():
    assert read_pause("try again at 5:30 PM") is None


@given(st.text(), st.floats(0, 4e9))
def test_any_text_is_read(text, now):
    for message in (text, f"try again at {text}", f"try again in {text}"):
        pause = read_pause(message, now)
        assert pause is None or pause >= 0
