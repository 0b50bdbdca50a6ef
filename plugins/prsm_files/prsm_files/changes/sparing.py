"""What of a restore would take a person's own work along: it stays, and only agents' work goes.

Of a file that no agent has changed since a snapshot all that differs is the person's. In one that
agents have changed, too, the steps that were not theirs are made again on what the snapshot holds,
three ways. Where these do not merge the file stays as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from prsm_files.changes.merging import TAKING_BACK, Side, merged
from prsm_files.changes.records import Entry
from prsm_files.shadow.acts import Held
from prsm_files.shadow.records import Sparing, joined

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prsm_files.shadow.records import RootPlan
    from prsm_files.shadow.root import Root


class Step(NamedTuple):
    """A change of a file that was found since the snapshot."""

    before: Entry | None
    after: Entry | None
    is_agents: bool


class Known(Struct, frozen=True, kw_only=True):
    """Who has changed which files since a snapshot.

    Attributes:
        steps: The changes of each file, from the top of the folder, oldest first.
        is_whole: Whether agents have changed nothing else: each of their calls was looked at.
    """

    steps: dict[str, tuple[Step, ...]]
    is_whole: bool

    def spare(self, root: Root, plan: RootPlan) -> Sparing:
        """Return what of a root stays, or stays in part. Raises GitFailedError."""
        files: dict[str, Held | None] = {}
        stays: list[tuple[str, str]] = []
        for change in plan.changes:
            now = Entry(change.old_mode, change.old) if change.old else None
            target = Entry(change.new_mode, change.new) if change.new else None
            path = joined(root.path, change.path)
            side = self._side(root, path, now, target)
            if side.why:
                stays.append((path, side.why))
            if side.entry != target:
                entry = side.entry
                files[change.path] = None if entry is None else Held(entry.mode, entry.blob)
        modes = [path for path in plan.permissions if self._is_persons(joined(root.path, path))]
        return Sparing(files=files, modes=tuple(modes), stays=tuple(stays))

    def _is_persons(self, path: str) -> bool:
        """Return whether it is known that no agent has changed a file."""
        steps = self.steps.get(path, ())
        return not any(one.is_agents for one in steps) and (bool(steps) or self.is_whole)

    def _side(self, root: Root, path: str, now: Entry | None, target: Entry | None) -> Side:
        """Return what a file is to be; its `why` tells why all of it stays."""
        if self._is_persons(path):
            return Side(now)
        side = Side(target)
        for step in self._others(path, now):
            side = merged(root, side, base=step.before, other=step.after, words=TAKING_BACK)
            if side.why:
                return Side(now, f"what is yours in it does not come apart: {side.why}")
        return side

    def _others(self, path: str, now: Entry | None) -> Sequence[Step]:
        """Return the steps of a file that were not agents', with what came after the last look."""
        steps = self.steps.get(path, ())
        others = [one for one in steps if not one.is_agents]
        if steps and self.is_whole and steps[-1].after != now:
            others.append(Step(steps[-1].after, now, is_agents=False))
        return others
