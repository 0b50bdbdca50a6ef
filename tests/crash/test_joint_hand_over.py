"""A tree of eight is killed in the middle of a joint hand-over: its lead has each result once."""

from __future__ import annotations

import random

import pytest

from tests.crash.trees import Ended, Home, check_sound

pytestmark = pytest.mark.requirement("U32", "F2")

NAMES = [f"c{number}" for number in range(8)]
CHILDREN = ", ".join(f"{{name: {name}, prompt: work}}" for name in NAMES)
SUMMARY = " ".join(["${m.summary}", *(f"${{m.others.{n}.summary}}" for n in range(7))])
SCENARIO = f"""
lanes:
  master:
    steps:
      - call: {{tool: spawn_children_parallel, arguments: {{children: [{CHILDREN}]}}}}
      - call: {{id: m, tool: wait_for_message, arguments: {{all: true}}}}
      - call: {{tool: task_complete, arguments: {{summary: "{SUMMARY}"}}}}
""" + "".join(
    f"""
  {name}:
    steps:
      - call: {{tool: task_complete, arguments: {{summary: "{name}"}}}}
"""
    for name in NAMES
)
LEVELS = ("native", "rebuild")
FAULTS = ("handing:1", "half:1", "joint:1")  # before, within and after the commit of the answer
KILLS = 50


class Eight(Home):
    """A home whose master leads eight; its scripts have threads, or are rebuilt."""

    def __init__(self, folder, level: str) -> None:
        super().__init__(folder, SCENARIO)
        self.level = level

    def prsm(self, *words: str, fault: str = "none") -> Ended:
        return super().prsm(*words, "--set", f"providers.script.resume={self.level}", fault=fault)


def check_each_once(home: Home, ended: Ended) -> None:
    """The lead has said each result once; each was read once, and all by one call."""
    assert ended.code == 0, ended.err
    assert sorted(ended.out.split()) == NAMES
    agents = home.query("SELECT name, state FROM agents ORDER BY name")
    assert agents == [(name, "completed") for name in (*NAMES, "master")]
    assert home.query("SELECT type, count(*) FROM inbox GROUP BY type") == [("task_result", 8)]
    assert home.query("SELECT count(DISTINCT consumed_by) FROM inbox") == [(1,)]
    assert home.query("SELECT count(*) FROM inbox WHERE consumed_by IS NULL") == [(0,)]
    assert not home.query("SELECT * FROM events WHERE type = 'deadlock_detected'")
    check_sound(home)


def die_in_hand_overs(folder, dice: random.Random, kills: int) -> None:
    """Kill leads so often, each again and again for as long as it takes results."""
    died = runs = 0
    while died < kills:
        runs += 1
        home = Eight(folder / f"run{runs}", dice.choice(LEVELS))
        ended = home.run(dice.choice(FAULTS))
        while ended.was_killed:
            died += 1
            check_sound(home)
            faults = (*FAULTS, "undone:1")
            ended = home.resume(dice.choice(faults) if died < kills else "none")
        check_each_once(home, ended)


@pytest.mark.parametrize(
    ("fault", "level"),
    [*((fault, "native") for fault in FAULTS), ("half:1", "rebuild")],
)
def test_each_result_comes_once_after_a_death_in_the_hand_over(tmp_path, level, fault):
    home = Eight(tmp_path, level)
    assert home.run(fault).was_killed
    check_sound(home)
    check_each_once(home, home.resume())


@pytest.mark.long
def test_each_result_comes_once_after_fifty_deaths_in_hand_overs(tmp_path):
    die_in_hand_overs(tmp_path, random.Random(0), KILLS)
