"""A clock that was set back between two lives of a run changes nothing of what they do."""

from __future__ import annotations

import pytest

from tests.crash.trees import Home, check_sound, check_whole

BACK = "back:90000"  # more than a day


@pytest.mark.parametrize("kill", [5, 21])
def test_a_run_goes_on_though_the_clock_was_set_back(tmp_path, kill):
    home = Home(tmp_path)
    assert home.run(f"kill:{kill}").was_killed
    ended = home.resume(BACK)
    check_whole(home, ended)
    check_sound(home)
    [(began,)] = home.query("SELECT ts FROM events WHERE type = 'run_started'")
    [(resumed,)] = home.query("SELECT ts FROM events WHERE type = 'run_resumed'")
    assert float(str(resumed)) < float(str(began)) - 80000


def test_the_newest_session_is_the_one_that_was_begun_last_whatever_the_clock_says(tmp_path):
    home = Home(tmp_path)
    check_whole(home, home.run())
    home.run(BACK)
    first, second = (
        session for (session,) in home.query("SELECT session_id FROM meta ORDER BY rowid")
    )
    listed = home.prsm("sessions", "list", "--json").out
    assert listed.index(f'"{second}"') < listed.index(f'"{first}"')
    assert str(second) in home.prsm("sessions", "show").out
