"""Snapshots as git keeps them: a commit for each root, and a ref, which moves last, for each.

The commit of the folder itself says all of the snapshot, as JSON; without it there is none.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from msgspec import Struct

from prsm_core import ConfigError
from prsm_files.shadow.files import from_json, to_json
from prsm_files.shadow.git import GitFailedError
from prsm_files.shadow.records import AUTOMATIC, Snapshot, find_id
from prsm_files.shadow.staging import forget_copy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prsm_files.shadow.git import GitDir
    from prsm_files.shadow.records import RootState
    from prsm_files.shadow.root import Root

REFS = "refs/prsm/"
_BROKEN = re.compile(rb"ignoring (?:broken|dangling) \S+ " + REFS.encode() + rb"(\S+)")
_PROBED = 64 << 10  # bytes; an object that git writes to try is smaller

_DAY = 86_400.0


def keep(root: Root, state: RootState, snapshot: Snapshot) -> None:
    """Keep one root of a snapshot. Raises GitFailedError."""
    git = root.shadow
    lines = [f"040000 tree {state.tree}\tfiles"]
    if state.modes is not None:
        lines.append(f"100644 blob {state.modes}\tmodes")
    if state.staging is not None:
        lines.append(f"100644 blob {state.staging.blob}\tindex")
        lines.append(f"040000 tree {state.staging.tree}\tstaged")
    tree = git.word("mktree", "--missing", stdin="".join(f"{x}\n" for x in lines).encode("ascii"))
    commit = git.word("commit-tree", tree, stdin=to_json(snapshot) + b"\n")
    git.run("update-ref", f"{REFS}{snapshot.id}", commit)


def kept(root: Root, notes: list[str]) -> list[Snapshot]:
    """Return a folder's snapshots, newest first; note damaged ones. Raises GitFailedError."""
    args = ("for-each-ref", "--format=%(refname:lstrip=2) %(contents)%00", REFS)
    output = root.shadow.ask(*args)
    if output.code:
        raise GitFailedError(args, output)
    found, damaged = [], _BROKEN.findall(output.err)
    for one in output.out.split(b"\0"):
        name, _, said = one.strip().partition(b" ")
        try:
            found += [from_json(said, Snapshot)] if name else []
        except ValueError:  # what a disk made of it
            damaged.append(name)
    for name in damaged:
        note = f"snapshot {name.decode('utf-8', 'replace')} is damaged, and is left out"
        notes += [] if note in notes else [note]
    return sorted(found, key=lambda one: (one.number, one.created_at), reverse=True)


def find(snapshots: Sequence[Snapshot], wanted: str) -> Snapshot:
    """Return the snapshot of an id, or of the beginning of one. Raises ConfigError."""
    by_id = {one.id: one for one in snapshots}
    found = find_id(list(by_id), wanted, "snapshot")
    if found is None:
        raise ConfigError(
            f"there is no snapshot {wanted!r} of this folder",
            hint="`prsm snapshot list` shows those there are",
            code="unknown_snapshot",
        )
    return by_id[found]


def prune(git: GitDir) -> str:
    """Remove what no snapshot needs any more; return why nothing was removed, if so."""
    forget_copy(git)
    output = git.ask("prune", "--expire=now")
    return GitFailedError(("prune",), output).said if output.code else ""


def is_damaged(main: Callable[[], Root], place: Path) -> bool:
    """Return whether what is kept of a folder cannot be read, or no more can be.

    Where the disk takes no folder and file more nothing is proved of a shadow: git says what it
    lacks in the language of the person.
    """
    try:
        root = main()
        kept(root, [])
        root.shadow.run("hash-object", "-w", "--stdin", alone=True)
    except (GitFailedError, ValueError):
        with suppress(OSError), TemporaryDirectory(dir=place, prefix="probe-") as folder:
            Path(folder, "probe").write_bytes(bytes(_PROBED))
            return True
    return False


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
