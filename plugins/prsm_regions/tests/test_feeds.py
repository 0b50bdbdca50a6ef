"""What agents do to files, as feeds, and the graph that they add up to in any order."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prsm_regions.extension.messages import Feed

from plugins.prsm_regions.tests.merged_feeds import Graph
from prsm_core import Event

AGENTS = ("ann", "bob")
PATHS = ("src/ui/a.ts", "src/ui/b.ts", "src/core/c.py", "d.md")


def event(seq, what, agent, **data):
    return Event(seq=seq, ts=0.0, session="s", run="r", agent=agent, type=what, data=data)


def call(seq, agent, tool, **arguments):
    told = {"call": str(seq), "tool": tool, "arguments": arguments, "orchestration": False}
    return event(seq, "tool_call_started", agent, **told)


def feed(agent="ann", region="src/ui"):
    return Feed(agent, name=agent, region=region, folders=("/work", "/trees/ann"))


@st.composite
def stories(draw):
    """Events of a session: reads, writes, changes of files and turns of two agents."""
    acts = st.tuples(
        st.sampled_from(["Read", "Edit", "changed", "used"]),
        st.sampled_from(AGENTS),
        st.sampled_from(PATHS),
    )
    told = []
    for seq, (act, agent, path) in enumerate(draw(st.lists(acts, max_size=25)), 1):
        if act == "changed":
            who = [agent] if draw(st.booleans()) else list(AGENTS)
            told.append(event(seq, "file_changed", agent, path=path, kind="modified", agents=who))
        elif act == "used":
            usage = {"input_tokens": draw(st.integers(0, 9)), "output_tokens": None}
            told.append(event(seq, "turn_finished", agent, turn=str(seq), usage=usage))
        else:
            told.append(call(seq, agent, act, file_path=f"/work/{path}"))
    return told


def told_by(agent, story, joins):
    """What a client of an agent's feed gets that joins after so many events."""
    one = feed(agent)
    for each in story[:joins]:
        one.fold(each)
    return [one.snapshot(), *(message for each in story[joins:] for message in one.fold(each))]


@pytest.mark.requirement("R25")
@given(stories(), st.integers(0, 25), st.integers(0, 25), st.randoms())
def test_two_feeds_merge_equal_under_any_interleaving(story, ann_joins, bob_joins, rng):
    in_order = Graph()
    for agent in AGENTS:
        for message in told_by(agent, story, 0):
            in_order.merge(message)
    told = [*told_by("ann", story, ann_joins), *told_by("bob", story, bob_joins)]
    told += rng.sample(told, len(told) // 2)  # some of it comes twice
    rng.shuffle(told)
    merged = Graph()
    for message in told:
        merged.merge(json.loads(json.dumps(message)))
    assert merged.to_dict() == in_order.to_dict()


@pytest.mark.requirement("R25")
def test_the_last_writer_of_a_file_is_its_node_and_a_deleted_file_says_so():
    graph, ann, bob = Graph(), feed("ann"), feed("bob", "src/core")
    for one in (ann, bob):
        graph.merge(one.snapshot())
    story = [
        call(1, "ann", "Read", path="src/core/c.py"),
        call(2, "bob", "Edit", file_path="/work/src/core/c.py"),
        event(3, "file_changed", "ann", path="src/ui/a.ts", kind="deleted", agents=["ann"]),
    ]
    random.Random(1).shuffle(story)
    for each in story:
        for message in (*ann.fold(each), *bob.fold(each)):
            graph.merge(message)
    assert graph.to_dict()["nodes"] == {
        "src/core/c.py": {"seq": 2, "agent_id": "bob", "action": "write"},
        "src/ui/a.ts": {"seq": 3, "agent_id": "ann", "action": "deleted"},
    }


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "/work", "/work/../x", "", 7, None])
def test_what_is_not_in_the_workspace_is_in_no_feed(path):
    one = feed()
    assert one.fold(call(1, "ann", "Read", path=path)) == []
    assert one.snapshot()["nodes"] == []


def test_a_worktree_of_an_agent_is_the_workspace():
    [message] = feed().fold(call(1, "ann", "Read", path="/trees/ann/src/ui/a.ts"))
    assert [node["path"] for node in message["nodes"]] == ["src/ui/a.ts"]


def test_tokens_add_up_and_what_nobody_told_is_none():
    one = feed()
    turns = [{"input_tokens": 3, "output_tokens": 2}, {"input_tokens": None}, {"input_tokens": 4}]
    told = [
        message["usage"]
        for seq, usage in enumerate(turns, 1)
        for message in one.fold(event(seq, "turn_finished", "ann", turn="t", usage=usage))
    ]
    assert told[0] == {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
    assert told[-1] == {"input_tokens": 7, "output_tokens": 2, "total_tokens": 9}
    assert one.fold(event(9, "turn_finished", "bob", turn="t", usage=turns[0])) == []
