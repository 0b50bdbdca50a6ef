"""What the engine makes of a provider whose program misbehaves, as a pytest class to subclass.

    class TestMisbehaviour(MisbehaviourContract):
        spec = next(iter(prsm_providers()))
        fake = fake_command(Path(__file__).with_name("fake_cli.py"), version="cli 1.2.3")
        lacks: ClassVar = {"transient_error": "it tells nothing of what it tries again"}

        def settings(self, command):
            return {"command": command}

The fake is the author's: it speaks what the real program speaks, takes a fault from the first of
its arguments (`prsm_testing.faults` has those that need no language of its own), and plays it. A
fault ends as `TABLE` says, but for what `differs`.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from prsm_core.config import Settings
from prsm_core.engine.processes.launcher import install_child_watcher
from prsm_core.kit.environment import GIT_SETTINGS, child_environment
from prsm_testing.faults import KEY
from prsm_testing.misbehaving_team import SLACK, MisbehavingTeam, Outcome

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from prsm_core.engine.agents.manager import AgentManager
    from prsm_core.interfaces.provider import ProviderSpec

MEMORY_GROWTH = 100 * 2**20  # bytes
# What every program inherits, where it is set, and what it is told by whoever starts it.
INHERITED = frozenset(
    {*GIT_SETTINGS, "PRSM_ENGINE", "HOME", "LANG", "LC_CTYPE", "PATH", "PWD", "SHELL", "SHLVL"}
    | {"TERM", "TMPDIR", "TZ", "USER", "_"}
)
STOP_SECONDS = 50.0  # from a deadline to the end of the agent, on a clock that runs fast
VERSION_SECONDS = 5.0  # how long a program may take to tell its version
BROKEN = "bytes \ufffd\ufffd \0 \ufffd \N{EURO SIGN}"
WELL = "all is well"
# How a program cannot be run: its mode (None: it is not there), its content, and the reason told.
UNRUNNABLE: Sequence[tuple[int | None, bytes, str]] = (
    (None, b"", "cannot start .*odd-cli: No such file"),
    (0o644, b"#!/bin/sh\n", "cannot start .*odd-cli: Permission denied"),
    (0o755, b"\x7fELF broken", "cannot start .*odd-cli: Exec format error"),
    (0o755, b"#!/no/such/interpreter\n", "the interpreter that .*odd-cli names"),
)
_ANSWER = 'for w; do if [ "$w" = --version ]; then echo "$0"; exit; fi; done; exec "$@"'
_OWN_VERSION = {"version_hangs", "version_is_noise"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Misbehaviour:
    """A fault, and what becomes of its agent.

    Attributes:
        fault: The name by which the fake knows it.
        error: What the reason of the failure says, a regular expression; None: it completes.
        kind: The kind of the failure, where it is always the same; see AgentResult.
        said: What is kept of what it said.
        tries: How often it was tried in all; the team may try twice.
        turns: How many turns are in the ledger; None: one for each try.
        wait: The deadline that ends it, in seconds: they pass in a moment once it has begun.
        rush: How fast time passes once it has begun.
        engine: Settings of the engine.
        settings: Settings of the provider.
    """

    fault: str
    error: str | None = None
    kind: str | None = None
    said: str = ""
    tries: int = 1
    turns: int | None = None
    wait: float = 0.0
    rush: float = 1.0
    engine: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return the name of the fault: the id of its test."""
        return self.fault


_SILENCE = "silent for too long"
_SILENT: Mapping[str, Any] = {"idle_timeout_seconds": 60, "retry_attempts": 0}


def _dies(fault: str, error: str, said: str = "") -> Misbehaviour:
    return Misbehaviour(
        fault=fault, error=error, said=said, tries=2, rush=5, engine={"retry_attempts": 1}
    )


def _hangs(fault: str, error: str = _SILENCE, said: str = "") -> Misbehaviour:
    kind = "timeout" if error == _SILENCE else None
    return Misbehaviour(fault=fault, error=error, kind=kind, said=said, wait=60, engine=_SILENT)


def _end_well(*faults: str) -> tuple[Misbehaviour, ...]:
    return tuple(Misbehaviour(fault=fault) for fault in faults)


# It never comes to a turn: the agent fails at once and is not tried again.
NEVER_BEGAN = (
    Misbehaviour(
        fault="dies_at_start",
        error=r"did not start: .*exit code 1.*: fatal: the key \[redacted\]",
        turns=0,
    ),
    Misbehaviour(fault="leaves_at_start", error="did not start: .*exit code 0", turns=0),
)
# It dies in the turn, again and again: tried as often as configured.
DIES = (
    _dies("leaves_in_the_turn", "ended: exit code 0", said="said before"),
    _dies("exits_3", "ended: exit code 3.*: the disk is full", said="said before"),
    _dies("is_killed", r"killed by signal 9, SIGKILL \(out of memory\?\)"),
    _dies("crashes", "killed by signal 11, SIGSEGV"),
    _dies("kills_its_group", "killed by signal 9"),
    _dies("half_a_line", "exit code 3; 1 of its lines", said="said before"),
    _dies("endless_line", "a line of more than 16777216 bytes", said="before"),
    _dies("long_line", "a line of more than 16777216 bytes", said="before"),
    _dies("leaves_a_family", "exit code 0"),
    _dies("a_child_holds_the_pipe", "exit code 0", said="said before"),
    _dies("asks_at_the_terminal", "exit code 4.*: cannot ask whoever sits there"),
    _dies("terminal_tricks", r"exit code 5: \[bold\]lost cause$"),
)
# It goes on running and is of no use: a deadline ends it.
HANGS = (
    _hangs("closes_stdout", "closed its output and went on running"),
    _hangs("silence"),
    _hangs("silence_after_output", said="said before"),
    _hangs("spins"),
    _hangs("drips"),
    _hangs("stops_itself"),
    _hangs("hears_no_more"),
    Misbehaviour(
        fault="a_command_never_ends",
        error="a tool call ran for too long",
        kind="timeout",
        wait=40,
        engine={**_SILENT, "tool_timeout_seconds": 40},
    ),
    Misbehaviour(
        fault="beats_for_ever",
        error="used up its reasoning time",
        kind="timeout",
        wait=40,
        engine={**_SILENT, "agent_timeout_seconds": 40},
    ),
)
# It is a nuisance, but the turn ends well.
ENDURED = _end_well(
    *("garbage", "says_all_twice", "says_it_in_disorder", "mad_usage", "transient_error"),
    *("ignores_term", "version_is_noise"),
)
# It wastes what the machine has.
WASTES = _end_well("stderr_flood", "event_flood", "hogs_memory")
# A lasting error: it is not tried again.
LASTING = (
    # A login or a limit holds its agent; who watches the team kills that, and tells the reason.
    Misbehaviour(fault="no_access", error="bad key", kind="killed"),
    Misbehaviour(fault="no_room", error="prompt is too long", kind="context_overflow"),
)
# It ends its turns well and says nothing in them.
SILENT = (
    Misbehaviour(fault="says_nothing", error="no result", kind="no_result", turns=3),
    Misbehaviour(fault="says_nothing_twice", turns=3),
)
BUSY_TWICE = Misbehaviour(fault="busy_twice", tries=3, rush=10)
BUSY_FOR_EVER = Misbehaviour(
    fault="busy_for_ever",
    error="429",
    kind="killed",
    tries=5,
    rush=50,
    engine={"retry_attempts": 4},
)
BROKEN_BYTES = Misbehaviour(fault="broken_bytes")
VERSION_HANGS = Misbehaviour(fault="version_hangs", wait=5)
REMOVES_ITS_FOLDER = Misbehaviour(fault="removes_its_folder")
DIES_ONCE = Misbehaviour(fault="dies_once", tries=2, rush=5)

TABLE = {
    row.fault: row
    for row in (
        *NEVER_BEGAN,
        *DIES,
        *HANGS,
        *ENDURED,
        *WASTES,
        *LASTING,
        *SILENT,
        BUSY_TWICE,
        BUSY_FOR_EVER,
        BROKEN_BYTES,
        VERSION_HANGS,
        DIES_ONCE,
        REMOVES_ITS_FOLDER,
        Misbehaviour(fault="echoes_secrets", error=r"no access with \[redacted\]$"),
        Misbehaviour(fault="flushes_late", said="begun"),
    )
}


def each(rows: Iterable[Misbehaviour]) -> pytest.MarkDecorator:
    """Run a test with every row of a part of the table."""
    return pytest.mark.parametrize("row", rows, ids=str)


def fake_command(script: Path) -> tuple[str, ...]:
    """Return the command of a fake in Python: one that starts fast, without site packages."""
    return (sys.executable, "-I", "-S", str(script))


class MisbehaviourContract(ABC):
    """What becomes of an agent whose program misbehaves; each test's docstring is the rule."""

    spec: ClassVar[ProviderSpec]
    fake: ClassVar[Sequence[str]]  # the command of the fake program
    version: ClassVar[str]  # what the program prints for --version; a shell does it, and fast
    # What does not end as the table says: fields of its Misbehaviour, by fault.
    differs: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    lacks: ClassVar[Mapping[str, str]] = {}  # faults that cannot be, with the reason
    key_variable: ClassVar[str] = "VENDOR_KEY"  # its name in the environment of the program
    own_variables: ClassVar[Collection[str]] = ()  # what it is given besides
    own_prefixes: ClassVar[tuple[str, ...]] = ()  # … and how the names of others begin
    libraries: ClassVar[Sequence[str]] = ()  # modules that a real run has loaded before

    @abstractmethod
    def settings(self, command: Sequence[str]) -> Mapping[str, Any]:
        """Return the section of the provider; the program is run by this command."""

    @pytest.fixture(autouse=True)
    def _real_run(self) -> None:
        """As a real run has it: one thread fewer per child, and the libraries loaded before."""
        install_child_watcher()
        for module in self.libraries:
            importlib.import_module(module)

    def command(self, folder: Path, fault: str) -> list[str]:
        """Return the command of the fake with a fault."""
        given = [*self.fake, f"--fault={fault}", f"--marks={folder / 'marks'}"]
        if fault in _OWN_VERSION:
            return given
        return ["sh", "-c", _ANSWER, self.version, *given]

    def team(self, folder: Path, row: Misbehaviour, **changes: Any) -> MisbehavingTeam:
        """Return the team of a row, changed for this provider; `changes` are fields of it."""
        row = replace(row, **self.differs.get(row.fault, {}))
        settings = {**self.settings(self.command(folder, row.fault)), **row.settings}
        given = {name: getattr(row, name) for name in ("wait", "rush", "said", "engine")}
        given |= {"spec": self.spec, "settings": settings, **changes}
        return MisbehavingTeam(folder=folder, **given)

    async def play(self, folder: Path, row: Misbehaviour, **changes: Any) -> Outcome:
        """Run the team of a row and check that it ended as the row says.

        A row that cannot be is skipped.
        """
        if row.fault in self.lacks:
            pytest.skip(self.lacks[row.fault])
        row = replace(row, **self.differs.get(row.fault, {}))
        outcome = await self.team(folder, row, **changes).run()
        if row.error is None:
            assert outcome.odd.success, outcome.odd
        else:
            assert not outcome.odd.success
            assert re.search(row.error, str(outcome.odd.error)), outcome.odd
            assert outcome.odd.error_kind == (row.kind or outcome.odd.error_kind)
        assert row.said in "".join(outcome.texts)
        assert len(outcome.retries) == row.tries - 1
        turns = row.tries if row.turns is None else row.turns
        assert len(outcome.events("turn_finished")) == turns
        return outcome

    @pytest.mark.parametrize(("mode", "content", "reason"), UNRUNNABLE)
    async def test_a_program_that_cannot_be_run_fails_its_agent_with_the_reason(
        self, tmp_path: Path, mode: int | None, content: bytes, reason: str
    ) -> None:
        """The reason is the system's, it comes at once, and nobody tries again."""
        program = tmp_path / "odd-cli"
        if mode is not None:
            program.write_bytes(content)
            program.chmod(mode)
        settings = self.settings([str(program)])
        outcome = await MisbehavingTeam(folder=tmp_path, spec=self.spec, settings=settings).run()
        assert re.search(reason, str(outcome.odd.error))
        assert outcome.retries == []
        assert outcome.odd.duration < VERSION_SECONDS

    async def test_a_program_that_keeps_its_version_to_itself_is_used_after_five_seconds(
        self, tmp_path: Path
    ) -> None:
        """Its agent is delayed by the time a program may take for that, and by no more."""
        outcome = await self.play(tmp_path, VERSION_HANGS)
        assert outcome.odd.summary == WELL
        assert outcome.odd.duration < VERSION_SECONDS + SLACK + STOP_SECONDS

    @each(NEVER_BEGAN)
    async def test_a_program_that_never_came_to_a_turn_fails_its_agent_without_a_retry(
        self, tmp_path: Path, row: Misbehaviour
    ) -> None:
        """The cause is told, without noise and secrets."""
        await self.play(tmp_path, row)

    @each(DIES)
    async def test_a_program_that_dies_is_started_again_as_often_as_configured(
        self, tmp_path: Path, row: Misbehaviour
    ) -> None:
        """How it died is told, what it said before is kept, and its children end with it."""
        await self.play(tmp_path, row)

    async def test_a_program_that_dies_once_goes_on_where_it_was(self, tmp_path: Path) -> None:
        """The agent completes, after one retry."""
        outcome = await self.play(tmp_path, DIES_ONCE)
        assert outcome.odd.summary == WELL

    @each(HANGS)
    async def test_a_program_of_no_use_is_ended_by_a_deadline(
        self, tmp_path: Path, row: Misbehaviour
    ) -> None:
        """It ends by the deadline that the reason names, also where it heeds no signal."""
        outcome = await self.play(tmp_path, row)
        assert outcome.odd.duration < row.wait + SLACK + STOP_SECONDS

    async def test_what_a_killed_agent_had_said_is_kept_also_when_its_program_takes_its_time(
        self, tmp_path: Path
    ) -> None:
        """What came before the kill is in the history and in the summary."""
        row = TABLE["flushes_late"]

        async def kill(manager: AgentManager) -> None:
            await manager.kill_agent(manager.roster.resolve("odd").agent_id, "not wanted any more")

        outcome = await self.team(tmp_path, row, meddle=kill).run()
        assert outcome.states[-1] == "killed"
        assert outcome.odd.summary.startswith("begun")
        assert outcome.texts[0].startswith("begun")

    @each(ENDURED)
    async def test_what_can_be_endured_is_endured(self, tmp_path: Path, row: Misbehaviour) -> None:
        """The turn ends well, at the first try."""
        outcome = await self.play(tmp_path, row)
        assert outcome.texts[-1] == WELL
        assert outcome.odd.summary == WELL

    async def test_a_program_that_removes_its_folder_harms_only_who_works_there_next(
        self, tmp_path: Path
    ) -> None:
        """Its own agent ends well; the next one there fails at once and names the folder."""
        row = REMOVES_ITS_FOLDER
        outcome = await self.play(tmp_path, row)
        assert outcome.odd.summary == WELL
        later = tmp_path / "later"
        later.mkdir()
        there = await self.team(later, row, workspace=tmp_path / "work").run()
        assert not there.odd.success
        assert f"there is no folder {tmp_path / 'work'}" in str(there.odd.error)
        assert there.retries == []

    @each(WASTES)
    async def test_what_the_program_wastes_costs_the_engine_nothing(
        self, tmp_path: Path, row: Misbehaviour
    ) -> None:
        """The engine's own memory stays what it was."""
        before = _memory_from_now_on()
        await self.play(tmp_path, row)
        assert _memory("VmHWM") - before < MEMORY_GROWTH

    async def test_broken_bytes_are_replaced_and_the_rest_is_kept(self, tmp_path: Path) -> None:
        """Bytes that are no UTF-8 become U+FFFD; a BOM and CR LF are no part of a line."""
        outcome = await self.play(tmp_path, BROKEN_BYTES)
        assert outcome.texts == [BROKEN]

    async def test_what_is_told_twice_counts_once(self, tmp_path: Path) -> None:
        """Usage, tool calls and the end of the turn; what contradicts it later is not heard."""
        outcome = await self.play(tmp_path, TABLE["says_all_twice"])
        assert outcome.usage.total_tokens == 110
        (turn,) = outcome.events("turn_finished")
        assert (turn["stop_reason"], turn["error"]) == ("end_turn", None)
        assert len(outcome.events("tool_call_started")) == 1
        assert len(outcome.events("tool_call_finished")) == 1

    async def test_a_count_that_cannot_be_is_unknown_and_poisons_no_total(
        self, tmp_path: Path
    ) -> None:
        """What is no count of tokens or no price is unknown, and so is every sum of it."""
        outcome = await self.play(tmp_path, TABLE["mad_usage"])
        assert (outcome.usage.input_tokens, outcome.usage.total_tokens) == (None, None)
        assert outcome.usage.output_tokens in (3, None)
        (turn,) = outcome.events("turn_finished")
        assert turn["cost_usd"] is None

    async def test_a_secret_that_the_program_tells_is_in_no_event(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The program gets its own key and no other; what it tells of it is redacted."""
        monkeypatch.setenv("VENDOR_KEY", KEY)
        monkeypatch.setenv("OTHER_KEY", "another secret")
        monkeypatch.setenv("PYTHONPATH", "/nowhere")
        row = TABLE["echoes_secrets"]
        given = self.settings(self.command(tmp_path, row.fault))
        settings = {**given, "api_key_env": "VENDOR_KEY"}
        settings |= self.differs.get(row.fault, {}).get("settings", {})
        outcome = await self.play(tmp_path, row, settings=settings)
        events = json.dumps([event.to_dict() for event in outcome.log])
        assert "another secret" not in events
        (said,) = outcome.texts
        (names,) = re.findall(r"\[('.*')\]", said)
        handed = INHERITED | child_environment(os.environ, Settings().pass_env).keys()
        told = {name.strip("' ") for name in names.split(",")} - handed
        own = {self.key_variable, *self.own_variables}
        assert own - handed <= told
        assert [n for n in told - own if not n.startswith(self.own_prefixes or "=")] == []

    async def test_a_busy_model_is_asked_again_with_growing_pauses(self, tmp_path: Path) -> None:
        """The third answer is the one that counts."""
        outcome = await self.play(tmp_path, BUSY_TWICE)
        assert outcome.odd.summary == WELL
        first, second = outcome.retries
        assert 0.8 <= first <= 1.2 < 1.6 <= second <= 2.4

    async def test_a_model_that_stays_busy_is_given_up_and_its_provider_paused(
        self, tmp_path: Path
    ) -> None:
        """After three failures the provider, and no other, rests for 20 seconds."""
        outcome = await self.play(tmp_path, BUSY_FOR_EVER)
        assert [delay > 15 for delay in outcome.retries] == [False, False, True, True]
        assert any("failed 3 times in a row" in notice for notice in outcome.notices)

    @each(LASTING)
    async def test_a_lasting_error_is_not_tried_again(
        self, tmp_path: Path, row: Misbehaviour
    ) -> None:
        """A wrong key, no room: the reason says so."""
        await self.play(tmp_path, row)

    @each(SILENT)
    async def test_a_model_whose_answer_is_empty_is_asked_again_twice(
        self, tmp_path: Path, row: Misbehaviour
    ) -> None:
        """The third answer counts, and is the last one that is asked for."""
        outcome = await self.play(tmp_path, row)
        asked = [notice for notice in outcome.notices if "asked again" in notice]
        assert [notice[-8:] for notice in asked] == ["(1 of 2)", "(2 of 2)"]


def _memory_from_now_on() -> int:
    """Return what this process has in bytes; the peak begins anew."""
    Path("/proc/self/clear_refs").write_text("5")
    return _memory("VmRSS")


def _memory(key: str) -> int:
    """Return a figure of this process in bytes: VmRSS is what it has, VmHWM the peak of that."""
    (line,) = re.findall(rf"{key}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(line) * 1024
