"""A restore: what would hinder it, looked for first; its way through the roots; what it left."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from prsm_core import PrsmError
from prsm_files.shadow.files import begin_hash, folders_above, status
from prsm_files.shadow.git import ContentGoneError
from prsm_files.shadow.place import RealFolders, find_repository, read_head
from prsm_files.shadow.records import LINK, PROGRAM, Plan, Restored, RootPlan
from prsm_files.shadow.staging import StagingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from prsm_files.shadow.modes import Modes
    from prsm_files.shadow.records import Change, RootState, Snapshot
    from prsm_files.shadow.root import Root

MOST_IN_THE_WAY = 10_000  # files that git ignores, where a file of the snapshot would be
SPARE = 2**20  # bytes that stay free
_NAMED = 5
_CHUNK = 2**20


_HINT = "move it away, then restore once more"


class HinderedError(PrsmError):
    """A restore was not begun; nothing has changed."""

    code = "restore_hindered"


def check_root(is_there: bool, path: str) -> None:
    """Raise HinderedError for a root that is no folder, or one that a link leads to."""
    if not is_there:
        raise HinderedError(
            f"there is no folder {path}: it is gone, or a link is in its place",
            hint=f"look at it: ls -ld {path}",
        )


def in_the_way(root: Root, changes: Sequence[Change], tops: Iterable[str] = ()) -> list[str]:
    """Return what is not stored where a file, or one of `tops`, goes. Raises HinderedError."""
    goes = {change.path for change in changes if change.before is not None}
    found: dict[str, None] = {}
    for change in changes:
        if change.before is None:
            found |= dict.fromkeys(_obstacles(root, change.path, goes))
    for top in tops:  # of one that is no repository now nobody else keeps what is in it
        is_file = find_repository(root.folder / top) is None
        found |= dict.fromkeys(_obstacles(root, top, goes, is_file=is_file))
    if len(found) > MOST_IN_THE_WAY:
        raise HinderedError(
            f"{len(found)} ignored files are in the way of the snapshot's, such as {_some(found)}",
            hint="move them away, then restore once more",
        )
    return list(found)


def _obstacles(root: Root, path: str, goes: set[str], *, is_file: bool = True) -> Iterable[str]:
    for name in (*folders_above(path), path):
        found = status(f"{root.folder}/{name}")
        if found is None or name in goes:
            return
        kind = found.st_mode
        if stat.S_ISDIR(kind):
            if name == path and is_file:
                yield from _files(root.folder, name, goes)
            continue
        if not (stat.S_ISREG(kind) or stat.S_ISLNK(kind)):
            what = "a pipe, a socket or a device"
            raise HinderedError(f"{name} is {what}, where the snapshot has a file", hint=_HINT)
        yield name
        return


def _files(top: Path, name: str, goes: set[str]) -> Iterable[str]:
    for folder, _, files in os.walk(top / name):
        if find_repository(Path(folder)) is not None:
            what = f"{folder} is a repository, where the snapshot has a file"
            raise HinderedError(what, hint=_HINT)
        below = os.path.relpath(folder, top)
        yield from (path for file in files if (path := f"{below}/{file}") not in goes)


def check_stored(forced: Sequence[str], skipped: Iterable[str]) -> None:
    """Raise HinderedError where something in the way could not be stored."""
    lost = sorted(set(forced) & set(skipped))
    if lost:
        raise HinderedError(
            f"the restore would overwrite what no snapshot can hold: {_some(lost)}",
            hint=f"it is too large, or cannot be read: {_HINT}",
        )


def check_plan(root_of: Callable[[str], Root], plan: Plan) -> None:
    """Raise HinderedError, or ContentGoneError, where a restore would stop halfway."""
    for one in plan.roots:
        root = root_of(one.path)
        _check_writable(root, one.changes)
        _check_content(root, one.changes)


def _check_content(root: Root, changes: Sequence[Change]) -> None:
    wanted = {change.path: change.after.blob for change in changes if change.after is not None}
    sizes = root.sizes(list(dict.fromkeys(wanted.values())))
    if gone := [path for path, blob in wanted.items() if sizes.get(blob) is None]:
        raise ContentGoneError(f"the content of {_some(gone)}")
    size = sum(sizes[blob] or 0 for blob in wanted.values())
    free = shutil.disk_usage(root.folder).free
    if size + SPARE > free:
        raise HinderedError(
            f"the disk of {root.folder} has {free} bytes free, and {size} are to be written",
            hint="make room, then restore once more",
        )


def _check_writable(root: Root, changes: Sequence[Change]) -> None:
    known: dict[Path, bool] = {}
    for change in changes:
        folder = (root.folder / change.path).parent
        while folder != root.folder and not folder.is_dir():
            folder = folder.parent
        known.setdefault(folder, os.access(folder, os.W_OK | os.X_OK))
    closed = [str(folder) for folder, is_open in known.items() if not is_open]
    if closed:
        raise HinderedError(
            f"files in {_some(closed)} are to be changed, and it is read-only",
            hint="allow it with `chmod u+w`, then restore once more",
        )


def check_index(root: Root) -> None:
    """Raise HinderedError while a program of the person works on the index."""
    if root.repository is not None and root.repository.index_lock.exists():
        lock = root.repository.index_lock
        raise HinderedError(
            f"git is at work in {root.folder}: there is {lock}",
            hint="let it finish; if no git runs there, delete that file",
        )


def _some(names: Iterable[str]) -> str:
    all_ = list(names)
    more = f" and {len(all_) - _NAMED} more" if len(all_) > _NAMED else ""
    return ", ".join(all_[:_NAMED]) + more


def plan_root(root: Root, now: RootState, target: RootState) -> RootPlan:
    """Return what a restore would change in one root."""
    changes = tuple(root.compare(now.tree, target.tree))
    permissions = tuple(_only_modes(root, now, target, changes))
    return RootPlan(path=root.path, changes=changes, permissions=permissions)


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
    there = RealFolders(root.folder)
    return [path for path in paths if _wanted(there, new, path) not in (None, there.mode_of(path))]


def _wanted(there: RealFolders, modes: Modes, path: str) -> int | None:
    """Return the permissions that a file of the target is to have; None: it is no file now."""
    now = there.mode_of(path)
    return None if now is None else modes.of(path, is_program=bool(now & stat.S_IXUSR))


def write_all(
    top: Path,
    root_of: Callable[[str], Root],
    target: Snapshot,
    now: Snapshot,
    *,
    with_staging: bool,
) -> Restored:
    """Let all roots be as the target, the folder first. What raises leaves some files so."""
    plans: list[RootPlan] = []
    notes: list[str] = []
    differs: list[str] = []
    for state in target.roots:
        # What is in the way of the folder of a root has gone before.
        for folder in (*folders_above(state.path), state.path):
            if status(f"{top}/{folder}") is None:
                (top / folder).mkdir()
        root = root_of(state.path)
        before = now.main if not state.path else root.capture().state
        plans.append(_write_root(root, before, state))
        if with_staging and (why := _put_staging_back(root, state)):
            notes.append(why)
        real = RealFolders(root.folder)
        changes = plans[-1].changes
        differs += [one.name for one in changes if not _is_as_planned(root, one, real)]
    return Restored(
        plan=Plan(snapshot=target, roots=tuple(plans), notes=plan_all(root_of, target, now).notes),
        safety=now,
        notes=tuple(notes),
        differs=tuple(differs),
    )


def _write_root(root: Root, now: RootState, target: RootState) -> RootPlan:
    plan = plan_root(root, now, target)
    if plan.changes:
        root.check_out(now.tree, target.tree)
    modes, there = root.modes(target), RealFolders(root.folder)
    written = [one.path for one in plan.changes if one.after and one.after.mode != LINK]
    for path in (*written, *plan.permissions):
        wanted = _wanted(there, modes, path)
        if wanted is not None and wanted != there.mode_of(path):
            (root.folder / path).chmod(wanted)
    root.modes_kept.adopt(modes, [*written, *plan.permissions])
    return plan


def _put_staging_back(root: Root, target: RootState) -> str:
    """Put the person's index back where HEAD is as it was; return why it was not, if so."""
    where = root.path or "the folder"
    if root.repository is None:
        return "" if target.head is None else f"{where} is no repository any more"
    stays = f"the staging area of {where} stays as it is"
    if root.has_foreign_repository:
        git_dir = root.repository.git_dir
        return f"{stays}: its repository is {git_dir}, which may be that of another folder"
    head = read_head(root.person)
    if head.commit != target.head:
        was, now = (one[:12] if one else "no commit" for one in (target.head, head.commit))
        return f"{stays}: HEAD was at {was} and is at {now}"
    if root.repository.under_way != target.under_way:
        was, now = target.under_way or "nothing", root.repository.under_way or "nothing"
        return f"{stays}: {was} was under way, and now {now}"
    try:
        if target.staging is not None:
            root.staging.put_back(target.staging)
    except StagingError as error:
        return f"{error.message}; {error.hint}"
    return ""


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


def _is_as_planned(root: Root, change: Change, real: RealFolders) -> bool:
    path, new = f"{root.folder}/{change.path}", change.after
    found = status(path) if real.holds(change.path) else None
    if found is None:
        return new is None
    if new is None:
        return stat.S_ISDIR(found.st_mode)  # a folder may be where a file was
    if new.mode == LINK:
        if not stat.S_ISLNK(found.st_mode):
            return False
        data = os.fsencode(os.readlink(path))  # noqa: PTH115 - as it is written
        digest = begin_hash(len(data), new.blob)
        digest.update(data)
        return digest.hexdigest() == new.blob
    if not stat.S_ISREG(found.st_mode):
        return False
    is_program = bool(found.st_mode & stat.S_IXUSR)
    return is_program is (new.mode == PROGRAM) and _hash(path, new.blob) == new.blob


def _hash(path: str, like: str) -> str:
    with open(path, "rb") as file:  # noqa: PTH123 - a name that need not be UTF-8
        digest = begin_hash(os.fstat(file.fileno()).st_size, like)
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
