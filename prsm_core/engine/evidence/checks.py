"""What the end of a shell command says of the checks in it, and which checks are red."""

from __future__ import annotations

import os
import re
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING

from prsm_core.domain.record import Record
from prsm_core.permissions.safe.checks import check_named
from prsm_core.shell.exit_codes import read_exit
from prsm_core.shell.tables import word_set
from prsm_core.shell.wrappers import PROGRAM_VARIABLES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from prsm_core.shell.exit_codes import Part

# Whose end says nothing of the work.
_BESIDE = word_set(
    "cd pushd popd echo printf cat export true : source . sleep mkdir pwd ls date which set"
)
# These may follow a check and change nothing.
_LOOKS = _BESIDE | word_set("tail head grep wc sort git diff tee test [ false")
_MISLEADING = PROGRAM_VARIABLES | word_set(
    "PATH LD_PRELOAD LD_LIBRARY_PATH PYTEST_ADDOPTS PYTHONHOME NODE_OPTIONS"
)
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


class Check(Record, frozen=True, kw_only=True):
    """A check of the project as it was run: which one, where, and on what."""

    name: str
    folder: str
    operands: tuple[str, ...] = ()
    options: frozenset[str] = frozenset()

    def covers(self, earlier: Check) -> bool:
        """Return whether a run of this one looks at all that an earlier one looked at."""
        if (self.name, self.folder) != (earlier.name, earlier.folder):
            return False
        if not all(
            map(_SHOWS.fullmatch, (one.split()[0] for one in self.options - earlier.options))
        ):
            return False
        if not self.operands:
            return True
        return bool(earlier.operands) and all(
            any(_is_below(one, other) for other in self.operands) for one in earlier.operands
        )


class ReadCommand(Record, frozen=True):
    """A shell command as far as its exit code matters.

    Attributes:
        parts: The simple commands in it; None: it cannot be read.
    """

    text: str
    parts: tuple[Part, ...] | None

    @property
    def is_told(self) -> bool:
        """Whether the code 0 says that all has succeeded that does the work."""
        parts = self.parts or ()
        own = [part for part in parts if part.command.name not in _BESIDE]
        return bool(parts) and all(part.is_told for part in own)

    def whole(self, end: End) -> End:
        """Return how all of it has ended, by how its shell has."""
        return End.HIDDEN if end is End.SUCCEEDED and not self.is_told else end

    def ends(self, end: End, folder: str) -> list[tuple[Check, str, End]]:
        """Return the checks in it, each with its text and its end, by how its shell has ended."""
        found = []
        for part in self.parts or ():
            if (check := _check(part, folder)) is not None:
                known = end if part.is_told or end is End.UNKNOWN else End.HIDDEN
                found.append((check, part.text, known))
        return found

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
        parts, last = self.parts or (), -1
        for at, part in enumerate(parts):
            if _check(part, "") is not None:
                last = at
        return last < 0 or any(part.command.name not in _LOOKS for part in parts[last + 1 :])


_WITHIN = re.compile(r"^(?:cd \S+ && )+")


def plain(command: str) -> str:
    """Return a command without regard to white space."""
    return " ".join(command.split())


@lru_cache(maxsize=512)
def read_command(text: str) -> ReadCommand:
    """Read a shell command."""
    return ReadCommand(plain(text), read_exit(text))


def red(runs: Iterable[tuple[Check, str, End]]) -> list[str]:
    """Return the checks that failed when they last ran; `runs` are oldest first.

    A run that covers more clears those that it covers. One whose end is not known clears nothing.
    """
    failed: dict[Check, str] = {}
    for check, text, end in runs:
        if end is End.FAILED:
            failed[check] = text
        elif end is End.SUCCEEDED:
            for known in [one for one in failed if check.covers(one)]:
                del failed[known]
    return list(dict.fromkeys(failed.values()))


def _check(part: Part, folder: str) -> Check | None:
    command = part.command
    if not all(word.exact for word in command.words):
        known = [word.text for word in command.words if word.exact]
    else:
        known = list(command.texts)
    if any(one.name in _MISLEADING for one in command.assigned):
        return None
    named = check_named(known)
    if named is None:
        return None
    name, arguments = named
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
