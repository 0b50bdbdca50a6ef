"""A tree that asks, whose sessions are rebuilt after each death: each question is answered once."""

from __future__ import annotations

import random

import pytest

from tests.crash.trees import SCENARIO, WORKER, Home, check_sound, check_whole

REBUILT = WORKER.with_name("rebuilt_worker.py")
TEXTS = {f"{name} asks {number}?" for name in "ab" for number in (0, 1)} | {"a1 asks?", "b1 asks?"}
KILLS = 10  # of one run, one after the other
WITHIN = 6  # commits


class Rebuilt(Home):
    """A home whose agents have no thread that outlives their engine."""

    def __init__(self, folder, level: str) -> None:
        super().__init__(folder, worker=REBUILT)
        self.env["PRSM_TEST_LEVEL"] = level
        self.kills = 0

    def live(self, dice: random.Random, kills: int):
        """Run it, and kill it so often, if it does not come to its end; return how that was."""
        ended = self.run("asked:1")
        while ended.was_killed:
            self.kills += 1
            check_sound(self)
            ended = self.resume(self._next(dice) if self.kills < kills else "none")
        return ended

    def _next(self, dice: random.Random) -> str:
        """Return a death at any commit, or where something may be lost with a session."""
        moments = ("asked:1", "heard:1", "heard:1", "undone:1")
        return dice.choice((f"kill:{dice.randint(1, WITHIN)}", *moments))


def check_answered(home: Rebuilt, ended) -> None:
    """Each question was asked once, answered once, and nobody failed."""
    assert (ended.code, ended.out) == (0, "master is done\n"), ended.err
    asked = home.query("SELECT json_extract(payload, '$.text') FROM inbox WHERE type = 'question'")
    assert sorted(str(text) for (text,) in asked) == sorted(TEXTS)
    answers = home.query(
        "SELECT correlation_id, count(*) FROM inbox WHERE type = 'answer' GROUP BY 1"
    )
    assert [count for _, count in answers] == [1] * len(TEXTS)
    agents = home.query("SELECT name, state FROM agents ORDER BY name")
    assert agents == [(name, "completed") for name in ("a", "a1", "b", "b1", "master")]
    victims = "SELECT data FROM events WHERE type = 'deadlock_detected' AND data LIKE '%victim\"%'"
    assert not [one for one in home.query(victims) if '"action":"victim"' in str(one)]
    check_sound(home)


def die_so_often(folder, dice: random.Random, level: str, kills: int) -> None:
    """Kill a run and what goes on with it; another one, where it comes to its end before."""
    died = runs = 0
    while died < kills:
        runs += 1
        home = Rebuilt(folder / f"run{runs}", level)
        check_answered(home, home.live(dice, kills - died))
        died += home.kills
    assert died == kills


def test_nobody_dies_and_each_question_is_answered(tmp_path):
    home = Rebuilt(tmp_path, "rebuild")
    check_answered(home, home.run())
    assert not home.query("SELECT * FROM events WHERE type = 'deadlock_detected'")


@pytest.mark.requirement("F2")
@pytest.mark.parametrize("level", ["rebuild", "none"])
def test_each_question_is_answered_once_after_four_deaths(tmp_path, level):
    die_so_often(tmp_path, random.Random(level), level, 4)


@pytest.mark.long
@pytest.mark.requirement("F2")
@pytest.mark.parametrize("seed", range(20))
def test_each_question_is_answered_once_after_ten_deaths(tmp_path, seed):
    """Two hundred deaths in all."""
    die_so_often(tmp_path, random.Random(seed), "rebuild", KILLS)


class RebuiltScript(Home):
    """A home whose scripts are rebuilt: they know from the history what they have done."""

    def prsm(self, *words: str, fault: str = "none"):
        more = ("--set", "providers.script.resume=rebuild") if words[0] in {"run", "resume"} else ()
        return super().prsm(*words, *more, fault=fault)


@pytest.mark.requirement("F2")
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(n, marks=pytest.mark.long) for n in range(1, 8))]
)
def test_a_tree_of_scripts_that_are_rebuilt_goes_on_after_kills(tmp_path, seed):
    dice, home = random.Random(seed), RebuiltScript(tmp_path, SCENARIO)
    ended, kills = home.run(f"kill:{dice.randint(1, 12)}"), 1
    while ended.was_killed:
        check_sound(home)
        ended = home.resume(f"kill:{dice.randint(1, 9)}" if kills < 6 else "none")
        kills += 1
    check_whole(home, ended)
