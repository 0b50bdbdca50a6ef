"""Finds what changed in a folder between two looks at it; its owner says when to look.

What a scan found is known from now on only once its owner has stored it (`settle`). So whoever goes
on after a crash finds a change again, and none twice.
"""

from __future__ import annotations

import itertools
import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from prsm_files.changes.attribution import Found, could_make
from prsm_files.changes.looking import Known, RootLook
from prsm_files.changes.splitting import Part, split
from prsm_files.shadow.files import put_json, read_json
from prsm_files.shadow.git import GitFailedError, as_lines
from prsm_files.shadow.place import MOST, roots_among
from prsm_files.shadow.records import FILE, FILE_BYTES, LINK, Entry, joined
from prsm_files.shadow.trackers import (
    KNOWN,
    REFS,
    TRACKERS,
    WRITTEN,
    Writings,
    base_of,
    name_of,
    read_written,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from prsm_files.changes.attribution import Edit, WritingCall
    from prsm_files.shadow.git import GitDir
    from prsm_files.shadow.records import Change
    from prsm_files.shadow.worktree import Shadow

_REFRESH_EVERY = 50  # scans: files that were written anew as they were are else read by each
_LEARNED = 50  # acts of PRSM that are kept in mind
_Done = TypeVar("_Done")
MUCH = 2000  # paths beside an index, from which on they are taken into it


class Scan(NamedTuple):
    """What a look at the whole folder has found; nothing is known anew before it is settled."""

    id: str
    found: Sequence[Found]
    notes: tuple[str, ...] = ()


class _Moment(NamedTuple):
    began: int
    ended: int
    entry: Entry | None
    written_at: float | None = None  # Unix seconds, by the kernel
    is_ours: bool = False  # PRSM has written it: how it came to be is nobody's change


class _Known(Struct):
    known: dict[str, Known] = {}  # of what is not as in the index
    seen: dict[str, list[_Moment]] = {}  # by path, the first as the last scan left it,
    unsure: set[str] = set()  # … but for these, of which the index tells that


class _State(Struct):
    scan: str  # by which it came to be known
    roots: dict[str, _Known]
    learned: list[str]  # acts by which PRSM itself wrote: each is learned once
    written: Writings = {}  # what is learned again, since this was written


class _Root:
    def __init__(self, path: str, look: RootLook, now: _Known) -> None:
        self.path = path
        self.look = look
        self.now = now

    def copied(self) -> _Root:
        now = self.now
        seen = {path: list(moments) for path, moments in now.seen.items()}
        return _Root(self.path, self.look, _Known(dict(now.known), seen, set(now.unsure)))


class Tracker:
    """Knows a folder as it was at the last look; every method blocks, and one runs at a time."""

    def __init__(
        self,
        shadow: Shadow,
        name: str,
        *,
        tick: Callable[[], int],
        new_id: Callable[[], str],
        file_bytes: int = FILE_BYTES,
        much: int = MUCH,
    ) -> None:
        self.shadow = shadow
        self._name = name
        self.place = shadow.place / TRACKERS / name_of(name)
        self._tick = tick
        self._new_id = new_id
        self._file_bytes = file_bytes
        self._much = much
        self._roots: dict[str, _Root] = {}
        self._looked = 0  # when the last scan began
        self._count = 0  # scans
        self._known, self._pending = self.place / KNOWN, self.place / "pending.json"
        self._written = self.place / WRITTEN
        self._learned: list[str] = []  # what PRSM itself wrote, by acts: each is learned once

    @property
    def has_begun(self) -> bool:
        """Whether a folder is known from before, perhaps by a process that has died."""
        return self._known.exists()

    def use(self, shadow: Shadow) -> None:
        """Go on with another shadow of the same folder: its git may be another process."""
        if shadow is not self.shadow:
            self.shadow = shadow
            for path, root in self._roots.items():
                if shadow.has_root(path):  # else the next scan tells that it is gone
                    root.look.git = shadow.root(path).shadow

    def begin(self) -> None:
        """Take the folder as it is now as the beginning. Raises PrsmError."""
        with self.shadow.at_work():
            self._wholly(self._begin)

    def _begin(self) -> None:
        roots = self.shadow.now().roots
        self._looked = self._tick()
        self.place.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._pending.unlink(missing_ok=True)
        self._written.unlink(missing_ok=True)
        self._roots.clear()
        for state in roots:
            one = self._add(state.path)
            one.look.begin()
            one.look.git.run("update-ref", base_of(self._name), state.tree)
        self._write(self._known, "")

    def go_on(self, is_stored: Callable[[str], bool]) -> None:
        """Know what a dead process knew, with scans whose changes are stored; else begin."""
        with self.shadow.at_work():
            pending = read_json(self._pending, _State)
            if pending is not None and is_stored(pending.scan):
                self._pending.replace(self._known)
            self._pending.unlink(missing_ok=True)
            state = read_json(self._known, _State)
            if state is None:
                self._begin()
                return
            self._looked = 0
            self._learned = state.learned
            self._roots.clear()
            for path, known in state.roots.items():
                if self.shadow.has_root(path):
                    for moments in known.seen.values():  # all were before those of this process
                        moments[:] = [one._replace(began=0, ended=0) for one in moments]
                    self._add(path, known)
            self._learn(state.written)

    def end(self) -> None:
        """Know nothing any more: all that was found is stored, and nobody goes on with it."""
        with self.shadow.at_work():
            for file in (self._known, self._pending, self._written):
                file.unlink(missing_ok=True)

    def _learn(self, before: Writings | None = None) -> None:
        """Take note of what PRSM itself wrote: nobody's change. After a crash that is `before`."""
        new = read_written(self._written)
        if new:
            state = read_json(self._known, _State)
            if state is not None:
                put_json(self._known, replace(state, written={**state.written, **new}))
        for act, written in {**(before or {}), **new}.items():
            if act not in self._learned:
                self._learned = [*self._learned[-_LEARNED:], act]
                for path in dict.fromkeys(one.root for one in written):
                    if path in self._roots and self.shadow.has_root(path):
                        mine = [one for one in written if one.root == path]
                        self._adopt(self._roots[path], mine)
        if new:
            self._written.unlink()

    def _adopt(self, root: _Root, written: Sequence[Change]) -> None:
        ignored = self._ignored(root, [one.path for one in written])
        # A restore writes an ignored file where another is to be.
        ours = [one for one in written if one.path not in ignored]
        hold(root.look.git, f"{self._ref}/ours", ours)
        for one in ours:
            moment = self._tick()
            self._saw(root, one.path, _Moment(moment, moment, one.before))
            self._saw(root, one.path, _Moment(moment, moment, one.after, is_ours=True))
            root.now.known[one.path] = Known(one.after, None, is_young=True)

    def _ignored(self, root: _Root, paths: Sequence[str]) -> set[str]:
        return root.look.ignored([path for path in paths if path not in root.now.known])

    def observe(self, paths: Iterable[str]) -> None:
        """Look at files now, from the top, so that before is told from after. Raises PrsmError."""
        if self._written.exists():
            with self.shadow.at_work():
                self._learn()
        for root, names in self._by_root(paths).items():
            self._observe(root, names)

    def _observe(self, root: _Root, paths: Sequence[str]) -> None:
        ignored = self._ignored(root, paths)
        began = self._tick()
        now = root.look.now([path for path in paths if path not in ignored], root.now.known)
        ended, looked_at = self._tick(), time.time()
        for path, known in now.items():
            written_at = _believed(known.written_at, looked_at)
            self._saw(root, path, _Moment(began, ended, known.entry, written_at))
            root.now.known[path] = known

    def _saw(self, root: _Root, path: str, moment: _Moment) -> None:
        """Take note of what stood at a path, behind what the last scan has left there."""
        now = root.now
        if path not in now.seen:
            now.seen[path] = []
            if path in now.known:
                was = now.known[path].entry
                now.seen[path].append(_Moment(self._looked, self._looked, was))
            else:
                now.unsure.add(path)
        now.seen[path].append(moment)

    def scan(self, calls: Sequence[WritingCall] = ()) -> Scan:
        """Find what has changed since the last scan, and store it. Raises PrsmError, and OSError.

        Edits of the `calls` tell parts of a change apart. What cannot be stored, as on a full disk,
        the next scan finds. If what was known is lost, all begins anew, as a note says.
        """
        with self.shadow.at_work():
            said = ""
            for _ in range(2):  # once may be by chance
                try:
                    self._wholly(self._learn)
                    return self._wholly(lambda: self._scan(calls))
                except GitFailedError as error:
                    said = error.said
            self._wholly(self._begin)
            note = f"what was known of the files is damaged ({said}), and begun anew: "
            return Scan("", [], (f"{note}changes since the last look are not told",))

    def _wholly(self, work: Callable[[], _Done]) -> _Done:
        roots = {path: root.copied() for path, root in self._roots.items()}
        looked, learned = self._looked, self._learned
        try:
            return work()
        except BaseException:
            self._roots, self._looked, self._learned = roots, looked, learned
            raise

    def _scan(self, calls: Sequence[WritingCall]) -> Scan:
        scan, began = self._new_id(), self._tick()
        self._count += 1
        if self._count % _REFRESH_EVERY == 0:
            for root in self._roots.values():
                root.look.refresh()
        found: list[Found] = []
        notes: list[str] = []
        paths = list(self._roots)
        while paths:
            path = paths.pop(0)
            if path and not self.shadow.has_root(path):
                del self._roots[path]
                notes.append(f"the repository {path} is gone; its files are not told one by one")
                continue
            new, tops = self._scan_root(self._roots[path], scan, calls)
            found += new
            paths += self._more_roots(path, tops, notes)
        self._looked = began
        if found:
            self._write(self._pending, scan)
        return Scan(scan, found, tuple(notes))

    def _more_roots(self, path: str, tops: Sequence[str], notes: list[str]) -> list[str]:
        new = []
        for top in roots_among(self.shadow.folder / path, tops):
            name = joined(path, top)
            if name in self._roots:
                continue
            if len(self._roots) >= MOST:
                notes.append(f"{name} is not looked at: there are {MOST} repositories already")
                continue
            self._add(name)
            new.append(name)
        return new

    def _scan_root(
        self, root: _Root, scan: str, calls: Sequence[WritingCall]
    ) -> tuple[list[Found], list[str]]:
        look, known, seen = root.look, root.now.known, root.now.seen
        differing = look.differing(known)
        paths = dict.fromkeys((*differing.changed, *differing.others, *known))
        now = look.now(paths, known)
        ended, looked_at = self._tick(), time.time()
        strange = [path for path in differing.changed if path in now and path not in known]
        base = look.in_index([*strange, *root.now.unsure])
        found: list[Found] = []
        for path in dict.fromkeys((*now, *seen)):
            moments = seen.pop(path, [])
            if path in root.now.unsure or not moments:
                is_known = path in known and not moments
                was = known[path].entry if is_known else base.get(path)
                moments.insert(0, _Moment(self._looked, self._looked, was))
            if path in now:
                written_at = _believed(now[path].written_at, looked_at)
                moments.append(_Moment(ended, ended, now[path].entry, written_at))
                known[path] = now[path]
            found += _segments(root.path, path, moments)
        root.now.unsure.clear()
        found = explained(look.git, found, calls)
        return kept(look.git, f"{self._ref}/{scan}", found), differing.tops

    def settle(self, scan: Scan) -> None:
        """Note that what a scan has found is stored. Raises OSError, and PrsmError."""
        if scan.found:
            self._pending.replace(self._known)
            much = [root for root in self._roots.values() if len(root.now.known) > self._much]
            if much:
                # Now that it is stored none of it is lost. Where it fails the next one tries again.
                with self.shadow.at_work(), suppress(GitFailedError):
                    for root in much:
                        root.now.known = root.look.fold(root.now.known)
                    self._write(self._known, "")

    def place_of(self, path: str) -> str | None:
        """Return a path, absolute, from the top of the folder; None: it is not in it."""
        top = os.path.realpath(self.shadow.folder)
        parent, name = os.path.split(path)
        place = os.path.join(os.path.realpath(parent), name)  # noqa: PTH118
        return os.path.relpath(place, top) if place.startswith(f"{top}/") else None

    def _by_root(self, paths: Iterable[str]) -> dict[_Root, list[str]]:
        found: dict[_Root, list[str]] = {}
        tops = sorted(filter(self.shadow.has_root, self._roots), key=len, reverse=True)
        for path in dict.fromkeys(paths):
            if ".git" in path.split("/"):
                continue
            top = next(one for one in tops if not one or path.startswith(f"{one}/"))
            found.setdefault(self._roots[top], []).append(path[len(top) :].lstrip("/"))
        return found

    def _add(self, path: str, known: _Known | None = None) -> _Root:
        shadow = self.shadow.root(path)
        index = self.place / f"{shadow.place.name}.index"
        look = RootLook(shadow.shadow, index, self._file_bytes, shadow.hidden)
        one = self._roots[path] = _Root(path, look, known or _Known())
        return one

    @property
    def _ref(self) -> str:
        return f"{REFS}/{self.place.name}"

    def _write(self, file: Path, scan: str) -> None:
        roots = {path: root.now for path, root in self._roots.items()}
        put_json(file, _State(scan, roots, self._learned))


def _segments(top: str, path: str, moments: Sequence[_Moment]) -> list[Found]:
    return [
        Found(
            path=joined(top, path),
            root=top,
            before=old.entry,
            after=new.entry,
            since=old.began,
            until=new.ended,
            written_at=new.written_at,
        )
        for old, new in itertools.pairwise(moments)
        if old.entry != new.entry and not new.is_ours
    ]


def _believed(written_at: float | None, looked_at: float) -> float | None:
    return None if written_at is None or written_at > looked_at else written_at


_LARGEST = 4 * 2**20  # bytes of a text that is looked into


class _Maker(NamedTuple):
    call: WritingCall
    edit: Edit


class _Step(NamedTuple):
    before: bytes | None
    after: bytes | None
    by: tuple[WritingCall, ...] = ()


def explained(git: GitDir, found: Sequence[Found], calls: Sequence[WritingCall]) -> list[Found]:
    """Return changes, each in parts of different origin, as far as edits explain it."""
    makers = [_makers(one, calls) if _is_text(one) else [] for one in found]
    asked = [one for one, mine in zip(found, makers, strict=True) if mine]
    if not asked:
        return list(found)
    # The changes by which files went that are moved.
    moves = {maker.edit.source for mine in makers for maker in mine}
    sources = {one.path: one for one in found if one.path in moves and _is_text(one)}
    texts = _texts(git, [*asked, *sources.values()])
    parts: list[Found] = []
    for one, mine in zip(found, makers, strict=True):
        if not mine or not {one.before, one.after} <= texts.keys():
            parts.append(one)
            continue
        moved = {path: texts.get(source.before) for path, source in sources.items()}
        steps = _explain(texts[one.before], texts[one.after], mine, moved)
        parts += _parts(git, one, steps)
    return parts


def _makers(one: Found, calls: Sequence[WritingCall]) -> list[_Maker]:
    able = sorted((call for call in calls if could_make(call, one)), key=lambda call: call.began)
    return [_Maker(call, edit) for call in able for edit in call.edits if edit.path == one.path]


def _is_text(one: Found) -> bool:
    return all(
        entry is None or (entry.mode != LINK and entry.blob) for entry in (one.before, one.after)
    )


def _texts(git: GitDir, found: Iterable[Found]) -> dict[Entry | None, bytes | None]:
    entries = {entry for one in found for entry in (one.before, one.after) if entry is not None}
    asked = as_lines(sorted({entry.blob for entry in entries}))
    sizes = [
        line.split() for line in git.run("cat-file", "--batch-check", stdin=asked).splitlines()
    ]
    fit = [words[0] for words in sizes if words[-1].isdigit() and int(words[-1]) <= _LARGEST]
    told = git.run("cat-file", "--batch", stdin=b"".join(blob + b"\n" for blob in fit))
    blobs: dict[str, bytes] = {}
    place = 0
    for blob in fit:
        end = told.index(b"\n", place) + 1
        size = int(told[place:end].split(b" ")[2])
        blobs[blob.decode("ascii")] = told[end : end + size]
        place = end + size + 1
    texts: dict[Entry | None, bytes | None] = {None: None}
    texts.update((entry, blobs[entry.blob]) for entry in entries if entry.blob in blobs)
    return texts


def _explain(
    before: bytes | None,
    after: bytes | None,
    makers: Sequence[_Maker],
    moved: Mapping[str, bytes | None],
) -> list[_Step]:
    whole = _Step(before, after)
    alone: dict[int, WritingCall] = {}
    for call in {maker.call.began: maker.call for maker in makers}.values():
        own = [maker for maker in makers if maker.call is call]
        if all(step.by for step in _steps(whole, own, moved)):
            alone[call.began] = call
    if alone:
        return [whole._replace(by=tuple(reversed(alone.values())))]
    return _steps(whole, makers, moved)


def _steps(
    whole: _Step, makers: Sequence[_Maker], moved: Mapping[str, bytes | None]
) -> list[_Step]:
    steps = [whole]
    for maker in makers:
        steps = [
            new for step in steps for new in ([step] if step.by else _split(step, maker, moved))
        ]
    return steps


def _split(step: _Step, maker: _Maker, moved: Mapping[str, bytes | None]) -> list[_Step]:
    before, edit = step.before, maker.edit
    if before is None and edit.source is not None:
        before = moved.get(edit.source)
    parts = split(before, step.after, edit) or [Part(step.after, is_explained=True)]
    steps: list[_Step] = []
    text = step.before
    for part in parts:
        steps.append(_Step(text, part.text, (maker.call,) if part.is_explained else ()))
        text = part.text
    return steps


def _parts(git: GitDir, one: Found, steps: Sequence[_Step]) -> list[Found]:
    mode = FILE if one.before is None else one.before.mode
    parts: list[Found] = []
    old = one.before
    for number, step in enumerate(steps, 1):
        if number == len(steps):
            new = one.after if one.after is None or not step.by else replace(one.after, mode=mode)
        else:
            new = None if step.after is None else Entry(mode, git.store(step.after))
        parts.append(replace(one, before=old, after=new, by=step.by, written_at=None))
        old = new
    if old != one.after:
        parts.append(replace(one, before=old, by=(), written_at=None))
    last = replace(parts[-1], written_at=one.written_at)
    return [part for part in (*parts[:-1], last) if part.before != part.after]


def kept(git: GitDir, ref: str, found: Sequence[Found]) -> list[Found]:
    """Keep what changes hold, as two trees of files named by number, and count their lines."""
    if not found:
        return []
    old, new = _trees(git, found)
    lines = f"update {ref}/before {old}\nupdate {ref}/after {new}\n"
    git.run("update-ref", "--stdin", stdin=lines.encode("ascii"))
    options = ("-z", "--numstat", "--no-renames", "--no-ext-diff", "--no-textconv")
    counts: dict[int, tuple[int | None, int | None]] = {}
    for line in git.run("diff-tree", *options, old, new).split(b"\0"):
        if line:
            *words, name = line.split(b"\t")
            added, removed = (int(count) if count.isdigit() else None for count in words)
            counts[int(name)] = added, removed
    all_ = []
    for number, one in enumerate(found):
        is_whole = all(entry is None or entry.blob for entry in (one.before, one.after))
        added, removed = counts.get(number, (0, 0)) if is_whole else (None, None)
        all_.append(replace(one, added=added, removed=removed))
    return all_


def hold(git: GitDir, ref: str, written: Sequence[Change]) -> None:
    """Keep what PRSM itself has written, and what it replaced: changes that come name it."""
    for tree in _trees(git, written):
        git.run("update-ref", f"{ref}/{tree}", tree)


def _trees(git: GitDir, found: Sequence[Found | Change]) -> tuple[str, str]:
    old = _lines(one.before for one in found)
    new = _lines(one.after for one in found)
    made = git.run("mktree", "--batch", "--missing", stdin=old + b"\n" + new + b"\n")
    before, after = made.decode("ascii").split()
    return before, after


def _lines(sides: Iterable[Entry | None]) -> bytes:
    lines = [
        f"{FILE} blob {entry.blob}\t{number}\n"  # of links, too: it is their text that counts
        for number, entry in enumerate(sides)
        if entry is not None and entry.blob
    ]
    return "".join(lines).encode("ascii")
