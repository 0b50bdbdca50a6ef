"""A tree whose engine dies at any moment, between two commits or within one, goes on."""

from __future__ import annotations

import random

import pytest

from tests.crash.trees import Home, check_sound, check_whole

ROW = 12  # deaths of one run, one after the other


def killed_in_a_row(home: Home, dice: random.Random, *, kills: int, within: float) -> int:
    """Kill a run, and what goes on with it, each within so many seconds; return how often."""
    ended, count = home.run(f"alarm:{dice.uniform(1e-6, within):f}"), 0
    while ended.was_killed and count < kills:
        count += 1
        check_sound(home)
        if count < kills:
            ended = home.resume(f"alarm:{dice.uniform(1e-6, within):f}")
    check_whole(home, home.resume() if ended.was_killed else ended)
    return count


def kill_in_a_row(folder, seed: int, kills: int) -> None:
    """Kill a run so often before its end, at moments over as much of it as can be.

    Where one has come to its end before, the next is killed sooner.
    """
    dice, whole = random.Random(seed), Home(folder / "whole")
    check_whole(whole, whole.run())
    within, tries = whole.seconds * 2 / kills, 0
    while True:
        tries += 1
        home = Home(folder / f"try{tries}")
        if killed_in_a_row(home, dice, kills=kills, within=within) == kills:
            return
        within /= 2


def test_a_tree_goes_on_after_three_deaths_at_any_moment(tmp_path):
    kill_in_a_row(tmp_path, seed=0, kills=3)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, 18))
def test_a_tree_goes_on_after_twelve_deaths_at_any_moment(tmp_path, seed):
    kill_in_a_row(tmp_path, seed, ROW)
