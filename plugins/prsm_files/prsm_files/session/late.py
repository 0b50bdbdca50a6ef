"""Stands for the watch of a folder until the first call that may write in it."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from prsm_core.files import ChangeRow, WritingCall
    from prsm_files.session.changes import ChangeWatch
    from prsm_files.shadow.worktree import Shadow


class LateWatch:
    """Makes the watch at the first call that may write; what came before is nobody's change."""

    def __init__(self, make: Callable[[], ChangeWatch]) -> None:
        self._make = make
        self._made: ChangeWatch | None = None
        self._is_open = False  # a run is
        self._has_begun = False  # … and is watched

    def begin(self, *, is_resumed: bool) -> None:
        """Take note of a run; one that goes on may have calls whose changes nobody has found."""
        self._is_open, self._has_begun = True, False
        if is_resumed:
            self._watch()

    async def finish(self) -> None:
        """Find all that has changed until now; nothing is told until the next run."""
        self._is_open = False
        if self._made is not None:
            await self._made.finish()

    async def flush(self) -> None:
        """Find what calls that have ended have changed, before somebody else writes."""
        if self._made is not None:
            await self._made.flush()

    async def rows(self) -> Sequence[ChangeRow]:
        """Return all changes of the session; none while no call could have written."""
        return () if self._made is None else await self._made.rows()

    def get(self) -> ChangeWatch:
        """Return what watches, or would."""
        if self._made is None:
            self._made = self._make()
        return self._made

    def while_others_write(self) -> AbstractAsyncContextManager[None]:
        """Let PRSM itself write to the folder, by another process, while the gate is held."""
        return nullcontext() if self._made is None else self._made.while_others_write()

    def _watch(self) -> ChangeWatch:
        watch = self.get()
        if self._is_open and not self._has_begun:
            self._has_begun = True
            watch.begin()
        return watch

    async def before(self, call: WritingCall) -> None:
        """Look at what a permitted call says it writes, before it runs."""
        await self._watch().before(call)

    def begins(self, call: WritingCall) -> None:
        """Take note of a call that runs from now on."""
        self._watch().begins(call)

    def is_named(self, old: WritingCall, new: WritingCall) -> None:
        """Take note of what a call that runs is called."""
        self._watch().is_named(old, new)

    def owns(self, call: WritingCall, owned: tuple[str, ...]) -> None:
        """Take note of the files that a call writes alone."""
        self._watch().owns(call, owned)

    def look_at(self, shadow: Shadow, files: tuple[str, ...]) -> None:
        """Look at files of a folder now; it blocks."""
        self._watch().look_at(shadow, files)

    def ends(self, call: WritingCall, *, has_run: bool) -> None:
        """Take note of a call that runs no more."""
        self._watch().ends(call, has_run=has_run)
