"""The model by hand-made events: order, states, requests, calls, plans, endings."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from prsm_testing.samples import later_events, sample_events
from prsm_tui.model import words
from prsm_tui.model.blocks import Asked, Call, Changed, Ending, Note, Plan, Said, Thought
from prsm_tui.model.session import Session

from plugins.prsm_tui.tests.scenes import Told, texts, viewed
from prsm_core import Provenance, Spent, TokenUsage
from prsm_core.door import HistoryEntry, RunningTurn, RunState, UnwrittenMessage


def names(session):
    return [agent.name for agent in session.rows()]


def test_agents_stay_in_the_order_of_their_spawning():
    told = Told()
    for agent, parent in (("m", None), ("b", "m"), ("a", "m"), ("a1", "a"), ("b1", "b")):
        told.spawn(agent, agent, parent)
    before = names(told.model)
    for agent in ("b1", "a", "b"):
        told.say("agent_state_changed", agent, to="completed", reason="done")
        assert names(told.model) == before == ["m", "b", "b1", "a", "a1"]


def test_an_agent_that_is_started_again_keeps_its_place_and_its_transcript():
    told = Told()
    told.spawn("m", "master")
    told.spawn("a", "one", "m")
    told.spawn("b", "two", "m")
    told.say("message_completed", "a", turn="t", role="assistant", text="hello", message=1)
    told.say("agent_state_changed", "a", to="failed", reason="boom")
    told.spawn("a", "one", "m", incarnation=2)
    assert names(told.model) == ["master", "one", "two"]
    assert told.model.agents["a"].is_live
    assert "hello" in dict(texts(told.model.agents["a"].transcript.blocks))["Said"]


def test_an_agent_that_lives_on_in_another_mode_has_it():
    app = Told()
    app.spawn("m", "master", mode="default")
    app.say("agent_mode_changed", "m", **{"from": "default"}, to="plan", mode="plan")
    app.say("agent_mode_changed", "nobody", **{"from": "default"}, to="plan", mode="plan")
    assert [agent.mode for agent in app.model.agents.values()] == ["plan"]


def test_text_streams_and_the_whole_message_stands_for_it():
    told = Told()
    told.spawn("a", "one")
    told.say("turn_started", "a", turn="t1", n=1)
    transcript = told.model.agents["a"].transcript
    told.piece("Let me", 0, kind="thinking_delta")
    told.piece("Hel", 0)
    told.piece("lo", 3)
    assert texts(transcript.saying()) == [("Thought", "Let me"), ("Said", "Hello")]
    told.say(
        "message_completed",
        "a",
        turn="t1",
        role="assistant",
        text="Hello!",
        thinking="Let me",
        message=1,
    )
    assert transcript.saying() == []
    assert texts(transcript.blocks) == [("Thought", "Let me"), ("Said", "Hello!")]


def test_two_messages_in_a_row_are_not_torn():
    told = Told()
    told.spawn("a", "one")
    told.piece("first", 0, message=1)
    told.piece("second", 0, message=2)
    told.say("message_completed", "a", turn="t1", role="assistant", text="first", message=1)
    transcript = told.model.agents["a"].transcript
    assert texts(transcript.blocks) == [("Said", "first")]
    assert texts(transcript.saying()) == [("Said", "second")]


LATE = st.lists(
    st.tuples(
        st.sampled_from(["text_delta", "thinking_delta", "tool_output_delta"]),
        st.sampled_from(["t1", "t2"]),
        st.integers(1, 3),
        st.integers(0, 30),
        st.text(max_size=4),
    ),
    max_size=12,
)


@settings(deadline=None, max_examples=60)
@given(LATE)
def test_no_order_of_late_pieces_changes_what_is_committed(late):
    told = Told()
    told.spawn("a", "one")
    for message in (1, 2, 3):
        told.piece("x", 0, message=message)
        told.say("message_completed", "a", turn="t1", role="assistant", text="x", message=message)
    told.say("tool_call_started", "a", call="c1", tool="Bash", arguments={})
    told.say("tool_call_finished", "a", call="c1", status="completed", result="ok")
    told.say("turn_finished", "a", turn="t1", stop_reason="end_turn")
    told.say("turn_finished", "a", turn="t2", stop_reason="end_turn")
    transcript = told.model.agents["a"].transcript
    before = [(texts([block]), block.version) for block in transcript.blocks]
    for kind, turn, message, at, text in late:
        where = {"call": "c1"} if kind == "tool_output_delta" else {"turn": turn}
        where |= {} if kind == "tool_output_delta" else {"message": message}
        told.say(kind, "a", live=True, at=at, text=text, **where)
    assert [(texts([block]), block.version) for block in transcript.blocks] == before
    assert transcript.saying() == []


def test_a_call_has_its_output_live_and_its_result_when_it_ends():
    told = Told()
    told.spawn("a", "one")
    told.say("tool_call_started", "a", call="c1", tool="Bash", arguments={"command": "make\nall"})
    agent = told.model.agents["a"]
    told.say("tool_output_delta", "a", live=True, call="c1", at=0, text="compi")
    told.say("tool_output_delta", "a", live=True, call="c1", at=5, text="ling")
    [call] = agent.transcript.open_calls()
    assert (call.subject, call.output.text, call.is_open) == ("make…", "compiling", True)
    assert agent.tools == {"c1": ("Bash", 100.0)}
    failed = {"status": "failed", "error": "no rule", "duration_s": 1.5, "exit_code": 2}
    told.say("tool_call_finished", "a", call="c1", **failed)
    assert (call.status, call.result, call.exit_code) == ("failed", "no rule", 2)
    assert agent.tools == {}


def test_a_call_that_is_asked_about_waits_and_then_runs():
    told = Told()
    told.spawn("a", "one")
    told.say("tool_call_started", "a", call="c1", tool="Bash", arguments={})
    [call] = told.model.agents["a"].transcript.open_calls()
    told.say(
        "permission_requested",
        "a",
        request="r1",
        tool="Bash",
        command="make",
        options=["once"],
        call="c1",
    )
    assert call.status == "waits"
    assert told.model.asks("a")
    told.say("permission_resolved", "a", request="r1", verdict="once", by="user", via="prsm tui")
    assert call.status == "runs"
    assert not told.model.requests
    [asked] = [b for b in told.model.agents["a"].transcript.blocks if isinstance(b, Asked)]
    assert (asked.text, asked.outcome) == ("asks to use Bash: make", "once (by user, prsm tui)")


def test_a_call_that_spawns_is_the_card_of_its_child():
    told = Told()
    told.spawn("m", "master")
    told.say("tool_call_started", "m", call="c1", tool="spawn_child", arguments={"name": "w"})
    told.spawn("w", "w", "m", call="c1")
    [call] = told.model.agents["m"].transcript.open_calls()
    assert call.child == "w"


def test_requests_stay_oldest_first_until_they_end():
    told = Told()
    told.spawn("a", "one")
    for number in (1, 2, 3):
        told.say("question_asked", "a", request=f"q{number}", question="Which?", options=["x"])
    told.say("question_answered", "a", request="q1", answer={"choices": ["x"]}, by="user")
    assert list(told.model.requests) == ["q2", "q3"]


def test_both_sides_of_what_agents_say_to_each_other_tell_of_it():
    told = Told()
    told.spawn("m", "master")
    told.spawn("w", "fixer", "m")
    told.say("message_routed", "w", **{"mid": "1", "kind": "question", "from": "w", "to": "m"})
    told.say("message_routed", "m", **{"mid": "2", "kind": "answer", "from": "m", "to": "w"})
    told.say("message_routed", "w", **{"mid": "3", "kind": "peer", "from": "w", "to": "m"})
    agents = told.model.agents
    said = {name: [text for _, text in texts(agents[name].transcript.blocks)] for name in "wm"}
    assert said["w"] == ["asks master", "is answered by master", "writes to master"]
    assert said["m"] == ["is asked by fixer", "answers fixer", "is written to by fixer"]


def test_plans_files_and_notes_are_blocks():
    told = Told()
    told.spawn("a", "one")
    told.spawn("b", "two")
    told.say("plan_updated", "a", entries=[{"text": "look", "status": "completed"}])
    told.say(
        "file_changed",
        "a",
        path="a.py",
        kind="modified",
        added=1,
        removed=2,
        beside=["b", None],
    )
    told.say("notice", None, level="warning", text="low on disk")
    plan, changed = told.model.agents["a"].transcript.blocks
    assert isinstance(plan, Plan)
    assert plan.entries == (("completed", "look"),)
    assert isinstance(changed, Changed)
    assert changed.others == ("two", "somebody outside")
    [note] = told.model.transcript.blocks
    assert isinstance(note, Note)
    assert (note.level, note.text) == ("warning", "low on disk")


def test_the_end_of_a_run_stands_at_the_session_and_at_its_master():
    told = Told()
    told.say("run_started", None, task="mend it")
    told.spawn("m", "master")
    told.spawn("w", "w", "m")
    told.say("run_finished", None, status="completed", summary="Mended.", duration_s=74.0)
    assert told.model.run is not None
    assert (told.model.run.is_open, told.model.run.summary) == (False, "Mended.")
    for transcript in (told.model.transcript, told.model.agents["m"].transcript):
        ending = transcript.blocks[-1]
        assert isinstance(ending, Ending)
        assert (ending.summary, ending.details.split(",")[0]) == ("Mended.", "in 1m 14s")
    assert not told.model.agents["w"].transcript.blocks


def test_the_end_of_an_earlier_run_ends_no_other():
    told = Told()
    told.say("run_started", None, task="mend it")
    told.say("run_finished", None, run="run-0", status="failed", summary="", duration_s=1.0)
    assert told.model.run is not None
    assert told.model.run.is_open


def test_every_event_of_the_contract_is_taken_and_harmless():
    told = Told()
    for event in sample_events():
        told.model.apply(event)
    for agent in told.model.agents.values():
        for kind, text in texts(agent.transcript.blocks):
            assert "\x1b" not in text, kind
            assert "\u202e" not in text, kind
    for event in later_events(first_seq=told.model.seq + 1):
        told.model.apply(event)


def test_markup_and_escapes_are_text():
    told = Told()
    told.spawn("a", "[bold]x", prompt="\x1b]0;owned\x07")
    told.say("message_completed", "a", turn="t", role="assistant", text="[bold]hi[/]", message=1)
    assert told.model.agents["a"].name == "[bold]x"
    assert texts(told.model.agents["a"].transcript.blocks) == [("Said", "[bold]hi[/]")]


def test_an_event_that_was_taken_is_not_taken_again():
    told = Told()
    told.spawn("a", "one")
    event = told.say("message_completed", "a", turn="t", role="assistant", text="x", message=1)
    told.model.apply(event)
    assert len(told.model.agents["a"].transcript.blocks) == 1


def page(*entries):
    return msgspec.convert([{"at": 1.0, **entry} for entry in entries], list[HistoryEntry])


def test_a_call_whose_end_is_on_a_later_page_is_one_with_it():
    session = Session.of_view(viewed(9, "a"))
    transcript = session.agents["a"].transcript
    assert not transcript.is_whole
    end = {"kind": "tool_result", "call": "c1", "tool": None, "status": "completed", "text": "ok"}
    session.take_page("a", page({"seq": 8, **end}, {"seq": 9, "kind": "text", "text": "so"}))
    begin = {"kind": "tool_call", "call": "c1", "tool": "Bash", "arguments": {"command": "make"}}
    session.take_page("a", page({"seq": 7, **begin}))
    [call, said] = transcript.blocks
    assert isinstance(call, Call)
    assert isinstance(said, Said)
    assert (call.tool, call.status, call.result) == ("Bash", "completed", "ok")
    session.take_page("a", [])
    assert transcript.is_whole


def test_a_call_that_began_before_the_view_ends_after_it():
    told = Told(Session.of_view(viewed(9, "a")))
    for _ in range(9):
        told.say("notice", None, level="info", text="seen before")
    told.say("tool_call_finished", "a", call="c1", status="completed", result="ok")
    begin = {"kind": "tool_call", "call": "c1", "tool": "Bash", "arguments": {}}
    told.model.take_page("a", page({"seq": 7, **begin}))
    [call] = told.model.agents["a"].transcript.blocks
    assert isinstance(call, Call)
    assert (call.tool, call.status) == ("Bash", "completed")


def test_who_opens_a_session_later_sees_how_its_run_ended():
    view = viewed(9, "a", "b", node={"state": "completed"})
    [a, b] = view.tree.agents
    view = replace(view, tree=replace(view.tree, agents=(a, replace(b, run="r0"))))
    over = {"status": "failed", "summary": "half of it", "error": "no more money"}
    run = RunState(id="r1", task="count", started_at=10.0, finished_at=13.0, **over)
    session = Session.of_view(replace(view, run=run))
    [ending] = session.transcript.blocks
    assert isinstance(ending, Ending)
    assert (ending.status, ending.summary, ending.error) == tuple(over.values())
    assert (ending.at, ending.details) == (13.0, "in 3s")
    assert session.agents["a"].transcript.blocks == [ending]
    assert session.agents["b"].transcript.blocks == []
    session.take_page("a", page({"seq": 8, "kind": "text", "text": "so"}))
    assert session.agents["a"].transcript.blocks[1:] == [ending]
    goes_on = replace(run, status="running", finished_at=None, summary="", error=None)
    assert Session.of_view(replace(view, run=goes_on)).transcript.blocks == []


def test_a_view_in_the_middle_of_a_message_goes_on_with_its_pieces():
    written = UnwrittenMessage(message=1, text="one", thinking="")
    said: dict[str, Any] = {"message": 2, "text": "tw", "thinking": "hm", "at": 2}
    turn = RunningTurn(agent="a", turn="t1", n=1, unwritten=(written,), **said)
    told = Told(Session.of_view(viewed(5, "a", turns=(turn,))))
    told.piece("two", 0, message=2)
    told.piece("!", 3, message=2)
    transcript = told.model.agents["a"].transcript
    assert texts(transcript.saying()) == [("Said", "one"), ("Thought", "hm"), ("Said", "two!")]
    assert not [block for block in transcript.saying() if getattr(block, "is_whole", True)]
    assert isinstance(transcript.saying()[1], Thought)


@pytest.mark.parametrize(
    ("spent", "tokens", "cost"),
    [
        (Spent(), "?", "?"),
        (Spent.of_turn(TokenUsage(total_tokens=980), 0.32), "980", "$0.320"),
        (Spent.of_turn(TokenUsage(total_tokens=1_240), None), "1.2k", "?"),
        (
            Spent.of_turn(
                TokenUsage(total_tokens=2_000_000), 3.0, Provenance.ESTIMATED, Provenance.ESTIMATED
            ),
            "~2.0M",
            "~$3.00",
        ),
        (
            Spent.of_turn(TokenUsage(total_tokens=500), 1.0) + Spent.of_turn(TokenUsage(), None),
            "500+?",
            "$1.00+?",
        ),
    ],
)
def test_what_was_used_says_where_it_comes_from(spent, tokens, cost):
    assert (words.tokens(spent), words.cost(spent)) == (tokens, cost)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (999, "999"),
        (1_000, "1.0k"),
        (34_999, "34k"),
        (999_999, "999k"),
        (10**12, "1000G"),
    ],
)
def test_an_amount_is_short(number, text):
    assert words.amount(number) == text
