"""prsm sessions import, of what Claude Code and Codex keep of a conversation."""

import errno
import json
import tempfile

import pytest

HIDDEN = "sk-ant-REDACTED"
AT = "2026-11-20T10:00:0{}.000Z"


def claude(number, kind, content, **more):
    own = {"role": kind, "content": content, "id": f"msg_{number}", "model": "claude-x"}
    if kind == "assistant":
        own["usage"] = {"input_tokens": 10, "output_tokens": 5}
    common = {"sessionId": "thread-1", "cwd": "/work", "timestamp": AT.format(number)}
    return {"type": kind, "message": own, **common, **more}


TEXT = {"type": "text", "text": "a b"}
CLAUDE = [
    {"type": "summary", "summary": "a talk", "leafUuid": "x"},
    claude(1, "user", "count the files"),
    claude(2, "assistant", [{"type": "thinking", "thinking": "how?"}]),
    claude(
        3,
        "assistant",
        [
            {"type": "text", "text": f"I use ls with {HIDDEN}."},
            {"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "ls"}},
        ],
    ),
    claude(4, "user", [{"type": "tool_result", "tool_use_id": "c1", "content": [TEXT]}]),
    claude(5, "assistant", [{"type": "text", "text": "a subagent says"}], isSidechain=True),
    claude(6, "assistant", [{"type": "text", "text": "There are two."}]),
]


def codex(number, kind, **payload):
    return {"timestamp": AT.format(number), "type": kind, "payload": payload}


def message(number, role, kind, text):
    content = [{"type": kind, "text": text}]
    return codex(number, "response_item", type="message", role=role, content=content)


CODEX = [
    codex(0, "session_meta", id="thread-1", cwd="/work"),
    codex(0, "turn_context", model="gpt-x", cwd="/work"),
    message(1, "user", "input_text", "<environment_context>of Codex</environment_context>"),
    message(1, "user", "input_text", "count the files"),
    codex(2, "response_item", type="reasoning", summary=[{"type": "summary_text", "text": "how?"}]),
    message(3, "assistant", "output_text", f"I use ls with {HIDDEN}."),
    codex(
        3,
        "response_item",
        type="function_call",
        name="Bash",
        arguments='{"command": "ls"}',
        call_id="c1",
    ),
    codex(4, "response_item", type="function_call_output", call_id="c1", output="a b"),
    codex(
        5,
        "event_msg",
        type="token_count",
        info={"total_token_usage": {"input_tokens": 30, "output_tokens": 15, "total_tokens": 45}},
    ),
    message(6, "assistant", "output_text", "There are two."),
]
KINDS = {"claude": (CLAUDE, "claude-x"), "codex": (CODEX, "gpt-x")}


@pytest.fixture
def imported(prsm, tmp_path, monkeypatch):
    """Import lines, the last of them torn; return the session."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", HIDDEN)

    def run(lines):
        text = "\n".join(json.dumps(line) for line in lines)
        (tmp_path / "talk.jsonl").write_text(text + '\n{"type": "assi')
        done = prsm("sessions", "import", str(tmp_path / "talk.jsonl"), "--json")
        assert (done.code, done.err) == (0, "")
        return json.loads(done.out)["session"]

    return run


@pytest.mark.parametrize("kind", KINDS)
def test_a_conversation_of_a_vendor_is_a_session_that_is_over(prsm, imported, kind):
    lines, model = KINDS[kind]
    session = imported(lines)
    [row] = json.loads(prsm("sessions", "list", "--json").out)
    assert (row["session"], row["status"], row["task"]) == (session, "completed", "count the files")
    [agent] = json.loads(prsm("tree", "--json").out)["agents"]
    assert (agent["provider"], agent["model"], agent["state"]) == (kind, model, "completed")
    assert agent["usage_self"]["input_tokens"] == 30
    entries = json.loads(prsm("history", "master", "--json").out)
    assert [entry["kind"] for entry in entries] == [
        *("user_message", "thinking", "text", "tool_call", "tool_result", "text"),
    ]
    assert (entries[3]["arguments"], entries[4]["text"]) == ({"command": "ls"}, "a b")
    assert entries[-1]["text"] == "There are two."
    exported = prsm("export").out
    assert HIDDEN not in exported
    assert "of Codex" not in exported
    assert "a subagent says" not in exported


def test_the_same_conversation_of_two_vendors_differs_in_its_agent_alone(prsm, imported):
    one, other = imported(CLAUDE), imported(CODEX)
    told = json.loads(prsm("diff", one, other, "--json").out)
    assert [each["kind"] for each in told["differences"]] == ["agent"]


def test_a_transcript_without_a_message_is_refused(prsm, tmp_path):
    file = tmp_path / "talk.jsonl"
    file.write_text(json.dumps(CODEX[0]) + "\n" + json.dumps(CODEX[1]) + "\n")
    done = prsm("sessions", "import", str(file))
    assert (done.code, "has no message" in done.err) == (2, True)


def user(content, **more):
    return claude(1, "user", content, **more)


def item(**payload):
    return codex(2, "response_item", **payload)


def calling(arguments):
    return item(type="function_call", name="x", call_id="c9", arguments=arguments)


def counting(info):
    return codex(2, "event_msg", type="token_count", info=info)


def tool_use(given):
    return user([{"type": "tool_use", "id": "c9", "name": "x", "input": given}])


DEEP = "[" * 900 + "]" * 900
COUNTS = {"input_tokens": 10**30, "output_tokens": True, "cache_read_input_tokens": -5}
ODD = {
    "claude": [
        user(["words", 5, None]),
        user(5),
        user({"type": "text", "text": "x"}),
        user([{"type": "text"}, {"type": ["text"], "text": "x"}]),
        user("half \ud800 a character"),
        user([{"type": "tool_use", "name": "a\ud800", "id": "b\ud800", "input": {"\ud800": 1}}]),
        tool_use({"n": float("nan")}),
        tool_use(json.loads(DEEP)),
        user("x", sessionId={"a": 1}, cwd=["x\ud800"]),
        user("x", timestamp="0001-01-01T00:00:00+14:00"),
        claude(9, "assistant", [{"type": "text", "text": "x"}]) | {"message": {"usage": COUNTS}},
        {"type": "user", "sessionId": "s", "message": "x"},
        claude(9, {"a": 1}, "x"),
        claude(9, ["user"], "x"),
    ],
    "codex": [
        codex(2, "session_meta"),
        {"type": "response_item", "payload": 5},
        item(type=["x"]),
        item(type="message", role={"a": 1}, content="x"),
        item(type="message", role="user", content=[5, {"text": 5}]),
        calling("[" * 100_000),
        calling('{"a": NaN, "b": 1e999, "c": "\\ud800"}'),
        calling(5),
        counting("x"),
        counting({"total_token_usage": "x"}),
        counting({"total_token_usage": {"input_tokens": "many", "total_tokens": 1.5}}),
    ],
}


@pytest.mark.parametrize("kind", ODD)
def test_what_is_odd_in_a_transcript_is_left_out_or_cut_and_the_rest_is_kept(prsm, imported, kind):
    first, *rest = KINDS[kind][0]
    for odd in ODD[kind]:
        _ = imported([first, odd, *rest])
        said = json.loads(prsm("history", "master", "--json").out)
        texts = [entry.get("text") for entry in said]
        assert [texts.count("count the files"), texts.count("There are two.")] == [1, 1]


def test_a_transcript_of_one_line_is_one(imported, prsm, tmp_path):
    file = tmp_path / "one.jsonl"
    file.write_text(json.dumps(user("only this")))
    assert prsm("sessions", "import", str(file)).code == 0
    assert "only this" in prsm("history", "master").out


@pytest.mark.parametrize("between", ["\u2028", "\u0085", "\x1c"])
def test_only_a_line_feed_ends_a_line_of_a_transcript(prsm, tmp_path, between):
    lines = [user(f"one{between}two"), claude(2, "assistant", [{"type": "text", "text": "three"}])]
    text = "\r\n".join(json.dumps(line, ensure_ascii=False) for line in lines)
    file = tmp_path / "talk.jsonl"
    file.write_bytes(b"\xef\xbb\xbf" + text.replace("\\u001c", "\x1c").encode() + b"\r\n")
    done = prsm("sessions", "import", str(file))
    assert (done.code, done.err) == (0, "")
    said = json.loads(prsm("history", "master", "--json").out)
    assert [entry["text"] for entry in said] == [f"one{between}two", "three"]


def test_lines_in_the_midst_that_are_left_out_are_told(prsm, tmp_path):
    whole = [json.dumps(line) for line in CLAUDE]
    file = tmp_path / "talk.jsonl"
    file.write_text("\n".join([*whole[:2], whole[2][:30], "[1]", *whole[3:], whole[3][:30]]))
    done = prsm("sessions", "import", str(file))
    assert (done.code, "left out: 2, the first is 3" in done.err) == (0, True)


def test_a_transcript_needs_a_temporary_folder_and_says_so(prsm, tmp_path, monkeypatch):
    def none() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", none)
    file = tmp_path / "talk.jsonl"
    file.write_text(
        '{"type":"user","sessionId":"abc","message":{"role":"user","content":"hello"}}\n'
    )
    done = prsm("sessions", "import", str(file))
    assert done.code == 2
    assert done.err == (
        "prsm: no temporary folder can be made: No usable temporary directory found\n"
        "hint: TMPDIR names another folder for temporary files\n"
    )
