"""What the engine makes of an app-server that misbehaves, in every way that one can."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from plugins.prsm_codex.tests.faults import KEY
from plugins.prsm_codex.tests.odd_team import OddTeam, codex_home, fake_command
from prsm_core.engine.processes import install_child_watcher

MEMORY_GROWTH = 100 * 2**20
INHERITED = {"PATH", "HOME", "USER", "LANG", "TERM", "TZ", "TMPDIR", "SHELL", "LC_CTYPE"}


@pytest.fixture(scope="module", autouse=True)
def _child_watcher():
    """One thread fewer per child on Python 3.11, as a real run has it."""
    install_child_watcher()


@dataclass(frozen=True, kw_only=True)
class Row:
    """A fault, and what becomes of its agent."""

    fault: str
    error: str | None = None  # what the reason says, as a regular expression; None: it completes
    said: str = ""  # what is kept of what it said
    rush: float = 0.0  # how fast time passes once it has begun; 0: as the test says
    engine: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)


ASKS = {"enforcement": "approval"}  # the fault is not that it runs what nobody was asked about

# It never comes to a turn: the agent fails at once and is not tried again.
NEVER_BEGAN = [
    Row(
        fault="dies_at_start", error=r"did not start: .*exit code 1.*: fatal: the key \[redacted\]"
    ),
    Row(fault="leaves_at_start", error=r"did not start: .*exit code 0"),
    Row(fault="never_greets", error="did not answer initialize within 20 s", rush=100),
    Row(fault="never_opens_a_thread", error="did not answer thread/start within 120 s", rush=500),
    Row(fault="opens_nonsense", error="without the id of the thread"),
]
# It dies in the turn, again and again: tried as often as configured.
DIES = [
    Row(fault="leaves_in_the_turn", error="ended: exit code 0", said="said before"),
    Row(fault="exits_3", error="ended: exit code 3.*: the disk is full", said="said before"),
    Row(fault="is_killed", error=r"killed by signal 9, SIGKILL \(out of memory\?\)"),
    Row(fault="crashes", error="killed by signal 11, SIGSEGV"),
    Row(fault="kills_its_group", error="killed by signal 9"),
    Row(fault="half_a_line", error="exit code 3; 1 of its lines", said="said before"),
    Row(fault="endless_line", error="a line of more than 16777216 bytes", said="before"),
    Row(fault="long_line", error="a line of more than 16777216 bytes", said="before"),
    Row(fault="leaves_a_family", error="exit code 0"),
    Row(fault="a_child_holds_the_pipe", error="exit code 0", said="said before"),
    Row(fault="terminal_tricks", error=r"exit code 5: \[bold\]lost cause$"),
]
# It goes on running and is of no use: a deadline ends it.
HANGS = [
    Row(fault="closes_stdout", error="closed its output and went on running"),
    Row(
        fault="never_starts_a_turn",
        error="did not answer turn/start within 60 s",
        engine={"idle_timeout_seconds": 120},
    ),
    Row(fault="silence", error="silent for too long"),
    Row(fault="silence_after_output", error="silent for too long", said="said before"),
    Row(fault="spins", error="silent for too long"),
    Row(fault="drips", error="silent for too long"),
    Row(fault="stops_itself", error="silent for too long"),
    Row(fault="hears_no_more", error="silent for too long"),
    Row(
        fault="a_command_never_ends",
        error="a tool call ran for too long",
        engine={"tool_timeout_seconds": 40},
        settings=ASKS,
    ),
    Row(
        fault="beats_for_ever",
        error="used up its reasoning time",
        engine={"agent_timeout_seconds": 40},
    ),
]
# It is a nuisance, but the turn ends well.
ENDURED = [
    Row(fault="garbage"),
    Row(fault="says_all_twice", settings=ASKS),
    Row(fault="says_it_in_disorder", settings=ASKS),
    Row(fault="mad_usage"),
    Row(fault="transient_error"),
    Row(fault="ignores_term"),
    Row(fault="version_is_noise"),
]


def named(rows: list[Row]) -> Any:
    return pytest.mark.parametrize("row", rows, ids=lambda row: row.fault)


async def run_row(folder, row, *, rush=1.0, **engine):
    team = OddTeam(
        folder=folder,
        command=fake_command(row.fault),
        rush=row.rush or rush,
        said=row.said,
        engine={**engine, **row.engine},
        settings=row.settings,
    )
    outcome = await team.run()
    if row.error is None:
        assert outcome.odd.success, outcome.odd
    else:
        assert re.search(row.error, str(outcome.odd.error)), outcome.odd
    assert row.said in "".join(outcome.texts)
    return outcome


@pytest.mark.parametrize(
    ("mode", "content", "reason"),
    [
        (None, b"", "cannot start .*codex: No such file"),
        (0o644, b"#!/bin/sh\n", "cannot start .*codex: Permission denied"),
        (0o755, b"\x7fELF broken", "cannot start .*codex: Exec format error"),
        (0o755, b"#!/no/such/interpreter\n", "the interpreter that .*codex names"),
    ],
)
async def test_a_program_that_cannot_be_run_fails_its_agent_with_the_reason(
    tmp_path, mode, content, reason
):
    program = tmp_path / "codex"
    if mode is not None:
        program.write_bytes(content)
        program.chmod(mode)
    outcome = await OddTeam(folder=tmp_path, command=[str(program)]).run()
    assert re.search(reason, str(outcome.odd.error))
    assert outcome.retries == []


async def test_a_program_that_keeps_its_version_to_itself_delays_its_agent_by_five_seconds(
    tmp_path,
):
    codex_home(tmp_path).mkdir(parents=True)
    (codex_home(tmp_path) / "begun").touch()
    team = OddTeam(folder=tmp_path, command=fake_command("version_hangs"), rush=10)
    outcome = await team.run()
    assert outcome.odd.success
    assert 5 <= outcome.odd.duration < 15


@named(NEVER_BEGAN)
async def test_a_server_that_never_came_to_a_turn_fails_its_agent_without_a_retry(tmp_path, row):
    outcome = await run_row(tmp_path, row)
    assert outcome.ledger.events("turn_finished", "odd") == []
    assert outcome.retries == []


@named(DIES)
async def test_a_server_that_dies_is_started_again_as_often_as_configured(tmp_path, row):
    outcome = await run_row(tmp_path, row, rush=5, retry_attempts=2)
    assert len(outcome.retries) == 1


async def test_a_server_that_runs_what_nobody_was_asked_about_is_not_tried_again(tmp_path):
    row = Row(
        fault="a_command_never_ends", error="commandExecution that nobody had been asked about"
    )
    outcome = await run_row(tmp_path, row)
    assert outcome.retries == []


@named(HANGS)
async def test_a_server_of_no_use_is_ended_by_a_deadline(tmp_path, row):
    outcome = await run_row(tmp_path, row, rush=100, idle_timeout_seconds=60, retry_attempts=1)
    assert outcome.odd.duration < 120


@named(ENDURED)
async def test_what_can_be_endured_is_endured(tmp_path, row):
    outcome = await run_row(tmp_path, row)
    assert outcome.texts == ["all is well"]
    assert outcome.odd.summary == "all is well"
    assert len(outcome.ledger.events("turn_finished", "odd")) == 1
    assert outcome.retries == []


@named([Row(fault="stderr_flood"), Row(fault="hogs_memory"), Row(fault="event_flood")])
async def test_what_the_server_wastes_costs_the_engine_nothing(tmp_path, row):
    before = memory_from_now_on()
    await run_row(tmp_path, row)
    assert memory("VmHWM") - before < MEMORY_GROWTH


def memory_from_now_on():
    """Return what this process has in bytes; the peak begins anew."""
    Path("/proc/self/clear_refs").write_text("5")
    return memory("VmRSS")


def memory(key):
    """Return a figure of this process in bytes: VmRSS is what it has, VmHWM the peak of that."""
    (line,) = re.findall(rf"{key}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(line) * 1024


async def test_broken_bytes_are_replaced_and_the_rest_is_kept(tmp_path):
    outcome = await run_row(tmp_path, Row(fault="broken_bytes"))
    assert outcome.texts == ["bytes \ufffd\ufffd \0 \ufffd \N{EURO SIGN}"]


async def test_what_is_told_twice_counts_once(tmp_path):
    outcome = await run_row(tmp_path, Row(fault="says_all_twice", settings=ASKS))
    assert outcome.usage.total_tokens == 110
    (turn,) = outcome.ledger.events("turn_finished", "odd")
    assert (turn["stop_reason"], turn["error"]) == ("end_turn", None)
    assert len(outcome.ledger.events("tool_call_started", "odd")) == 1
    assert len(outcome.ledger.events("tool_call_finished", "odd")) == 1


async def test_a_count_that_cannot_be_is_unknown_and_poisons_no_total(tmp_path):
    outcome = await run_row(tmp_path, Row(fault="mad_usage"))
    assert (outcome.usage.output_tokens, outcome.usage.input_tokens) == (3, None)
    assert outcome.usage.total_tokens is None


async def test_a_secret_that_the_server_tells_is_in_no_event(tmp_path, monkeypatch):
    monkeypatch.setenv("VENDOR_KEY", KEY)
    monkeypatch.setenv("OTHER_KEY", "another secret")
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    team = OddTeam(
        folder=tmp_path,
        command=fake_command("echoes_secrets"),
        settings={"api_key_env": "VENDOR_KEY", **ASKS},
    )
    outcome = await team.run()
    events = json.dumps(outcome.ledger.events())
    assert KEY not in events
    assert "another secret" not in events
    assert outcome.odd.error == "no access with [redacted]"
    (said,) = outcome.texts
    (names,) = re.findall(r"\[('.*')\]", said)
    given = {name.strip("' ") for name in names.split(",")}
    assert given - INHERITED == {"CODEX_HOME", "TMPDIR", "VENDOR_KEY"} - INHERITED
    assert outcome.retries == []


@pytest.mark.requirement("E27")
async def test_a_busy_model_is_asked_again_with_growing_pauses(tmp_path):
    codex_home(tmp_path).mkdir(parents=True)
    (codex_home(tmp_path) / "begun").touch()
    outcome = await OddTeam(folder=tmp_path, command=fake_command("busy_twice"), rush=10).run()
    assert outcome.odd.summary == "all is well"
    first, second = outcome.retries
    assert 0.8 <= first <= 1.2 < 1.6 <= second <= 2.4


@pytest.mark.requirement("E27", "E28")
async def test_a_model_that_stays_busy_is_given_up_and_its_provider_paused(tmp_path):
    outcome = await run_row(
        tmp_path, Row(fault="busy_for_ever", error="last status: 429"), rush=50, retry_attempts=5
    )
    assert len(outcome.ledger.events("turn_finished", "odd")) == 5
    assert [delay > 15 for delay in outcome.retries] == [False, False, True, True]
    assert any("failed 3 times in a row" in notice for notice in outcome.notices)


LASTING = [
    Row(fault="no_access", error="401 bad key"),
    Row(fault="no_room", error="ran out of room"),
    Row(fault="says_nothing", error="no result"),
    Row(fault="starts_nonsense", error="without the id of the turn"),
]


@named(LASTING)
async def test_a_lasting_error_is_not_tried_again(tmp_path, row):
    outcome = await run_row(tmp_path, row)
    assert outcome.retries == []


async def test_what_a_killed_agent_had_said_is_kept_also_when_its_server_takes_its_time(tmp_path):
    async def kill(team):
        await team.manager.kill_agent(team["odd"].agent_id, "not wanted any more")

    command = fake_command("flushes_late")
    team = OddTeam(folder=tmp_path, command=command, said="begun", meddle=kill)
    outcome = await team.run()
    assert outcome.ledger.states("odd")[-1] == "killed"
    assert outcome.odd.summary.startswith("begun")
    assert outcome.texts[0].startswith("begun")


async def test_a_server_that_dies_under_two_agents_takes_neither_with_it(tmp_path):
    prompts = {"mate": "Wait.", "odd": "Go on. [[dies]]"}
    team = OddTeam(folder=tmp_path, command=fake_command("dies_once"), prompts=prompts, rush=5)
    outcome = await team.run()
    assert {name: result.summary for name, result in outcome.results.items()} == {
        "mate": "all is well",
        "odd": "all is well",
    }
    assert len(outcome.retries) == 1
