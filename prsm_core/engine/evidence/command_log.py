"""What an agent, and those below it, did by the events of their calls: commands, checks, edits.

What the agents below it ran for it counts as its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from prsm_core.domain.agents import AgentState
from prsm_core.domain.record import Record
from prsm_core.domain.tools import EDIT_TOOLS
from prsm_core.engine.evidence.checks import End, plain, read_command, red
from prsm_core.engine.state import NEVER
from prsm_core.permissions.polling import only_reads

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from prsm_core.domain.changes import ChangeRow
    from prsm_core.domain.events import Event
    from prsm_core.engine.evidence.checks import Check, ReadCommand

MAX_COMMANDS = 50  # of one claim
OPEN = 1 << 62  # comes after every event

_ENDED = frozenset(state.value for state in AgentState if state.is_terminal)
_SHELLS = {False: "Bash", True: "run_bash"}  # the vendor's, and PRSM's own


class _Run(Record, frozen=True):
    """A run of a command that was named: when it was let in, who ran it, and how it ended."""

    let_in: int
    who: str  # "" is the agent itself
    end: End


class _Shell(Record, frozen=True, kw_only=True):
    """A call of a shell: the numbers of its first and last event, and how it ended.

    Attributes:
        let_in: The event by which it was allowed, if somebody was asked: it ran only after that.
    """

    began: int
    let_in: int
    ended: int
    who: str
    read: ReadCommand
    folder: str
    end: End
    has_run: bool = True

    @property
    def heard(self) -> int:
        """The number of its last event so far."""
        return self.began if self.ended == OPEN else self.ended


class CommandLog:
    """Follows the events of an agent and those below it.

    The last run of each named command decides, whoever it was that ran it. A run has succeeded if
    its exit code is known to be 0: what a vendor does not tell, or a shell hides, proves nothing.
    """

    def __init__(self, commands: Sequence[str]) -> None:
        self._wanted = {plain(command): command for command in commands[:MAX_COMMANDS]}
        self._left_out = len(commands) - MAX_COMMANDS
        self._open: dict[tuple[str, str], tuple[int, bool]] = {}  # by whom and call
        self._shells: dict[tuple[str, str, int], _Shell] = {}
        self._asked: dict[str, tuple[str, str]] = {}  # by whom and for which call, by request
        self._edits: list[int] = []  # numbers by which files may be others
        self._spans: dict[tuple[str | None, str], tuple[int, int, str]] = {}  # by agent and call
        self._since = NEVER  # the agent itself has lived since then
        self.claimed_at = NEVER  # it last called task_complete

    def read(self, event: Event, who: str = "", folder: str = "") -> None:
        """Take the next event of the agent, or of one below it, by its path: `w1/w2`.

        All events of the agent itself come first, then those of each of the others. `folder` is
        where the agent works that it is of.
        """
        data, seq = event.data, event.seq or 0
        if seq <= self._since:
            return
        if event.type == "tool_call_started":
            self._started(event.agent, data, seq, who, folder)
        elif event.type == "tool_call_finished":
            self._finished(event.agent, data, seq, who)
        elif event.type == "permission_requested" and "call" in data:
            self._asked[data["request"]] = who, data["call"]
        elif event.type == "permission_resolved":
            self._let_in(self._asked.pop(data["request"], None), seq)
        elif event.type == "worktree_merged" and who and data.get("files"):
            if data["result"] in {"merged", "partial"}:
                self._edits.append(seq)
        elif event.type == "agent_state_changed" and data.get("from") in _ENDED and not who:
            self._open.clear()  # another life has begun
            self._asked.clear()
            self._shells.clear()
            self._spans.clear()
            self._edits.clear()
            self._since = seq

    def gaps(self) -> list[str]:
        """Return what is wrong with the named commands, and whose run was the last."""
        gaps = [
            f"`{command}` was not run" if run is None else f"`{command}` {_told(run)}"
            for command, run in self._found()
            if run is None or run.end is not End.SUCCEEDED
        ]
        more = [f"{self._left_out} more commands were not checked"] * (self._left_out > 0)
        return gaps + more

    def others(self) -> list[str]:
        """Return who ran the named commands that the agent itself did not, where they succeeded."""
        return [
            f"`{command}` was run by {run.who}"
            for command, run in self._found()
            if run is not None and run.who and run.end is End.SUCCEEDED
        ]

    def red(self) -> list[str]:
        """Return the checks of the project that failed when they last ran."""
        return red(one for shell in self._in_order() for one in _checks(shell))

    def unproven(self) -> list[str]:
        """Return what is wrong with the named commands, and with the checks that are red."""
        red_ones = [f"`{command}` {End.FAILED}" for command in self.red()]
        return list(dict.fromkeys([*self.gaps(), *red_ones]))

    def last_edit(self, rows: Iterable[ChangeRow] | None) -> int:
        """Return the number by which the last edit was over, NEVER where there was none.

        `rows` are the changes that were found of the agents; None: nobody watches their files, so
        that each command counts which is not known to only read.
        """
        numbers = [NEVER, *self._edits]
        if rows is None:
            numbers += [
                shell.ended
                for shell in self._shells.values()
                if shell.has_run and not (self._is_check(shell) or only_reads(shell.read.text))
            ]
        for row in rows or ():
            for author in row.change.authors:
                if (span := self._spans.get((author.agent, author.call))) is not None:
                    numbers.append(self._edit_of(author.call, *span))
        return max(numbers)

    def has_checked_since(self, edit: int) -> bool:
        """Return whether a check, or a named command, began after an edit and succeeded."""
        for shell in self._shells.values():
            if shell.let_in > edit and any(end is End.SUCCEEDED for _, _, end in _checks(shell)):
                return True
        runs = (run for _, run in self._found() if run is not None)
        return any(run.let_in > edit and run.end is End.SUCCEEDED for run in runs)

    def _edit_of(self, call: str, began: int, ended: int, who: str) -> int:
        """Return when a call was over with writing; what a check writes itself is no edit."""
        shell = self._shells.get((who, call, began))
        return began - 1 if shell is not None and self._is_check(shell) else ended

    def _is_check(self, shell: _Shell) -> bool:
        """Return whether a call does nothing behind its last check that may write."""
        return shell.read.text in self._wanted or not shell.read.may_write_behind

    def _in_order(self) -> list[_Shell]:
        """Return the calls of shells; the last is the one that was heard of last."""
        return sorted(self._shells.values(), key=lambda shell: shell.heard)

    def _found(self) -> list[tuple[str, _Run | None]]:
        last: dict[str, _Run] = {}
        for shell in self._in_order() if self._wanted else ():
            for command in self._wanted:
                end = shell.read.end_of(command, shell.end)
                if end is not None:
                    last[command] = _Run(shell.let_in, shell.who, end)
        return [(command, last.get(one)) for one, command in self._wanted.items()]

    def _started(self, agent: str | None, data: Any, seq: int, who: str, folder: str) -> None:
        tool, call = data.get("tool"), data["call"]
        arguments = data.get("arguments") or {}
        if tool == "task_complete" and not who:
            self.claimed_at = seq
        self._open[who, call] = seq, tool in EDIT_TOOLS
        self._spans[agent, call] = seq, OPEN, who
        command = arguments.get("command")
        if tool == _SHELLS[bool(data.get("orchestration"))] and isinstance(command, str):
            where = arguments.get("cwd")
            self._shells[who, call, seq] = _Shell(
                began=seq,
                let_in=seq,
                ended=OPEN,
                who=who,
                read=read_command(command),
                folder=f"{folder}/{where}" if isinstance(where, str) else folder,
                end=End.FAILED,  # until it has ended well
            )

    def _let_in(self, asked: tuple[str, str] | None, seq: int) -> None:
        """Take that a call was answered for, which ran after that only."""
        begun = None if asked is None else self._open.get(asked)
        if asked is None or begun is None:
            return
        key = (*asked, begun[0])
        if key in self._shells:
            self._shells[key] = replace(self._shells[key], let_in=seq)

    def _finished(self, agent: str | None, data: Any, seq: int, who: str) -> None:
        call, status = data["call"], data.get("status")
        begun = self._open.pop((who, call), None)
        if begun is None:
            return
        began, is_edit = begun
        self._spans[agent, call] = began, seq, who
        if is_edit and status == "completed":
            self._edits.append(seq)
        shell = self._shells.get((who, call, began))
        if shell is not None:
            self._shells[who, call, began] = replace(
                shell, ended=seq, end=_end(data), has_run=status != "denied"
            )


def _checks(shell: _Shell) -> list[tuple[Check, str, End]]:
    """Return the checks of a call, with how each ended; one that was denied has run none."""
    return shell.read.ends(shell.end, shell.folder) if shell.has_run else []


def _end(data: Any) -> End:
    code = data.get("exit_code")
    if data.get("status") == "unknown":
        return End.UNKNOWN
    if data.get("status") != "completed" or code not in (None, 0):
        return End.FAILED
    return End.UNKNOWN if code is None else End.SUCCEEDED


def _told(run: _Run) -> str:
    return f"{run.end}, run by {run.who}" if run.who else str(run.end)
