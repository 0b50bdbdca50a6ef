"""prsm export and prsm sessions import, on ledgers of real runs of the scripted provider."""

import json
import os
import shutil
import socket
import stat
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest
from prsm_testing.samples import sample_events

from prsm_core.config import ledger_path, resolve_paths
from prsm_core.workspace.identity import repo_identity
from tests.cli.sessions_scene import play, problems

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
HOSTILE = (
    "</pre><script>document.title='owned'</script><img src=x onerror=alert(1)>\x1b[2J\u202e&amp;"
)
SAYS = {
    "lanes": {
        "rest": {
            "marker": "",
            "steps": [
                {"think": HOSTILE, "say": HOSTILE, "shell": f"printf %s '{HOSTILE[:60]}'"},
                {"call": {"tool": "task_complete", "arguments": {"summary": HOSTILE}}},
            ],
        }
    }
}


@pytest.fixture
def where(workspace):
    """Where the ledger of the workspace will lie."""
    return ledger_path(resolve_paths(workspace, os.environ), repo_identity(workspace).key)


def exported(prsm, session):
    return json.loads(prsm("export", session).out)


@pytest.mark.requirement("U3")
def test_what_was_exported_is_imported_equal(prsm, prsm_process, tmp_path, where):
    session, _ = play(prsm_process, tmp_path)
    prsm("sessions", "rename", session, "first")
    before = exported(prsm, session)
    events = prsm("events", session, "--json").out
    assert (before["format"], before["session"]["name"]) == ("prsm-session", "first")
    assert [agent["name"] for agent in before["agents"]] == ["master", "w1"]
    assert prsm("export", session, "-o", str(tmp_path)).code == 0
    file = tmp_path / f"{session}.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert prsm("sessions", "delete", session, "--yes").code == 0
    done = prsm("sessions", "import", str(file), "--json")
    assert json.loads(done.out) == {"session": session, "was": session}
    assert exported(prsm, session) == before
    assert prsm("events", session, "--json").out == events
    assert problems(where) == [("ok",)]
    assert prsm("tree", session).code == 0


def test_a_session_that_is_there_is_imported_under_new_ids(prsm, prsm_process, tmp_path, where):
    session, _ = play(prsm_process, tmp_path)
    before = exported(prsm, session)
    prsm("export", session, "-o", str(tmp_path / "a.json"))
    copies = [
        json.loads(prsm("sessions", "import", str(tmp_path / "a.json"), "--json").out)["session"]
        for _ in range(2)
    ]
    assert len({session, *copies}) == 3
    assert exported(prsm, session) == before
    assert problems(where) == [("ok",)]
    for copy in copies:
        there = exported(prsm, copy)
        assert there["events"][0]["session_id"] == copy
        assert session not in json.dumps(there)
        for kind in ("agents", "events", "messages", "tool_calls", "steps"):
            assert len(there[kind]) == len(before[kind])
        assert json.loads(prsm("diff", session, copy, "--json").out)["differences"] == []


def test_a_session_goes_to_another_home(prsm, prsm_process, tmp_path, monkeypatch):
    session, _ = play(prsm_process, tmp_path)
    before = prsm("export", session).out
    monkeypatch.setenv("PRSM_HOME", str(tmp_path / "other"))
    (tmp_path / "a.json").write_text(before)
    assert prsm("sessions", "import", str(tmp_path / "a.json")).code == 0
    assert prsm("export", session).out == before


@pytest.mark.requirement("D17")
def test_old_names_are_understood_and_what_ran_is_interrupted(
    prsm, prsm_process, tmp_path, monkeypatch
):
    session, _ = play(prsm_process, tmp_path)
    value = exported(prsm, session)
    value["runs"][0].update(status="running", outcome=None, finished_at=None)
    value["agents"][0].update(role="MANAGER", state="RUNNING", result=None, ended_at=None)
    monkeypatch.setenv("PRSM_HOME", str(tmp_path / "other"))
    (tmp_path / "a.json").write_text(json.dumps(value))
    assert prsm("sessions", "import", str(tmp_path / "a.json")).code == 0
    [master] = json.loads(prsm("tree", "--json").out)["agents"]
    assert (master["role"], master["state"]) == ("master", "interrupted")
    assert master["children"][0]["state"] == "completed"
    assert json.loads(prsm("sessions", "list", "--json").out)[0]["status"] == "interrupted"


def spoiled(text, change):
    value = json.loads(text)
    change(value)
    return json.dumps(value)


def repeated(value):
    """Let two messages of a turn have one id: a fork of the midst of it would have it open."""
    told = [event["data"] for event in value["events"] if event["type"] == "message_completed"]
    said = next(data for data in told if data["role"] == "assistant")
    first = next(data for data in told if data["turn"] == said["turn"])
    assert first is not said
    said["id"] = first["id"]


def asking(value):
    """Let an agent ask what offers a number."""
    agent = value["agents"][0]["agent_id"]
    asked = {"request_id": "r1", "session_id": value["session"]["id"], "agent_id": agent}
    how = {"kind": "question", "state": "open", "opened_at": 1.0, "began": 1}
    value["requests"].append({**asked, **how, "payload": {"question": "which?", "options": 7}})


BAD = {
    "no JSON": (lambda text: "hello", "is not JSON"),
    "JSON of others": (lambda text: '{"messages": []}', "JSON, but no session of prsm"),
    "another format": (lambda text: '{"format": "chat"}', "of the format 'chat'"),
    "its events": (
        lambda text: '{"seq": 1, "session": "a", "type": "notice"}\n{"seq": 2}\n',
        "lack its rows",
    ),
    "a newer one": (lambda text: spoiled(text, lambda v: v.update(version=2)), "newer prsm"),
    "a newer ledger": (lambda text: spoiled(text, lambda v: v.update(ledger=99)), "newer prsm"),
    "a lost event": (lambda text: spoiled(text, lambda v: v["events"].pop(3)), "4 is missing"),
    "a strange event": (
        lambda text: spoiled(text, lambda v: v["events"][0].update(type="hacked")),
        "unknown event type",
    ),
    "a strange column": (
        lambda text: spoiled(text, lambda v: v["agents"][0].update({'x"; DROP TABLE meta': 1})),
        "agents has no",
    ),
    "a strange state": (
        lambda text: spoiled(text, lambda v: v["agents"][0].update(state="asleep")),
        "asleep",
    ),
    "an agent without its spec": (
        lambda text: spoiled(text, lambda v: v["agent_specs"].pop()),
        "lacks a part",
    ),
    "a number without end": (
        lambda text: spoiled(text, lambda v: v["agents"][0].update(created_at=10**30)),
        "no session that a ledger can hold",
    ),
    "an end of days": (
        lambda text: spoiled(text, lambda v: v["agents"][0].update(ended_at=float("inf"))),
        "inf is no ended_at of agents",
    ),
    "a depth without end": (
        lambda text: spoiled(text, lambda v: v["agents"][0].update(depth=10**12)),
        "is no depth of agents",
    ),
    "an event without its call": (
        lambda text: spoiled(
            text,
            lambda v: [e["data"].pop("call") for e in v["events"] if "tool_call" in e["type"]],
        ),
        "an event tool_call_started: `call` is missing",
    ),
    "a request without its id": (
        lambda text: spoiled(
            text,
            lambda v: v["events"][-1].update(type="permission_requested", data={"tool": "Bash"}),
        ),
        "an event permission_requested: `request` is missing",
    ),
    "a state before that is no text": (
        lambda text: spoiled(
            text,
            lambda v: [
                e["data"].update({"from": {"a": 1}})
                for e in v["events"]
                if e["type"] == "agent_state_changed"
            ],
        ),
        "an event agent_state_changed: from: expected string | null, got",
    ),
    "the arguments of a call are none": (
        lambda text: spoiled(
            text,
            lambda v: [
                e["data"].update(arguments=7)
                for e in v["events"]
                if e["type"] == "tool_call_started"
            ],
        ),
        "an event tool_call_started: arguments: expected object | null, got 7",
    ),
    "the error of a call is no text": (
        lambda text: spoiled(
            text,
            lambda v: [
                e["data"].update(error={"a": 1})
                for e in v["events"]
                if e["type"] == "tool_call_finished"
            ],
        ),
        "an event tool_call_finished: error: expected string | null, got",
    ),
    "a message that comes twice": (
        lambda text: spoiled(text, repeated),
        "comes twice in turn",
    ),
    "a request whose options are none": (
        lambda text: spoiled(text, asking),
        "an event question_asked: options: expected array | null, got",
    ),
    "a strange status": (
        lambda text: spoiled(text, lambda v: v["runs"][0].update(status="\x1b[2J")),
        "is no status of runs",
    ),
    "a run that finished strangely": (
        lambda text: spoiled(
            text,
            lambda v: [
                e["data"].update(status="x") for e in v["events"] if e["type"] == "run_finished"
            ],
        ),
        "an event run_finished: status: expected one of",
    ),
    "a strange outcome": (
        lambda text: spoiled(text, lambda v: v["runs"][0].update(outcome="x")),
        "'x' is no outcome of runs",
    ),
    "a strange message": (
        lambda text: spoiled(
            text, lambda v: v["inbox"][0].update(type="7", ended=None, consumed_by=None)
        ),
        "'7' is not a valid MessageType",
    ),
    "a strange budget": (
        lambda text: spoiled(text, lambda v: v["agents"][0].update(notes=True)),
        "no session that a ledger can hold",
    ),
    "a tool without a name": (
        lambda text: spoiled(text, lambda v: v["agent_specs"][0].update(tools=[True])),
        "has no name",
    ),
    "a strange result": (
        lambda text: spoiled(text, lambda v: v["agents"][0]["result"].update(evidence=7)),
        "7 is no evidence",
    ),
    "depths": (lambda text: "[" * 100_000, "nested too deep"),
    "a turn of nobody": (
        lambda text: spoiled(text, lambda v: v["turns"][0].update(agent_id="nobody")),
        "FOREIGN KEY",
    ),
}


@pytest.mark.parametrize("kind", BAD)
def test_what_is_no_session_is_refused_by_name_and_nothing_is_kept(
    prsm, prsm_process, tmp_path, monkeypatch, kind
):
    spoil, says = BAD[kind]
    session, _ = play(prsm_process, tmp_path)
    text = prsm("export", session).out
    monkeypatch.setenv("PRSM_HOME", str(tmp_path / "other"))
    (tmp_path / "bad.json").write_text(spoil(text))
    done = prsm("sessions", "import", str(tmp_path / "bad.json"))
    assert (done.code in {1, 2}, says in done.err, "hint: " in done.err) == (True, True, True)
    assert json.loads(prsm("sessions", "list", "--json").out) == []


def test_the_events_of_a_session_are_one_a_line(prsm, prsm_process, tmp_path):
    session, _ = play(prsm_process, tmp_path)
    done = prsm("sessions", "export", session, "--format", "jsonl")
    assert done.out == prsm("events", session, "--json").out


class Page(HTMLParser):
    """What is on a page: its tags with their attributes, and its text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.said = [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.said += data


def test_a_page_has_tree_and_talk_and_nothing_of_a_hostile_text_acts(prsm, prsm_process, tmp_path):
    session, _ = play(prsm_process, tmp_path, SAYS, task=HOSTILE.replace("\x1b", ""))
    text = prsm("export", session, "--format", "html").out
    page = Page(text)
    names = [tag for tag, _ in page.tags]
    assert {"script", "img", "iframe", "link", "object", "form"}.isdisjoint(names)
    values = [value for _, attrs in page.tags for name, value in attrs.items()]
    assert not any("http:" in value or "https:" in value or "//" in value for value in values)
    assert not any(name.startswith("on") for _, attrs in page.tags for name in attrs)
    policy = [attrs for tag, attrs in page.tags if "http-equiv" in attrs]
    assert policy[0]["content"].startswith("default-src 'none'")
    assert names.index("meta") < names.index("style")
    assert "<script>document.title" in page.said
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert names.count("details") >= 3
    assert "run_bash" in page.said or "Bash" in page.said


@pytest.mark.requirement("U3")
def test_a_page_of_a_team_has_each_agent_once(prsm, prsm_process, tmp_path):
    session, _ = play(prsm_process, tmp_path)
    page = Page(prsm("export", session, "--format", "html").out)
    assert [attrs["href"] for tag, attrs in page.tags if tag == "a"] == ["#agent-1", "#agent-2"]
    assert [attrs["id"] for tag, attrs in page.tags if tag == "section"] == ["agent-1", "agent-2"]
    assert "I count." in page.said
    opened = [tag for tag, _ in page.tags if tag in {"ul", "li"}]
    assert opened == ["ul", "li", "ul", "li"]


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
def test_a_page_renders_in_chromium_and_runs_nothing(prsm, prsm_process, tmp_path):
    session, _ = play(prsm_process, tmp_path, SAYS)
    file = tmp_path / "page.html"
    prsm("export", session, "--format", "html", "-o", str(file))
    shot = tmp_path / "page.png"
    common = [
        *(str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu"),
        *(f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1000,1600"),
    ]
    address = file.as_uri()
    done = subprocess.run(
        [*common, "--dump-dom", address], capture_output=True, timeout=120, check=True
    )
    drawn = Page(done.stdout.decode())
    assert [tag for tag, _ in drawn.tags].count("section") == 1
    assert "<title>owned" not in done.stdout.decode()
    assert "alert(1)" in drawn.said
    subprocess.run(
        [*common, f"--screenshot={shot}", address], capture_output=True, timeout=120, check=True
    )
    assert Path(shot).read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["gone.json", "."])
def test_a_file_that_cannot_be_read_is_named_with_what_to_do(prsm_process, name):
    done = prsm_process("sessions", "import", name)
    assert done.code != 0
    assert f"{name}: cannot be read: " in done.err
    assert "hint: name a file that you may read" in done.err


def test_what_is_no_file_is_written_to_and_stays_what_it_is(prsm, prsm_process, tmp_path):
    session, _ = play(prsm_process, tmp_path)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    done = prsm("export", session, "-o", str(pipe))
    assert (done.code, "cannot be written" in done.err, "hint: " in done.err) == (2, True, True)
    reader = subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE)
    handle = os.open(pipe, os.O_WRONLY)  # the reader is there
    assert prsm("export", session, "-o", str(pipe)).code == 0
    os.close(handle)
    out, _ = reader.communicate(timeout=60)
    assert json.loads(out)["session"]["id"] == session
    assert pipe.is_fifo()
    listening = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(listening))
        assert prsm("export", session, "-o", str(listening)).code == 2
    assert listening.is_socket()


@pytest.mark.parametrize("is_there", [True, False])
def test_a_link_stays_one_and_its_file_is_written(prsm, prsm_process, tmp_path, is_there):
    session, _ = play(prsm_process, tmp_path)
    kept, link = tmp_path / "kept.json", tmp_path / "link.json"
    link.symlink_to(kept)
    if is_there:
        kept.write_text("old")
    assert prsm("export", session, "-o", str(link)).code == 0
    assert link.is_symlink()
    assert json.loads(kept.read_text())["session"]["id"] == session


def test_a_session_whose_budget_was_warned_of_is_taken_in(
    prsm, prsm_process, tmp_path, monkeypatch
):
    session, _ = play(prsm_process, tmp_path)
    copy = json.loads(prsm("export", session).out)
    warned = [event for event in sample_events() if event.type.startswith("budget_")]
    places = [each for each in copy["events"] if each["type"] == "message_completed"]
    for place, event in zip(places[:2], warned, strict=True):
        place.update(type=event.type, data=dict(event.data))
    monkeypatch.setenv("PRSM_HOME", str(tmp_path / "other"))
    (tmp_path / "copy.json").write_text(json.dumps(copy))
    done = prsm("sessions", "import", str(tmp_path / "copy.json"))
    assert done.code == 0, done.err
