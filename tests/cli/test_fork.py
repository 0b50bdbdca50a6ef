"""prsm fork, on ledgers of real runs of the scripted provider."""

import json
import shlex

import pytest

from tests.cli.sessions_scene import play, problems

LOOK = {"tool": "spawn_child", "arguments": {"prompt": "look", "name": "w1", "wait": True}}
ASK = {"tool": "ask_user", "arguments": {"question": "red or blue?", "options": ["red", "blue"]}}
PAINT = {"prompt": "paint it ${ask_user}", "name": "w2", "wait": True}
PAINTS = {
    "lanes": {
        "master": {
            "steps": [
                {"call": LOOK},
                {"call": ASK},
                {"call": {"tool": "spawn_child", "arguments": PAINT}},
                {"call": {"tool": "task_complete", "arguments": {"summary": "it is ${ask_user}"}}},
            ]
        },
        "w1": {"steps": [{"say": "I look."}]},
        "w2": {"steps": [{"say": "I paint."}]},
    }
}


@pytest.fixture
def painted(prsm_process, tmp_path):
    """A real run in which nobody answers, so that the first option is taken."""
    return play(prsm_process, tmp_path, PAINTS)


def seq_of(events, kind):
    return next(event["seq"] for event in events if event["type"] == kind)


def fork(prsm, *words):
    done = prsm("fork", *words, "--json")
    assert (done.code, done.err) == (0, "")
    return json.loads(done.out)["session"]


def resume(prsm_process, tmp_path, session, *words):
    """Go on with a session; return its events from there on, and how it ended."""
    scenario = f"providers.script.scenario={tmp_path / 'scenario.json'}"
    done = prsm_process("resume", session, "--json", "--set", scenario, *words)
    events = [json.loads(line) for line in done.out.splitlines()]
    assert events, done.err
    begins = seq_of(events, "session_forked")
    return [event for event in events if event["seq"] > begins], done


@pytest.mark.requirement("F4")
def test_a_fork_at_a_question_that_is_answered_otherwise_ends_otherwise(
    prsm, prsm_process, tmp_path, painted
):
    origin, events = painted
    asked = seq_of(events, "question_asked")
    session = fork(prsm, origin, "--at", str(asked))
    told, done = resume(prsm_process, tmp_path, session, "--on-ask", "deny")
    assert done.code == 0
    assert [event["type"] for event in told[:2]] == ["run_resumed", "question_answered"]
    assert "red" in events[-1]["summary"]
    assert "no_answer" in told[-1]["summary"]
    spawned = [event["name"] for event in told if event["type"] == "agent_spawned"]
    assert spawned == ["w2"]  # w1 had ended, and is not run again
    first = json.loads(prsm("diff", origin, session, "--json").out)["first"]
    assert (first["kind"], first["agent"]) == ("decision", "master")
    assert first["what"].startswith("question: red or blue?")
    assert (first["a"]["answer"]["choices"], first["b"]["answer"]) == (["red"], None)
    assert first["seq_a"] > asked
    played = prsm_process("replay", session).err
    assert played.index("w1: I look.") < played.index("w2: I paint.")  # shared, and its own
    unchanged = [json.loads(line) for line in prsm("events", origin, "--json").out.splitlines()]
    assert unchanged == events


def test_a_fork_says_what_comes_next_and_that_files_stay(prsm, painted):
    origin, events = painted
    done = prsm("fork", origin, "--at", str(seq_of(events, "question_asked")), "--name", "blue")
    says, goes_on, asks, files, next_ = done.out.splitlines()
    session = next_.split()[-1]
    assert says.startswith(f"session {session} goes on from event ")
    assert origin in says
    assert goes_on == "agents that go on: master (script)"
    assert asks == "what waits for you is asked again: 1"
    assert files == "files are not forked: its agents find the folder as it is now"
    assert next_ == f"go on with it: prsm resume {session}"
    shown = prsm("sessions", "show", "blue").out
    assert f"session {session} 'blue' (interrupted)" in shown
    assert f"forked from {origin}" in shown
    listed = json.loads(prsm("sessions", "list", "--json").out)
    assert [(row["session"], row["origin"]) for row in listed] == [
        (session, origin),
        (origin, None),
    ]
    rows = prsm("sessions", "list").out.splitlines()
    assert f"fork of {origin}" in rows[1]


@pytest.mark.requirement("U3")
def test_a_session_is_forked_at_any_of_its_turns(prsm, prsm_process, tmp_path, painted):
    origin, events = painted
    names = {e["agent"]: e["name"] for e in events if e["type"] == "agent_spawned"}
    spawned = [(e["seq"], e["name"]) for e in events if e["type"] == "agent_spawned"]
    turns = {e["turn"]: e["n"] for e in events if e["type"] == "turn_started"}
    ends = [event for event in events if event["type"] == "turn_finished"]
    assert {names[event["agent"]] for event in ends} == {"master", "w1", "w2"}
    for end in ends:
        session = fork(prsm, origin, "--at", f"{names[end['agent']]}:{turns[end['turn']]}")
        told, done = resume(prsm_process, tmp_path, session, "--on-ask", "allow")
        assert (done.code, told[-1]["summary"]) == (0, events[-1]["summary"])
        anew = [event["name"] for event in told if event["type"] == "agent_spawned"]
        assert anew == [name for seq, name in spawned if seq > end["seq"]]


def test_a_fork_of_what_is_over_is_given_something_to_do(prsm, painted):
    *_, ended, _, next_ = prsm("fork", painted[0]).out.splitlines()
    assert ended == "all its agents have ended"
    words = shlex.split(next_.removeprefix("give it something to do: prsm "))
    done = prsm(*words)
    assert done.out.splitlines()[-1].startswith("go on with it: prsm resume "), done.err


def test_a_run_that_is_over_goes_on_in_a_fork_with_another_prompt(
    prsm, prsm_process, tmp_path, painted
):
    origin, _ = painted
    session = fork(prsm, origin, "--prompt", "say it again", "--model", "master=script/default")
    again = {"lanes": {"master": {"steps": [{"say": "I say it again."}]}}}
    (tmp_path / "scenario.json").write_text(json.dumps(again))
    told, done = resume(prsm_process, tmp_path, session)
    assert (done.code, told[-1]["summary"]) == (0, "I say it again.")
    prompts = [event["text"] for event in told if event["type"] == "message_completed"]
    assert prompts[0].startswith("say it again")
    runs = json.loads(prsm("sessions", "show", session, "--json").out)["runs"]
    assert [(run["task"], run["status"]) for run in runs] == [
        ("count the files", "completed"),
        ("say it again", "completed"),
    ]


def test_the_agents_of_a_fork_are_found_by_the_ids_that_they_had(
    prsm, prsm_process, tmp_path, painted
):
    origin, events = painted
    child = next(e["agent"] for e in events if e["type"] == "agent_spawned" and e["name"] == "w1")
    session = fork(prsm, origin, "--prompt", "how is w1?")
    look = {"tool": "check_child_status", "arguments": {"child_id": child}}
    asks = {"lanes": {"master": {"steps": [{"call": look}, {"say": "${check_child_status}"}]}}}
    (tmp_path / "scenario.json").write_text(json.dumps(asks))
    told, _ = resume(prsm_process, tmp_path, session)
    (answer,) = [e["result"] for e in told if e["type"] == "tool_call_finished"]
    found = json.loads(answer)
    assert (found["name"], found["state"]) == ("w1", "completed")
    assert child not in answer  # it is told its id of today


def test_a_fork_cannot_be_made_of_what_is_not_there(prsm, painted):
    origin, _ = painted
    before = prsm("sessions", "list", "--json").out
    for words, said in (
        (("--at", "999"), "has no event 999"),
        (("--at", "w1:7"), "w1 has no turn 7; it has had 1"),
        (("--at", "w7:1"), "no agent is called 'w7'"),
        (("--at", "soon"), "'soon' is no point of a session"),
        (("--at", "9" * 5000), "is no point of a session"),
        (("--at", "w1:" + "9" * 5000), "is no point of a session"),
        (("--model", "w1"), "--model w1 names no agent and model"),
        (("--model", "w9=script/default"), "no agent is called 'w9'"),
        (("--model", "w1=nobody/x"), "nobody"),
        (("--prompt", " "), "the prompt is blank"),
        (("--name", "a\x1bb"), "act on a terminal"),
    ):
        done = prsm("fork", origin, *words)
        assert (done.code > 0, said in done.err, "hint: " in done.err) == (True,) * 3, done
    assert "there is no session" in prsm("fork", "zzz").err
    assert prsm("sessions", "list", "--json").out == before


def test_a_session_that_others_share_is_deleted_after_them(prsm, painted):
    origin, _ = painted
    session = fork(prsm, origin)
    done = prsm("sessions", "delete", origin, "--yes")
    assert (
        done.code,
        f"hint: delete what was forked from it first: prsm sessions delete {session}" in done.err,
    ) == (1, True)
    assert prsm("sessions", "delete", session, "--yes").code == 0
    assert prsm("sessions", "delete", origin, "--yes").code == 0


def test_the_export_of_a_fork_needs_no_other_session(
    prsm, prsm_process, tmp_path, monkeypatch, painted
):
    origin, events = painted
    session = fork(prsm, origin, "--at", str(seq_of(events, "question_asked")))
    resume(prsm_process, tmp_path, session, "--on-ask", "deny")
    (tmp_path / "fork.json").write_text(prsm("export", session).out)
    told = prsm("events", session, "--json").out
    shown = json.loads(prsm("sessions", "show", session, "--json").out)
    pages = prsm("export", session, "--format", "html").out
    monkeypatch.setenv("PRSM_HOME", str(tmp_path / "elsewhere"))
    assert prsm("sessions", "import", str(tmp_path / "fork.json")).code == 0
    assert prsm("events", session, "--json").out == told
    again = json.loads(prsm("sessions", "show", session, "--json").out)
    assert again == {**shown, "origin": None}
    assert json.loads(prsm("export", session).out) == json.loads(
        (tmp_path / "fork.json").read_text()
    )
    assert "I look." in pages
    assert prsm("sessions", "import", str(tmp_path / "fork.json")).code == 0  # under ids of its own
    ledger = next((tmp_path / "elsewhere").rglob("*.db"))
    assert problems(ledger) == [("ok",)]
