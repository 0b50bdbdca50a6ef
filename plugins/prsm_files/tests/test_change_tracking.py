"""What changed between two looks is found whole and once; a look between tells it apart."""

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prsm_files.changes.attribution import attribute, may_write
from prsm_files.changes.merging import find_side
from prsm_files.shadow.records import Change
from prsm_files.shadow.trackers import forget, note

from plugins.prsm_files.tests.changes_scene import Tracked, call, found_by, told, wanted
from plugins.prsm_files.tests.shadow_scene import FailingGit
from prsm_core.errors import ConfigError


@pytest.fixture
def scene(tmp_path):
    return Tracked(tmp_path)


def test_what_was_dirty_before_is_nobodys_change(scene):
    scene.write("a", "1\n")
    scene.commit()
    scene.write("a", "2\n")
    scene.write("untracked", "3\n")
    tracker = scene.begin()
    assert found_by(tracker).found == []
    scene.write("a", "2\n2\n")
    assert told(found_by(tracker)) == {"a": ("modified", 1, 0)}
    assert found_by(tracker).found == []


@pytest.mark.parametrize("is_repository", [True, False])
def test_every_kind_of_change_is_found_with_its_lines(tmp_path, is_repository):
    scene = Tracked(tmp_path, repository=is_repository)
    scene.write("gone", "1\n2\n")
    scene.write("run", "x\n")
    scene.write("was/file", "x\n")
    tracker = scene.begin()
    (scene.folder / "gone").unlink()
    (scene.folder / "run").chmod(0o755)
    (scene.folder / "was" / "file").unlink()
    (scene.folder / "was").rmdir()
    scene.write("was", "a file now\n")
    scene.write("new\nline", "1\n")
    scene.write(os.fsdecode(b"odd-\xff"), "1\n")
    scene.write('"quoted', "1\n")
    scene.write("binary", b"\0\1")
    (scene.folder / "link").symlink_to("nowhere")
    assert told(found_by(tracker)) == {
        "gone": ("deleted", 0, 2),
        "run": ("modified", 0, 0),
        "was/file": ("deleted", 0, 1),
        "was": ("added", 1, 0),
        "new\nline": ("added", 1, 0),
        os.fsdecode(b"odd-\xff"): ("added", 1, 0),
        '"quoted': ("added", 1, 0),
        "binary": ("added", None, None),
        "link": ("added", 1, 0),
    }


def test_ignored_files_are_not_told_nor_stored_even_when_a_call_names_them(scene):
    scene.write(".gitignore", "secret*\n")
    tracker = scene.begin()
    scene.write("secret", "key\n")
    before = _objects(scene)
    tracker.observe(["secret"])
    assert _objects(scene) == before
    assert found_by(tracker).found == []


def _objects(scene):
    return sorted(path.name for path in scene.state.rglob("objects/??/*"))


def test_a_look_before_a_call_tells_what_a_person_did_from_what_the_call_does(scene):
    scene.write("a", "0\n")
    tracker = scene.begin()
    scene.write("a", "0\nperson\n")
    tracker.observe(["a", "new"])
    before = scene.tick()
    scene.write("a", "0\nperson\nagent\n")
    scene.write("new", "agent\n")
    first, second, third = sorted(found_by(tracker).found, key=lambda one: one.until)[:3]
    assert (first.path, first.added) == ("a", 1)
    assert first.until < before
    assert {second.path, third.path} == {"a", "new"}
    assert min(second.since, third.since) > first.since


def test_repositories_in_the_folder_are_looked_at_too_and_so_is_one_that_comes(scene):
    inner = scene.folder / "inner"
    inner.mkdir()
    scene.git("init", "-q", at=inner)
    scene.write("inner/a", "1\n")
    scene.commit(at=inner)
    tracker = scene.begin()
    scene.write("inner/a", "1\n2\n")
    (scene.folder / "later").mkdir()
    scene.git("init", "-q", at=scene.folder / "later")
    scene.write("later/b", "1\n")
    scan = found_by(tracker)
    assert told(scan) == {"inner/a": ("modified", 1, 0), "later/b": ("added", 1, 0)}
    assert {one.root for one in scan.found} == {"inner", "later"}


def test_a_file_that_is_too_large_is_told_and_not_kept(scene):
    tracker = scene.tracker(file_bytes=10)
    tracker.begin()
    scene.write("big", "x" * 11)
    (one,) = found_by(tracker).found
    assert (one.kind, one.added, one.after.blob) == ("added", None, "")
    assert "larger" in one.after.why


@pytest.mark.parametrize("is_stored", [True, False])
def test_a_scan_that_was_cut_off_before_it_was_settled_is_found_again_or_not_at_all(
    scene, is_stored
):
    scene.write("a", "1\n")
    tracker = scene.begin()
    scene.write("a", "2\n")
    scan = tracker.scan()  # and its process dies
    scene.write("b", "3\n")
    again = scene.tracker()
    assert again.has_begun
    asked = []

    def stored(id_):
        asked.append(id_)
        return is_stored

    again.go_on(stored)
    assert asked == [scan.id]
    assert set(told(found_by(again))) == ({"b"} if is_stored else {"a", "b"})
    assert found_by(again).found == []


def test_a_damaged_index_is_begun_anew_and_told(scene):
    scene.write("a", "1\n")
    tracker = scene.begin()
    (tracker.place / "main.index").write_bytes(b"no index")
    scan = tracker.scan()
    assert scan.found == []
    assert "begun anew" in scan.notes[0]
    scene.write("a", "2\n")
    assert set(told(found_by(tracker))) == {"a"}


def test_what_a_change_held_outlives_the_deletion_of_snapshots(scene):
    scene.write("a", "old\n")
    tracker = scene.begin()
    scene.write("a", "new\n")
    (one,) = found_by(tracker).found
    taken = scene.take()
    scene.write("a", "newer\n")
    scene.shadow().delete(taken.id)  # it prunes
    shadow = scene.shadow()
    with shadow.at_work():
        read = shadow.root("").shadow.run
        assert read("cat-file", "blob", one.before.blob) == b"old\n"
        assert read("cat-file", "blob", one.after.blob) == b"new\n"


def test_a_scan_that_finds_nothing_runs_git_once_and_writes_no_index(scene):
    for n in range(5):
        scene.write(f"f{n}", "x\n")
    scene.commit()
    tracker = scene.begin()
    index = tracker.place / "main.index"
    before = index.stat()
    scene.run.calls.clear()
    found_by(tracker)
    assert len(scene.run.calls) == 1
    scene.write("f1", "y\n")
    found_by(tracker)
    assert (index.stat().st_ino, index.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_much_that_has_changed_is_taken_into_the_index_and_stays_known(scene):
    tracker = scene.tracker(much=3)
    tracker.begin()
    for n in range(6):
        scene.write(f"f{n}", "x\n")
    assert len(found_by(tracker).found) == 6
    assert found_by(tracker).found == []
    scene.write("f2", "y\n")
    (scene.folder / "f3").unlink()
    assert told(found_by(tracker)) == {"f2": ("modified", 1, 1), "f3": ("deleted", 0, 1)}


def test_what_prsm_wrote_itself_is_nobodys_and_what_was_there_before_is_told(scene):
    scene.write("a", "1\n")
    scene.write("b", "1\n")
    tracker = scene.begin()
    scene.write("a", "2\n")  # by an agent, and no look has found it yet
    written = [ours(scene, "a", "3\n"), ours(scene, "deep/er/b", "3\n"), ours(scene, "b", None)]
    scene.write("b", "a person's\n")
    for _ in range(2):  # one that was cut off tells it again
        note(tracker.shadow.place, "once", written)
    tracker.observe([])
    note(tracker.shadow.place, "once", written)
    again = scene.tracker()  # whoever goes on after a crash knows the same, however far it came
    for _ in range(2):
        again.go_on(lambda _: False)
    for one in (tracker, again):
        scan = one.scan()
        assert told(scan) == {"a": ("modified", 1, 1), "b": ("added", 1, 0)}
        assert scan.found[0].after == written[0].before
        one.settle(scan)
    scene.write("a", "4\n")
    [last] = found_by(tracker).found
    assert last.before == written[0].after


def ours(scene, path, text):
    """Write a file, or remove it, as PRSM does; return that change."""

    def entry():
        with shadow.at_work():
            return find_side(shadow.root(""), path).entry

    shadow = scene.shadow()
    before = entry()
    if text is None:
        (scene.folder / path).unlink()
    else:
        scene.write(path, text)
    return Change("", path, before, entry())


def test_a_path_of_a_call_is_found_from_the_top_of_the_folder(scene):
    scene.write("d/a", "1\n")
    (scene.folder / "short").symlink_to("d")
    tracker = scene.begin()
    assert tracker.place_of(str(scene.folder / "short" / "a")) == "d/a"
    assert tracker.place_of(str(scene.folder / "d" / ".." / "x")) == "x"
    assert tracker.place_of("/etc/passwd") is None


def test_what_was_kept_for_a_session_goes_with_it_and_nothing_of_another(scene):
    for name in ("gone", "stays"):
        tracker = scene.tracker(name)
        tracker.begin()
        scene.write("a", f"{name}\n")
        found_by(tracker)
    assert forget(scene.state, "gone") > 0
    assert forget(scene.state, "gone") == 0
    assert not scene.tracker("gone").has_begun
    assert scene.tracker("stays").has_begun
    refs = scene.shadow().place / "roots" / "main" / "git" / "refs" / "changes"
    assert [ref.name for ref in refs.iterdir()] == [scene.tracker("stays").place.name]


AGENTS, PATHS = ("ann", "bob", "cy"), ("a", "b", "d/c")
agents, paths = st.sampled_from(AGENTS), st.sampled_from(PATHS)
acts = st.one_of(
    st.tuples(st.just("begin"), agents, st.one_of(st.none(), paths)),
    st.tuples(st.just("end"), agents),
    st.tuples(st.just("write"), agents, paths, st.integers(0, 3)),
    st.tuples(st.just("person"), paths, st.integers(0, 3)),
    st.tuples(st.just("delete"), paths),
    st.tuples(st.just("scan")),
)


@settings(
    max_examples=35, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(acts, max_size=25))
def test_every_byte_that_differs_is_in_one_change_of_somebody_who_could_have_made_it(
    tmp_path_factory, script
):
    scene = Tracked(tmp_path_factory.mktemp("s"))
    scene.write("a", "start\n")
    scene.commit()
    town = _Town(scene)
    for act, *rest in [*script, ("scan",)]:
        getattr(town, act)(*rest)
    town.check()


class _Town:
    """Agents and a person who write in one folder, and who has written what."""

    def __init__(self, scene):
        self.scene = scene
        self.tracker = scene.begin()
        self.state = {path: self._at(path) for path in PATHS}  # as the changes tell
        self.open, self.calls = {}, []
        self.wrote = []  # moment, path, agent or None
        self.problems = []

    def begin(self, agent, path):
        if agent in self.open:
            return
        named = frozenset() if path is None else frozenset({path})
        began = self.scene.tick()
        if path is not None:
            self.tracker.observe([path])
        self.open[agent] = call(agent, began, paths=named)

    def end(self, agent):
        if agent in self.open:
            one = self.open.pop(agent)
            self.tracker.observe(one.paths)
            self.calls.append(call(agent, one.began, self.scene.tick(), paths=one.paths))

    def write(self, agent, path, text):
        if agent in self.open and may_write(self.open[agent], path):
            self._write(path, f"{agent}{text}\n", agent)

    def person(self, path, text):
        self._write(path, f"person{text}\n", None)

    def delete(self, path):
        (self.scene.folder / path).unlink(missing_ok=True)
        self.wrote.append((self.scene.tick(), path, None))

    def _write(self, path, text, who):
        self.scene.write(path, text)
        self.wrote.append((self.scene.tick(), path, who))

    def scan(self):
        scan = found_by(self.tracker)
        calls = [*self.calls, *self.open.values()]
        for one in attribute(scan.found, calls):
            found = one.found
            assert found.before == self.state[found.path], "changes follow each other"
            self.state[found.path] = found.after
            meanwhile = [
                who
                for at, path, who in self.wrote
                if path == found.path and found.since <= at <= found.until
            ]
            assert meanwhile, "somebody has written it"
            for author in one.calls:
                assert author.began <= found.until
                assert author.ended is None or author.ended >= found.since
                assert not author.paths or found.path in author.paths
            if meanwhile[-1] is not None and one.how != "named":
                assert meanwhile[-1] in {author.agent for author in one.calls}
            if all(who is None for who in meanwhile) and not calls:
                assert one.how == "outside"

    def check(self):
        for path in PATHS:
            assert self.state[path] == self._at(path)

    def _at(self, path):
        shadow = self.scene.shadow()
        with shadow.at_work():
            return find_side(shadow.root(""), path).entry


@pytest.mark.parametrize("looks_first", [False, True], ids=["at-once", "file-named-before"])
@pytest.mark.parametrize("dies", [False, True], ids=["goes-on", "goes-on-after-a-crash"])
def test_what_a_restore_writes_is_nobodys_change(scene, looks_first, dies):
    """A restore is by another process, which knows no tracker; what comes after it is a change."""
    scene.write("a", "one\n")
    scene.write("gone", "old\n")
    taken = scene.take()
    scene.write("a", "two\n")
    (scene.folder / "gone").unlink()
    scene.write("new", "n\n")
    tracker = scene.begin()
    scene.write("mine", "kept\n")
    scene.shadow().restore(taken.id)
    if dies:
        tracker = scene.tracker()
        tracker.go_on(lambda _: False)
    if looks_first:
        tracker.observe(["a", "new"])
    assert told(found_by(tracker)) == {"mine": ("added", 1, 0)}  # and that was before
    scene.write("a", "one\nthree\n")
    assert told(found_by(tracker)) == {"a": ("modified", 1, 0)}
    scene.shadow().undo()
    again = scene.tracker()
    again.go_on(lambda _: False)
    assert told(found_by(again)) == {}


def test_a_restore_that_is_taken_back_leaves_what_is_known(scene):
    """Nothing is told of what it was to write: the files are as they were."""
    scene.write("a", "one\n")
    taken = scene.take()
    scene.write("a", "two\n")
    tracker = scene.begin()
    git = FailingGit(scene)
    with pytest.raises(ConfigError, match="all files are as they were"):
        scene.shadow(git=git).restore(taken.id)
    assert told(found_by(tracker)) == {}


def test_what_one_session_takes_back_is_no_change_of_another(scene):
    scene.write("a", "one\n")
    mine, other = scene.tracker("mine"), scene.tracker("other")
    mine.begin()
    other.begin()
    scene.write("a", "two\n")
    found = found_by(mine).found
    assert told(found_by(other)) == {"a": ("modified", 1, 1)}
    scene.rejecter().reject("mine", wanted(found))
    assert scene.read("a") == "one\n"
    assert told(found_by(other)) == {}
    assert told(found_by(mine)) == {}
    scene.write("a", "three\n")
    assert set(told(found_by(other))) == {"a"}


def test_a_tracker_that_has_ended_is_told_nothing(scene):
    tracker = scene.begin()
    tracker.end()
    scene.write("a", "one\n")
    scene.shadow().restore(scene.take().id)
    assert not list(tracker.place.glob("*.json"))
