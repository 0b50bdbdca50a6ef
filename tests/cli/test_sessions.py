"""prsm sessions, on ledgers of real runs of the scripted provider."""

import json
import os
import signal

import pytest

from prsm_core.config import ledger_path, resolve_paths
from prsm_core.workspace.identity import repo_identity
from tests.cli.sessions_scene import play, problems
from tests.store.dumps import dump

SPAWN = {"tool": "spawn_child", "arguments": {"prompt": "wait", "wait": True}}
WAITS = {
    "lanes": {
        "master": {"marker": "wait for ever", "steps": [{"say": "I begin.", "call": SPAWN}]},
        "rest": {"marker": "", "steps": [{"delay": 600, "say": "never"}]},
    }
}
AGAIN = {"lanes": {"rest": {"marker": "", "steps": [{"say": "once more"}]}}}


@pytest.fixture
def where(workspace):
    """Where the ledger of the workspace will lie."""
    return ledger_path(resolve_paths(workspace, os.environ), repo_identity(workspace).key)


def listed(prsm):
    return json.loads(prsm("sessions", "list", "--json").out)


def begin(start_prsm, tmp_path, *more):
    """Start a run that waits; return its process and its session, once it is in its turn."""
    path = tmp_path / "waits.json"
    path.write_text(json.dumps(WAITS))
    process = start_prsm(
        *("run", "wait for ever", "--json", "--provider", "script", *more),
        *("--set", f"providers.script.scenario={path}"),
    )
    for line in process.stdout:
        event = json.loads(line)
        if event["type"] == "message_completed" and event["role"] == "assistant":
            return process, event["session"]
    raise AssertionError(process.stderr.read())


def test_the_list_shows_the_name_that_a_model_gave(prsm, start_prsm, workspace, tmp_path):
    gate, scenario = workspace / "gate", tmp_path / "named.json"
    os.mkfifo(gate)
    spawn = {"tool": "spawn_child", "arguments": {"prompt": "read", "name": "w1", "wait": True}}
    reads = {"tool": "run_bash", "arguments": {"command": "cat gate"}}
    lanes = {
        "master": {"steps": [{"call": spawn}, {"say": "counted"}]},
        "w1": {"steps": [{"call": reads}, {"say": "read"}]},
        "master-name": {"steps": [{"say": '"A count of files"'}]},
    }
    scenario.write_text(json.dumps({"lanes": lanes}))
    process = start_prsm(
        *("run", "count the files", "--json", "--provider", "script", "--on-ask", "allow"),
        *("--set", f"providers.script.scenario={scenario}"),
        *("--set", "sessions.auto_name=model"),
    )
    first = json.loads(process.stdout.readline())
    while listed(prsm)[0]["name"] is None:
        assert process.poll() is None, process.stderr.read()
    gate.write_text("go")  # once the command reads it
    assert process.wait() == 0
    [row] = listed(prsm)
    assert (row["session"], row["name"]) == (first["session"], "A count of files")
    assert prsm("sessions", "list").out.splitlines()[1].startswith("A count of files  ")
    prsm("sessions", "rename", "A count of files", "mine")
    assert listed(prsm)[0]["name"] == "mine"


def test_sessions_are_listed_with_what_they_used(prsm, prsm_process, tmp_path):
    first, events = play(prsm_process, tmp_path)
    second, _ = play(prsm_process, tmp_path, task="count again, but slower than before")
    rows = listed(prsm)
    assert [row["session"] for row in rows] == [second, first]
    assert [row["status"] for row in rows] == ["completed", "completed"]
    assert (rows[1]["agents"], rows[1]["last_seq"]) == (2, events[-1]["seq"])
    assert rows[1]["last_event_at"] == events[-1]["ts"]
    assert (rows[1]["name"], rows[1]["task"], rows[1]["pid"]) == (None, "count the files", None)
    text = prsm("sessions", "list").out.splitlines()
    assert text[0].split()[:4] == ["NAME", "SESSION", "STATUS", "AGENTS"]
    assert text[1].startswith("count again, but slower than  ")
    cut = prsm("sessions", "list", "--limit", "1")
    assert (len(cut.out.splitlines()), "1 older" in cut.err) == (2, True)


def test_before_the_first_run_there_are_none(prsm, workspace):
    assert listed(prsm) == []
    done = prsm("sessions", "list")
    assert (done.code, done.err.splitlines()[0]) == (1, f"prsm: nothing was run yet in {workspace}")


def test_a_session_is_renamed_found_by_its_name_and_named_no_more(prsm, prsm_process, tmp_path):
    session, _ = play(prsm_process, tmp_path)
    other, _ = play(prsm_process, tmp_path)
    done = prsm("sessions", "rename", session[:24], "  The   Count ", "--json")
    assert json.loads(done.out) == {"session": session, "name": "The Count"}
    assert [row["name"] for row in listed(prsm)] == [None, "The Count"]
    for command in (("tree",), ("sessions", "show")):
        assert json.loads(prsm(*command, "the count", "--json").out)["session"] == session
    assert prsm("sessions", "rename", other, "the count").code == 0
    twice = prsm("tree", "The Count")
    assert (twice.code, "2 sessions" in twice.err) == (1, True)
    assert prsm("sessions", "rename", session, " ").out.endswith("is called 'count the files'\n")
    assert [row["name"] for row in listed(prsm)] == ["the count", None]


@pytest.mark.parametrize(("name", "says"), [("x" * 121, "too long"), ("a\x1b[2J", "act on")])
def test_a_name_that_cannot_be_shown_is_refused(prsm, prsm_process, tmp_path, name, says):
    session, _ = play(prsm_process, tmp_path)
    done = prsm("sessions", "rename", session, name)
    assert (done.code, says in done.err, "hint: " in done.err) == (2, True, True)
    assert "\x1b" not in done.err
    assert listed(prsm)[0]["name"] is None


def test_a_session_is_shown_with_runs_agents_and_last_messages(prsm, prsm_process, tmp_path):
    session, _ = play(prsm_process, tmp_path)
    play(prsm_process, tmp_path, AGAIN, task="once more", session=session)
    shown = json.loads(prsm("sessions", "show", session, "--messages", "3", "--json").out)
    assert [(run["task"], run["status"]) for run in shown["runs"]] == [
        ("count the files", "completed"),
        ("once more", "completed"),
    ]
    assert [agent["state"] for agent in shown["agents"]] == ["completed"] * 2
    assert len(shown["messages"]) == 3
    assert shown["messages"][-1]["text"] == "once more"
    assert shown["open"] == []
    text = prsm("sessions", "show", session).out
    assert "all its agents have ended" in text
    assert "once more" in text


def test_what_a_dead_engine_left_is_interrupted_and_can_be_resumed(
    prsm, prsm_process, start_prsm, tmp_path
):
    process, session = begin(start_prsm, tmp_path)
    running = json.loads(prsm("sessions", "show", session, "--json").out)
    assert (running["status"], running["pid"]) == ("running", process.pid)
    assert f"it runs in process {process.pid}" in prsm("sessions", "show", session).out
    assert listed(prsm)[0]["pid"] == process.pid
    process.send_signal(signal.SIGKILL)
    process.wait()
    shown = json.loads(prsm("sessions", "show", session, "--json").out)
    assert (shown["status"], shown["pid"]) == ("interrupted", None)
    assert shown["runs"][0]["status"] == "interrupted"
    assert [(row["name"], row["turn"], row["calls"]) for row in shown["open"]] == [
        ("master", 1, ["spawn_child"]),
        ("w1", 1, []),
    ]
    assert "can be resumed" in prsm("sessions", "show").out
    assert listed(prsm)[0]["status"] == "interrupted"


def test_a_run_whose_engine_died_is_interrupted_while_another_of_its_session_lives(
    prsm, start_prsm, tmp_path
):
    dead, session = begin(start_prsm, tmp_path)
    dead.send_signal(signal.SIGKILL)
    dead.wait()
    live, again = begin(start_prsm, tmp_path, "--session", session)
    assert again == session
    shown = json.loads(prsm("sessions", "show", session, "--json").out)
    assert [run["status"] for run in shown["runs"]] == ["interrupted", "running"]
    tree = json.loads(prsm("tree", session, "--json").out)  # as its owner tells it
    assert tree["is_live"]
    for agents in (shown["agents"], tree["agents"]):
        assert [agent["state"] == "interrupted" for agent in agents] == [True, False]
        assert agents[0]["children"][0]["state"] == "interrupted"
    assert (listed(prsm)[0]["status"], listed(prsm)[0]["pid"]) == ("running", live.pid)


@pytest.mark.requirement("U3")
def test_a_deleted_session_is_gone_and_others_are_untouched(prsm, prsm_process, tmp_path, where):
    kept, _ = play(prsm_process, tmp_path)
    before = dump(where)
    session, _ = play(prsm_process, tmp_path, task="nobody-shall-know")
    done = prsm("sessions", "delete", session, "--yes", "--json")
    counts = json.loads(done.out)["deleted"]
    assert (counts["meta"], counts["runs"], counts["agents"]) == (1, 1, 2)
    assert dump(where) == before
    assert problems(where) == [("ok",)]
    assert [row["session"] for row in listed(prsm)] == [kept]
    home = tmp_path / "home"
    assert where.is_relative_to(home)
    files = [path for path in home.rglob("*") if path.is_file() and path.name != ".lock"]
    assert not [path for path in files if b"nobody-shall-know" in path.read_bytes()]
    again = prsm("sessions", "delete", session, "--yes")
    assert (again.code, "there is no session" in again.err) == (1, True)
    assert play(prsm_process, tmp_path)[1][-1]["status"] == "completed"


def test_nobody_is_asked_without_a_terminal_and_nothing_is_deleted(prsm_process, prsm, tmp_path):
    session, _ = play(prsm_process, tmp_path)
    done = prsm_process("sessions", "delete", session, stdin=b"y\n")
    assert (done.code, "--yes" in done.err, done.out) == (2, True, "")
    assert [row["session"] for row in listed(prsm)] == [session]


def test_a_session_that_runs_is_not_deleted_and_its_owner_named(prsm, start_prsm, tmp_path):
    process, session = begin(start_prsm, tmp_path)
    done = prsm("sessions", "delete", session, "--yes")
    assert (done.code, f"process {process.pid}" in done.err) == (2, True)
    assert "it is not deleted" in done.err
    assert [row["session"] for row in listed(prsm)] == [session]
