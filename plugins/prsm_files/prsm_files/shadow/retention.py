"""Which snapshots before prompts go: those that are old, too many, or take too much of the disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from prsm_files.shadow.records import AUTOMATIC

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prsm_files.shadow.records import Snapshot

_DAY = 86_400.0


class Retention(Struct, frozen=True, kw_only=True):
    """What is kept of the snapshots that were taken before prompts."""

    count: int = 200
    days: float = 30.0
    size: int = 2 * 2**30  # bytes of a folder's git directory


def too_many(
    snapshots: Sequence[Snapshot], rule: Retention, now: float, stored: Callable[[], int]
) -> Sequence[Snapshot]:
    """Return those of `snapshots`, newest first, that go; the newest never does.

    Where what is `stored` is too much, the older half goes: what each of them takes nobody knows.
    """
    oldest = now - rule.days * _DAY
    goes = [
        one
        for place, one in enumerate(snapshots)
        if place >= rule.count or (place and one.created_at < oldest)
    ]
    if not goes and len(snapshots) > 1 and stored() > rule.size:
        return snapshots[(len(snapshots) + 1) // 2 :]
    return goes


def newest_like(snapshots: Sequence[Snapshot], taken: Snapshot) -> Snapshot | None:
    """Return the newest of the snapshots before prompts, if it holds all that `taken` would."""
    newest = next((one for one in snapshots if one.kind in AUTOMATIC), None)
    if newest is None or newest.roots != taken.roots or newest.unquiet != taken.unquiet:
        return None
    is_whole = (newest.skipped, newest.skipped_count) == (taken.skipped, taken.skipped_count)
    return newest if is_whole else None
