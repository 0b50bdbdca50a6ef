"""A tree whose engine is killed goes on as if nothing had been: after every commit, and again."""

from __future__ import annotations

import random

import pytest

from tests.crash.trees import Home, check_whole

FEW = range(3, 40, 6)
ALL = range(1, 45)


def killed_and_resumed(home: Home, *kills: int) -> None:
    """Kill the run after the first number of commits, its resumes after the others; then finish."""
    first, *later = kills
    ended = home.run(kill_after=first)
    for kill in later:
        if ended.was_killed:
            ended = home.resume(kill_after=kill)
    check_whole(home, home.resume() if ended.was_killed else ended)


@pytest.mark.requirement("F2", "N20", "D17")
@pytest.mark.parametrize("kill", FEW)
def test_a_tree_goes_on_after_a_kill(tmp_path, kill):
    killed_and_resumed(Home(tmp_path), kill, 3 + kill // 3)


@pytest.mark.long
@pytest.mark.requirement("F2")
@pytest.mark.parametrize("kill", ALL)
def test_a_tree_goes_on_after_a_kill_at_any_commit_and_another(tmp_path, kill):
    home = Home(tmp_path)
    ended = home.run(kill_after=kill)
    if not ended.was_killed:
        check_whole(home, ended)
        return
    again = 1
    while (ended := home.resume(kill_after=again)).was_killed and again < len(ALL):
        again += 1
    check_whole(home, ended if not ended.was_killed else home.resume())


@pytest.mark.long
@pytest.mark.requirement("F2")
@pytest.mark.parametrize("seed", range(17))
def test_a_tree_goes_on_after_twelve_kills(tmp_path, seed):
    dice = random.Random(seed)
    killed_and_resumed(Home(tmp_path), *(dice.randint(1, 12) for _ in range(12)))


def test_a_run_that_is_finished_gives_its_own_exit_code(tmp_path):
    home = Home(tmp_path)
    check_whole(home, home.run())
    again = home.resume()
    check_whole(home, again)
    assert "is finished: completed" in again.err


@pytest.mark.requirement("D18")
def test_without_a_session_there_is_nothing_to_go_on_with(tmp_path):
    ended = Home(tmp_path).resume()
    assert ended.code == 1
    assert "nothing was run yet" in ended.err
    assert "prsm run" in ended.err
