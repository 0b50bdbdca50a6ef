"""What an agent, and those below it, did by the events of their calls: commands, checks, edits.

What the agents below it ran for it counts as its own.
"""

from __future__ import annotations

import os
import re
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from prsm_core import EDIT_TOOLS, AgentState
from prsm_core.policies import word_set
from prsm_files.session.evidence import NEVER

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from prsm_core import Event
    from prsm_core.files import ChangeRow
    from prsm_core.policies import CommandPart, CommandPolicy

MAX_COMMANDS = 50  # of one claim
OPEN = 1 << 62  # comes after every event
# The kinds of events that `CommandLog.read` takes something from.
READ_EVENTS = word_set(
    "tool_call_started tool_call_finished permission_requested permission_resolved"
    " worktree_merged agent_state_changed"
)

_ENDED = frozenset(state.value for state in AgentState if state.is_terminal)
_SHELLS = {False: "Bash", True: "run_bash"}  # the vendor's, and PRSM's own


class _Shell(Struct, frozen=True, kw_only=True):
    began: int
    let_in: int  # the event that allowed it, if somebody was asked: it ran only after that
    ended: int
    who: str  # "" is the agent itself
    read: ReadCommand
    folder: str
    end: End
    has_run: bool = True

    @property
    def heard(self) -> int:
        return self.began if self.ended == OPEN else self.ended


class CommandLog:
    """Follows the events of an agent and those below it.

    The last run of each named command decides. An exit code that is not told, or hidden, proves
    nothing.
    """

    def __init__(self, commands: Sequence[str], policy: CommandPolicy) -> None:
        self._policy = policy
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
        """Take the next event of the agent, or of one below it with its path, as `w1/w2`."""
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
            # Another life has begun.
            for known in (self._open, self._asked, self._shells, self._spans, self._edits):
                known.clear()
            self._since = seq

    def gaps(self) -> list[str]:
        """Return what is wrong with the named commands, and whose run was the last."""
        gaps = []
        for command, run in self._runs():
            if run is None:
                gaps.append(f"`{command}` was not run")
            elif run.end is not End.SUCCEEDED:
                gaps.append(f"`{command}` {run.end}" + (f", run by {run.who}" if run.who else ""))
        more = [f"{self._left_out} more commands were not checked"] * (self._left_out > 0)
        return gaps + more

    def others(self) -> list[str]:
        """Return who ran the named commands that the agent itself did not, where they succeeded."""
        return [
            f"`{command}` was run by {run.who}"
            for command, run in self._runs()
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
        """Return by which event the last edit was over, or NEVER; without `rows` by commands."""
        numbers = [NEVER, *self._edits]
        if rows is None:
            numbers += [
                shell.ended
                for shell in self._shells.values()
                if shell.has_run
                and not (self._is_check(shell) or self._policy.only_reads(shell.read.text))
            ]
        for row in rows or ():
            for author in row.change.authors:
                if (span := self._spans.get((author.agent, author.call))) is not None:
                    began, ended, who = span
                    shell = self._shells.get((who, author.call, began))
                    # What a check writes itself is no edit.
                    is_check = shell is not None and self._is_check(shell)
                    numbers.append(began - 1 if is_check else ended)
        return max(numbers)

    def has_checked_since(self, edit: int) -> bool:
        """Return whether a check, or a named command, began after an edit and succeeded."""
        checks = [(one.let_in, end) for one in self._shells.values() for *_, end in _checks(one)]
        named = [(run.let_in, run.end) for _, run in self._runs() if run is not None]
        return any(at > edit and end is End.SUCCEEDED for at, end in (*checks, *named))

    def _is_check(self, shell: _Shell) -> bool:
        """Return whether a call does nothing behind its last check that may write."""
        return shell.read.text in self._wanted or not shell.read.may_write_behind

    def _in_order(self) -> list[_Shell]:
        return sorted(self._shells.values(), key=lambda shell: shell.heard)

    def _runs(self) -> list[tuple[str, _Shell | None]]:
        """Return the last run of each named command, with how that command has ended in it."""
        last: dict[str, _Shell] = {}
        for shell in self._in_order() if self._wanted else ():
            for command in self._wanted:
                end = shell.read.end_of(command, shell.end)
                if end is not None:
                    last[command] = replace(shell, end=end)
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
                read=read_command(command, self._policy),
                folder=f"{folder}/{where}" if isinstance(where, str) else folder,
                end=End.FAILED,  # until it has ended well
            )

    def _let_in(self, asked: tuple[str, str] | None, seq: int) -> None:
        # It was answered for, and ran after that only.
        if asked is not None and asked in self._open:
            key = (*asked, self._open[asked][0])
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


# Whose end says nothing of the work.
_BESIDE = word_set(
    "cd pushd popd echo printf cat export true : source . sleep mkdir pwd ls date which set"
)
# These may follow a check and change nothing.
_LOOKS = _BESIDE | word_set("tail head grep wc sort git diff tee test [ false")
# Options that let a check do no less than without them.
_SHOWS = re.compile(
    r"-[qvxslr]\w*|-j\d*|-W|-p|-n"
    r"|--(?:tb|colors?|no-header|verbose|quiet|silent|no-color|maxfail|exitfirst|durations|cov|no-cov"
    r"|disable-warnings|showlocals|capture|ci|runInBand|output-on-failure|statistics|output-format"
    r"|strict|junit|numprocesses|dist|reporter|nocapture|locked|offline|log|show|no-cache|pretty"
    r"|stacktrace|keep-going|no-fail-fast|workspace|all|check|diff|noEmit|count|race)(?:-.*|=.*)?"
)
_VALUED = word_set("-k -m -n -p -W -c -o -r -t --tb --maxfail --rootdir -e --select --ignore")


class End(StrEnum):
    """How a run of a command has ended, in words for people."""

    SUCCEEDED = "succeeded"
    FAILED = "did not succeed"  # or has not ended
    UNKNOWN = "ended, but its exit code is not known"
    HIDDEN = "ended, but the shell hides its exit code"


class Check(Struct, frozen=True, kw_only=True):
    """A check of the project as it was run: which one, where, and on what."""

    name: str
    folder: str
    operands: tuple[str, ...] = ()
    options: frozenset[str] = frozenset()

    def covers(self, earlier: Check) -> bool:
        """Return whether a run of this one looks at all that an earlier one looked at."""
        more = (option.split()[0] for option in self.options - earlier.options)
        if (self.name, self.folder) != (earlier.name, earlier.folder) or not all(
            map(_SHOWS.fullmatch, more)
        ):
            return False
        if not self.operands:
            return True
        return bool(earlier.operands) and all(
            any(_is_below(one, other) for other in self.operands) for one in earlier.operands
        )


class ReadCommand(Struct, frozen=True):
    """A shell command as far as its exit code matters; without `parts` it cannot be read."""

    text: str
    parts: tuple[CommandPart, ...] | None

    def whole(self, end: End) -> End:
        """Return how all of it has ended, by its shell, if that tells of all that does the work."""
        own = [part for part in self.parts or () if part.program not in _BESIDE]
        is_told = bool(self.parts) and all(part.is_told for part in own)
        return End.HIDDEN if end is End.SUCCEEDED and not is_told else end

    def ends(self, end: End, folder: str) -> list[tuple[Check, str, End]]:
        """Return the checks in it, each with its text and its end, by how its shell has ended."""
        return [
            (check, part.text, end if part.is_told or end is End.UNKNOWN else End.HIDDEN)
            for part in self.parts or ()
            if (check := _check(part, folder)) is not None
        ]

    def end_of(self, command: str, end: End) -> End | None:
        """Return how a command has ended that is this one, or a part of it; None: it is none."""
        if command in {self.text, _WITHIN.sub("", self.text)}:
            return self.whole(end)
        told = [part.is_told for part in self.parts or () if plain(part.text) == command]
        if not told:
            return None
        return end if all(told) or end is End.UNKNOWN else End.HIDDEN

    @property
    def may_write_behind(self) -> bool:
        """Whether something that may write comes behind its last check; also if it has none."""
        parts = self.parts or ()
        last = max((n for n, part in enumerate(parts) if part.check is not None), default=-1)
        return last < 0 or any(part.program not in _LOOKS for part in parts[last + 1 :])


_WITHIN = re.compile(r"^(?:cd \S+ && )+")


def plain(command: str) -> str:
    """Return a command without regard to white space."""
    return " ".join(command.split())


def read_command(text: str, commands: CommandPolicy) -> ReadCommand:
    """Read a shell command."""
    return ReadCommand(plain(text), commands.parts(text))


def red(runs: Iterable[tuple[Check, str, End]]) -> list[str]:
    """Return the checks that failed when they last ran, and that no wider run has cleared."""
    failed: dict[Check, str] = {}
    for check, text, end in runs:
        if end is End.FAILED:
            failed[check] = text
        elif end is End.SUCCEEDED:
            for known in [one for one in failed if check.covers(one)]:
                del failed[known]
    return list(dict.fromkeys(failed.values()))


def _check(part: CommandPart, folder: str) -> Check | None:
    if part.check is None:
        return None
    name, arguments = part.check
    where = os.path.normpath(os.path.join(folder, *part.folders))  # noqa: PTH118 - a name alone
    operands, options = _parted(arguments)
    return Check(name=name, folder=where, operands=operands, options=options)


def _parted(arguments: Sequence[str]) -> tuple[tuple[str, ...], frozenset[str]]:
    operands, options, rest = [], set(), list(arguments)
    while rest:
        word = rest.pop(0)
        if word in _VALUED and rest:
            options.add(f"{word} {rest.pop(0)}")
        elif word.startswith("-"):
            options.add(word)
        else:
            operands.append(os.path.normpath(word))
    return tuple(operands), frozenset(options)


def _is_below(path: str, other: str) -> bool:
    return path == other or other == "." or path.startswith((f"{other}/", f"{other}::"))
