"""A command that has begun is not begun again: the ledger knows of it before it runs."""

from __future__ import annotations

import pytest

from tests.crash.trees import Home, check_sound

SCENARIO = """
lanes:
  master:
    steps:
      - call: {id: a, tool: spawn_child, arguments: {name: a, prompt: count, wait: true}}
      - call: {tool: task_complete, arguments: {summary: "${a.result.summary}"}}
  a:
    steps:
      - say: I begin.
        shell: {cmd: echo one >> ran}
      - shell:
          - {cmd: echo two >> ran}
          - {cmd: echo three >> ran}
      - call: {tool: task_complete, arguments: {summary: done}}
"""
STARTS = (
    "SELECT json_extract(data, '$.arguments.command') FROM events"
    " WHERE type = 'tool_call_started' AND json_extract(data, '$.tool') = 'Bash'"
)


@pytest.mark.requirement("F2")
@pytest.mark.parametrize("level", ["call", "native", "rebuild"])
def test_a_command_whose_engine_dies_as_it_runs_is_told_and_not_run_again(tmp_path, level):
    home = Home(tmp_path, SCENARIO)
    more = ("--provider", "script", "--mode", "bypass", "--set", f"providers.script.resume={level}")
    assert home.prsm("run", "count", *more, fault="runs:2").was_killed
    ran = (home.workspace / "ran").read_text().split()
    assert len(ran) == 2
    told = [command for (command,) in home.query(STARTS)]
    assert {f"echo {word} >> ran" for word in ran} <= set(told)
    ended = home.prsm("resume", "--set", f"providers.script.resume={level}")
    assert (ended.code, ended.out) == (0, "done\n"), ended.err
    # Of two that begin together the other one may be cut off before it ran: then it is told so.
    after = (home.workspace / "ran").read_text().split()
    assert sorted(after) == sorted(set(after))
    assert set(ran) <= set(after)
    cut = "SELECT count(*) FROM events WHERE type = 'tool_call_finished' AND data LIKE '%cut off%'"
    assert home.query(cut) != [(0,)]
    check_sound(home)
