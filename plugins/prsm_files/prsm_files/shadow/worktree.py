"""The snapshots of one folder, and the way back to each: one process at a time, crash or not.

A snapshot reads from the repository what was committed when it was taken. git keeps that as long as
a ref leads to it, and throws it away some time later. What snapshots need of it is copied before.

Of each root there is a commit, and a ref, which moves last. The commit of the folder itself says
all of the snapshot, as JSON; without it there is none.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import defaultdict
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from prsm_core import ConfigError, PrsmError
from prsm_core.files import repo_identity
from prsm_files.shadow import restoring
from prsm_files.shadow.acts import (
    RESTORE,
    UNDO,
    Act,
    ActLog,
    Intent,
    Journal,
    as_of,
    nothing_to_undo,
    owed_by,
)
from prsm_files.shadow.files import from_json, is_inside, put_json, read_json, to_json
from prsm_files.shadow.git import GitFailedError, as_lines
from prsm_files.shadow.place import MOST, RealFolders, require_files, roots_among, roots_below
from prsm_files.shadow.records import (
    AUTOMATIC,
    MOST_SKIPPED,
    RESCUE,
    SAFETY,
    About,
    Left,
    Plan,
    Restored,
    RootPlan,
    RootState,
    Skipped,
    Snapshot,
    Sparing,
    find_id,
    joined,
)
from prsm_files.shadow.restoring import count_strange, plan_all, plan_root, write_all
from prsm_files.shadow.root import Captured, Limits, Root, stored_at
from prsm_files.shadow.staging import forget_copy
from prsm_files.shadow.trackers import note_restored
from prsm_files.shadow.whereabouts import PRUNE, folder_lock, place_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from prsm_files.shadow.acts import Owed
    from prsm_files.shadow.git import Git, GitDir
    from prsm_files.shadow.records import RootState


T = TypeVar("T")
# Returns what of a root stays, by what a restore would change there.
Spare: TypeAlias = "Callable[[Root, RootPlan], Sparing]"

_OF_INDEX = re.compile(r"\bindex file\b|\bindex (?:uses|entry)|bad signature|bad index")
WAIT_SECONDS = 30.0  # for another process
KEPT_SAFETY = 20  # snapshots before restores; older ones are dropped, but for that of the last one

_NOTE = "secured.json"  # beside the git directory: of which snapshots this was done, and when


class _Secured(Struct, frozen=True):
    """Of which snapshots what they borrow was taken in, and by which commits that is known."""

    snapshots: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    relied: tuple[str, ...] = ()


class _Spared(NamedTuple):
    """A snapshot with what stays, the files that do, and those that do for another reason."""

    target: Snapshot
    files: tuple[str, ...] = ()
    stays: tuple[Left, ...] = ()


class Shadow:
    """Takes snapshots of the working tree around a folder, without `state` and `own`.

    Every method blocks. Where another process is at work they wait a moment, then raise
    ConfigError.
    """

    def __init__(
        self,
        git: Git,
        folder: Path,
        state: Path,
        *,
        environ: Mapping[str, str],
        now: Callable[[], float],
        new_id: Callable[[], str],
        limits: Limits | None = None,
        own: Sequence[Path] = (),
        wait_seconds: float = WAIT_SECONDS,
    ) -> None:
        identity = repo_identity(folder)
        require_files(identity.root, identity.common_dir)
        self.folder = identity.root
        self.place = place_of(identity, state)
        self.notes: list[str] = []  # what was done besides, for a person
        self._wait_seconds = wait_seconds
        self._git = git
        self._environ = environ
        self._now = now
        self._new_id = new_id
        self._limits = limits or Limits()
        self._own = [one.resolve() for one in (state, *own)]
        self.journal = Journal(self.place)
        self.acts = ActLog(self.place)
        self._roots: dict[str, Root] = {}  # that are ready

    def take(
        self,
        about: About = About(),  # noqa: B008 - a constant
        *,
        unquiet: Callable[[], tuple[str, ...]] = tuple,
        may_be_known: bool = False,
    ) -> Snapshot:
        """Take a snapshot. Raises PrsmError, and then there is none.

        `unquiet` returns who may have written meanwhile. One like the newest is that if it
        `may_be_known`.
        """
        take = partial(self._take, about, unquiet=unquiet, may_be_known=may_be_known)
        with self._open():
            return self._mended(take)

    def snapshots(self) -> list[Snapshot]:
        """Return all snapshots of the folder, newest first."""
        if not self._main_place.exists():
            return []
        with self._open():
            return self._mended(self._kept)

    def find(self, wanted: str) -> Snapshot:
        """Return the snapshot of an id, or of the beginning of one. Raises ConfigError."""
        return find_snapshot(self.snapshots(), wanted)

    def plan(self, wanted: str, spare: Spare | None = None) -> Plan:
        """Return what a restore would change now; nothing is changed. Raises PrsmError."""
        with self._open():
            target = self._find(wanted)
            now = self._mended(lambda: self._capture(target))
            spared = self._spared(target, now, spare)
            plan = plan_all(self.root, spared.target, now)
            return replace(plan, snapshot=target, spared=spared.files, stays=spared.stays)

    def restore(
        self,
        wanted: str,
        *,
        with_staging: bool = True,
        then: Owed | None = None,
        spare: Spare | None = None,
    ) -> Restored:
        """Let the files, and the staging area if HEAD is the same, be as in a snapshot.

        What `spare` tells of each root stays. A snapshot of what there was is taken first. After a
        PrsmError the files are as they were, or the next call finishes what was begun. Once the
        files are there `then` is `owed`, also if this process dies.
        """
        with self._open():
            return self._restore(self._find(wanted), with_staging, then, spare)

    def undo(self, then: Owed | None = None, *, of: Act | None = None) -> Restored:
        """Take back a restore, the last one unless another is meant. Raises ConfigError."""
        act = of or self.acts.last()
        if act is None or not act.is_restore:
            raise nothing_to_undo()
        return self.restore(act.safety, then=then)

    def delete(self, wanted: str) -> Snapshot:
        """Forget a snapshot, and remove what no other one needs. Raises ConfigError."""
        with self._open():
            snapshot = self._find(wanted)
            self._drop([snapshot])
            self._prune()
            return snapshot

    def retire(self, rule: Retention, spared: Collection[str] = ()) -> int:
        """Drop old snapshots before prompts, but none that is spared or needed; return how many."""
        with self._open():
            needed = {*spared, *self._needed()}
            mine = [one for one in self._kept() if one.kind in AUTOMATIC and one.id not in needed]
            goes = too_many(mine, rule, self._now(), self.root("").stored_bytes)
            self._drop(goes)
            if goes:
                self._prune()
            return len(goes)

    def _prune(self) -> None:
        for place in sorted((self.place / "roots").iterdir()):
            said = prune(stored_at(self._git, place))
            if said:
                self.notes.append(f"what no snapshot needs any more is not removed: {said}")

    def secure(self) -> int:
        """Take in what snapshots borrow from commits that nothing leads to; return how much."""
        if not self._main_place.exists():
            return 0
        with self._open():
            kept = self._borrowers(self._mended(self._kept))
            return sum(
                _secure(self.root(path), tuple(one.id for one, _ in mine), {h for _, h in mine})
                for path, mine in kept
            )

    def pack(self) -> None:
        """Take in what all snapshots need, so that no `git gc` of the person can harm them."""
        with self._open():
            for path, mine in self._borrowers(self._kept()):
                _take(self.root(path), [one.id for one, _ in mine], (), ())

    def _borrowers(self, kept: Iterable[Snapshot]) -> list[tuple[str, list[tuple[Snapshot, str]]]]:
        """Return the roots that are there, each with its snapshots, and what HEAD was in them."""
        by_root = defaultdict[str, list[tuple[Snapshot, str]]](list)
        for one in kept:
            for state in one.roots:
                by_root[state.path].append((one, state.head or ""))
        return [(path, by_root[path]) for path in sorted(by_root) if self.has_root(path)]

    def recover(self) -> None:
        """Finish or take back a restore that was cut off; every other method does so first."""
        with self._open():
            return

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Keep others out, for those who keep more than snapshots here; a restore is over then."""
        with folder_lock(self.place, self._wait_seconds):
            self._recover()
            yield

    def has_root(self, path: str) -> bool:
        """Return whether a root has a folder still, which is in this one: no link leads to it."""
        if not path:
            return self.folder.is_dir()
        return is_inside(path) and RealFolders(self.folder).has(path)

    def keep(
        self, roots: Sequence[RootState], *, description: str, notes: tuple[str, ...]
    ) -> Snapshot:
        """Keep a snapshot of what is stored already, for those who are `at_work`."""
        kept = Snapshot(
            id=self._new_id(),
            created_at=self._now(),
            description=description,
            folder=str(self.folder),
            roots=tuple(roots),
            notes=notes,
        )
        return self._keep(kept)

    def now(self) -> Snapshot:
        """Store the folder as it is now, for those who are `at_work`. Raises PrsmError."""
        return self._mended(self._capture)

    @property
    def _main_place(self) -> Path:
        return self.place / "roots" / "main"

    @contextmanager
    def _open(self) -> Iterator[None]:
        """Keep others out; end what a dead process has left."""
        if not self.folder.is_dir():
            raise ConfigError(
                f"there is no folder {self.folder} any more", hint="go to another one"
            )
        with self.at_work():
            self._roots.clear()
            if (self.place / PRUNE).exists():
                self._prune()
                (self.place / PRUNE).unlink()
            yield

    def _find(self, wanted: str) -> Snapshot:
        return find_snapshot(self._mended(self._kept), wanted)

    def _kept(self) -> list[Snapshot]:
        return read_snapshots(self.root(""), self.notes) if self._main_place.exists() else []

    def root(self, path: str) -> Root:
        """Return the shadow of a root for those who are `at_work`; no link may lead there."""
        restoring.check_root(self.has_root(path), path or str(self.folder))
        if path in self._roots:
            return self._roots[path]
        folder = self.folder / path
        root = Root(
            self._git,
            self._place_of(path),
            folder,
            path,
            limits=self._limits,
            environ=self._environ,
            hidden=[str(o.relative_to(folder)) for o in self._own if o.is_relative_to(folder)],
        )
        root.prepare()
        self._roots[path] = root
        return root

    def _place_of(self, path: str) -> Path:
        key = hashlib.sha256(os.fsencode(path)).hexdigest()[:16] if path else "main"
        return self.place / "roots" / key

    def _mended(self, work: Callable[[], T]) -> T:
        """Do what needs a sound shadow: one that is damaged is set aside and begun anew."""
        try:
            return work()
        except GitFailedError as error:
            first = error
        if _OF_INDEX.search(first.said):  # it is made anew from the files
            for index in (self.place / "roots").glob("*/git/index"):
                index.unlink()
            self._roots.clear()
            try:
                return work()
            except GitFailedError as error:
                first = error
        if not is_damaged(lambda: self.root(""), self.place):
            raise first
        aside = self.place.with_name(f"{self.place.name}.broken-{self._new_id()}")
        (self.place / "roots").rename(aside)
        self._roots.clear()
        self.journal.abandon()
        self.notes.append(
            f"what was kept of this folder is damaged ({first.said}): it was set aside as {aside}, "
            "with the snapshots in it, and begun anew"
        )
        return work()

    def _take(
        self,
        about: About,
        target: Snapshot | None = None,
        *,
        unquiet: Callable[[], tuple[str, ...]] = tuple,
        may_be_known: bool = False,
    ) -> Snapshot:
        """Keep the folder as it is now; what a restore of `target` would overwrite included."""
        taken = replace(self._capture(target, about), unquiet=unquiet())
        known = newest_like(self._kept(), taken) if may_be_known else None
        return known or self._keep(taken)

    def new_act(self, kind: str, session: str | None, what: str = "") -> Act:
        """Return an act that is about to be done, for those who are `at_work`."""
        id_, seen = self._new_id(), self._newest_number()
        return Act(id=id_, kind=kind, at=self._now(), seen=seen, session=session, what=what)

    def _newest_number(self) -> int:
        """Return the number of the newest snapshot, also of one that was deleted since an act."""
        last = self.acts.last()
        numbers = (one.number for one in self._mended(self._kept))
        return max(0 if last is None else last.seen, *numbers, 0)

    def _needed(self) -> set[str]:
        acts = (act for act in reversed(self.acts.all()) if act.target is not None)
        last = next(acts, None)
        return set() if last is None or last.target is None else {last.safety, last.target}

    def _keep(self, snapshot: Snapshot) -> Snapshot:
        snapshot = replace(snapshot, number=1 + self._newest_number())
        for state in reversed(snapshot.roots):  # the folder itself last: then there is a snapshot
            keep_root(self.root(state.path), state, snapshot)
        return snapshot

    def _capture(self, target: Snapshot | None = None, about: About | None = None) -> Snapshot:
        """Store the folder as it is now, but keep no snapshot of it."""
        states: list[RootState] = []
        skipped: list[Skipped] = []
        notes: list[str] = []
        paths = [""]
        while paths:
            path = paths.pop(0)
            state, nested, left_out, told = self._capture_root(path, target)
            states.append(state)
            skipped += [Skipped(joined(path, s.path), s.reason, s.size) for s in left_out]
            notes += told
            paths += [joined(path, one) for one in nested]
            if len(states) + len(paths) > MOST:
                skipped += [Skipped(one, f"more than {MOST} repositories") for one in paths[1:]]
                paths = []
        return Snapshot(
            id=self._new_id(),
            created_at=self._now(),
            **(about or About())._asdict(),
            folder=str(self.folder),
            roots=tuple(states),
            skipped=tuple(skipped[:MOST_SKIPPED]),
            skipped_count=len(skipped),
            notes=tuple(notes),
        )

    def _capture_root(self, path: str, target: Snapshot | None) -> Captured:
        root = self.root(path)
        captured = root.capture()
        wanted = None if target is None else target.root(path)
        if target is None or wanted is None:
            return captured
        changes = root.compare(captured.state.tree, wanted.tree)
        tops = roots_below(target, path)
        if forced := restoring.in_the_way(root, changes, tops):
            captured = root.capture(forced)
            restoring.check_stored(forced, [one.path for one in captured.skipped])
        # What is ignored now was a root then, too.
        nested = sorted({*captured.nested, *roots_among(root.folder, tops)})
        return captured._replace(nested=nested)

    def _restore(
        self, target: Snapshot, with_staging: bool, then: Owed | None, spare: Spare | None
    ) -> Restored:
        self.journal.require_nothing_owed()
        for state in target.roots:
            if self.has_root(state.path):
                restoring.check_index(self.root(state.path))
        about = About(kind=SAFETY, description=f"before {target.id} was restored")
        safety = self._mended(lambda: self._take(about, target))
        wanted = self._find(target.id)  # it may have been set aside
        spared = self._spared(wanted, safety, spare)
        target = wanted if spared.target == wanted else self._keep(spared.target)
        restoring.check_plan(self.root, plan_all(self.root, target, safety))
        number = wanted.number
        intent = Intent(target.id, safety.id, self._now(), with_staging, then, number)
        self.journal.begin(intent)
        try:
            restored = write_all(self.folder, self.root, target, safety, with_staging=with_staging)
        except (PrsmError, OSError) as error:
            raise self._taken_back(safety, error) from error
        self._finish(target, safety, intent)
        needed, old = self._needed(), [one for one in self._kept() if one.kind == SAFETY]
        self._drop(one for one in old[KEPT_SAFETY:] if one.id not in needed)
        plan = replace(restored.plan, snapshot=wanted, spared=spared.files, stays=spared.stays)
        return replace(restored, plan=plan)

    def _spared(self, target: Snapshot, now: Snapshot, spare: Spare | None) -> _Spared:
        if spare is None:
            return _Spared(target)
        roots: list[RootState] = []
        files: list[str] = []
        stays: list[Left] = []
        for state in target.roots:
            before = now.root(state.path)
            if before is not None:
                root = self.root(state.path)
                said = spare(root, plan_root(root, before, state))
                files += [joined(state.path, path) for path in (*said.files, *said.modes)]
                stays += said.stays
                state = root.altered(state, said, self._new_id())
            roots.append(state)
        if tuple(roots) == target.roots:
            return _Spared(target, (), tuple(stays))
        made = replace(
            target,
            id=self._new_id(),
            created_at=self._now(),
            kind=SAFETY,
            description=f"{target.id}, but for what stays as it is",
            roots=tuple(roots),
        )
        left = {one.path for one in stays}
        spared = tuple(path for path in dict.fromkeys(files) if path not in left)
        return _Spared(made, spared, tuple(stays))

    def _finish(self, target: Snapshot, safety: Snapshot, intent: Intent) -> None:
        name = f"restore {safety.id} {intent.begun_at}"
        note_restored(self.place, self.root, name, safety, target)  # first: a crash does it again
        number = target.number if intent.number is None else intent.number
        verdicts = as_of(self.acts.all(), number)
        undone = self.acts.find(target.id) if target.kind == SAFETY else None
        act = Act(
            id=safety.id,
            kind=RESTORE if undone is None else UNDO,
            at=self._now(),
            seen=safety.number,
            what=target.description,
            undoes=None if undone is None else undone.id,
            verdicts=verdicts,
            owed=owed_by(verdicts),
            target=target.id,
            then=intent.then,
        )
        self.acts.add(act)
        self.journal.finish(intent.then)

    def _taken_back(self, safety: Snapshot, error: PrsmError | OSError) -> PrsmError:
        """Undo what a failed restore has done; return the error that tells of both."""
        what = error.message if isinstance(error, PrsmError) else f"{error.strerror or error}"
        try:
            now = self._capture(safety)
            write_all(self.folder, self.root, safety, now, with_staging=True)
        except (PrsmError, OSError) as second:
            return ConfigError(
                f"the restore failed ({what}), and could not be taken back ({second})",
                hint="mend the cause, such as a full disk or a read-only folder; the next command "
                "of prsm in this folder then finishes it",
            )
        self.journal.abandon()
        return ConfigError(
            f"the restore failed, and all files are as they were: {what}",
            hint="mend the cause, such as a full disk or a read-only folder, and try again",
        )

    def _recover(self) -> None:
        intent = self.journal.intent()
        if intent is None:
            return
        self._roots.clear()
        try:
            target, safety = self._find(intent.target), self._find(intent.safety)
        except ConfigError:
            self.journal.abandon()
            self.notes.append(
                f"a restore of {intent.target} was cut off, and cannot be finished: its snapshots "
                "are gone; look at the files with `git status`"
            )
            return
        rescue = ""
        for last in (False, False, True):
            now = self._mended(lambda: self._capture(target))
            rescue = rescue or self._rescued(now, target, safety)
            try:
                write_all(self.folder, self.root, target, now, with_staging=intent.with_staging)
            except GitFailedError as error:  # a file was written since, by what still ends
                if last:
                    raise self._taken_back(safety, error) from error
            except (PrsmError, OSError) as error:
                raise self._taken_back(safety, error) from error
            else:
                break
        self._finish(target, safety, intent)
        self.notes.append(f"a restore of {target.id} that was cut off is finished{rescue}")

    def _rescued(self, now: Snapshot, target: Snapshot, safety: Snapshot) -> str:
        strange = count_strange(self.root, now, (safety, target))
        if not strange:
            return ""
        what = f"what a cut-off restore of {target.id} had left"
        kept = self._keep(replace(now, kind=RESCUE, description=what))
        return f"; {strange} files were neither old nor new, and are kept in {kept.id}"

    def _drop(self, snapshots: Iterable[Snapshot]) -> None:
        for snapshot in snapshots:
            # The folder itself first: then there is none.
            for place in (self._place_of(state.path) for state in snapshot.roots):
                if place.is_dir():
                    stored_at(self._git, place).run("update-ref", "-d", f"{REFS}{snapshot.id}")


def _secure(root: Root, snapshots: tuple[str, ...], heads: Collection[str]) -> int:
    """Take in what snapshots borrow and git may throw away; return how many objects it was.

    Where something is lost, what is borrowed still is so from what refs lead to now: their tips are
    noted, and watched from then on like the commits that were checked out. So each loss is seen.
    """
    if root.repository is None:
        return 0
    file = root.place / _NOTE
    # Nothing was done before, or it cannot be read: then it is done again.
    note = read_json(file, _Secured) or _Secured()
    if root.has_repository_inside:
        # Who removes the folder removes the repository, too: all that is borrowed is taken in.
        done = {*note.snapshots} & {*snapshots}
        if note.snapshots == snapshots:
            return 0
        count = _take(root, [one for one in snapshots if one not in done], done, ())
        put_json(file, _Secured(snapshots))
        return count
    lost = _lost(root, {*heads, root.borrowed_from, *note.relied} - {""})
    if not lost or (note.lost == lost and note.snapshots == snapshots):
        return 0
    # Of snapshots that this was done for, all is there; of others, what those do not share.
    safe = {*note.snapshots} & {*snapshots} if note.lost == lost else set()
    tips = _words(root.person.run("rev-list", "--no-walk", "--ignore-missing", "--all"))
    count = _take(root, [one for one in snapshots if one not in safe], safe, tips)
    still = _lost(root, {*heads, root.borrowed_from, *tips} - {""})
    put_json(file, _Secured(snapshots, still, tuple(tips)))
    return count


def _take(root: Root, snapshots: Iterable[str], safe: Iterable[str], tips: Iterable[str]) -> int:
    """Take in what snapshots borrow, that neither those which are safe nor tips have."""
    borrowed = _borrowed(root, snapshots, safe, tips)
    if borrowed:
        packs = root.shadow.path / "objects" / "pack"
        packs.mkdir(parents=True, exist_ok=True)
        root.shadow.run("pack-objects", "-q", str(packs / "pack"), stdin=as_lines(borrowed))
    return len(borrowed)


def _lost(root: Root, commits: Collection[str]) -> tuple[str, ...]:
    if not commits:
        return ()
    look = partial(root.person.run, "rev-list", "--ignore-missing", "--stdin")
    there = {*_words(look("--no-walk", stdin=as_lines(commits)))}
    unreached = {*_words(look("--not", "--all", stdin=as_lines(commits)))} if there else set()
    return tuple(sorted(one for one in commits if one not in there or one in unreached))


def _borrowed(
    root: Root, snapshots: Iterable[str], safe: Iterable[str], tips: Iterable[str]
) -> list[str]:
    """Return the objects of snapshots that are there, but neither the shadow nor a tip has them."""
    wanted = [f"{REFS}{one}" for one in snapshots]
    # Trees, for of a commit that has nothing to do with a snapshot's git compares none.
    kept = [f"^{one}^{{tree}}" for one in (*tips, *(f"{REFS}{one}" for one in safe))]
    how = ("--no-object-names", "--ignore-missing", "--missing=allow-any", "--stdin")
    needed = root.shadow.run("rev-list", "--objects", *how, stdin=as_lines([*wanted, *kept]))
    foreign = root.shadow.missing(_words(needed), alone=True)
    gone = {*root.shadow.missing(foreign)}
    return [one for one in foreign if one not in gone]


def _words(out: bytes) -> list[str]:
    return out.decode("ascii").split()


REFS = "refs/prsm/"
_BROKEN = re.compile(rb"ignoring (?:broken|dangling) \S+ " + REFS.encode() + rb"(\S+)")
_PROBED = 64 << 10  # bytes; an object that git writes to try is smaller

_DAY = 86_400.0


def keep_root(root: Root, state: RootState, snapshot: Snapshot) -> None:
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


def read_snapshots(root: Root, notes: list[str]) -> list[Snapshot]:
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


def find_snapshot(snapshots: Sequence[Snapshot], wanted: str) -> Snapshot:
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
    """Return whether a shadow cannot be read, or written, though the disk takes more."""
    try:
        root = main()
        read_snapshots(root, [])
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
    """Return those of snapshots, newest first, that go; the older half if too much is `stored`."""
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
