"""The file in which Gemini keeps a conversation."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prsm_gemini.headless import Chat, text_of

SESSION = "11111111-1111-4111-8111-111111111111"
HEADER = {"sessionId": SESSION, "kind": "main"}
CONTEXT = {"id": "c", "type": "user", "content": [{"text": "<session_context>\nx"}]}


def answer(call, text="out"):
    return {"functionResponse": {"id": call, "name": "t", "response": {"output": text}}}


def asked(call, *, result=True, message="g"):
    told = {"id": call, "name": "t", "args": {}} | ({"result": [answer(call)]} if result else {})
    return {"id": message, "type": "gemini", "content": "look", "toolCalls": [told]}


def together(*calls, message="t"):
    """Calls made together, as a resume in a later minute writes them: each has all answers."""
    answers = [answer(call) for call in calls]
    told = [{"id": call, "name": "t", "args": {}, "result": answers} for call in calls]
    return {"id": message, "type": "gemini", "content": "look", "toolCalls": told}


def user(*parts, message="u"):
    return {"id": message, "type": "user", "content": list(parts)}


def chat(tmp_path, *records, minute="00"):
    folder = tmp_path / "tmp" / "work" / "chats"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"session-2026-01-01T00-{minute}-{SESSION[:8]}.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return Chat(tmp_path, SESSION), path


def records(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


async def test_an_answer_that_is_in_its_call_too_is_taken_away(tmp_path):
    kept, path = chat(
        tmp_path, HEADER, user({"text": "go"}), asked("1"), user(answer("1"), message="v")
    )
    kept.mend()
    assert records(path) == [HEADER, user({"text": "go"}), asked("1")]


async def test_an_answer_that_is_there_once_stays(tmp_path):
    once = (HEADER, asked("1", result=False), user(answer("1"), {"text": "and"}))
    kept, path = chat(tmp_path, *once)
    kept.mend()
    assert records(path) == list(once)


async def test_only_the_answer_leaves_a_message_that_says_more(tmp_path):
    kept, path = chat(tmp_path, HEADER, asked("1"), user(answer("1"), answer("2")))
    kept.mend()
    assert records(path)[-1] == user(answer("2"))


async def test_a_call_keeps_its_own_answer_of_those_it_was_given_together(tmp_path):
    picture = {"inlineData": {"mimeType": "image/png", "data": ""}}
    told = together("1", "2", "3")
    for call in told["toolCalls"]:
        call["result"] = [answer("1"), answer("2"), picture, answer("3")]
    kept, path = chat(tmp_path, HEADER, told, user(answer("1"), answer("2"), answer("3")))
    kept.mend()
    results = [call["result"] for call in records(path)[1]["toolCalls"]]
    assert results == [[answer("1")], [answer("2"), picture], [answer("3")]]


async def test_answers_in_a_replaced_conversation_are_mended_too(tmp_path):
    replaced = {"$set": {"messages": [asked("1"), user(answer("1"))], "lastUpdated": "x"}}
    kept, path = chat(tmp_path, HEADER, replaced)
    kept.mend()
    assert records(path) == [{**HEADER, "lastUpdated": "x"}, asked("1")]


async def test_an_answer_counts_where_it_stands_not_where_it_stood_before(tmp_path):
    """After a resume Gemini writes the conversation anew, with answers only in their messages."""
    anew = {"$set": {"messages": [asked("1", result=False), user(answer("1"))]}}
    kept, path = chat(tmp_path, HEADER, asked("1"), anew)
    before = path.read_text()
    kept.mend()
    assert path.read_text() == before


async def test_what_was_taken_back_is_not_in_the_conversation(tmp_path):
    kept, _ = chat(tmp_path, HEADER, CONTEXT, user({"text": "go"}), {"$set": {"messages": []}})
    assert kept.messages() == []


async def test_the_last_record_of_a_message_counts_and_the_context_does_not(tmp_path):
    late = {"id": "g", "type": "gemini", "content": "whole"}
    early = {"id": "g", "type": "gemini", "content": "half"}
    kept, _ = chat(tmp_path, HEADER, CONTEXT, user({"text": "go"}), early, late)
    assert [text_of(message) for message in kept.messages()] == ["go", "whole"]


async def test_a_conversation_that_a_killed_resume_has_lost_is_restored(tmp_path):
    kept, path = chat(tmp_path, HEADER, user({"text": "go"}), asked("1"))
    kept.mend()
    with path.open("a") as file:
        file.write(json.dumps({"$set": {"messages": [CONTEXT]}}) + "\n")
    assert [text_of(message) for message in kept.messages()] == ["go", "look"]
    kept.mend()
    assert records(path) == [HEADER, user({"text": "go"}), asked("1")]


async def test_the_empty_file_of_a_later_resume_is_not_the_conversation(tmp_path):
    kept, path = chat(tmp_path, HEADER, user({"text": "go"}))
    _, later = chat(tmp_path, HEADER, {"$set": {"messages": [CONTEXT]}}, minute="07")
    assert [text_of(message) for message in kept.messages()] == ["go"]
    kept.mend()
    assert records(path) == [HEADER, user({"text": "go"})]
    assert not later.exists()


async def test_a_conversation_that_a_later_resume_has_lost_is_restored_in_its_own_file(tmp_path):
    kept, path = chat(tmp_path, HEADER, user({"text": "go"}), asked("1"))
    kept.mend()
    chat(tmp_path, HEADER, {"$set": {"messages": [CONTEXT]}}, minute="07")
    with path.open("a") as file:
        file.write(json.dumps({"$set": {"messages": [CONTEXT]}}) + "\n")
    kept.mend()
    assert records(path) == [HEADER, user({"text": "go"}), asked("1")]


async def test_a_conversation_that_gemini_has_summed_up_stays_so(tmp_path):
    kept, path = chat(tmp_path, HEADER, user({"text": "go"}), asked("1"))
    kept.mend()
    summary = user({"text": "what was said"}, message="s")
    with path.open("a") as file:
        file.write(json.dumps({"$set": {"messages": [summary]}}) + "\n")
    assert kept.messages() == [summary]


async def test_a_file_nobody_understands_is_left_alone(tmp_path):
    kept, path = chat(tmp_path, HEADER, asked("1"), user(answer("1")))
    broken = '{"half\n' + path.read_text()
    path.write_text(broken)
    kept.mend()
    assert path.read_text() == broken
    assert kept.messages() == []


@pytest.mark.parametrize(
    "odd",
    [
        {"id": "x", "type": "gemini", "toolCalls": 5},
        {"id": "x", "type": "gemini", "toolCalls": [5]},
        {"$set": {"messages": [5]}},
        {"$set": {"messages": [{"id": "x", "toolCalls": [None]}]}},
        [],
    ],
)
async def test_a_file_with_an_odd_record_is_left_alone(tmp_path, odd):
    kept, path = chat(tmp_path, HEADER, asked("1"), user(answer("1")), odd, user({"text": "go"}))
    before = path.read_text()
    kept.mend()
    assert (path.read_text(), kept.messages()) == (before, [])


@pytest.mark.parametrize("between", ["\u2028", "\u0085", "é", "\ud800"])
async def test_a_text_may_hold_whatever_json_does(tmp_path, between):
    kept, path = chat(tmp_path, HEADER)
    lines = [user({"text": f"one{between}two"}), asked("1"), user(answer("1"), message="v")]
    with path.open("ab") as file:
        for line in lines:
            text = json.dumps(line, ensure_ascii=between == "\ud800")
            file.write(text.encode() + b"\n")
    assert len(kept.messages()) == 3
    kept.mend()
    assert records(path) == [HEADER, lines[0], lines[1]]


async def test_a_last_line_that_was_cut_off_costs_no_more_than_itself(tmp_path):
    kept, path = chat(tmp_path, HEADER, asked("1"), user(answer("1")))
    with path.open("a") as file:
        file.write('{"id": "x", "type": "us')
    kept.mend()
    assert records(path) == [HEADER, asked("1")]


async def test_without_a_file_there_is_no_conversation(tmp_path):
    kept = Chat(tmp_path, SESSION)
    kept.mend()
    assert kept.messages() == []


CALLS = st.sampled_from("123")
MESSAGES = st.one_of(
    st.builds(asked, CALLS, result=st.booleans(), message=st.sampled_from("gh")),
    st.lists(CALLS, min_size=1, unique=True).map(lambda calls: together(*calls)),
    st.builds(lambda call: user(answer(call), message=f"u{call}"), CALLS),
    st.just(user({"text": "go"})),
)
RECORDS = st.lists(
    MESSAGES | st.lists(MESSAGES, max_size=3).map(lambda told: {"$set": {"messages": told}}),
    max_size=8,
)


def answers_of(messages):
    """The calls that are answered, in the calls themselves and in messages."""
    calls = [call for m in messages for call in m.get("toolCalls", ())]
    in_calls = [p["functionResponse"]["id"] for c in calls for p in c.get("result", ())]
    parts = [part for m in messages if m["type"] == "user" for part in m["content"]]
    return in_calls, [p["functionResponse"]["id"] for p in parts if "functionResponse" in p]


@given(RECORDS)
def test_mending_leaves_no_call_two_kinds_of_answer_and_loses_none(tmp_path_factory, told):
    kept, path = chat(tmp_path_factory.mktemp("chat"), HEADER, *told)
    before = answers_of(kept.messages())
    kept.mend()
    after = answers_of(kept.messages())
    assert not set(after[0]) & set(after[1])
    for message in kept.messages():
        found = answers_of([message])
        assert all(len(set(ids)) == len(ids) for ids in found)
    assert {*after[0], *after[1]} == {*before[0], *before[1]}
    again = path.read_text()
    kept.mend()
    assert path.read_text() == again
