"""`prsm run` in a process of its own, on the real engine, with a provider of a test plugin."""

import json
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def echo(tmp_path, monkeypatch):
    """Install the echo provider for the processes of the test."""
    site = tmp_path / "site"
    info = site / "prsm_echo-1.0.dist-info"
    info.mkdir(parents=True)
    shutil.copy(Path(__file__).with_name("echo_plugin.py"), site)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: prsm-echo\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[prsm]\necho = echo_plugin\n")
    monkeypatch.setenv("PYTHONPATH", str(site))
    monkeypatch.setenv("PRSM_PLUGINS", "echo")
    return site


def events_of(text):
    return [json.loads(line) for line in text.splitlines()]


def test_a_run_prints_its_summary_to_stdout_and_nothing_else(prsm_process):
    done = prsm_process("run", "say hello")
    assert (done.code, done.out) == (0, "echo: say hello\n")
    assert "master (master, echo/default) starts: say hello" in done.err
    assert done.err.splitlines()[-1].startswith("completed in ")
    assert done.err.splitlines()[-1].endswith("tokens: 5 (3 in, 2 out), cost: unknown (1 turn)")


def test_json_prints_the_committed_events_and_run_finished_last(prsm_process):
    done = prsm_process("run", "say hello", "--json")
    assert (done.code, done.err) == (0, "")
    events = events_of(done.out)
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert (events[0]["type"], events[-1]["type"]) == ("run_started", "run_finished")
    assert events[-1]["status"] == "completed"
    assert "text_delta" not in {event["type"] for event in events}
    assert events_of(prsm_process("events", "--json").out) == events
    [master] = json.loads(prsm_process("tree", "--json").out)["agents"]
    assert (master["name"], master["state"]) == ("master", "completed")
    assert "echo: say hello" in prsm_process("history", "master").out


@pytest.mark.requirement("U28")
def test_a_frontend_that_ends_without_starting_its_task_is_1_and_named(prsm_process):
    done = prsm_process("run", "say hello", "--ui", "idle")
    assert (done.code, done.out) == (1, "")
    assert "frontend idle" in done.err, done.err


def test_a_frontend_of_a_plugin_runs_by_its_name_and_gives_the_exit_code(prsm_process):
    done = prsm_process("run", "say hello", "--ui", "plain")
    assert (done.code, done.out) == (
        42,
        "plain: echo: say hello {'interactive': False, 'replays': False}\n",
    )


def test_the_task_is_read_from_stdin(prsm_process):
    done = prsm_process("run", "-", stdin="grüße\n".encode())
    assert (done.code, done.out) == (0, "echo: grüße\n")
    blank = prsm_process("run", "-", stdin=b" \n")
    assert (blank.code, blank.out) == (2, "")


def test_without_a_provider_the_exit_code_is_3_and_no_ledger_is_made(
    prsm_process, monkeypatch, tmp_path
):
    monkeypatch.setenv("PRSM_PLUGINS", "")
    done = prsm_process("run", "say hello")
    assert (done.code, done.out) == (3, "")
    assert done.err.startswith("prsm: ")
    assert "Traceback" not in done.err
    assert not (tmp_path / "home" / "data").exists()
    assert "nothing was run yet" in prsm_process("tree").err


def test_a_run_that_never_began_leaves_the_ledger_of_earlier_ones_as_it_was(
    prsm_process, monkeypatch
):
    prsm_process("run", "say hello")
    before = prsm_process("events", "--json").out
    monkeypatch.setenv("PRSM_PLUGINS", "")
    assert prsm_process("run", "say more").code == 3
    assert prsm_process("events", "--json").out == before


def test_data_that_cannot_be_written_keeps_a_run_from_starting(prsm_process, tmp_path):
    (tmp_path / "home" / "data").mkdir(parents=True)
    (tmp_path / "home" / "data" / "ledgers").touch()
    done = prsm_process("run", "say hello")
    assert (done.code, done.out) == (2, "")
    assert "cannot be created" in done.err
    assert "PRSM_HOME names another folder" in done.err


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (("--ui", "consle"), 2, "did you mean 'console'?"),
        (("--session", "nope"), 1, "nothing was run yet"),
        (("--set", "engine.max_agent_dept=1"), 2, "is not a setting"),
    ],
)
def test_what_keeps_a_run_from_starting_is_one_line(prsm_process, args, code, message):
    done = prsm_process("run", "x", *args)
    assert (done.code, done.out) == (code, "")
    started, told, *_ = done.err.splitlines()
    assert started == "prsm: starts: x"
    assert message in told


def test_an_unknown_provider_is_told_with_those_there_are(prsm_process):
    done = prsm_process("run", "x", "--provider", "ecko")
    assert done.code in {2, 3}
    assert done.err.startswith("prsm: ")
    assert "echo" in done.err


@pytest.mark.parametrize("flags", [("--json",), ()])
def test_without_a_person_a_request_is_denied_and_the_exit_code_is_4(prsm_process, flags):
    done = prsm_process("run", "ask first", *flags)
    assert done.code == 4
    if flags:
        [resolved] = [e for e in events_of(done.out) if e["type"] == "permission_resolved"]
        assert (resolved["verdict"], resolved["by"]) == ("deny", "headless")
    else:
        assert "deny (by headless)" in done.err


def test_on_ask_allow_answers_in_place_of_a_person(prsm_process):
    done = prsm_process("run", "ask first", "--on-ask", "allow", "--json")
    assert done.code == 0
    [resolved] = [e for e in events_of(done.out) if e["type"] == "permission_resolved"]
    assert (resolved["verdict"], resolved["by"]) == ("once", "on_ask")


def test_the_console_asked_for_by_name_takes_answers_from_a_pipe(prsm_process):
    done = prsm_process("run", "ask, then choose", "--ui", "console", stdin=b"o\n2\n")
    assert (done.code, done.out) == (0, "echo: chose ('blue',)\n")


def read_until(process, terminal, text):
    """Return what the terminal of a process shows up to `text`."""
    shown, deadline = "", time.monotonic() + 60
    while text not in shown:
        ready, _, _ = select.select([terminal], [], [], 0.1)
        if ready:
            shown += os.read(terminal, 4096).decode()
        else:
            assert process.poll() is None, f"ended without {text!r}: {shown!r}"
            assert time.monotonic() < deadline, f"{text!r} was not shown: {shown!r}"
    return shown


@pytest.fixture
def terminal():
    """The two ends of a terminal: the person's and the program's."""
    controller, program = pty.openpty()
    yield controller, program
    os.close(controller)
    os.close(program)


@pytest.mark.requirement("D9")
def test_a_person_at_a_terminal_answers_a_permission(start_prsm, terminal):
    controller, program = terminal
    process = start_prsm("run", "ask first", stdin=program, stderr=program)
    shown = read_until(process, controller, "[d]eny: ")
    assert "master asks permission for Read" in shown.replace("\x1b[1m", "").replace("\x1b[0m", "")
    assert "path: secret.txt" in shown
    os.write(controller, b"o\n")
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, b"echo: ask first\n")


def test_a_terminal_shows_the_time_while_nothing_happens(start_prsm, terminal):
    controller, program = terminal
    process = start_prsm("run", "hang", stdin=program, stderr=program)
    read_until(process, controller, "Thinking... (1s)")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run_in_order_with_130(start_prsm, prsm_process, number):
    process = start_prsm("run", "hang", "--json")
    for line in process.stdout:
        if json.loads(line)["type"] == "message_completed":
            break
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.decode().strip() == "prsm: interrupted"
    finished = events_of(out.decode())[-1]
    assert (finished["type"], finished["status"]) == ("run_finished", "interrupted")
    [master] = json.loads(prsm_process("tree", "--json").out)["agents"]
    assert master["state"] == "interrupted"


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_a_signal_before_the_run_has_begun_leaves_no_ledger(start_prsm, tmp_path, flags):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    process = start_prsm("run", "x", "--set", f"providers.echo.models=[{fifo}]", *flags)
    with fifo.open() as probes:  # open until the end: a provider may be asked more than once
        assert probes.readline() == "probing\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    told = [b"prsm: interrupted"] if flags else [b"prsm: starts: x", b"prsm: interrupted"]
    assert (process.returncode, out, err.split(b"\n")[-1]) == (130, b"", b"")
    assert [line for line in err.splitlines() if line] == told
    assert not (tmp_path / "home" / "data").exists()


@pytest.fixture
def withstanding(start_prsm, tmp_path):
    """Start a run of a provider that does not end, with a child that ignores TERM.

    Gives the process, the lines that provider and child write, and an own end of their pipe: until
    it is closed, an end of the child between two lines is no end of the lines.
    """
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    process = start_prsm("run", f"withstand {fifo}", stdout=subprocess.DEVNULL)
    with fifo.open() as lines, fifo.open("w") as own_end:
        assert {lines.readline(), lines.readline()} == {"begun\n", "it waits\n"}
        yield process, lines, own_end


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_at_once_what_does_not_end_in_order(
    withstanding, prsm_process, number
):
    process, lines, own_end = withstanding
    process.send_signal(number)
    assert lines.readline() == "told to end\n"
    process.send_signal(number)
    process.wait(timeout=15)
    own_end.close()
    assert process.returncode == -number
    assert set(lines) <= {"told to end\n"}, "the child's end of the pipe is closed by now"
    assert json.loads(prsm_process("tree", "--json").out)["agents"][0]["name"] == "master"


def test_a_timeout_ends_the_run(prsm_process):
    done = prsm_process("run", "hang", "--timeout", "0.5", "--json")
    assert done.code == 1
    assert events_of(done.out)[-1]["status"] == "killed"


def test_prsm_jsonl_names_a_file_for_the_events(prsm_process, tmp_path, monkeypatch):
    log = tmp_path / "log.jsonl"
    monkeypatch.setenv("PRSM_JSONL", str(log))
    done = prsm_process("run", "say hello", "--json")
    assert events_of(log.read_text()) == events_of(done.out)


@pytest.mark.requirement("C6")
def test_a_broken_plugin_does_not_stop_a_run(prsm_process, echo, monkeypatch):
    (echo / "prsm_echo-1.0.dist-info" / "entry_points.txt").write_text(
        "[prsm]\necho = echo_plugin\nbad = no_such_module\n"
    )
    monkeypatch.setenv("PRSM_PLUGINS", "echo,bad")
    assert prsm_process("run", "say hello").code == 0
    assert prsm_process("plugins").code == 1


def test_a_provider_that_fails_by_surprise_is_told_without_a_traceback(prsm_process):
    done = prsm_process("run", "crash")
    assert (done.code, "Traceback" in done.err) == (1, False)
    assert "RuntimeError: the model exploded" in done.err
    assert "Traceback" in prsm_process("--debug", "run", "crash").err


def test_files_of_a_run_are_for_their_owner_only(prsm_process, tmp_path):
    prsm_process("run", "say hello")
    made = [path for path in (tmp_path / "home").rglob("*") if not path.is_socket()]
    assert made
    assert not [path for path in made if path.stat().st_mode & 0o077]


def test_providers_tells_what_can_be_used_and_what_cannot_be_enforced(prsm_process):
    done = prsm_process("providers", "--json")
    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out) == [
        {
            "name": "echo",
            "available": True,
            "version": "1.0",
            "tested": "1.x",
            "logged_in": None,
            "enforcement": "none",
            "resume": "rebuild",
            "reason": None,
            "hint": None,
            "gaps": ["the network"],
            "models": [],
            "models_problem": None,
        }
    ]
    table = prsm_process("providers").out
    assert table.splitlines()[1].split() == ["echo", "yes", "1.0", "1.x", "-", "none", "-"]
    assert "echo does not enforce all: the command policy needs 'approval' and it has" in table
    assert "the network" in table


def test_a_provider_that_cannot_be_used_says_why_and_what_to_do(prsm_process, monkeypatch):
    monkeypatch.setenv("PRSM__PROVIDERS__ECHO__MODELS", "[broken]")
    done = prsm_process("providers")
    assert done.code == 0
    assert "echo cannot be used: not logged in\necho: log in" in done.out


def test_no_provider_at_all_is_said(prsm_process, monkeypatch):
    monkeypatch.setenv("PRSM_PLUGINS", "")
    done = prsm_process("providers")
    assert (done.code, done.out) == (0, "")
    assert (
        done.err
        == "prsm: no provider is installed\nhint: install one, for example: prsm install codex\n"
    )


def test_the_installed_command_is_the_same_program():
    program = shutil.which("prsm", path=str(Path(sys.executable).parent))
    if program is None:
        pytest.skip("the console script `prsm` is not installed beside this interpreter")
    done = subprocess.run([program, "rnu"], capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (2, b"")
