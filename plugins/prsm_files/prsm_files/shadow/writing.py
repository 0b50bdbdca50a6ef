"""A restore's way through the roots, and the look at what it left behind."""

from __future__ import annotations

import hashlib
import os
import stat
from typing import TYPE_CHECKING

from prsm_files.shadow.files import status
from prsm_files.shadow.modes import FileModes
from prsm_files.shadow.place import RealFolders, read_head
from prsm_files.shadow.records import Plan, Restored, RootPlan, joined
from prsm_files.shadow.staging import StagingError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from prsm_files.shadow.modes import Modes
    from prsm_files.shadow.records import Change, RootState, Snapshot
    from prsm_files.shadow.root import Root

_LINK = "120000"
_PROGRAM = "100755"
_CHUNK = 2**20


def plan_root(root: Root, now: RootState, target: RootState) -> RootPlan:
    """Return what a restore would change in one root."""
    changes = root.compare(now.tree, target.tree)
    return RootPlan(
        path=root.path,
        changes=tuple(changes),
        permissions=tuple(_only_modes(root, now, target, changes)),
    )


def plan_all(root_of: Callable[[str], Root], target: Snapshot, now: Snapshot) -> Plan:
    """Return what leads from a snapshot that was just taken to the target."""
    roots, notes = [], []
    for state in target.roots:
        before = now.root(state.path)
        if before is not None:
            roots.append(plan_root(root_of(state.path), before, state))
        else:
            notes.append(f"{state.path} was a repository; its files come back, its .git does not")
    notes += [
        f"{state.path} is a repository the snapshot does not know: it stays"
        for state in now.roots
        if target.root(state.path) is None
    ]
    return Plan(snapshot=target, roots=tuple(roots), notes=tuple(notes))


def _only_modes(
    root: Root, now: RootState, target: RootState, changes: Sequence[Change]
) -> list[str]:
    if now.modes == target.modes:
        return []
    old, new = root.modes(now), root.modes(target)
    others = {change.path for change in changes}
    paths = sorted(old.differing(new) - others)
    there = FileModes(root.folder)
    return [path for path in paths if _wanted(there, new, path) not in (None, there.of(path))]


def _wanted(there: FileModes, modes: Modes, path: str) -> int | None:
    """Return the permissions that a file of the target is to have; None: it is no file now."""
    now = there.of(path)
    return None if now is None else modes.of(path, is_program=bool(now & stat.S_IXUSR))


def write_all(
    top: Path,
    root_of: Callable[[str], Root],
    target: Snapshot,
    now: Snapshot,
    *,
    with_staging: bool,
) -> Restored:
    """Let all roots be as the target; the folder itself first, since others lie in it.

    Raises PrsmError and OSError, and then some files may be as in the target.
    """
    plans: list[RootPlan] = []
    notes: list[str] = []
    differs: list[str] = []
    for state in target.roots:
        _make_folder(top, state.path)
        root = root_of(state.path)
        before = now.main if not state.path else root.capture().state
        plans.append(write_root(root, before, state))
        note = put_staging_back(root, state) if with_staging else None
        notes += [] if note is None else [note]
        differs += not_as_planned(root, plans[-1])
    return Restored(
        plan=Plan(snapshot=target, roots=tuple(plans), notes=plan_all(root_of, target, now).notes),
        safety=now,
        notes=tuple(notes),
        differs=tuple(differs),
    )


def _make_folder(top: Path, path: str) -> None:
    """Make the folder of a root; what is in the way of it has gone before."""
    parts = path.split("/") if path else []
    for count in range(1, len(parts) + 1):
        above = "/".join(parts[:count])
        if status(f"{top}/{above}") is None:
            (top / above).mkdir()


def write_root(root: Root, now: RootState, target: RootState) -> RootPlan:
    """Let one root be as the target, but for its staging area; return what has changed.

    Raises GitFailedError, and then some files may be as in the target.
    """
    plan = plan_root(root, now, target)
    if plan.changes:
        root.check_out(now.tree, target.tree)
    _set_modes(root, target, plan)
    return plan


def _set_modes(root: Root, target: RootState, plan: RootPlan) -> None:
    modes, there = root.modes(target), FileModes(root.folder)
    written = [change.path for change in plan.changes if change.new and change.new_mode != _LINK]
    for path in (*written, *plan.permissions):
        wanted = _wanted(there, modes, path)
        if wanted is not None and wanted != there.of(path):
            (root.folder / path).chmod(wanted)
    root.adopt_modes(modes, [*written, *plan.permissions])


def put_staging_back(root: Root, target: RootState) -> str | None:
    """Put the person's index back where HEAD is as it was; return why it was not, if so."""
    where = root.path or "the folder"
    if root.repository is None:
        return None if target.head is None else f"{where} is no repository any more"
    if root.has_foreign_repository:
        return (
            f"the staging area of {where} stays as it is: its repository is "
            f"{root.repository.git_dir}, which may be that of another folder"
        )
    head = read_head(root.repository, root.person)
    if head.commit != target.head:
        return (
            f"the staging area of {where} stays as it is: HEAD was at "
            f"{_short(target.head)} and is at {_short(head.commit)}"
        )
    if root.repository.under_way != target.under_way:
        was, is_ = target.under_way or "nothing", root.repository.under_way or "nothing"
        return f"the staging area of {where} stays as it is: {was} was under way, and now {is_}"
    if target.staging is None:
        return None
    try:
        root.staging.put_back(target.staging)
    except StagingError as error:
        return f"{error.message}; {error.hint}"
    return None


def _short(commit: str | None) -> str:
    return "no commit" if commit is None else commit[:12]


def count_strange(
    root_of: Callable[[str], Root], now: Snapshot, known: tuple[Snapshot, Snapshot]
) -> int:
    """Return how many files are neither as in the one snapshot nor as in the other."""
    strange = 0
    for state in now.roots:
        old, new = (one.root(state.path) for one in known)
        if old is not None and new is not None:
            root = root_of(state.path)
            from_old = {one.path for one in root.compare(old.tree, state.tree)}
            from_new = {one.path for one in root.compare(new.tree, state.tree)}
            strange += len(from_old & from_new)
    return strange


def not_as_planned(root: Root, plan: RootPlan) -> list[str]:
    """Return the paths that a restore has written and that are not as they were to be."""
    real = RealFolders(root.folder)
    return [
        joined(root.path, one.path) for one in plan.changes if not _is_as_planned(root, one, real)
    ]


def _is_as_planned(root: Root, change: Change, real: RealFolders) -> bool:
    path = f"{root.folder}/{change.path}"
    found = status(path) if real.holds(change.path) else None
    if found is None:
        return not change.new
    if not change.new:
        return stat.S_ISDIR(found.st_mode)  # a folder may be where a file was
    if change.new_mode == _LINK:
        is_link = stat.S_ISLNK(found.st_mode)
        if not is_link:
            return False
        leads_to = os.readlink(path)  # noqa: PTH115 - as it is written, not as a path reads it
        return _name_of(os.fsencode(leads_to), change.new) == change.new
    if not stat.S_ISREG(found.st_mode):
        return False
    is_program = bool(found.st_mode & stat.S_IXUSR)
    return is_program is (change.new_mode == _PROGRAM) and _hash(path, change.new) == change.new


def _name_of(data: bytes, like: str) -> str:
    digest = hashlib.new("sha256" if len(like) == 64 else "sha1", usedforsecurity=False)
    digest.update(b"blob %d\0" % len(data) + data)
    return digest.hexdigest()


def _hash(path: str, like: str) -> str:
    digest = hashlib.new("sha256" if len(like) == 64 else "sha1", usedforsecurity=False)
    with open(path, "rb") as file:  # noqa: PTH123 - a name that need not be UTF-8
        digest.update(b"blob %d\0" % os.fstat(file.fileno()).st_size)
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
