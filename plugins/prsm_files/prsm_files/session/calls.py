"""The writing calls of a run, as far as a change that is found next may be theirs.

They are on the disk, too: whoever goes on after a crash finds out what those had changed.
"""

from __future__ import annotations

import json
from math import inf
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from prsm_files.changes.records import WritingCall
from prsm_files.shadow.files import put

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from prsm_core.files import WritingCall as Running
    from prsm_files.changes.splitting import Edit

UNNAMED = ""  # the id of a call that its provider has not named


class OpenCalls:
    """Owns them: those that run, and those that have ended since the last look at the files.

    Args:
        tick: Counts moments up.
        time: Returns Unix seconds by the clock of which files have their times.
        leased: Returns folders that an agent has for itself, from the top of the folder.
        paths: Returns the files that a call says it writes, from the top of the folder.
        edits: Returns what a call says it does to files, from the top of the folder.
        owned: Returns the files that a call writes alone, and no others; None: it may write any.
        turn: Returns the id of an agent's turn.
    """

    def __init__(
        self,
        tick: Callable[[], int],
        time: Callable[[], float],
        *,
        leased: Callable[[str], tuple[str, ...]],
        paths: Callable[[Running], frozenset[str]],
        edits: Callable[[Running], tuple[Edit, ...]],
        owned: Callable[[Running], tuple[str, ...] | None],
        turn: Callable[[str], str | None],
    ) -> None:
        self._tick = tick
        self._time = time
        self._leased = leased
        self._paths = paths
        self._edits = edits
        self._owned = owned
        self._turn = turn
        self._running: list[tuple[Running, WritingCall]] = []
        self._ended: list[WritingCall] = []
        self._file: Path | None = None

    @property
    def all(self) -> Sequence[WritingCall]:
        """All that may have made a change since the last look."""
        return [*self._ended, *(call for _, call in self._running)]

    @property
    def have_ended(self) -> bool:
        """Whether some have ended since the last look began."""
        return bool(self._ended)

    def keep_in(self, file: Path, left: Sequence[WritingCall]) -> None:
        """Keep them in a file from now on, with those `left` by a dead process. Raises OSError."""
        self._ended += left
        self._file = file
        try:
            self._write()
        except OSError:
            self._file = None
            raise

    def begins(self, one: Running) -> None:
        """Take note of a call that may write from now on."""
        owned = self._owned(one)
        call = WritingCall(
            agent=one.agent,
            call=one.call or UNNAMED,
            turn=self._turn(one.agent),
            paths=self._paths(one),
            edits=self._edits(one),
            region=owned,
            leased=(*self._leased(one.agent), *(owned or ())),
            began=self._tick(),
            span=(self._time(), inf),
        )
        self._running.append((one, call))
        self._write()

    def is_named(self, old: Running, new: Running) -> None:
        """Take note of what a call is called, and of what it says it does."""
        for number, (one, call) in enumerate(self._running):
            if one is old:
                edits = call.edits or self._edits(new)
                known = replace(call, call=new.call or UNNAMED, edits=edits)
                self._running[number] = new, known

    def owns(self, one: Running, owned: tuple[str, ...]) -> None:
        """Take note of the files that a call writes alone from now on. Raises OSError."""
        for number, (running, call) in enumerate(self._running):
            if running is one:
                known = replace(call, region=owned, leased=owned, is_apart=True, began=self._tick())
                self._running[number] = one, known
                self._write()

    def ends(self, one: Running, *, has_run: bool) -> WritingCall | None:
        """Take note of a call that writes no more, and return it if it has run at all."""
        for number, (running, call) in enumerate(self._running):
            if running is one:
                del self._running[number]
                if not has_run:
                    return None
                ended = replace(call, ended=self._tick(), span=(call.span[0], self._time()))
                self._ended.append(ended)
                return ended
        return None

    def looked(self, moment: int) -> None:
        """Forget those that had ended when a look began that has found what they did."""
        before = len(self._ended)
        self._ended = [one for one in self._ended if one.ended is None or one.ended >= moment]
        if len(self._ended) != before:
            self._write()

    def forget(self) -> None:
        """Know none any more: nothing of them runs. Raises OSError."""
        self._running.clear()
        self._ended.clear()
        self._write()

    def _write(self) -> None:
        if self._file is not None:
            # What they say they do is not kept: a file may be long, and deaths are few.
            told = json.dumps([msgspec.to_builtins(replace(one, edits=())) for one in self.all])
            put(self._file, told.encode("ascii"))


def read_calls(file: Path) -> Sequence[WritingCall]:
    """Return the calls that a process which has died had at work; none where that is not known."""
    try:
        given: list[dict[str, Any]] = json.loads(file.read_bytes())
    except (FileNotFoundError, ValueError):
        return ()
    return [_call(one) for one in given]


def _call(given: dict[str, Any]) -> WritingCall:
    """Return a call of a process that has died: it began before all looks of this one."""
    for name in ("region", "barred", "leased"):
        given[name] = None if given[name] is None else tuple(given[name])
    given["paths"], given["edits"] = frozenset(given["paths"]), ()
    given["span"] = tuple(given["span"])
    return WritingCall(**{**given, "began": 0, "ended": 0})
