"""Agents that write to each other, killed after every commit: each message is read, and once."""

from __future__ import annotations

import random

import pytest

from tests.crash.trees import WORKER, Home, check_sound, killed_and_resumed

FEW = (12, 26)
ALL = range(1, 60)
WITH_TOOLS = WORKER.with_name("peers_worker.py")
SCENARIO = """
lanes:
  master:
    steps:
      - call:
          tool: spawn_children_parallel
          arguments: {children: [{name: a, prompt: ask}, {name: b, prompt: answer}]}
      - call: {id: m, tool: wait_for_message, arguments: {all: true}}
      - call:
          tool: task_complete
          arguments: {summary: "all: ${m.summary} ${m.others.0.summary}"}
  a:
    steps:
      - call: {tool: message_send, arguments: {to: b, text: one}}
      - call: {id: n1, tool: message_next}
      - call: {tool: message_send, arguments: {to: b, text: two}}
      - call: {id: n2, tool: message_next}
      - call:
          tool: task_complete
          arguments: {summary: "${n1.message.text} ${n2.message.text}"}
  b:
    steps:
      - call: {tool: spawn_child, arguments: {name: slow, prompt: stay}}
      - say: I wait.
      - call: {tool: message_send, arguments: {to: a, text: first}}
      - say: I wait for more.
      - call: {tool: message_send, arguments: {to: a, text: second}}
      - call: {tool: message_send, arguments: {to: slow, text: enough}}
      - call: {id: w, tool: wait_for_message}
      - call: {tool: task_complete, arguments: {summary: "${w.summary}"}}
  slow:
    steps:
      - call: {id: n, tool: message_next}
      - call: {tool: task_complete, arguments: {summary: "${n.message.text}"}}
"""
SENT = [("a", "b", "one"), ("a", "b", "two"), ("b", "a", "first"), ("b", "a", "second")]
SENT.append(("b", "slow", "enough"))


def home_of(folder):
    return Home(folder, SCENARIO, worker=WITH_TOOLS)


def check_read(home, ended):
    """Each message was sent once and consumed once, and its reader had it before it went on."""
    assert ended.code == 0, ended.err
    assert sorted(ended.out.split()) == ["all:", "enough", "first", "second"]
    sent = home.query(
        "SELECT s.name, t.name, json_extract(m.payload, '$.text'), m.consumed_by IS NOT NULL"
        " FROM inbox AS m JOIN agents AS s ON s.agent_id = m.source"
        " JOIN agents AS t ON t.agent_id = m.target WHERE m.type = 'peer'"
    )
    assert sorted(sent) == [(*message, 1) for message in SENT]
    told = home.query("SELECT count(*) FROM events WHERE json_extract(data, '$.kind') = 'peer'")
    assert told == [(len(SENT),)]
    assert not home.query("SELECT * FROM events WHERE type = 'deadlock_detected'")
    assert {state for (state,) in home.query("SELECT state FROM agents")} == {"completed"}
    check_sound(home)


def test_agents_that_write_to_each_other_end_within_the_commits_that_are_tried(tmp_path):
    home = home_of(tmp_path)
    check_read(home, home.run())
    assert max(FEW) < home.commits < max(ALL)


@pytest.mark.parametrize("kill", FEW)
def test_a_message_is_read_once_although_its_engine_is_killed(tmp_path, kill):
    home = home_of(tmp_path)
    check_read(home, killed_and_resumed(home, kill, 4))


@pytest.mark.long
@pytest.mark.parametrize("kill", ALL)
def test_a_message_is_read_once_whatever_commit_its_engine_is_killed_at(tmp_path, kill):
    home = home_of(tmp_path)
    check_read(home, killed_and_resumed(home, kill, 1 + kill % 9))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(8))
def test_a_message_is_read_once_after_twelve_kills(tmp_path, seed):
    dice, home = random.Random(seed), home_of(tmp_path)
    check_read(home, killed_and_resumed(home, *(dice.randint(1, 12) for _ in range(12))))
