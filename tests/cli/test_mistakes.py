"""What a beginner gets wrong: each mistake is told in plain words, with what to do."""

import json
import os
import pty
import signal
import subprocess
from pathlib import Path

import pytest

from prsm_core.catalog.categories import CATEGORIES
from tests.cli.conftest import DEADLINE, command


@pytest.mark.parametrize(
    ("typed", "meant"), [("runn", "'run'"), ("prvoiders", "'providers'"), ("tre", "'tree'")]
)
def test_a_misspelt_command_is_told_what_it_may_be(prsm, typed, meant):
    done = prsm(typed)
    assert (done.code, done.out) == (2, "")
    assert f"No such command {typed!r}. Did you mean {meant}" in done.err


@pytest.mark.parametrize(
    "words",
    [
        ("run", "mend", "the", "tests"),
        ("prompt", "w1", "be", "quick", "please"),
        ("models", "recommend", "mend", "the", "tests"),
        ("policy", "check", "rm", "a", "b"),
    ],
)
def test_a_text_without_quotes_is_told_to_be_put_in_quotes(prsm, tmp_path, words):
    done = prsm(*words)
    assert (done.code, done.out) == (2, "")
    assert "is one text, but 3 words were given: put it in quotes" in done.err
    assert not (tmp_path / "home").exists()


def test_a_wrong_setting_is_told_with_a_cure(prsm):
    done = prsm("config", "show", "--set", "engine.max_agent_dept=2")
    assert done.code == 2
    assert done.err.splitlines()[-1] == (
        "hint: correct it; `prsm config schema` prints what is allowed"
    )


def test_every_wrong_setting_is_told_on_a_line_of_its_own(prsm, tmp_path):
    (tmp_path / "home").mkdir()
    file = tmp_path / "home" / "config.yaml"
    file.write_text("engine:\n  max_agent_depth: deep\ndefaults:\n  mode: bypas\n")
    done = prsm("run", "x")
    assert done.code == 2
    _starts, first, depth, mode, hint = done.err.splitlines()
    assert first == "prsm: the configuration has 2 mistakes:"
    assert depth == f"  {file}:2: engine.max_agent_depth must be a whole number"
    assert mode.startswith(f"  {file}:4: defaults.mode is none of the allowed values: ")
    assert hint.startswith("hint: ")
    told = json.loads(prsm("doctor", "--json").out)
    problems = [found["message"] for found in told if found["check"] == "config"]
    assert problems == [depth.strip(), mode.strip()]


@pytest.mark.parametrize(
    "words",
    [("run", "x"), ("attach",), ("tree",), ("config", "path"), ("trust",), ("demo",)],
)
def test_a_home_that_is_a_file_is_named_as_what_is_wrong(prsm, monkeypatch, tmp_path, words):
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("PRSM_HOME", str(file))
    monkeypatch.delenv("PRSM_PLUGINS", raising=False)  # with it a run asks first who calls
    done = prsm(*words)
    assert (done.code, done.out) == (2, "")
    starts = "prsm: starts: x\n" if words[0] == "run" else ""
    said = f"prsm: PRSM_HOME is {file}, which is not a folder\n"
    assert done.err == f"{starts}{said}hint: set it to a folder, or unset it\n"


def test_the_doctor_names_a_home_that_is_a_file_once(prsm, monkeypatch, tmp_path):
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("PRSM_HOME", str(file))
    done = prsm("doctor")
    assert done.code == 1
    assert done.out.count(f"PRSM_HOME is {file}, which is not a folder") == 1
    assert "\nok       terminal  " in done.out, "what does not depend on it is looked at"


@pytest.mark.parametrize("rule", ["git push && rm", "make;ls", "cat x | sh", "make > out"])
def test_a_rule_that_no_command_can_fit_is_not_added(prsm, rule):
    done = prsm("policy", "add", "deny", rule)
    assert (done.code, done.out) == (2, "")
    assert "a rule is the first words of one command" in done.err


def test_a_rule_may_hold_operators_in_quotes(prsm):
    assert prsm("policy", "add", "deny", "grep 'a|b' # x").code == 0


def test_the_help_of_rank_names_every_category(prsm):
    told = prsm("models", "rank", "--help").out.replace(",", " ").replace(".", " ").split()
    assert set(CATEGORIES) <= set(told)


def test_a_full_disk_behind_stdout_is_told_in_one_line():
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command("config", "schema"), stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 1
    assert done.stderr.decode() == (
        "prsm: the output cannot be written: No space left on device\n"
        "hint: send it somewhere else\n"
    )


@pytest.mark.parametrize("words", [["--version"], ["config", "schema"]])
def test_a_closed_stdout_is_no_error(words):
    shell = ["sh", "-c", 'exec "$@" >&-', "sh", *command(*words)]
    done = subprocess.run(shell, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_the_doctor_breaks_its_lines_beside_their_heads(start_prsm):
    person, program = pty.openpty()
    process = start_prsm("doctor", stdout=program, env={**os.environ, "COLUMNS": "60"})
    os.close(program)
    with os.fdopen(person, "rb", buffering=0) as terminal:
        text = b""
        while chunk := _read(terminal):
            text += chunk
    process.wait(DEADLINE)
    lines = text.decode().splitlines()
    assert sum(line.startswith(" " * 15) for line in lines) > 2
    # A path or a name that is longer than a line stays whole.
    prose = [line for line in lines if "/" not in line and len(line.split()) > 1]
    assert max(map(len, prose)) <= 60


def _read(terminal):
    try:
        return terminal.read(4096)
    except OSError:  # the program has ended
        return b""


def test_closing_the_terminal_ends_the_demo_in_order(start_prsm, prsm, tmp_path):
    process = start_prsm("demo", "--json", "--keep", text=True)
    assert process.stdout is not None
    assert "run_started" in process.stdout.readline()
    process.send_signal(signal.SIGHUP)
    _, told = process.communicate(timeout=DEADLINE)
    assert process.returncode == 130
    assert told.endswith("prsm: interrupted\n")
    assert list((tmp_path / "home" / "state" / "runs").glob("*.lock")) == []


def test_a_run_under_nohup_outlives_its_terminal(start_prsm):
    ignored = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        process = start_prsm("demo", "--json", text=True)
    finally:
        signal.signal(signal.SIGHUP, ignored)
    assert process.stdout is not None
    assert "run_started" in process.stdout.readline()
    process.send_signal(signal.SIGHUP)
    process.communicate(timeout=DEADLINE)
    assert process.returncode == 0


def test_a_current_folder_that_is_gone_is_told(prsm, workspace):
    workspace.rmdir()
    for words in (("run", "x"), ("tree",), ("config", "path")):
        done = prsm(*words)
        assert (done.code, done.out) == (2, "")
        assert "The current folder does not exist any more" in done.err


def test_a_folder_whose_name_cannot_be_kept_is_refused(prsm, tmp_path):
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
    Path(folder).mkdir()
    done = prsm("run", "x", "-C", folder)
    assert (done.code, done.out) == (2, "")
    assert "is not UTF-8 text; rename it" in done.err
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("words", [("run", "say it"), ("trust", "--yes"), ("sessions", "list")])
def test_what_is_neither_a_file_nor_a_folder_is_no_workspace(prsm, tmp_path, words):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for place in (str(pipe), "/dev/null"):
        done = prsm(*words, "-C", place)
        assert (done.code, done.out) == (2, "")
        assert f"Invalid value for '-C' / '--workspace': '{place}' is no folder." in done.err


def test_a_task_that_is_not_text_is_refused(prsm, prsm_process, tmp_path):
    done = prsm("run", os.fsdecode(b"caf\xe9"))
    assert (done.code, done.out) == (2, "")
    assert "TASK is not UTF-8 text" in done.err
    piped = prsm_process("run", "-", stdin=b"caf\xe9")
    assert (piped.code, piped.out) == (2, "")
    assert "what stdin holds is not UTF-8 text" in piped.err
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_demo_needs_no_stream(closed):
    shell = ["sh", "-c", f'exec "$@" {closed}', "sh", *command("demo")]
    done = subprocess.run(shell, capture_output=True, timeout=DEADLINE, check=False)
    assert done.returncode == 0
    assert b"internal error" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("events", "{}", "--after", "{huge}"), 0),
        (("events", "{}", "--after", "{huge}", "--json"), 0),
        (("sessions", "show", "{}", "--messages", "{huge}"), 0),
        (("sessions", "list", "--limit", "{huge}"), 0),
        (("replay", "{}", "--to", "{huge}"), 2),
        (("fork", "{}", "--at", "{huge}"), 1),
        (("fork", "{}", "--at", "w1:{huge}"), 1),
        (("replay", "{}", "--speed", "nan"), 2),
        (("sim", "--minutes", "nan"), 2),
    ],
)
def test_a_number_that_is_none_or_beyond_all_is_not_held_against_the_ledger(
    prsm, session, words, code
):
    done = prsm(*(word.format("s1", huge=10**23) for word in words))
    assert (done.code, "ledger" in done.err) == (code, False)
    assert "internal" not in done.err
