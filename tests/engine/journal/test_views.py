"""The tree and the conversations, built from rows and events."""

import json
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import to_builtins
from msgspec.structs import replace

from prsm_core.domain.agents import AgentDescriptor, AgentRole, AgentState, Grant
from prsm_core.domain.events import Event
from prsm_core.domain.usage import Spent, TokenUsage
from prsm_core.engine.journal.views import (
    ConversationStore,
    EntryType,
    build_tree,
    conversation,
    filter_detail,
)
from prsm_core.engine.state import UsedByTurn
from prsm_core.errors import MessageRoutingError, ToolInputError
from prsm_core.interfaces.store import AgentRow, Store

UNKNOWN = TokenUsage()
NODE_KEYS = [
    "id",
    "name",
    "run",
    "parent",
    "role",
    "provider",
    "model",
    "next_model",
    "state",
    "waiting_on",
    "depth",
    "usage_self",
    "usage_subtree",
    "elapsed_s",
    "last_tool",
    "silent_s",
    "evidence",
    "evidence_gaps",
    "evidence_by",
    "waits_for_user",
    "children",
]


def make_row(
    agent_id,
    parent=None,
    *,
    name=None,
    state=AgentState.RUNNING,
    usage=UNKNOWN,
    started=100.0,
    ended=None,
    last_event=None,
    depth=0,
):
    descriptor = AgentDescriptor(
        agent_id=agent_id,
        name=name or f"name-{agent_id}",
        session_id="S",
        run_id="R",
        role=AgentRole.WORKER,
        provider="echo",
        model="default",
        prompt="do it",
        system_prompt="",
        cwd="/w",
        tools=frozenset(),
        grant=Grant(tools=frozenset()),
        parent_id=parent,
        depth=depth,
        state=state,
    )
    return AgentRow(
        descriptor=descriptor,
        waiting_on=None,
        result=None,
        resume_token=None,
        next_turn=1,
        head_turn_id=None,
        started_at=started,
        ended_at=ended,
        last_tool="Bash",
        last_event_at=last_event,
        spent=Spent(usage=usage),
    )


def make_event(kind, ts=1.0, **data):
    return Event(type=kind, session="S", run="R", ts=ts, agent="a", data=data)


def test_a_tree_has_the_documented_shape():
    rows = [make_row("m", name="master", last_event=150.0), make_row("w", "m", depth=1)]
    tree = build_tree("S", "R", rows, 160.0)
    told = to_builtins(tree)
    assert list(told) == ["session", "run", "is_live", "spent", "agents"]
    [master] = tree.agents
    assert list(told["agents"][0]) == NODE_KEYS
    assert (master.name, master.parent, master.elapsed_s, master.silent_s) == (
        "master",
        None,
        60.0,
        10.0,
    )
    [worker] = master.children
    assert (worker.id, worker.parent, worker.depth, worker.children) == (
        "w",
        "m",
        1,
        (),
    )
    json.dumps(told)


@pytest.mark.requirement("U16")
def test_what_turns_have_used_that_are_not_written_yet_counts_once():
    rows = [
        make_row("m", usage=TokenUsage(total_tokens=1)),
        replace(make_row("w", "m", usage=TokenUsage(total_tokens=10)), head_turn_id="t2"),
    ]

    def used(agent, turn, tokens):
        return UsedByTurn(agent, turn, Spent.of_turn(TokenUsage(total_tokens=tokens), 0.5))

    unwritten = [used("m", "t1", 100), used("w", "t2", 10), used("other", "t3", 7)]
    tree = build_tree("S", "R", rows, 1.0, unwritten=unwritten)
    [master] = tree.agents
    [worker] = master.children
    assert tree.is_live
    assert (tree.spent.total_tokens, tree.spent.cost_usd) == (111, 0.5)
    assert master.usage_self.total_tokens == 101
    assert master.usage_subtree.total_tokens == 111
    assert worker.usage_self.total_tokens == 10, "its row has the turn already"


def test_usage_rolls_up_and_an_unknown_count_stays_unknown():
    rows = [
        make_row("m", usage=TokenUsage(input_tokens=1)),
        make_row("w", "m", usage=TokenUsage(input_tokens=10)),
        make_row("x", "w", usage=TokenUsage(input_tokens=100, output_tokens=5)),
    ]
    [master] = build_tree("S", "R", rows, 1.0).agents
    assert master.usage_self.input_tokens == 1
    assert master.usage_subtree.input_tokens == 111
    assert master.usage_subtree.output_tokens == 5
    assert master.usage_subtree.total_tokens == 116


@pytest.mark.requirement("N10")
def test_the_total_of_a_subtree_holds_vendors_that_tell_no_total():
    rows = [
        make_row("m", usage=TokenUsage(input_tokens=60, output_tokens=40, total_tokens=100)),
        make_row("w", "m", usage=TokenUsage(input_tokens=900, output_tokens=50)),
    ]
    [master] = build_tree("S", "R", rows, 1.0).agents
    assert master.usage_subtree.total_tokens == 1050
    assert master.children[0].usage_self.total_tokens == 950


def test_an_agent_that_never_started_has_no_times():
    row = make_row("m", state=AgentState.PENDING, started=None)
    [node] = build_tree("S", "R", [row], 5.0).agents
    assert (node.elapsed_s, node.silent_s) == (None, None)


def test_the_time_of_an_ended_agent_stands_still():
    row = make_row("m", state=AgentState.COMPLETED, ended=130.0, last_event=130.0)
    [node] = build_tree("S", "R", [row], 999.0).agents
    assert (node.elapsed_s, node.silent_s) == (30.0, None)


def test_agents_of_a_session_without_an_owner_show_interrupted():
    rows = [
        make_row("m", last_event=120.0),
        make_row("w", "m", state=AgentState.COMPLETED, ended=110.0),
    ]
    [master] = build_tree("S", "R", rows, 999.0, interrupted=True).agents
    assert (master.state, master.elapsed_s) == ("interrupted", 20.0)
    assert master.children[0].state == "completed"


def test_an_agent_whose_parent_is_not_listed_is_a_root():
    tree = build_tree("S", "R", [make_row("w", "gone")], 1.0)
    assert [node.id for node in tree.agents] == ["w"]


def test_a_chain_of_five_thousand_agents_is_built_without_recursion():
    one = TokenUsage(input_tokens=1)
    rows = [make_row(str(n), str(n - 1) if n else None, usage=one) for n in range(5_000)]
    tree = build_tree("S", "R", rows, 1.0)
    assert tree.agents[0].usage_subtree.input_tokens == 5_000
    assert len(list(tree.walk())) == 5_000


@given(st.lists(st.integers(min_value=0, max_value=10_000), min_size=1, max_size=40))
def test_every_agent_appears_once_below_its_parent_and_sums_its_subtree(choices):
    parents = [None] + [choice % n for n, choice in enumerate(choices, start=1)]
    rows = [
        make_row(
            str(n), None if parent is None else str(parent), usage=TokenUsage(input_tokens=n + 1)
        )
        for n, parent in enumerate(parents)
    ]
    nodes = list(build_tree("S", "R", rows, 1.0).walk())
    assert sorted(int(node.id) for node in nodes) == list(range(len(rows)))
    for node in nodes:
        assert all(child.parent == node.id for child in node.children)
        below = [child.usage_subtree.input_tokens or 0 for child in node.children]
        assert node.usage_subtree.input_tokens == sum(below, node.usage_self.input_tokens or 0)


TALK = [
    make_event("turn_started", 1.0, turn="t", n=1),
    make_event("message_completed", 2.0, turn="t", role="user", text="fix it"),
    make_event("message_completed", 3.0, turn="t", role="assistant", text="ok", thinking="hm"),
    make_event("tool_call_started", 4.0, call="c", tool="Bash", arguments={"command": "ls"}),
    make_event("tool_call_finished", 5.0, call="c", status="completed", result="a.py"),
    make_event("tool_call_started", 6.0, call="d", tool="Read", arguments={}),
    make_event("tool_call_finished", 7.0, call="d", status="failed", result="", error="no file"),
]


@pytest.mark.requirement("E39")
def test_a_conversation_has_the_five_entry_types():
    entries = conversation(TALK)
    assert [entry["kind"] for entry in entries] == [
        "user_message",
        "thinking",
        "text",
        "tool_call",
        "tool_result",
        "tool_call",
        "tool_result",
    ]
    assert {entry["kind"] for entry in entries} == {kind.value for kind in EntryType}
    assert [entry.get("text") for entry in entries[:3]] == ["fix it", "hm", "ok"]
    assert entries[3]["arguments"] == {"command": "ls"}
    assert (entries[4]["tool"], entries[4]["status"], entries[4]["text"]) == (
        "Bash",
        "completed",
        "a.py",
    )
    assert (entries[6]["status"], entries[6]["text"]) == ("failed", "no file")
    assert [entry["at"] for entry in entries] == [2.0, 3.0, 3.0, 4.0, 5.0, 6.0, 7.0]


def test_what_a_failed_call_wrote_is_shown_with_why_it_failed():
    ends = [
        ("failed", "1 failed\n", "exit code 1", "exit code 1\n1 failed\n"),
        ("failed", "no file", "no file", "no file"),
        ("failed", "first\nlast", "last", "first\nlast"),
        ("unknown", None, "nobody told", "nobody told"),
        ("denied", None, "never", "never"),
        ("completed", "ok", None, "ok"),
        ("completed", None, None, ""),
    ]
    told = [
        make_event("tool_call_finished", 1.0, call="c", status=status, result=result, error=error)
        for status, result, error, _ in ends
    ]
    shown = [(entry["status"], entry["text"]) for entry in conversation(told)]
    assert shown == [(status, text) for status, _, _, text in ends]


@pytest.mark.requirement("E40")
def test_a_summary_keeps_what_was_said_and_the_names_of_tools():
    entries = filter_detail(conversation(TALK), "summary")
    assert [entry["kind"] for entry in entries] == [
        "user_message",
        "text",
        "tool_call",
        "tool_call",
    ]
    assert entries[2] == {"kind": "tool_call", "at": 4.0, "tool": "Bash"}


def test_full_detail_is_everything():
    assert filter_detail(conversation(TALK), "full") == conversation(TALK)


def test_an_unknown_detail_level_is_refused():
    with pytest.raises(ToolInputError, match="detail level"):
        filter_detail([], "verbose")


class OneAgentStore:
    """Answers `events` for agent "a" only."""

    async def events(self, session_id, after=0, *, follow=False, agent=None):
        for event in TALK if agent == "a" and session_id == "S" else ():
            yield event


@pytest.mark.requirement("E40")
async def test_get_history_reads_one_agents_events_at_the_asked_detail():
    store = ConversationStore(cast("Store", OneAgentStore()), "S")
    assert await store.get_history("a") == conversation(TALK)
    assert len(await store.get_history("a", "summary")) == 4
    assert await store.get_history("b") == []


ROWS = [
    make_row("aa11", name="master"),
    make_row("aa22", name="w1"),
    make_row("bb33", name="aa2"),
]


@pytest.mark.requirement("E41")
@pytest.mark.parametrize(
    ("text", "agent_id"),
    [("master", "aa11"), ("aa1", "aa11"), ("bb", "bb33"), ("aa22", "aa22"), ("aa2", "bb33")],
)
def test_an_agent_is_found_by_alias_or_unique_prefix_of_its_id(text, agent_id):
    assert ConversationStore.resolve_agent_id(text, ROWS) == agent_id


@pytest.mark.requirement("E41")
def test_an_ambiguous_prefix_names_the_agents_it_fits():
    with pytest.raises(MessageRoutingError) as caught:
        ConversationStore.resolve_agent_id("aa", ROWS)
    assert caught.value.code == "ambiguous_agent"
    assert "master" in str(caught.value.hint)
    assert "w1" in str(caught.value.hint)


@pytest.mark.requirement("E41")
@pytest.mark.parametrize(
    ("text", "rows", "hint"),
    [
        ("mastr", ROWS, "'master'"),
        ("zzz", ROWS, "master, w1"),
        ("", ROWS, "the agents are"),
        ("w1", [], "no agents"),
    ],
)
def test_an_unknown_agent_gets_the_nearest_name_as_a_hint(text, rows, hint):
    with pytest.raises(MessageRoutingError) as caught:
        ConversationStore.resolve_agent_id(text, rows)
    assert caught.value.code == "unknown_agent"
    assert hint in str(caught.value.hint)
