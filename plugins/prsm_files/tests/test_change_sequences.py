"""Random sequences of people's work, agents' changes, snapshots, accepting and rejecting end exact.

What must be there after a rejection is computed here, by files and `git merge-file` alone.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from plugins.prsm_files.tests.changes_scene import Tracked, stored, wanted
from plugins.prsm_files.tests.test_snapshot_sequences import Play, needs_git
from prsm_core.domain.changes import ACCEPTED, PENDING, REJECTED, UNMERGED

pytestmark = needs_git
STEPS = 22
OPEN = {PENDING, UNMERGED}
LINES = [b"line %d\n" % n for n in range(12)]


class Thing:
    """One change as the test saw it: what was at a path, and what is."""

    def __init__(self, found, before, after):
        self.found, self.before, self.after = found, before, after
        self.state = PENDING


def seen_as(one):
    """Return kind, whether it is a program, and content: all that a change is about."""
    if one is None or one[0] == "link":
        return one
    mode, data = one
    return "program" if int(mode, 8) & 0o100 else "file", data


def kinds_of(tree):
    return {path: seen_as(one) for path, one in tree.items()}


class ChangePlay(Play):
    """A play in which a tracker looks, and changes are accepted and taken back."""

    def __init__(self, tmp_path, seed):
        super().__init__(tmp_path, seed)
        self.scene: Any  # a Tracked
        self.scene.start_moments()
        self.tracker = self.scene.begin()
        self.had = {}  # permissions, by path
        self.last = self.tree()  # as the tracker knows it
        self.owed = {}  # changes between that and what PRSM itself wrote, by path
        self.changes = []

    make_scene = Tracked

    def tree(self):
        """Return what each path is, but those that git ignores."""
        tree = {os.fsdecode(path): one for path, one in self.seen().items()}
        for path, (mode, _) in tree.items():
            self.had.setdefault(path, set()).add(mode)
        return tree

    def acts(self):
        return [
            *super().acts(),
            *[self.agent_edits] * 8,
            *[self.look] * 5,
            *[self.reject] * 5,
            *[self.accept, self.go_on, self.delete_snapshot],
        ]

    def agent_edits(self):
        """Edit a line of a text, as agents do: so that changes of one file can be told apart."""
        path = self.scene.folder / self.random.choice(("a", "b", "dir/c"))
        lines = list(LINES)
        if path.is_file() and not path.is_symlink():
            lines = path.read_bytes().splitlines(keepends=True) or lines
        else:
            self.clear(path)
        at = self.random.randrange(len(lines))
        new = self.random.choice(([], [b"new %d\n" % self.random.randrange(99)] * 2, [b"x\n"]))
        path.write_bytes(b"".join([*lines[:at], *new, *lines[at + 1 :]]))
        if self.random.random() < 0.6:
            self.look()

    def look(self):
        person, staged, tree = self.scene.person(), self.scene.staged(), self.tree()
        scan = self.tracker.scan()
        self.tracker.settle(scan)
        assert self.tree() == tree
        assert (self.scene.person(), self.scene.staged()) == (person, staged)
        expected = dict(self.owed)
        for path in {*self.last, *tree}:
            before, after = seen_as(self.last.get(path)), seen_as(tree.get(path))
            if before != after:
                expected.setdefault(path, []).append((before, after))
        found: dict[str, list[Any]] = {}
        for one in scan.found:
            found.setdefault(one.path, []).append(one)
        assert {path: len(all_) for path, all_ in found.items()} == {
            path: len(all_) for path, all_ in expected.items()
        }
        for path, all_ in found.items():
            for one, (before, after) in zip(all_, expected[path], strict=True):
                assert (self.holds(one.before), self.holds(one.after)) == (before, after)
                self.changes.append(Thing(one, before, after))
        self.last, self.owed = tree, {}

    def holds(self, entry):
        """Return what an entry stands for, by its content in the shadow."""
        if entry is None:
            return None
        shadow = self.scene.shadow()
        with shadow.at_work():
            data = shadow.root("").shadow.run("cat-file", "blob", entry.blob)
        kind = {"120000": "link", "100755": "program", "100644": "file"}[entry.mode]
        return kind, data

    def go_on(self):
        """Have another process go on with what the tracker knows."""
        self.tracker = self.scene.tracker()
        self.tracker.go_on(lambda _: True)

    def delete_snapshot(self):
        if self.known:
            gone = self.random.choice(sorted(self.known))
            self.scene.shadow().delete(gone)
            del self.known[gone]
            self.before = None  # an undo may need it

    def chosen(self):
        open_ = [one for one in self.changes if one.state in OPEN]
        return [one for one in open_ if self.random.random() < 0.4]

    def accept(self):
        for one in self.chosen():
            one.state = ACCEPTED

    def reject(self):
        if self.random.random() < 0.5:
            self.look()
        things = self.chosen()
        before, person, staged = self.tree(), self.scene.person(), self.scene.staged()
        ignored = self.ignored()
        expected, states = taken_back(kinds_of(before), things[::-1], self.scene)
        ids = {f"c{n}": one for n, one in enumerate(things)}
        rejection = self.scene.rejecter().reject("s", wanted([one.found for one in things]))
        stored(self.scene)
        decided = [(ids[one.change].found.path, one.new, one.why) for one in rejection.act.verdicts]
        expected_of = [(one.found.path, state) for one, state in states.items()]
        assert sorted(one[:2] for one in decided) == sorted(expected_of), decided
        assert {ids[one.change]: one.new for one in rejection.act.verdicts} == states
        now = self.tree()
        assert kinds_of(now) == expected
        check_modes(now, before, self.had)
        assert (self.scene.person(), self.scene.staged()) == (person, staged)
        assert self.ignored() == ignored
        for thing, state in states.items():
            thing.state = state
        assert set(rejection.files) == {
            path for path in {*before, *now} if seen_as(before.get(path)) != seen_as(now.get(path))
        }
        self.know(rejection.files, before, now)
        self.before = None  # an undo goes back behind it

    def know(self, written, before, now):
        """What PRSM itself writes is no change; what was there before is one, if not told yet."""
        for path in written:
            was, found = seen_as(self.last.get(path)), seen_as(before.get(path))
            if was != found:
                self.owed.setdefault(path, []).append((was, found))
            self.last = {**self.last, path: now.get(path)}

    def restore(self):
        self.put_back(super().restore)

    def undo(self):
        self.put_back(super().undo)

    def put_back(self, act):
        before = self.tree()
        act()
        now = self.tree()
        written = [
            path for path in {*before, *now} if seen_as(before.get(path)) != seen_as(now.get(path))
        ]
        self.know(written, before, now)


def taken_back(tree, newest_first, scene):
    """Return the tree without some changes, and what becomes of each: by an independent way.

    A path that is free only once others have gone is looked at after those.
    """
    waiting: dict[str, list[Thing]] = {}
    for thing in newest_first:
        waiting.setdefault(thing.found.path, []).append(thing)
    left = dict(tree)
    states: dict[Thing, str] = {}
    written: dict[str, Any] = {}
    while free := [path for path in waiting if is_free(left, path, scene)]:
        for path in free:
            if is_free(left, path, scene):
                states |= one_file(left, written, path, waiting.pop(path), scene)
    states |= {thing: UNMERGED for things in waiting.values() for thing in things}
    return left | {path: side for path, side in written.items() if side is not None}, states


def one_file(tree, written, path, things, scene):
    """Take changes of one file back, newest first; return what becomes of each."""
    was = side = tree.get(path)
    states = {}
    for thing in things:
        left = without(side, thing, scene)
        states[thing] = UNMERGED if left is False else REJECTED
        side = side if left is False else left
    if was is None and side is not None and clashes(path, written):
        return dict.fromkeys(things, UNMERGED)
    if side != was:
        written[path] = side
        if side is None:
            del tree[path]
    return states


def clashes(path, written):
    """Return whether a file that comes is a folder of another one that does, or it of this."""
    coming = [one for one, side in written.items() if side is not None]
    return any(path.startswith(f"{one}/") or one.startswith(f"{path}/") for one in coming)


def is_free(tree, path, scene):
    """Return whether a file can be at a path, beside those that there are."""
    above = [str(one) for one in Path(path).parents][:-1]
    if any(one in tree for one in above):
        return False
    place = scene.folder / path
    if path in tree or not place.is_dir() or place.is_symlink():
        return True
    held = {os.path.relpath(Path(f, n), scene.folder) for f, _, ns in os.walk(place) for n in ns}
    links = {str(p.relative_to(scene.folder)) for p in place.rglob("*") if p.is_symlink()}
    empty = any(not any(Path(f).iterdir()) for f, _, _ in os.walk(place))
    return not empty and not (held | links) & tree.keys() and not ignored_in(held)


def ignored_in(names):
    return any(one.endswith(".log") or one.startswith("out/") for one in names)


def without(now, thing, scene):
    """Return what is left of a file without a change; False: it does not merge."""
    before, after = thing.before, thing.after
    if now == before:
        return now
    if now == after:
        return before
    if None in (now, before, after) or "link" in (now[0], before[0], after[0]):
        return False
    kind = before[0] if now[0] == after[0] else now[0]
    if now[1] == after[1]:
        return kind, before[1]
    if before[1] == after[1]:
        return kind, now[1]
    place = scene.state.parent / "merge"
    place.mkdir(exist_ok=True)
    for name, one in (("now", now), ("base", after), ("other", before)):
        (place / name).write_bytes(one[1])
    done = subprocess.run(
        ["git", "merge-file", "-p", "-q", "now", "base", "other"],
        cwd=place,
        capture_output=True,
        check=False,
    )
    return False if done.returncode else (kind, done.stdout)


def check_modes(now, before, had):
    """A file keeps its permissions, but for who may run it; one that comes back gets what it had.

    That is what its path had at some time, or what is usual.
    """
    for path, (mode, _) in now.items():
        was = before.get(path)
        if mode == "link" or now[path] == was:
            continue
        known = {0o644} | {int(one, 8) for one in had.get(path, ()) if one != "link"}
        if was is not None and was[0] != "link":
            known = {int(was[0], 8)}
        runs = int(mode, 8) & 0o100
        assert int(mode, 8) in {k | (k & 0o444) >> 2 if runs else k & ~0o111 for k in known}


def play(tmp_path, seed):
    it = ChangePlay(tmp_path, seed)
    it.snapshot()
    for _ in range(STEPS):
        it.step()
    it.look()
    it.reject()
    it.look()
    assert not it.owed


@pytest.mark.parametrize("seed", range(8))
def test_a_sequence_with_changes_ends_exact(tmp_path, seed):
    play(tmp_path, seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2000, 2300))
def test_three_hundred_sequences_with_changes_end_exact(tmp_path, seed):
    play(tmp_path, seed)
