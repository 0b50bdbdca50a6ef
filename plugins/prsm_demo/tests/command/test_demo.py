"""prsm demo: the whole of it in a process of its own, without a provider, a key or a network."""

import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import time
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest
from prsm_demo.show import make_sample, remembered, sweep

from prsm_core.errors import ConfigError
from tests.sources import ROOT

DEADLINE = 60.0
PATIENCE_OF_A_DEMO = 8.0
NEEDED = ("bash", "cat", "grep")  # all that the scripted team runs, but for Python itself


@pytest.fixture(autouse=True)
def temp(tmp_path, monkeypatch):
    """A temporary folder of its own, where the demonstration puts its project."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)  # this process may have looked before
    return folder


@pytest.fixture
def project(temp):
    """The folder of the one demonstration that was run."""

    def find():
        [folder] = temp.glob("prsm-demo-*")
        return folder

    return find


def events_of(text):
    return [json.loads(line) for line in text.splitlines()]


def is_mended(folder):
    done = subprocess.run(
        [sys.executable, "-m", "unittest"],
        cwd=folder,
        capture_output=True,
        timeout=DEADLINE,
        check=False,
    )
    return done.returncode == 0


def only(events, kind):
    return [event for event in events if event["type"] == kind]


@pytest.mark.requirement("U10")
def test_a_team_mends_the_project_and_all_of_it_is_in_the_ledger(prsm_process, project):
    done = prsm_process("demo")
    assert done.code == 0
    assert "internal error" not in done.err
    folder = project()
    assert is_mended(folder)
    assert "Orders of exactly 50.00 are sent free now; running the tests: comp" in done.out
    assert "+    return 0 if subtotal >= FREE_SHIPPING_FROM else SHIPPING\n" in done.out
    assert "+- Orders of exactly 50.00 are sent free of charge, as promised.\n" in done.out
    assert f"  prsm tree -C {folder}\n" in done.out
    [ledger] = re.findall(r"Its ledger: +(.+)", done.out)
    assert Path(ledger).is_file()
    tree = json.loads(prsm_process("tree", "-C", str(folder), "--json").out)
    [master] = tree["agents"]
    agents = [master, *master["children"]]
    assert [agent["name"] for agent in agents] == ["master", "writer", "fixer", "reviewer"]
    assert {(agent["provider"], agent["state"]) for agent in agents} == {("script", "completed")}


@pytest.mark.requirement("U10")
def test_the_engine_tells_of_a_question_a_permission_and_two_workers_at_once(
    prsm_process, project, workspace
):
    done = prsm_process("--no-plugins", "demo", "--json")
    events = events_of(done.out)
    assert done.code == 0
    assert (events[-1]["type"], events[-1]["status"]) == ("run_finished", "completed")
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    names = {event["agent"]: event["name"] for event in only(events, "agent_spawned")}
    talk = [
        (names[event["from"]], event["kind"], names[event["to"]])
        for event in only(events, "message_routed")
        if event["kind"] in {"question", "answer"}
    ]
    assert talk == [("fixer", "question", "master"), ("master", "answer", "fixer")]
    [asked] = only(events, "permission_requested")
    [resolved] = only(events, "permission_resolved")
    assert (names[asked["agent"]], asked["command"]) == ("fixer", "python3 -m unittest")
    assert (resolved["verdict"], resolved["by"]) == ("once", "on_ask")
    moves = [
        (names[event["agent"]], event["to"])
        for event in only(events, "agent_state_changed")
        if names[event["agent"]] in {"fixer", "writer"}
    ]
    begun = {moves.index((name, "running")) for name in ("fixer", "writer")}
    ended = {moves.index((name, "completed")) for name in ("fixer", "writer")}
    assert max(begun) < min(ended), "both work at the same time"
    assert str(project()) in done.err
    assert list(workspace.iterdir()) == [], "the current folder is left alone"


def test_the_project_is_broken_before_the_team_has_mended_it(tmp_path):
    assert not is_mended(make_sample(tmp_path / "state"))


def test_it_needs_no_git_and_no_program_that_is_not_everywhere(
    prsm_process, project, tmp_path, monkeypatch
):
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in NEEDED:
        (programs / name).symlink_to(shutil.which(name))
    (programs / "python3").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", str(programs))
    assert prsm_process("demo").code == 0
    assert is_mended(project())


def test_the_users_settings_do_not_change_the_demonstration(prsm_process, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.yaml").write_text("permissions: {deny: [python3]}\nno such: key\n")
    assert prsm_process("demo", "--json").code == 0


@pytest.mark.long
def test_a_demo_clears_away_the_last_one_unless_it_was_to_be_kept(prsm_process, temp, tmp_path):
    ledgers = tmp_path / "home" / "data" / "ledgers"
    first = prsm_process("demo", "--json")
    [gone] = temp.glob("prsm-demo-*")
    assert "The next demo removes both" in first.err
    kept = prsm_process("demo", "--json", "--keep")
    assert "The next demo removes" not in kept.err
    [stays] = temp.glob("prsm-demo-*")
    assert stays != gone
    assert len(list(ledgers.iterdir())) == 1
    sweep(tmp_path / "home" / "state")
    assert stays.is_dir()


def test_only_what_was_made_by_a_demo_is_cleared_away(tmp_path):
    state, mine = tmp_path / "state", tmp_path / "mine"
    mine.mkdir()
    sample = make_sample(state)
    with remembered(state, sample, mine, tmp_path / "prsm-demo-gone"):
        sweep(state)
        assert sample.exists(), "that demonstration still runs"
    sweep(state)
    assert (sample.exists(), mine.exists()) == (False, True)
    assert list((state / "demos").iterdir()) == []


def start_demo(start_prsm, *args):
    """Start a demonstration and wait until its run has begun."""
    process = start_prsm("demo", "--json", *args)
    assert b"run_started" in process.stdout.readline()
    return process


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
def test_a_demo_that_is_ended_early_leaves_nothing(start_prsm, temp, tmp_path, number):
    process = start_demo(start_prsm)
    assert len(list(temp.iterdir())) == 1
    process.send_signal(number)
    process.communicate(timeout=DEADLINE)
    assert process.returncode == 130
    assert list(temp.iterdir()) == []
    assert list((tmp_path / "home" / "data" / "ledgers").iterdir()) == []
    assert list((tmp_path / "home" / "state" / "demos").iterdir()) == []


@pytest.mark.parametrize("options", [(), ("--keep",)])
def test_an_interrupted_demo_leads_to_what_it_has_kept_and_nowhere_else(start_prsm, temp, options):
    process = start_prsm("demo", *options)
    while b"writer (worker" not in (line := process.stderr.readline()):
        assert line
    process.send_signal(signal.SIGINT)
    err = process.communicate(timeout=DEADLINE)[1].decode()
    folders = list(temp.glob("prsm-demo-*"))
    assert ("prsm tree -C" in err, "--keep" in err, len(folders)) == (
        (True, False, 1) if options else (False, True, 0)
    )


def test_what_a_killed_demo_left_is_cleared_away_by_the_next(start_prsm, temp, tmp_path):
    process = start_demo(start_prsm)
    [gone] = temp.iterdir()
    sweep(tmp_path / "home" / "state")
    assert gone.exists(), "it still runs"
    process.kill()
    process.communicate(timeout=DEADLINE)
    assert gone.exists()
    sweep(tmp_path / "home" / "state")
    assert list(temp.iterdir()) == []
    assert list((tmp_path / "home" / "data" / "ledgers").iterdir()) == []


def test_a_demo_whose_terminal_goes_leaves_nothing(start_prsm, terminal, temp):
    controller, program = terminal
    process = start_prsm(
        "demo", stdin=program, stdout=program, stderr=program, preexec_fn=lambda: own(program)
    )
    os.close(program)
    read_until(process, controller, "[d]eny: ")
    assert len(list(temp.iterdir())) == 1
    os.close(controller)
    process.wait(timeout=DEADLINE)
    # It cannot write any more, not even its last words (120), or was told by SIGHUP.
    assert process.returncode in {1, 120, 130}
    assert list(temp.iterdir()) == []


def own(terminal):
    """Make it the terminal that controls this process, whose end is told by SIGHUP."""
    os.setsid()
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)


def test_the_project_is_in_no_repository(temp, tmp_path):
    git = temp / ".git"
    for part in ("objects", "refs"):
        (git / part).mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    state = tmp_path / "state"
    assert make_sample(state).parent == state / "demos"
    with pytest.raises(ConfigError, match="are in a repository") as caught:
        make_sample(temp / "state")
    assert "TMPDIR" in (caught.value.hint or "")


@pytest.mark.parametrize("left", [".git", ".prism"])
def test_a_folder_that_others_left_where_temporary_files_are_does_not_matter(temp, tmp_path, left):
    (temp / left).mkdir()
    assert make_sample(tmp_path / "state").parent == temp


def test_a_temporary_folder_that_does_not_exist_is_told(prsm, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    done = prsm("demo")
    assert done.code == 2
    assert done.err.startswith("prsm: the sample project cannot be written: ")
    assert "TMPDIR" in done.err


def test_json_and_another_frontend_exclude_each_other(prsm):
    done = prsm("demo", "--json", "--ui", "console")
    assert done.code == 2
    assert "exclude each other" in done.err


def test_an_unknown_frontend_is_told_before_anything_is_made(prsm, temp):
    done = prsm("demo", "--ui", "consle")
    assert (done.code, list(temp.iterdir())) == (2, [])
    assert "did you mean 'console'?" in done.err


@pytest.fixture
def terminal():
    """The two ends of a terminal: the person's and the program's."""
    controller, program = pty.openpty()
    yield controller, program
    for end in (controller, program):
        with suppress(OSError):  # the test has closed it
            os.close(end)


def read_until(process, terminal, text):
    """Return what the terminal of a process shows up to `text`."""
    shown, deadline = "", time.monotonic() + DEADLINE
    while text not in shown:
        ready, _, _ = select.select([terminal], [], [], 0.1)
        if ready:
            shown += os.read(terminal, 4096).decode()
        else:
            assert process.poll() is None, f"ended without {text!r}: {shown!r}"
            assert time.monotonic() < deadline, f"{text!r} was not shown: {shown!r}"
    return shown


@pytest.mark.parametrize(("typed", "tests"), [(b"o\n", "completed"), (b"d\n", "denied")])
def test_a_person_decides_whether_the_tests_may_run(
    start_prsm, terminal, project, typed, tests, prsm_process
):
    controller, program = terminal
    process = start_prsm("demo", stdin=program, stderr=program)
    shown = read_until(process, controller, "[d]eny: ")
    assert "You will be asked for a permission" in shown
    assert "command: python3 -m unittest" in shown
    os.write(controller, typed)
    out, _ = process.communicate(timeout=DEADLINE)
    assert process.returncode == 0
    assert f"running the tests: {tests}." in out.decode()
    assert is_mended(project())
    events = events_of(prsm_process("events", "-C", str(project()), "--json").out)
    [resolved] = only(events, "permission_resolved")
    assert resolved["by"] == "user"


@pytest.mark.long
def test_the_team_waits_for_a_person_who_is_there(start_prsm, terminal, project, prsm_process):
    controller, program = terminal
    process = start_prsm("demo", "--ui", "console", stdin=program, stderr=program)
    read_until(process, controller, "[d]eny: ")
    # Longer than any patience that a demonstration could have and still be one.
    ended, _, _ = select.select([pidfd(process)], [], [], PATIENCE_OF_A_DEMO)
    assert not ended, "it went on by itself"
    os.write(controller, b"o\n")
    process.communicate(timeout=DEADLINE)
    assert process.returncode == 0
    events = events_of(prsm_process("events", "-C", str(project()), "--json").out)
    [resolved] = only(events, "permission_resolved")
    assert (resolved["verdict"], resolved["by"], resolved["via"]) == ("once", "user", "")


def pidfd(process):
    """Return a descriptor that can be read once the process has ended."""
    return os.pidfd_open(process.pid)


def test_the_wheel_holds_the_project_and_its_scenario(tmp_path):
    builder = pytest.importorskip("hatchling.builders.wheel", reason="hatchling is not installed")
    package = ROOT / "plugins" / "prsm_demo"
    made = builder.WheelBuilder(str(package)).build(directory=str(tmp_path), versions=["standard"])
    with zipfile.ZipFile(next(iter(made))) as archive:
        shipped = set(archive.namelist())
    demo = package / "prsm_demo"
    wanted = {
        path.relative_to(package).as_posix()
        for path in (demo / "scenario.yaml", *(demo / "sample-shop").rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert len(wanted) == 5
    assert wanted <= shipped
