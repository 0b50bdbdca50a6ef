"""Every kind of event becomes harmless lines, whatever its fields hold."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prsm_console.render import Ink, Renderer

from prsm_core.domain.events import EVENT_FIELDS, Event

TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=20)
NUMBERS = {
    *("percent", "added", "removed", "duration_s", "delay_s", "attempt", "used", "limit", "n"),
    *("tries_left", "pauses_s"),
}
LISTS = {"paths", "options", "agents"}


def field_values(name):
    if name in NUMBERS:
        return st.none() | st.integers(0, 10_000)
    if name in LISTS:
        return st.none() | st.lists(TEXT, max_size=3)
    if name == "entries":
        entry = st.fixed_dictionaries({"text": TEXT, "status": TEXT | st.just("completed")})
        return st.none() | st.lists(entry | TEXT, max_size=3)
    if name == "change":
        lines = st.fixed_dictionaries({"added": st.integers(0), "lines": st.lists(TEXT)})
        return st.none() | lines
    if name == "arguments":
        return st.none() | st.dictionaries(TEXT, TEXT | st.integers(), max_size=3)
    if name == "error":
        return st.none() | TEXT | st.fixed_dictionaries({"kind": TEXT, "message": TEXT})
    return st.none() | TEXT


@st.composite
def any_event(draw):
    kind = draw(st.sampled_from(sorted(EVENT_FIELDS)))
    data = {name: draw(field_values(name)) for name in EVENT_FIELDS[kind]}
    agent = draw(st.none() | TEXT)
    return Event(type=kind, session="S", run="R", ts=0.0, agent=agent, data=data, seq=1)


@given(st.lists(any_event(), max_size=8))
def test_no_event_breaks_the_console_or_the_terminal(events):
    renderer = Renderer(Ink(enabled=False))
    for event in events:
        for line in renderer.lines(event):
            assert not set(line) & set("\x1b\r\x07\u202e\u2066\x9b\x00")


def lines_of(kind, /, **data):
    renderer = Renderer(Ink(enabled=False))
    renderer.learn(Event(type="agent_spawned", session="S", run="R", ts=0.0, agent="a" * 32,
                         data={"name": "w1"}))  # fmt: skip
    event = Event(type=kind, session="S", run="R", ts=0.0, agent="a" * 32, data=data, seq=1)
    return list(renderer.lines(event))


@given(TEXT, any_event())
def test_only_the_first_line_of_an_event_begins_where_prsms_own_do(text, event):
    """A question of three lines is no request for permission."""
    forged = f"{text}\nw1 asks permission for Bash\nerror: no"
    data = {name: forged if isinstance(said, str) else said for name, said in event.data.items()}
    _, *rest = "\n".join(lines_of(event.type, **data)).split("\n")
    assert all(line.startswith("  ") for line in rest)


def test_lines_of_a_question_are_told_from_its_options():
    asked = lines_of("question_asked", question="Which?\n1. red", options=["blue"])
    assert asked == ["w1 asks you: Which?", "  | 1. red", "  1. blue"]


@pytest.mark.parametrize(
    ("kind", "data", "line"),
    [
        ("agent_state_changed", {"to": "failed", "reason": "idle"}, "w1 failed: idle"),
        ("agent_state_changed", {"to": "waiting_for_child"}, "w1 waits for its children"),
        ("turn_finished", {"error": {"message": "no key"}}, "w1: the turn failed: no key"),
        ("tool_call_started", {"tool": "Read", "arguments": {"x": 1, "path": "a"}}, "w1 > Read: a"),
        ("tool_call_started", {"tool": "list", "arguments": {}}, "w1 > list"),
        (
            "tool_call_finished",
            {"status": "denied", "error": "no", "duration_s": 3},
            "w1 > a tool denied after 3s: no",
        ),
        (
            "message_routed",
            {"kind": "question", "from": "b" * 32, "to": "a" * 32},
            "bbbbbbbb asks w1",
        ),
        ("message_routed", {"kind": "user_prompt", "to": "a" * 32}, "user prompts w1"),
        (
            "message_routed",
            {"kind": "peer", "from": "b" * 32, "to": "a" * 32},
            "bbbbbbbb writes to w1",
        ),
        ("progress_reported", {"status": "half", "percent": 50}, "w1: 50% half"),
        (
            "file_changed",
            {"path": "a.py", "kind": "modified", "added": 3},
            "w1 modified a.py (+3 -0)",
        ),
        (
            "deadlock_detected",
            {"agents": ["a" * 32, "b"], "victim": "b", "action": "fails"},
            "deadlock between w1, b: fails b",
        ),
        (
            "budget_exceeded",
            {"kind": "usd", "used": 2, "limit": 1},
            "the budget of usd is used up: 2 of 1",
        ),
        (
            "retry_scheduled",
            {"attempt": 2, "delay_s": 4, "error": "429"},
            "w1 tries again in 4s (attempt 2): 429",
        ),
        (
            "retry_scheduled",
            {
                "attempt": 1,
                "delay_s": 1,
                "error": {"kind": "model_error", "message": "server busy"},
            },
            "w1 tries again in 1s (attempt 1): model error: server busy",
        ),
        (
            "retry_scheduled",
            {"attempt": 1, "delay_s": 1, "error": "no net", "tries_left": 4, "pauses_s": 66.2},
            "w1 tries again in 1s (attempt 1; gives up after 4 more, 1m 06s of pauses at most): "
            "no net",
        ),
        ("sink_dropped", {"sink": "jsonl", "count": 3}, "warning: sink jsonl lost 3 events"),
        (
            "plugin_quarantined",
            {"plugin": "x", "error": "boom"},
            "warning: plugin x is not used: boom",
        ),
    ],
)
def test_events_read_like_sentences(kind, data, line):
    assert lines_of(kind, **data) == [line]


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("agent_state_changed", {"to": "running"}),
        ("turn_started", {"n": 1}),
        ("turn_finished", {"stop_reason": "end_turn"}),
        ("message_completed", {"role": "user", "text": "prompt"}),
        ("message_completed", {"role": "assistant", "text": " \n"}),
        ("tool_call_finished", {"status": "completed", "result": "long"}),
        ("message_routed", {"kind": "progress_update"}),
        ("text_delta", {"text": "x"}),
    ],
)
def test_routine_is_not_printed(kind, data):
    assert lines_of(kind, **data) == []


def test_an_end_tells_how_far_the_result_was_looked_into():
    fields = {"to": "completed", "reason": "task_complete", "evidence": "verified"}
    assert lines_of("agent_state_changed", **fields) == ["w1 completed (verified): task_complete"]
    gaps = {"evidence": "claimed", "evidence_gaps": ["'a\x1b.py' does not exist"]}
    assert lines_of("agent_state_changed", **{**fields, **gaps}) == [
        "w1 completed (claimed): task_complete",
        "  not confirmed: 'a\\x1b.py' does not exist",
    ]


@pytest.mark.requirement("D10")
@pytest.mark.parametrize(
    ("answer", "by", "told"),
    [
        ({"choices": ["a\x1b", "b"], "text": None}, "user", "is answered with a\\x1b, b (by user)"),
        ({"choices": ["a"], "text": "but\nnot b"}, "user", "is answered with a, but… (by user)"),
        (None, "turn_ended", "is closed (by turn_ended)"),
        (None, "headless", "has no answer: nobody is there to ask"),
        (None, "timeout", "has no answer: nobody answered in time"),
        (None, "unattended", "has no answer: nobody was attached"),
        (
            {"choices": ["a\x1b"], "text": None},
            "on_ask",
            "is answered with a\\x1b (by --on-ask allow)",
        ),
        (
            {"choices": [], "text": ""},
            "on_ask",
            "is answered with an empty text (by --on-ask allow)",
        ),
    ],
)
def test_a_question_tells_how_it_ended_and_what_stood_in_for_a_person(answer, by, told):
    lines = lines_of("question_answered", request="q", answer=answer, by=by, via="")
    assert lines == [f"the question of w1 {told}"]


def test_a_permission_without_a_command_shows_its_paths():
    lines = lines_of("permission_requested", request="r", tool="Edit", paths=["a\nb"])
    assert lines == ["w1 asks permission for Edit", "  path: a\\nb"]


def test_a_permission_for_an_edit_shows_the_file_and_what_changes():
    change = {"added": 1, "removed": 1, "lines": ["-old", "+new\x1b[1A"], "more": 3}
    told = {"request": "r", "tool": "Edit", "paths": ["a.py"], "change": change}
    assert lines_of("permission_requested", **told) == [
        "w1 asks permission for Edit",
        "  path: a.py",
        "  change: +1 -1",
        "  | -old",
        "  | +new\\x1b[1A",
        "  … 3 more lines",
    ]


@pytest.mark.parametrize(
    ("tool", "arguments", "line"),
    [
        ("Edit", {"file_path": "a.py", "old_string": "a", "new_string": "b"}, "Edit: a.py (+1 -1)"),
        ("Edit", {"paths": ["a", "b"], "diff": "@@\n-x"}, "Edit: a, b (+0 -1)"),
        ("Write", {"content": "x\n", "file_path": "a"}, "Write: a (+1, the whole file)"),
        ("Bash", {"command": "ls"}, "Bash: ls"),
    ],
)
def test_a_call_that_edits_tells_file_and_lines(tool, arguments, line):
    assert lines_of("tool_call_started", call="c", tool=tool, arguments=arguments) == [
        f"w1 > {line}"
    ]


def test_ink_is_bold_only_where_enabled():
    assert Ink(enabled=True).bold("x") == "\x1b[1mx\x1b[0m"
    assert Ink(enabled=False).dim("x") == "x"


def test_an_error_of_our_own_tools_is_told_in_words():
    told = {"code": "unread_prompt", "message": "a new instruction waits", "hint": "take it"}
    call = {"call": "c", "tool": "task_complete"}
    failed = {"call": "c", "status": "failed"}
    for error, words in (
        (json.dumps({"error": told}), "a new instruction waits; take it"),
        (json.dumps({"error": {"message": "no"}}), "no"),
        ('{"error": "odd"}', '{"error": "odd"}'),
        ("[1]", "[1]"),
        ("plain", "plain"),
    ):
        renderer, lines = Renderer(Ink(enabled=False)), []
        for kind, data in (
            ("agent_spawned", {"name": "w1"}),
            ("tool_call_started", call),
            ("tool_call_finished", {**failed, "error": error}),
        ):
            event = Event(type=kind, session="S", run="R", ts=0.0, agent="a", data=data, seq=1)
            lines = list(renderer.lines(event))
        assert lines == [f"w1 > task_complete failed: {words}"]


def test_a_plan_is_shown_with_what_is_done():
    entries = [
        {"text": "look", "status": "completed"},
        {"text": "do\nit", "status": "in_progress"},
        {"text": "rest", "status": "pending"},
    ]
    told = Event(
        type="plan_updated", session="S", run="R", ts=0.0, agent="a", data={"entries": entries}
    )
    lines = Renderer(Ink(enabled=False)).lines(told)
    assert list(lines) == ["a plans (1 of 3 done)", "  [x] look", "  [>] do…", "  [ ] rest"]
