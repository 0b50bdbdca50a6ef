"""A tree whose engine is killed goes on as if nothing had been: after every commit, and again."""

from __future__ import annotations

import random

import pytest

from tests.crash.trees import Home, check_whole, killed_and_resumed

FEW = range(3, 40, 12)
ALL = range(1, 45)
SECOND = """
lanes:
  m1:
    steps:
      - call: {id: c, tool: spawn_child, arguments: {name: c, prompt: look, wait: true}}
      - call: {tool: task_complete, arguments: {summary: "second: ${c.result.summary}"}}
  c:
    steps:
      - call: {tool: task_complete, arguments: {summary: c done}}
"""


@pytest.mark.parametrize("kill", FEW)
def test_a_tree_goes_on_after_a_kill(tmp_path, kill):
    home = Home(tmp_path)
    check_whole(home, killed_and_resumed(home, kill, 3 + kill // 3))


@pytest.mark.long
@pytest.mark.parametrize("kill", ALL)
def test_a_tree_goes_on_after_a_kill_at_any_commit_and_another(tmp_path, kill):
    home = Home(tmp_path)
    ended = home.run(f"kill:{kill}")
    if not ended.was_killed:
        check_whole(home, ended)
        return
    again = 1
    while (ended := home.resume(f"kill:{again}")).was_killed and again < len(ALL):
        again += 1
    check_whole(home, ended if not ended.was_killed else home.resume())


@pytest.mark.long
@pytest.mark.parametrize("seed", range(17))
def test_a_tree_goes_on_after_twelve_kills(tmp_path, seed):
    dice, home = random.Random(seed), Home(tmp_path)
    check_whole(home, killed_and_resumed(home, *(dice.randint(1, 12) for _ in range(12))))


def test_no_commit_of_a_run_is_beyond_those_that_are_tried(tmp_path):
    home = Home(tmp_path)
    check_whole(home, home.run())
    assert 30 < home.commits < max(ALL)


def test_a_run_that_is_finished_gives_its_own_exit_code(tmp_path):
    home = Home(tmp_path)
    check_whole(home, home.run())
    again = home.resume()
    check_whole(home, again)
    assert "is finished: completed" in again.err


def test_without_a_session_there_is_nothing_to_go_on_with(tmp_path):
    ended = Home(tmp_path).resume()
    assert ended.code == 1
    assert "nothing was run yet" in ended.err
    assert "prsm run" in ended.err


def test_agents_of_another_run_that_was_cut_off_stay_as_they_are(tmp_path):
    """Nobody asked for them: a resume is of one run."""
    home = Home(tmp_path)
    assert home.run("kill:12").was_killed
    agents = "SELECT name, state, incarnation FROM agents ORDER BY rowid"
    left = home.query(agents)
    assert "running" in {state for _, state, _ in left}
    [(session,)] = home.query("SELECT session_id FROM runs")
    home.play(SECOND)
    again = ("run", "again", "--session", str(session), "--provider", "script")
    assert home.prsm(*again, fault="kill:6").was_killed
    ended = home.resume()
    assert (ended.code, ended.out) == (0, "second: c done\n"), ended.err
    assert home.query("SELECT status FROM runs ORDER BY rowid") == [("running",), ("completed",)]
    first, second = home.query(agents)[: len(left)], home.query(agents)[len(left) :]
    assert first == left
    assert [(name, state) for name, state, _ in second] == [("m1", "completed"), ("c", "completed")]
