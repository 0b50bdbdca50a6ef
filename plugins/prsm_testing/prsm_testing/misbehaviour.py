"""What a program may do wrong, as a table: each fault, and what becomes of its agent.

A fault is played by the fake program of a provider; `prsm_testing.faults` has those that
need no language of the fake's own. What differs for a provider is told by its contract class.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


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
ENDURED = (
    Misbehaviour(fault="garbage"),
    Misbehaviour(fault="says_all_twice"),
    Misbehaviour(fault="says_it_in_disorder"),
    Misbehaviour(fault="mad_usage"),
    Misbehaviour(fault="transient_error"),
    Misbehaviour(fault="ignores_term"),
    Misbehaviour(fault="version_is_noise"),
)
# It wastes what the machine has.
WASTES = (
    Misbehaviour(fault="stderr_flood"),
    Misbehaviour(fault="event_flood"),
    Misbehaviour(fault="hogs_memory"),
)
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
