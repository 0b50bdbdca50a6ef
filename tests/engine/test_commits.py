"""What a child's life and a question cost: so many commits, and every event they ever had."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

from benchmarks.ask import dialogue
from benchmarks.commits import written_by
from benchmarks.spawn import at_once, one_by_one

A_CHILD = (  # of a child
    "agent_spawned agent_state_changed agent_state_changed turn_started message_completed"
    " tool_call_started tool_call_finished agent_state_changed message_routed turn_finished"
)
# … of its master, when each child has a call of its own; results are taken together
ITS_MASTER = "tool_call_started tool_call_finished"
A_QUESTION = (  # of the child that asks
    "tool_call_started message_routed agent_state_changed agent_state_changed tool_call_finished"
)
ITS_ANSWER = (  # … of the master that waits, then answers
    "tool_call_started agent_state_changed agent_state_changed tool_call_finished"
    " tool_call_started message_routed tool_call_finished"
)


def by_agent(written):
    """Return the events of a run by the name of their agent, in the order of the log."""
    names, told = {None: "run"}, defaultdict(list)
    for event in (event for events in written for event in events):
        if event.type == "agent_spawned":
            names[event.agent] = event.data["name"]
        told[names[event.agent]].append(event.type)
    return told


def difference(scenario):
    """Return what one more child, or question, adds: commits, and events by kind."""
    three, four = (written_by(scenario(count)) for count in (3, 4))
    events = [Counter(e.type for events in run for e in events) for run in (three, four)]
    return len(four) - len(three), events[1] - events[0]


@pytest.mark.parametrize(
    ("scenario", "commits", "events"),
    [
        (one_by_one, 4, f"{A_CHILD} {ITS_MASTER}"),
        (at_once, 3, A_CHILD),
        (dialogue, 4, f"{A_QUESTION} {ITS_ANSWER}"),
    ],
    ids=["spawn", "spawn at once", "ask"],
)
def test_one_more_costs_so_many_commits_and_tells_all_that_it_told(scenario, commits, events):
    assert difference(scenario) == (commits, Counter(events.split()))


def test_each_agent_tells_of_its_life_in_its_order():
    told = by_agent(written_by(one_by_one(2)))
    assert told["c0"] == told["c1"] == A_CHILD.split()
    told = by_agent(written_by(dialogue(2)))
    begin, asking, end = told["child"][:5], told["child"][5:15], told["child"][15:]
    assert [*begin, *end] == A_CHILD.split()
    assert asking == A_QUESTION.split() * 2
    calls = [kind for kind in told["master"] if kind != "turn_finished"]
    assert calls[7:21] == ITS_ANSWER.split() * 2
