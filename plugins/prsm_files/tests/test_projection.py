"""Of a finished worktree its region alone reaches the parent's files, in whatever order."""

from __future__ import annotations

import itertools
import os
import shutil
import stat
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from prsm_files.worktrees.worktrees import OUTSIDE, Projection, Whose

from plugins.prsm_files.tests.shadow_scene import every_byte
from plugins.prsm_files.tests.test_hostile_changes import kinds
from plugins.prsm_files.tests.trees_scene import Grove, inside, text
from prsm_core.kit.filenames import exact, fold_of, folded, normalised

pytestmark = [
    pytest.mark.requirement("U12"),
    pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed"),
]


@pytest.fixture
def scene(tmp_path):
    scene = Grove(tmp_path)
    for name in ("src/ui/view", "src/ui/old", "src/core/model", "docs/page"):
        scene.write(name, f"{name}\n")
    scene.commit()
    scene.write("src/core/dirty", "a person's\n")
    return scene


def make(scene, *region, name="w1", **more):
    return scene.make(name, region=region, **more)


def outside(outcome):
    return {one.path for one in outcome.outside}


def test_what_is_in_the_region_is_merged_and_all_else_is_named_and_kept_on_the_branch(scene):
    tree = make(scene, "src/ui")
    inside(tree, "src/ui/view").write_text("the agent's\n")
    inside(tree, "src/core/model").write_text("a stray\n")
    inside(tree, "new").write_text("another\n")
    before, persons = scene.bytes(), scene.everything()
    outcome = scene.settle(tree)
    persons["refs"] = scene.git("for-each-ref")
    assert outcome.result == "partial"
    assert outside(outcome) == {"src/core/model", "new"}
    assert {one.why for one in outcome.outside} == {OUTSIDE}
    after = scene.bytes()
    assert {path for path in before | after if before.get(path) != after.get(path)} == {
        b"src/ui/view"
    }
    branch = scene.branch(tree)
    assert (branch["src/core/model"], branch["new"]) == ("a stray", "another")
    assert branch["src/ui/view"] == "the agent's"
    assert not scene.trees().finish(tree.id), "what is outside is nowhere else"
    assert inside(tree, "new").exists()
    assert scene.everything() == persons


# What an agent may do that is not in its region, and what of it is named.
STRAYS = {
    "a rename out": (
        lambda t: inside(t, "src/ui/old").rename(inside(t, "src/core/old")),
        {"src/core/old"},
    ),
    "a rename in": (
        lambda t: inside(t, "src/core/model").rename(inside(t, "src/ui/model")),
        {"src/core/model"},
    ),
    "a deletion": (lambda t: inside(t, "docs/page").unlink(), {"docs/page"}),
    "all that is above": (lambda t: shutil.rmtree(inside(t, "docs")), {"docs/page"}),
    "a mode": (lambda t: inside(t, "src/core/model").chmod(0o755), {"src/core/model"}),
    "a link": (lambda t: inside(t, "docs/l").symlink_to("../src/ui"), {"docs/l"}),
    "a link out, written through": (
        lambda t: (
            inside(t, "src/ui/out").symlink_to("../core"),
            inside(t, "src/ui/out/model").write_text("x"),
        ),
        {"src/core/model"},
    ),
    "a folder in place of a file": (
        lambda t: (
            inside(t, "docs/page").unlink(),
            inside(t, "docs/page").mkdir(),
            inside(t, "docs/page/x").write_text("x"),
        ),
        {"docs/page", "docs/page/x"},
    ),
    "other letters": (lambda t: write(t, "src/UI/view", "x"), {"src/UI/view"}),
    "a longer name": (lambda t: write(t, "src/ui2/view", "x"), {"src/ui2/view"}),
    "what is in no commit": (
        lambda t: inside(t, "src/core/dirty").write_text("x"),
        {"src/core/dirty"},
    ),
    "rules of what is ignored": (lambda t: write(t, ".gitignore", "docs\n"), {".gitignore"}),
    "a module of another": (lambda t: write(t, ".gitmodules", "[submodule]\n"), {".gitmodules"}),
}


def write(tree, path, content):
    file = inside(tree, path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)


@pytest.mark.parametrize("name", STRAYS)
def test_a_stray_never_lands_and_what_is_in_the_region_does(scene, name):
    stray, named = STRAYS[name]
    tree = make(scene, "src/ui")
    inside(tree, "src/ui/view").write_text("the agent's\n")
    before = scene.bytes()
    stray(tree)
    outcome = scene.settle(tree)
    assert (outcome.result, outside(outcome)) == ("partial", named)
    after = scene.bytes()
    changed = {path for path in before | after if before.get(path) != after.get(path)}
    assert all(path.startswith(b"src/ui/") for path in changed)
    assert scene.read("src/ui/view") == "the agent's\n"


def test_a_repository_beside_the_region_is_named_and_one_around_it_is_a_conflict(scene):
    tree = make(scene, "new/part")
    write(tree, "other/file", "x")
    scene.git("init", "-q", at=inside(tree, "other"))
    write(tree, "new/part/file", "x")
    assert (outcome := scene.settle(tree)).result == "partial"
    assert [(one.path, "repository" in one.why) for one in outcome.outside] == [("other", True)]
    assert scene.read("new/part/file") == "x"
    below = make(scene, "far/part", name="w2")
    write(below, "far/part/file", "x")
    scene.git("init", "-q", at=inside(below, "far"))
    outcome = scene.settle(below)
    assert (outcome.result, [one.path for one in outcome.conflicts]) == ("conflict", ["far"])
    assert not (scene.folder / "far").exists()


def test_a_region_is_all_of_it_or_nothing(scene):
    tree = make(scene, "src/ui", "docs/page")
    inside(tree, "docs/page").write_text("the agent's\n")
    inside(tree, "src/ui/view").write_text("the agent's\n")
    inside(tree, "new").write_text("a stray\n")
    scene.write("src/ui/view", "a person's\n")
    before = scene.bytes()
    outcome = scene.settle(tree)
    assert (outcome.result, outside(outcome)) == ("conflict", {"new"})
    assert [one.path for one in outcome.conflicts] == ["src/ui/view"]
    assert scene.bytes() == before


def test_a_stray_is_told_until_it_is_gone_and_the_rest_is_merged_once(scene):
    tree = make(scene, "src/ui")
    inside(tree, "src/ui/view").write_text("1\n")
    inside(tree, "new").write_text("a stray\n")
    assert scene.settle(tree).result == "partial"
    scene.write("src/ui/view", "1\na person's\n")
    assert outside(scene.settle(tree)) == {"new"}
    inside(tree, "src/ui/more").write_text("2\n")
    assert outside(scene.settle(tree)) == {"new"}
    assert scene.read("src/ui/more") == "2\n"
    inside(tree, "new").unlink()
    assert scene.settle(tree).result == "merged"
    assert scene.read("src/ui/view") == "1\na person's\n"
    assert scene.trees().finish(tree.id)


def test_strays_alone_are_told_and_what_is_not_wanted_is_kept_with_them(scene):
    tree = make(scene, "src/ui")
    inside(tree, "new").write_text("a stray\n")
    before = scene.bytes()
    assert scene.settle(tree, is_wanted=False).result == "kept"
    outcome = scene.settle(tree)
    assert (outcome.result, outside(outcome)) == ("partial", {"new"})
    assert scene.bytes() == before
    none = make(scene, name="w2")
    assert scene.settle(none).result == "nothing"


def test_a_region_may_be_a_file_one_that_is_new_and_the_whole(scene):
    tree = make(scene, "src/ui/view", "src/new.py")
    write(tree, "src/ui/view", "the agent's\n")
    write(tree, "src/new.py", "new\n")
    assert scene.settle(tree).result == "merged"
    assert (scene.read("src/ui/view"), scene.read("src/new.py")) == ("the agent's\n", "new\n")
    whole = make(scene, ".", name="w2")
    write(whole, "any/where", "x")
    assert scene.settle(whole).result == "merged"


def test_a_merge_removes_no_folder_that_is_not_in_its_region(scene):
    """Another agent may be about to write there, and the folder has permissions of its own."""
    scene.write("pair/one/x", "1")
    (scene.folder / "pair").chmod(0o700)
    tree = make(scene, "pair/one")
    shutil.rmtree(inside(tree, "pair"))
    assert scene.settle(tree).result == "merged"
    assert not (scene.folder / "pair" / "one").exists()
    assert stat.S_IMODE((scene.folder / "pair").stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("path", "region", "fold", "is_in"),
    [
        ("src/UI/x", "src/ui", exact, False),
        ("src/UI/x", "src/ui", folded, True),
        ("SRC/ui2/x", "src/ui", folded, False),
        ("stra\u00dfe/x", "STRASSE", folded, True),
        ("cafe\u0301/x", "caf\u00e9", folded, True),
        ("cafe\u0301/x", "caf\u00e9", normalised, True),
        ("CAFE\u0301/x", "caf\u00e9", normalised, False),
        ("cafe\u0301/x", "caf\u00e9", exact, False),
    ],
)
def test_names_are_compared_as_the_file_system_does(path, region, fold, is_in):
    assert Projection((region,), fold).holds(path) is is_in


def test_how_a_file_system_compares_names_is_seen_by_its_folders_alone(tmp_path):
    (tmp_path / "file").write_text("x")
    (tmp_path / "FILE").hardlink_to(tmp_path / "file")
    (tmp_path / "12").mkdir()
    missing = str(tmp_path / "not" / "there")
    assert fold_of(str(tmp_path), normalises=False) is exact
    assert fold_of(missing, normalises=False) is exact
    assert fold_of(missing, normalises=True) is normalised
    (tmp_path / "low").mkdir()

    def no_case(path):
        return os.lstat(path.removesuffix("LOW") + "low" * path.endswith("LOW"))

    assert fold_of(str(tmp_path), look=no_case) is folded


# Any trees. A path stands for a file, a folder with it, a link; acts are the same on both sides.
PATHS = (
    *("a", "a/x", "a/d/y", "a/d/z", "b", "b/x", "b/d/y", "c", "c/.gitignore", ".gitignore"),
    *("A/x", "new/deep/file", "a/d"),
)
REGIONS = ("a", "b", "a/d", "a/x", "a/d/y", "b/d", "b/x", "c", "A", "new/deep", "new/deep/file")
LINKS = ("../a", "b/d", ".", "/etc/hostname", "x")
one_path = st.sampled_from(PATHS)
one_act = st.one_of(
    st.tuples(st.just("write"), one_path, st.sampled_from(("1\n", "2\n", "y\n", "x\n"))),
    st.tuples(st.just("link"), one_path, st.sampled_from(LINKS)),
    st.tuples(st.just("remove"), one_path, st.just("")),
    st.tuples(st.just("rename"), one_path, one_path),
    st.tuples(st.just("run"), one_path, st.just("")),
)
agents_act = st.one_of(one_act, st.tuples(st.just("repository"), one_path, st.just("")))


def are_disjoint(regions):
    return not any(
        one == other or f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")
        for one, other in itertools.combinations(regions, 2)
    )


disjoint = st.lists(st.sampled_from(REGIONS), min_size=2, max_size=3, unique=True).filter(
    are_disjoint
)


class Hands:
    """Does in a folder what an act says, as far as it can be done there."""

    def __init__(self, scene, folder):
        self._scene, self._folder = scene, Path(folder)

    def do(self, acts):
        for kind, path, more in acts:
            place = self._folder / path
            if self._leads_out(place):
                continue
            getattr(self, f"_{kind}")(place, more)

    def _leads_out(self, place):
        above = Path(os.path.realpath(place.parent))
        return not above.is_relative_to(self._folder) or ".git" in above.parts

    def _clear(self, place):
        for above in reversed(place.parents):
            is_file = os.path.lexists(above) and not above.is_dir()
            if above.is_relative_to(self._folder) and is_file:
                above.unlink()
        place.parent.mkdir(parents=True, exist_ok=True)
        self._remove(place, "")

    def _write(self, place, content):
        self._clear(place)
        place.write_text(content)

    def _link(self, place, target):
        self._clear(place)
        place.symlink_to(target)

    def _remove(self, place, _):
        if place.is_symlink() or place.is_file():
            place.unlink()
        elif place.is_dir():
            shutil.rmtree(place)

    def _rename(self, place, other):
        target = self._folder / other
        is_apart = not (target.is_relative_to(place) or place.is_relative_to(target))
        if os.path.lexists(place) and is_apart and not self._leads_out(target):
            self._clear(target)
            if os.path.lexists(place):
                place.rename(target)

    def _run(self, place, _):
        if place.is_file() and not place.is_symlink():
            place.chmod(0o755)

    def _repository(self, place, _):
        if place.is_dir() and not place.is_symlink():
            self._scene.git("init", "-q", at=place)


class Plot:
    """A person's tree and worktrees of agents that are done, to be merged in any order."""

    def __init__(self, base, person, regions, acts):
        self._base, self._saved = base / "scene", base / "saved"
        self._base.mkdir()
        self.scene = Grove(self._base, is_dirty=False)
        Hands(self.scene, self.scene.folder).do(person)
        self.before = kinds(self.scene.folder)
        self.ignored = self._ignored(self.scene.folder)
        self.trees, self.regions = [], regions
        for number, region in enumerate(regions):
            whose = Whose("session", f"id-{number}", f"w{number}")
            tree = self.scene.trees().make(whose, region=(region,)).tree
            self.trees.append(tree)
            Hands(self.scene, tree.folder).do(acts[number])
        self.done = [kinds(tree.folder) for tree in self.trees]
        self.hidden = [self._ignored(tree.folder) for tree in self.trees]
        shutil.copytree(self._base, self._saved, symlinks=True)

    def _ignored(self, folder):
        args = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard")
        return set(filter(None, os.fsencode(self.scene.git(*args, at=folder)).split(b"\0")))

    def merged(self, order):
        """Merge in an order; return all that the folder is then, and what was told of each."""
        shutil.rmtree(self._base)
        shutil.copytree(self._saved, self._base, symlinks=True)
        outcomes = {number: self.scene.settle(self.trees[number]) for number in order}
        folders = {
            str(path.relative_to(self.scene.folder)): stat.S_IMODE(path.lstat().st_mode)
            for path in self.scene.folder.rglob("*")
            if ".git" not in path.parts and path.is_dir() and not path.is_symlink()
        }
        told = {
            number: (one.result, one.files, one.outside, one.conflicts)
            for number, one in outcomes.items()
        }
        return kinds(self.scene.folder), folders, told

    def check(self):
        """In every order there is one result, and in it each region is as its agent left it."""
        orders = list(itertools.permutations(range(len(self.trees))))
        results = [self.merged(order) for order in (orders[0], orders[-1])]
        assert results[0] == results[1]
        now, _, told = results[0]
        for path in now.keys() | self.before.keys():
            owners = [n for n, region in enumerate(self.regions) if is_in(path, region)]
            expected = {self.before.get(path)}
            if owners and told[owners[0]][0] in {"merged", "partial"}:
                theirs = self.done[owners[0]].get(path)
                expected = {theirs}
                if path in self.hidden[owners[0]] | self.ignored:  # git ignores it
                    expected.add(self.before.get(path))
            assert now.get(path) in expected, (path, owners, told)
        for number, (result, _, strays, _) in told.items():
            self._check_told(number, result, {os.fsencode(one.path) for one in strays})

    def _check_told(self, number, result, named):
        after, region = self.done[number], self.regions[number]
        before, missing = self.before, self.hidden[number] | self.ignored
        strays = {
            path
            for path in (before | after).keys() - missing
            if before.get(path) != after.get(path) and not is_in(path, region)
        }
        hidden = {path for path in strays if any(is_in(path, os.fsdecode(top)) for top in named)}
        if result != "conflict" or strays:
            assert strays == hidden, (strays, named)
        assert not any(is_in(path, region) for path in named)
        assert (result == "partial") == bool(named) or result == "conflict"


def is_in(path, region):
    name = os.fsdecode(path)
    return name == region or name.startswith(f"{region}/")


def check_any(person, regions, acts):
    base = Path(tempfile.mkdtemp(prefix="projection-"))
    try:
        Plot(base, person, regions, acts).check()
    finally:
        shutil.rmtree(base)


any_plot = given(
    person=st.lists(one_act, max_size=6),
    regions=disjoint,
    acts=st.tuples(*[st.lists(agents_act, min_size=1, max_size=6)] * 3),
)


@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@any_plot
@example(
    person=[("write", "a/x", "1\n"), ("write", "a/d/y", "1\n")],
    regions=["a/x", "a/d"],
    acts=([("remove", "a", "")], [("rename", "a/d/y", "a/d/z"), ("link", "a/d/y", "../a")], []),
)
def test_whatever_the_trees_and_the_order_there_is_one_result_and_no_stray_lands(
    person, regions, acts
):
    check_any(person, regions, acts)


@pytest.mark.long
@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@any_plot
def test_whatever_the_trees_and_the_order_there_is_one_result_at_length(person, regions, acts):
    check_any(person, regions, acts)


def test_lines_that_a_person_has_changed_meanwhile_stay_in_the_region_too(scene):
    tree = make(scene, "a")
    inside(tree, "a").write_text(text(n2="the person's\n", n15="the agent's\n"))
    scene.write("a", text(n2="the person's\n", n8="later\n"))
    assert scene.settle(tree).result == "merged"
    assert scene.read("a") == text(n2="the person's\n", n8="later\n", n15="the agent's\n")
    assert every_byte(scene.folder)[b"b"][1] == b"b\n"
