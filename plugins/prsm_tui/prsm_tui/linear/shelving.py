"""Snapshots of files line by line: what a restore changes is told before it is asked about."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from prsm_tui.linear.desk import numbered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from prsm_tui.linear.desk import Desk
    from prsm_tui.model.shelf import Plan, Snapshot

_DOES: Mapping[str, str] = {
    "+": "comes back",
    "-": "goes",
    "~": "changes",
    "%": "changes permissions",
}


class Shelving:
    """Knows the numbers of snapshots, and what is told once it was read."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._numbers: list[str] = []  # ids of snapshots: the first is snapshot 1
        self._listing: int | None = None  # how often they had been read when they were asked for
        self._planned: str | None = None  # the snapshot whose restore was asked for

    @property
    def commands(self) -> Mapping[str, Callable[[str], None]]:
        """What can be typed, by its name."""
        return {
            "snapshots": lambda _: self._ask_all(),
            "snapshot": self._take,
            "restore": self._ask_plan,
            "undo": lambda _: self._undo(),
        }

    def news(self) -> Iterator[str]:
        """Yield what was asked for and has been read; ask about a restore that was planned."""
        shelf = self._desk.session.shelf
        if self._listing is not None and shelf.reads != self._listing:
            self._listing = None
            yield from self._list()
        if self._planned is not None and self._planned in shelf.plans:
            snapshot, self._planned = self._planned, None
            plan = shelf.plans[snapshot]
            yield from self._plan(snapshot, plan)
            acts = self._desk.acts
            if plan.lines and acts is not None:
                what = f"restore {self._label(snapshot)}"
                self._desk.ask(what, lambda: acts.files.restore(snapshot))

    def _ask_all(self) -> None:
        if self._desk.acts is not None:
            self._listing = self._desk.session.shelf.reads
            self._desk.acts.files.load_snapshots()

    def _list(self) -> Iterator[str]:
        shelf = self._desk.session.shelf
        if shelf.error:
            yield f"snapshots: {shelf.error}"
            return
        told = "none" if not shelf.snapshots else f"{len(shelf.snapshots)}, the newest first"
        yield f"snapshots: {told}; /restore NUMBER tells what one would change, and asks"
        yield from (f"{self._label(one.id)}: {_told(one)}" for one in shelf.snapshots)

    def _take(self, description: str) -> None:
        if not description:
            self._ask_all()
        elif self._desk.acts is not None:
            self._desk.acts.files.take_snapshot(description)

    def _ask_plan(self, number: str) -> None:
        found, acts = numbered(number, self._numbers), self._desk.acts
        if not found or len(found) > 1 or acts is None:
            self._desk.told("warning", "which snapshot? /snapshots tells their numbers")
            return
        self._planned = found[0]
        self._desk.session.shelf.plans.pop(found[0], None)  # files may be others by now
        acts.files.plan(found[0])

    def _plan(self, snapshot: str, plan: Plan) -> Iterator[str]:
        label = self._label(snapshot)
        yield f"{label}: {plan.error or plan.summary}"
        for line in plan.lines:
            sign, _, path = line.partition(" ")
            yield f"{label}: {f'{path} {_DOES[sign]}' if sign in _DOES else line}"

    def _undo(self) -> None:
        acts = self._desk.acts
        if acts is not None:
            self._desk.ask("take back what was done to files last", acts.files.undo_act)

    def _label(self, snapshot: str) -> str:
        """Return what lines of a snapshot begin with: it keeps its number."""
        if snapshot not in self._numbers:
            self._numbers.append(snapshot)
        return f"snapshot {self._numbers.index(snapshot) + 1}"


def _told(one: Snapshot) -> str:
    when = time.strftime("%H:%M:%S", time.localtime(one.taken_at))
    unquiet = f"; an agent wrote meanwhile: {', '.join(one.unquiet)}" if one.unquiet else ""
    about = f", {one.description}" if one.description else ""
    return f"{one.kind}, at {when}{about}{unquiet}"
