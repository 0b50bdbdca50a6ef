"""tree, events and history, read from a ledger of the real store by another process."""

import asyncio
import json
import signal

import pytest

from prsm_core.cli.ledger import choose_session
from prsm_core.errors import StoreError
from prsm_core.interfaces.store import SessionInfo
from prsm_core.store import SqliteStore
from tests.cli.conftest import event


def test_tree_prints_the_agents_as_nested_json(prsm, session):
    done = prsm("tree", "--json")
    assert (done.code, done.err) == (0, "")
    tree = json.loads(done.out)
    assert (tree["session"], tree["run"]) == ("s1", "s1-run")
    assert (tree["is_live"], tree["spent"]["total_tokens"]) == (False, 15)
    [master] = tree["agents"]
    [worker] = master["children"]
    assert (master["state"], worker["state"]) == ("interrupted", "killed")
    assert worker["usage_self"]["total_tokens"] == 15
    assert master["usage_subtree"]["total_tokens"] == 15


def test_tree_for_people_is_an_indented_table(prsm, session):
    done = prsm("tree")
    assert done.err == (
        "session s1 (interrupted): a task\n"
        "so far, closed turns: tokens: 15 (10 in, 5 out), cost: unknown (1 turn)\n"
    )
    head, master, worker = done.out.splitlines()
    assert head.startswith("AGENT ")
    assert head.split()[:4] == ["AGENT", "ID", "STATE", "EVIDENCE"]
    assert head.endswith("  LAST TOOL")
    cells = ["master", "s1-maste", "interrupted", "-", "master", "script/default"]
    assert master.split()[:6] == cells
    assert worker.startswith("  w1 ")
    assert worker.split()[-5:] == ["15", "unknown", "(1", "turn)", "Bash"]


@pytest.mark.parametrize("command", [("tree",), ("events",), ("history", "master")])
def test_before_the_first_run_the_cure_is_told(prsm, workspace, command, tmp_path):
    done = prsm(*command)
    assert (done.code, done.out) == (1, "")
    assert done.err == (
        f"prsm: nothing was run yet in {workspace}\n"
        'hint: start a run with `prsm run "…"`, or choose a folder with --workspace\n'
    )
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("command", [("tree", "zz"), ("events", "zz")])
def test_an_unknown_session_is_one_line_with_the_known_ones(prsm, session, command):
    done = prsm(*command)
    assert (done.code, done.out) == (1, "")
    assert done.err == "prsm: there is no session 'zz'\nhint: the newest are: s1\n"


def test_the_newest_session_is_the_default_and_a_prefix_finds_another(prsm, session, record):
    record("b-newer")
    assert json.loads(prsm("tree", "--json").out)["session"] == "b-newer"
    assert json.loads(prsm("tree", "S", "--json").out)["session"] == "s1"


def make_info(session_id):
    return SessionInfo(
        session_id=session_id,
        run_id=None,
        status=None,
        task="",
        workspace="",
        started_at=0.0,
        last_seq=0,
    )


@pytest.mark.parametrize(
    ("prefix", "session_id"),
    [(None, "01ABD"), ("01abc", "01ABC"), ("01A", None), ("x", None), ("01ABC", "01ABC")],
)
def test_a_session_is_chosen_by_unique_prefix(prefix, session_id):
    sessions = [make_info("01ABD"), make_info("01ABC"), make_info("01ABCDE")][:3]
    if prefix == "01abc":
        sessions.pop()
    if session_id is not None:
        assert choose_session(sessions, prefix).session_id == session_id
        return
    with pytest.raises(StoreError) as caught:
        choose_session(sessions, prefix)
    assert caught.value.code == ("ambiguous_session" if prefix == "01A" else "unknown_session")
    assert "01ABC" in str(caught.value.hint)


def test_an_empty_ledger_has_no_session():
    with pytest.raises(StoreError, match="no session yet"):
        choose_session([], None)


def test_events_as_json_are_the_committed_envelopes_in_order(prsm_process, session):
    done = prsm_process("events", "--json")
    assert (done.code, done.err) == (0, "")
    events = [json.loads(line) for line in done.out.splitlines()]
    assert [event["seq"] for event in events] == list(range(1, 11))
    assert list(events[0])[:6] == ["seq", "ts", "session", "run", "agent", "type"]
    assert [event["type"] for event in events[-3:]] == [
        "tool_call_finished",
        "turn_finished",
        "agent_state_changed",
    ]


def test_events_begin_after_a_number(prsm, session):
    lines = prsm("events", "--json", "--after", "8").out.splitlines()
    assert [json.loads(line)["seq"] for line in lines] == [9, 10]
    assert prsm("events", "--after", "99").out == ""


def test_events_for_people_are_lines_that_cannot_move_the_cursor(prsm, session):
    lines = prsm("events").out.splitlines()
    assert len(lines) == 10
    assert "\x1b" not in "".join(lines)
    assert lines[5].split()[2:4] == ["w1", "message_completed"]
    assert '"three\\u001b[2J"' in lines[5]


async def test_events_follow_what_another_process_commits(start_prsm, session, ledger):
    process = start_prsm("events", "s1", "--json", "--follow", "--after", "10")
    async with await SqliteStore.open(ledger) as store:
        await store.append([session.event("w1", "later")])
        line = await asyncio.to_thread(process.stdout.readline)
    assert (json.loads(line)["seq"], json.loads(line)["text"]) == (11, "later")
    process.send_signal(signal.SIGINT)
    _, err = await asyncio.to_thread(process.communicate, timeout=60)
    assert process.returncode == 130
    assert err.decode().endswith("prsm: interrupted\n")


@pytest.mark.requirement("E39", "E40")
def test_history_shows_what_an_agent_was_told_said_and_did(prsm, session):
    done = prsm("history", "w1")
    assert (done.code, done.err) == (0, "")
    assert done.out == (
        "user:\n  count\nthinking:\n  hm\nagent:\n  three\\x1b[2J\n"
        '> Bash {"command": "ls"}\n< Bash completed\n  a\n  b\n'
    )
    entries = json.loads(prsm("history", "w1", "--json", "--session", "s").out)
    kinds = ["user_message", "thinking", "text", "tool_call", "tool_result"]
    assert [entry["kind"] for entry in entries] == kinds


def test_the_last_entries_of_a_history_are_those_of_its_end(prsm, session):
    assert prsm("history", "w1", "--last", "2").out == (
        '> Bash {"command": "ls"}\n< Bash completed\n  a\n  b\n'
    )
    summary = prsm("history", "w1", "--last", "2", "--detail", "summary")
    assert summary.out == "agent:\n  three\\x1b[2J\n> Bash\n"
    assert len(json.loads(prsm("history", "w1", "--last", "99", "--json").out)) == 5


async def test_a_history_follows_what_another_process_commits(start_prsm, session, ledger):
    """Of this agent alone; --last says where to begin."""
    process = start_prsm("history", "w1", "--follow", "--last", "1", "--json")
    first = json.loads(await asyncio.to_thread(process.stdout.readline))
    async with await SqliteStore.open(ledger) as store:
        said = [
            event(session, name, "message_completed", turn="t", role="assistant", text=name)
            for name in ("master", "w1")
        ]
        await store.append(said)
        line = await asyncio.to_thread(process.stdout.readline)
    assert (first["kind"], first["text"]) == ("tool_result", "a\nb")
    assert (json.loads(line)["kind"], json.loads(line)["text"]) == ("text", "w1")
    process.send_signal(signal.SIGINT)
    await asyncio.to_thread(process.communicate, timeout=60)
    assert process.returncode == 130


@pytest.mark.requirement("E40")
def test_history_in_summary_keeps_texts_and_tool_names(prsm, session):
    done = prsm("history", "w1", "--detail", "summary")
    assert done.out == "user:\n  count\nagent:\n  three\\x1b[2J\n> Bash\n"
    entries = json.loads(prsm("history", "w1", "--detail", "summary", "--json").out)
    assert entries[-1].keys() == {"kind", "at", "tool"}


@pytest.mark.requirement("E41")
def test_history_finds_an_agent_by_the_beginning_of_its_id(prsm, session):
    assert prsm("history", "s1-w").out == prsm("history", "w1").out
    unknown = prsm("history", "w2")
    assert (unknown.code, unknown.out) == (1, "")
    assert unknown.err == "prsm: no agent is called 'w2'\nhint: did you mean 'w1'?\n"
    ambiguous = prsm("history", "s1")
    assert ambiguous.code == 1
    assert "beginning of 2 agent ids" in ambiguous.err


def test_another_workspace_has_another_ledger(prsm, session, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    assert prsm("tree", "-C", str(other)).code == 1
    assert prsm("tree", "-C", "../work").code == 0
