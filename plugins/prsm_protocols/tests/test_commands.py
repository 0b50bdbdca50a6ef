"""`python -m prsm_protocols`: pages are linted and drawn, runs become a history of git."""

from __future__ import annotations

import json
import subprocess

import pytest
from click.testing import CliRunner
from prsm_protocols.__main__ import main
from prsm_protocols.compiled import compile_pages
from prsm_protocols.kept import Kept
from prsm_protocols.places import PAGES, kept_folder
from prsm_protocols.reading import read_page

from plugins.prsm_protocols.tests.conftest import IDLE, INBOX
from plugins.prsm_protocols.tests.test_measurement import LIFE, event
from plugins.prsm_protocols.tests.test_reading import EXAMPLE


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    monkeypatch.setenv("PRSM_HOME", str(tmp_path / "home"))
    folder = tmp_path / "work"
    (folder / PAGES).mkdir(parents=True)
    return folder


def told(workspace, command, *args, text=None):
    argv = [command, "--workspace", str(workspace), *args]
    return CliRunner().invoke(main, argv, input=text, catch_exceptions=False)


def write(workspace, **pages):
    for name, text in pages.items():
        (workspace / PAGES / f"{name}.md").write_text(text, encoding="utf-8")


@pytest.mark.requirement("F8")
def test_pages_are_linted_and_where_it_is_strict_a_warning_fails(workspace):
    write(workspace, inbox=EXAMPLE)
    done = told(workspace, "lint")
    assert done.exit_code == 0
    assert "inbox.md:10: warning: the state idle is declared nowhere" in done.stdout
    assert done.stdout.endswith("1 protocols: inbox\n")
    strict = told(workspace, "lint", "--strict")
    assert (strict.exit_code, strict.stdout) == (1, "")
    assert "inbox.md:10" in strict.stderr
    write(workspace, idle=IDLE)
    assert told(workspace, "lint", "--strict").exit_code == 0
    write(workspace, idle="nothing")
    wrong = told(workspace, "lint")
    assert (wrong.exit_code, "idle.md:1: there is no title" in wrong.stderr) == (1, True)


def test_a_protocol_is_drawn_with_its_guards_and_times(workspace):
    odd = IDLE.replace("When mail comes", 'When "mail": comes; #1')
    write(workspace, inbox=INBOX, idle=odd)
    done = told(workspace, "show", "inbox")
    version, *lines = done.stdout.splitlines()
    assert version.startswith("%% inbox@")
    assert lines == [
        "stateDiagram-v2",
        '    state "inbox" as s0',
        '    state "deep_work" as s1',
        '    state "distill" as s2',
        '    state "idle (protocol idle)" as s3',
        "    [*] --> s0",
        "    s0 --> s1: When focused task identified",
        "    s0 --> s3: When no actionable items",
        "    s1 --> s2: When context pressure high #91;context #62;= 0.8#93;",
        "    s1 --> s0: When done",
    ]
    idle = told(workspace, "show", "idle").stdout
    assert "    s0 --> s1: When #34;mail#34;#58; comes#59; #35;1" in idle
    assert "    s0 --> s1: after 30m" in idle
    missing = told(workspace, "show", "inbx")
    assert (missing.exit_code, "did you mean inbox?" in missing.stderr) == (1, True)


def kept_version():
    source, _ = read_page(EXAMPLE, "inbox.md")
    assert source is not None
    protocol = compile_pages([source])[0].get("inbox")
    assert protocol is not None
    Kept(kept_folder).put(protocol)
    return protocol.id


OPEN = [
    *LIFE[:-1],
    event("tool_call_started", 13, tool="state_transition", call="c9",
          arguments={"to": "distill", "context": {"pages": 3}}),
]  # fmt: skip


def lines_of(events):
    return "".join(json.dumps(each.to_dict()) + "\n" for each in events)


def git(folder, *args, data=None):
    argv = ["git", "-C", str(folder), *args]
    return subprocess.run(argv, input=data, capture_output=True, check=True).stdout


@pytest.mark.requirement("A14", "A15")
def test_each_move_is_a_commit_and_one_without_an_answer_is_told(workspace, tmp_path):
    kept_version()
    done = told(workspace, "export", "--events", "-", text=lines_of(OPEN))
    assert done.exit_code == 0, done.stderr
    audit = tmp_path / "audit"
    git(tmp_path, "init", "-q", "--bare", str(audit))
    git(audit, "fast-import", "--quiet", data=done.stdout_bytes)
    log = git(audit, "log", "--reverse", "--format=%an %at %s", "protocols").decode().splitlines()
    assert log == [
        "alice 1700000000 alice: begins",
        "alice 1700000000 alice: is in inbox",
        "alice 1700000002 alice: inbox -> deep_work",
        "alice 1700000000 alice: asks for distill, and has no answer",
    ]
    state = json.loads(git(audit, "show", "protocols:agents/alice/state.json"))
    assert state == {
        "agent": "w1", "protocol": "inbox@1b1abb595ece", "state": "deep_work", "since": 1700000000,
        "context": {"pages": 3}, "pending": "distill",
    }  # fmt: skip
    assert git(audit, "show", "protocols:protocols/inbox.md").decode() == EXAMPLE
    again = told(workspace, "export", "--events", "-", text=lines_of(OPEN))
    assert again.stdout_bytes == done.stdout_bytes


def test_a_version_that_is_not_kept_is_told_and_left_out(workspace):
    done = told(workspace, "export", "--events", "-", text=lines_of(LIFE))
    assert done.exit_code == 0
    assert "its pages are left out" in done.stderr
    assert "protocols/inbox.md" not in done.stdout
    wrong = told(workspace, "export", "--events", "-", text="nothing\n")
    assert (wrong.exit_code, "line 1 is no event" in wrong.stderr) == (1, True)


def test_two_agents_of_one_name_have_folders_of_their_own(workspace):
    twice = [
        event("agent_spawned", 1, name="al/ice", labels={"protocol": "x"}),
        event("agent_spawned", 2, agent="w2", name="al/ice", labels={"protocol": "x"}),
    ]
    done = told(workspace, "export", "--events", "-", text=lines_of(twice))
    assert "agents/al_ice/state.json" in done.stdout
    assert "agents/al_ice-2/state.json" in done.stdout
