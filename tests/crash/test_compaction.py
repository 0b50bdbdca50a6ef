"""An engine that is killed as it compacts a conversation leaves the old one or the new one."""

from __future__ import annotations

from itertools import count

import pytest

from tests.crash.trees import Ended, Home

TASK = "build it " + "carefully " * 300  # too long to be kept beside the calls
SETTINGS = (
    *("--set", "defaults.model=small"),
    *("--set", "model_registry.small.max_context=10000"),
    *("--set", "context.keep=0.1"),
)
SUMMARIES = (
    """
  master-summary:
    steps:
"""
    + "      - {say: SUMMARY, usage: {input_tokens: 70, output_tokens: 5}}\n" * 9
)
AT_THE_BUDGET = (
    """
lanes:
  master:
    steps:
      - call: {tool: spawn_child, arguments: {name: a, prompt: part one}}
      - {say: waiting, usage: {input_tokens: 9000}}
      - call: {tool: task_complete, arguments: {summary: all done}}
  a:
    steps:
      - call: {tool: task_complete, arguments: {summary: a done}}
"""
    + SUMMARIES
)
TOO_LONG = (
    """
lanes:
  master:
    steps:
      - call: {tool: spawn_child, arguments: {name: a, prompt: part one, wait: true}}
      - error: {status: 400, code: context_length_exceeded, message: prompt is too long}
      - call: {tool: task_complete, arguments: {summary: all done}}
  a:
    steps:
      - call: {tool: task_complete, arguments: {summary: a done}}
"""
    + SUMMARIES
)
SCENARIOS = {"context_limit": AT_THE_BUDGET, "overflow_recovery": TOO_LONG}
FEW = [(7, "context_limit"), (9, "overflow_recovery"), (11, "overflow_recovery")]


def check(home: Home, ended: Ended) -> list[tuple]:
    """Everything was done once, whatever was compacted; return the compactions."""
    assert ended.code == 0, ended.err
    assert ended.out.strip() == "all done"
    assert home.query("SELECT name, state FROM agents") == [
        ("master", "completed"),
        ("a", "completed"),
    ]
    assert home.query("SELECT count(*) FROM turns WHERE closed_by IS NULL") == [(0,)]
    assert home.query("SELECT count(*) FROM tool_calls WHERE completed_at IS NULL") == [(0,)]
    done = "SELECT id FROM turns WHERE turn_type = 'compaction' AND status = 'completed'"
    compactions = home.query("SELECT turn_id FROM compactions")
    assert sorted(compactions) == sorted(home.query(done))
    told = home.query(
        "SELECT json_extract(data, '$.turn') FROM events WHERE type = 'compaction_finished'"
    )
    assert sorted(told) == sorted(compactions)
    return compactions


@pytest.mark.requirement("N32")
@pytest.mark.parametrize("trigger", SCENARIOS)
def test_a_conversation_is_compacted_by_the_command(tmp_path, trigger):
    home = Home(tmp_path, SCENARIOS[trigger])
    ended = home.prsm("run", TASK, "--provider", "script", *SETTINGS)
    assert len(check(home, ended)) == 1
    assert home.query("SELECT trigger FROM compactions") == [(trigger,)]
    assert "goes on from a summary" in ended.err


@pytest.mark.requirement("N32")
@pytest.mark.parametrize(("kill", "trigger"), FEW)
def test_a_kill_at_a_commit_of_a_compaction_loses_nothing(tmp_path, trigger, kill):
    home = Home(tmp_path, SCENARIOS[trigger])
    ended = home.prsm("run", TASK, "--provider", "script", *SETTINGS, fault=f"kill:{kill}")
    assert ended.was_killed, "the run has more commits than that"
    assert len(check(home, home.prsm("resume", *SETTINGS))) in {0, 1, 2}


@pytest.mark.long
@pytest.mark.requirement("N32")
@pytest.mark.parametrize("trigger", SCENARIOS)
def test_a_kill_at_any_commit_of_a_compaction_leaves_the_old_or_the_new(tmp_path, trigger):
    found = set()
    for kill in count(3):  # before, there is no master
        folder = tmp_path / str(kill)
        folder.mkdir()
        home = Home(folder, SCENARIOS[trigger])
        ended = home.prsm("run", TASK, "--provider", "script", *SETTINGS, fault=f"kill:{kill}")
        if not ended.was_killed:
            break
        found.add(len(check(home, home.prsm("resume", *SETTINGS))))
    assert 1 in found
    assert found <= {0, 1, 2}
