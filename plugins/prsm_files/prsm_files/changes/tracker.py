"""Finds what changed in a folder between two looks at it; its owner says when to look.

A scan is two things: what it found, and that all of it is known from now on. The second is written
once its owner has stored the first (`settle`), so that whoever goes on after a crash finds a change
again, or never twice.

Tells of what became of files which part the edits of calls explain; the parts are stored.

What changes hold, in the git directory of their root: lines counted, contents kept.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from msgspec.structs import replace

from prsm_files.changes.attribution import could_make
from prsm_files.changes.forgetting import REFS, base_of, name_of
from prsm_files.changes.looking import Known, RootLook
from prsm_files.changes.records import FILE, FILE_BYTES, LINK, Entry, Found, Written
from prsm_files.changes.splitting import Part, split
from prsm_files.shadow.files import put
from prsm_files.shadow.git import GitFailedError
from prsm_files.shadow.place import MOST, roots_among
from prsm_files.shadow.records import joined
from prsm_files.shadow.written import KNOWN, TRACKERS, WRITTEN, parsed, read_written

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from prsm_files.changes.records import WritingCall
    from prsm_files.changes.splitting import Edit
    from prsm_files.shadow.git import GitDir
    from prsm_files.shadow.worktree import Shadow
    from prsm_files.shadow.written import Acts, Content, Writing

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
    """What stood at a path, seen at some time between two moments."""

    began: int
    ended: int
    entry: Entry | None
    written_at: float | None = None  # Unix seconds, by the kernel
    is_ours: bool = False  # PRSM has written it: how it came to be is nobody's change


class _Root:
    """One root: what is known of it, and what was seen since the last scan."""

    def __init__(self, look: RootLook) -> None:
        self.look = look
        self.known: dict[str, Known] = {}  # of what is not as in the index
        self.seen: dict[str, list[_Moment]] = {}  # by path, the first as the last scan left it,
        self.unsure: set[str] = set()  # … but for these, of which the index tells that

    def copied(self) -> _Root:
        other = _Root(self.look)
        other.known, other.unsure = dict(self.known), set(self.unsure)
        other.seen = {path: list(moments) for path, moments in self.seen.items()}
        return other


class Tracker:
    """Knows a folder as it was at the last look; every method blocks, and one runs at a time.

    Args:
        shadow: Of the folder; contents are stored in it.
        name: Of whoever it is for, such as a session: each has an index of its own.
        tick: Counts moments up.
        new_id: Returns random hex digits.
        file_bytes: Contents of larger files are not kept.
        much: How many paths are known beside an index before they are taken into it.
    """

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
                    root.look.root = shadow.root(path)

    def begin(self) -> None:
        """Take the folder as it is for what it always was. Raises PrsmError."""
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
            one.look.root.shadow.run("update-ref", base_of(self._name), state.tree)
        self._write(self._known, "")

    def go_on(self, is_stored: Callable[[str], bool]) -> None:
        """Know what was known by a process that has died; begin where that cannot be.

        `is_stored` tells whether the changes that the scan of an id found were stored.
        """
        with self.shadow.at_work():
            pending = _read(self._pending)
            if pending is not None and is_stored(pending["scan"]):
                self._pending.replace(self._known)
            self._pending.unlink(missing_ok=True)
            given = _read(self._known)
            if given is None:
                self._begin()
                return
            self._looked = 0
            self._learned = list(given.get("learned", ()))
            self._roots.clear()
            for path, known in given["roots"].items():
                if self.shadow.has_root(path):
                    root = self._add(path)
                    root.known.update((p, _known(one)) for p, one in known.items())
                    seen = given.get("seen", {}).get(path, {})
                    root.seen.update(
                        (p, [_moment(one) for one in all_]) for p, all_ in seen.items()
                    )
                    root.unsure.update(given.get("unsure", {}).get(path, ()))
            self._learn(parsed(given.get("written", {})))

    def end(self) -> None:
        """Know nothing any more: all that was found is stored, and nobody goes on with it."""
        with self.shadow.at_work():
            for file in (self._known, self._pending, self._written):
                file.unlink(missing_ok=True)

    def _learn(self, before: Acts | None = None) -> None:
        """Know what PRSM itself has written since: that is nobody's change.

        What was there before, and whatever others have written since, is told by the next scan.
        What is learned stands beside what is known, for whoever goes on after a crash: it had
        learned that `before`, and learns it again.
        """
        new = read_written(self._written)
        if new:
            known = _read(self._known)
            if known is not None:
                self._put(self._known, {**known, "written": {**known.get("written", {}), **new}})
        for act, written in {**(before or {}), **new}.items():
            if act not in self._learned:
                self._learned = [*self._learned[-_LEARNED:], act]
                for path, contents in written.items():
                    if path in self._roots and self.shadow.has_root(path):
                        self._adopt(self._roots[path], contents)
        if new:
            self._written.unlink()

    def _adopt(self, root: _Root, written: Mapping[str, Writing]) -> None:
        """Take note of what an act has written; what others made of it since, a scan finds."""
        ignored = root.look.ignored([path for path in written if path not in root.known])
        ours = [
            Written(path=name, before=_content(old), after=_content(new))
            for name, (old, new) in written.items()
            if name not in ignored  # a restore writes such a file where another is to be
        ]
        hold(root.look.root.shadow, f"{self._ref}/ours", ours)
        for one in ours:
            moment = self._tick()
            self._saw(root, one.path, _Moment(moment, moment, one.before))
            self._saw(root, one.path, _Moment(moment, moment, one.after, is_ours=True))
            root.known[one.path] = Known(one.after, None, is_young=True)

    def observe(self, paths: Iterable[str]) -> None:
        """Look at some files now, so that what was before is told from what comes after.

        Paths are from the top of the folder. What git ignores is not looked at. Raises PrsmError.
        """
        if self._written.exists():
            with self.shadow.at_work():
                self._learn()
        for root, names in self._by_root(paths).items():
            self._observe(root, names)

    def _observe(self, root: _Root, paths: Sequence[str]) -> None:
        """Read no index: what it says of files that were not known is asked by the next scan."""
        look = root.look
        ignored = look.ignored([path for path in paths if path not in root.known])
        began = self._tick()
        now = look.now([path for path in paths if path not in ignored], root.known)
        ended, looked_at = self._tick(), time.time()
        for path, known in now.items():
            written_at = _believed(known.written_at, looked_at)
            self._saw(root, path, _Moment(began, ended, known.entry, written_at))
            root.known[path] = known

    def _saw(self, root: _Root, path: str, moment: _Moment) -> None:
        """Take note of what stood at a path, behind what the last scan has left there."""
        if path not in root.seen:
            root.seen[path] = []
            if path in root.known:
                was = root.known[path].entry
                root.seen[path].append(_Moment(self._looked, self._looked, was))
            else:
                root.unsure.add(path)
        root.seen[path].append(moment)

    def scan(self, calls: Sequence[WritingCall] = ()) -> Scan:
        """Find what has changed since the last scan, and store it. Raises PrsmError, and OSError.

        What edits of the `calls` explain is told apart from the rest of what became of a file. What
        cannot be stored, as on a full disk, is found by the next one. Where what was known is lost,
        all of it is begun anew, which a note of the scan says.
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
        """Do something to all that is known, or to nothing: what fails leaves it as it was."""
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
        """Begin to look at repositories that have come to be; all in them is new."""
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
        look = root.look
        differing = look.differing(root.known)
        paths = dict.fromkeys((*differing.changed, *differing.others, *root.known))
        now = look.now(paths, root.known)
        ended, looked_at = self._tick(), time.time()
        strange = [path for path in differing.changed if path in now and path not in root.known]
        base = look.in_index([*strange, *root.unsure])
        found: list[Found] = []
        for path in dict.fromkeys((*now, *root.seen)):
            moments = root.seen.pop(path, [])
            if path in root.unsure or not moments:
                was = (
                    root.known[path].entry if path in root.known and not moments else base.get(path)
                )
                moments.insert(0, _Moment(self._looked, self._looked, was))
            if path in now:
                written_at = _believed(now[path].written_at, looked_at)
                moments.append(_Moment(ended, ended, now[path].entry, written_at))
                root.known[path] = now[path]
            found += _segments(root, path, moments)
        root.unsure.clear()
        found = explained(look.root.shadow, found, calls)
        return kept(look.root.shadow, f"{self._ref}/{scan}", found), differing.tops

    def settle(self, scan: Scan) -> None:
        """Note that what a scan has found is stored. Raises OSError, and PrsmError."""
        if scan.found:
            self._pending.replace(self._known)
            much = [root for root in self._roots.values() if len(root.known) > self._much]
            if much:
                with self.shadow.at_work(), suppress(GitFailedError):  # the next one tries again
                    self._fold(much)

    def _fold(self, roots: Sequence[_Root]) -> None:
        """Take what is known beside indexes into them: now that it is stored none of it is lost."""
        for root in roots:
            root.known = root.look.fold(root.known)
        self._write(self._known, "")

    def place_of(self, path: str) -> str | None:
        """Return a path, absolute, from the top of the folder; None: it is not in it."""
        top = os.path.realpath(self.shadow.folder)
        parent, name = os.path.split(path)
        place = os.path.join(os.path.realpath(parent), name)  # noqa: PTH118
        return os.path.relpath(place, top) if place.startswith(f"{top}/") else None

    def _by_root(self, paths: Iterable[str]) -> dict[_Root, list[str]]:
        """Return paths from the top of the root that each is in."""
        found: dict[_Root, list[str]] = {}
        tops = sorted(filter(self.shadow.has_root, self._roots), key=len, reverse=True)
        for path in dict.fromkeys(paths):
            if ".git" in path.split("/"):
                continue
            top = next(one for one in tops if not one or path.startswith(f"{one}/"))
            found.setdefault(self._roots[top], []).append(path[len(top) :].lstrip("/"))
        return found

    def _add(self, path: str) -> _Root:
        name = hashlib.sha256(os.fsencode(path)).hexdigest()[:16] if path else "main"
        look = RootLook(self.shadow.root(path), self.place / f"{name}.index", self._file_bytes)
        one = self._roots[path] = _Root(look)
        return one

    @property
    def _ref(self) -> str:
        return f"{REFS}/{self.place.name}"

    def _write(self, file: Path, scan: str) -> None:
        roots = self._roots.items()
        self._put(
            file,
            {
                "scan": scan,
                "roots": {
                    path: {name: _told(known) for name, known in root.known.items()}
                    for path, root in roots
                },
                "seen": {
                    path: {
                        name: [_told_moment(one) for one in all_]
                        for name, all_ in root.seen.items()
                    }
                    for path, root in roots
                },
                "unsure": {path: sorted(root.unsure) for path, root in roots},
                "learned": self._learned,
            },
        )

    def _put(self, file: Path, told: Mapping[str, Any]) -> None:
        put(file, json.dumps(told).encode("ascii"))


def _segments(root: _Root, path: str, moments: Sequence[_Moment]) -> list[Found]:
    """Return the changes between moments at which a path was seen."""
    top = root.look.root.path
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
    """Return when a file was written; None where its file system has a clock of its own."""
    return None if written_at is None or written_at > looked_at else written_at


def _told(known: Known) -> list[Any]:
    return [_told_entry(known.entry), known.stamp, known.is_young]


def _told_entry(entry: Entry | None) -> list[str] | None:
    return None if entry is None else [entry.mode, entry.blob, entry.why, entry.mark]


def _told_moment(one: _Moment) -> list[Any]:
    return [_told_entry(one.entry), one.written_at, one.is_ours]


def _content(given: Content) -> Entry | None:
    return None if given is None else Entry(*given)


def _known(told: Sequence[Any]) -> Known:
    entry, stamp, is_young = told
    return Known(_entry(entry), None if stamp is None else tuple(stamp), is_young)


def _entry(told: Sequence[str] | None) -> Entry | None:
    return None if told is None else Entry(*told)


def _moment(told: Sequence[Any]) -> _Moment:
    """Return a moment that a process which has died saw: it was before all of this one's."""
    entry, written_at, is_ours = told
    return _Moment(0, 0, _entry(entry), written_at, is_ours)


def _read(file: Path) -> Mapping[str, Any] | None:
    try:
        given: Mapping[str, Any] = json.loads(file.read_bytes())
    except (FileNotFoundError, ValueError):  # what a full disk left is begun anew
        return None
    return given


_LARGEST = 4 * 2**20  # bytes of a text that is looked into


class _Maker(NamedTuple):
    """A call that may have made a change, and what it says it did there."""

    call: WritingCall
    edit: Edit


class _Step(NamedTuple):
    """What became of a text, and the calls that explain it."""

    before: bytes | None
    after: bytes | None
    by: tuple[WritingCall, ...] = ()


def explained(git: GitDir, found: Sequence[Found], calls: Sequence[WritingCall]) -> list[Found]:
    """Return changes, each in as many as it has parts of different origin. Raises GitFailedError.

    What no edit explains stays as it is.
    """
    makers = [_makers(one, calls) if _is_text(one) else [] for one in found]
    asked = [one for one, mine in zip(found, makers, strict=True) if mine]
    if not asked:
        return list(found)
    sources = _sources(found, makers)
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
    """Return the calls that may have made a change and say what they did there, oldest first."""
    able = sorted((call for call in calls if could_make(call, one)), key=lambda call: call.began)
    return [_Maker(call, edit) for call in able for edit in call.edits if edit.path == one.path]


def _is_text(one: Found) -> bool:
    return all(
        entry is None or (entry.mode != LINK and entry.blob) for entry in (one.before, one.after)
    )


def _sources(found: Sequence[Found], makers: Sequence[Sequence[_Maker]]) -> dict[str, Found]:
    """Return the changes by which files went that are moved, by their paths."""
    wanted = {maker.edit.source for mine in makers for maker in mine}
    return {one.path: one for one in found if one.path in wanted and _is_text(one)}


def _texts(git: GitDir, found: Iterable[Found]) -> dict[Entry | None, bytes | None]:
    """Return what files held, but for those that are too large."""
    entries = {entry for one in found for entry in (one.before, one.after) if entry is not None}
    asked = "".join(f"{blob}\n" for blob in sorted({entry.blob for entry in entries}))
    sizes = git.run("cat-file", "--batch-check", stdin=asked.encode("ascii")).split(b"\n")
    fit = [line.split(b" ")[0] for line in sizes if _is_fit(line)]
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


def _is_fit(line: bytes) -> bool:
    words = line.split(b" ")
    return len(words) == 3 and words[2].isdigit() and int(words[2]) <= _LARGEST


def _explain(
    before: bytes | None,
    after: bytes | None,
    makers: Sequence[_Maker],
    moved: Mapping[str, bytes | None],
) -> list[_Step]:
    """Return what became of a text, step by step; calls that explain all of it share it."""
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
    """Return the steps of a change as changes; only the last can have another mode than before."""
    mode = FILE if one.before is None else one.before.mode
    parts: list[Found] = []
    old = one.before
    for number, step in enumerate(steps, 1):
        if number == len(steps):
            new = one.after if one.after is None or not step.by else replace(one.after, mode=mode)
        else:
            new = None if step.after is None else Entry(mode, _stored(git, step.after))
        parts.append(replace(one, before=old, after=new, by=step.by, written_at=None))
        old = new
    if old != one.after:
        parts.append(replace(one, before=old, by=(), written_at=None))
    last = replace(parts[-1], written_at=one.written_at)
    return [part for part in (*parts[:-1], last) if part.before != part.after]


def _stored(git: GitDir, text: bytes) -> str:
    said = git.run("hash-object", "-w", "--no-filters", "--stdin", stdin=text, alone=True)
    return said.decode("ascii").strip()


def kept(git: GitDir, ref: str, found: Sequence[Found]) -> list[Found]:
    """Keep what changes hold as long as the refs are there; return them with their lines counted.

    All are compared by one command, as two trees in which each is a file that is named by its
    number. Raises GitFailedError.
    """
    if not found:
        return []
    old, new = _trees(git, found)
    lines = f"update {ref}/before {old}\nupdate {ref}/after {new}\n"
    git.run("update-ref", "--stdin", stdin=lines.encode("ascii"))
    options = ("-z", "--numstat", "--no-renames", "--no-ext-diff", "--no-textconv")
    counts: dict[int, tuple[int | None, int | None]] = {}
    for line in git.run("diff-tree", *options, old, new).split(b"\0"):
        if line:
            added, removed, name = line.split(b"\t")
            counts[int(name)] = _number(added), _number(removed)
    return [
        replace(one, added=counted[0], removed=counted[1])
        for number, one in enumerate(found)
        for counted in [counts.get(number, (0, 0)) if _is_whole(one) else (None, None)]
    ]


def hold(git: GitDir, ref: str, written: Sequence[Written]) -> None:
    """Keep what PRSM itself has written, and what it replaced: changes that come name it.

    Raises GitFailedError.
    """
    for tree in _trees(git, written):
        git.run("update-ref", f"{ref}/{tree}", tree)


def _trees(git: GitDir, found: Sequence[Found | Written]) -> tuple[str, str]:
    old = _lines(found, lambda one: one.before)
    new = _lines(found, lambda one: one.after)
    made = git.run("mktree", "--batch", "--missing", stdin=old + b"\n" + new + b"\n")
    before, after = made.decode("ascii").split()
    return before, after


def _lines(
    found: Sequence[Found | Written], side: Callable[[Found | Written], Entry | None]
) -> bytes:
    lines = [
        f"{FILE} blob {entry.blob}\t{number}\n"  # of links, too: it is their text that counts
        for number, one in enumerate(found)
        if (entry := side(one)) is not None and entry.blob
    ]
    return "".join(lines).encode("ascii")


def _is_whole(one: Found) -> bool:
    return all(entry is None or entry.blob for entry in (one.before, one.after))


def _number(said: bytes) -> int | None:
    return int(said) if said.isdigit() else None
