"""A restore that is killed, fails or is hindered leaves files as before or after, and says so."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from prsm_files.shadow.restoring import HinderedError
from prsm_files.shadow.root import Limits
from prsm_files.shadow.worktree import KEPT_SAFETY, Shadow

from plugins.prsm_files.tests.shadow_scene import FailingGit, Scene, every_byte
from prsm_core.errors import ConfigError, PrsmError
from tests.plain_user import as_plain_user
from tests.sources import ROOT

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
WORKER = Path(__file__).with_name("restore_worker.py")
FILES = 40
DEADLINE = 60


@pytest.fixture
def scene(tmp_path):
    scene = Scene(tmp_path)
    for number in range(FILES):
        scene.write(f"d{number % 5}/f{number}", f"old {number}", 0o755 if number % 7 == 0 else None)
    scene.commit()
    scene.write("staged", "s")
    scene.git("add", "staged")
    return scene


def change(scene):
    for number in range(0, FILES, 2):
        scene.write(f"d{number % 5}/f{number}", f"new {number}" * 999)
    for number in range(1, FILES, 6):
        (scene.folder / f"d{number % 5}/f{number}").unlink()
    scene.write("new/file", "n", 0o600)
    scene.git("reset", "-q")


def worker(scene, target, step):
    return subprocess.Popen(
        [sys.executable, str(WORKER), str(scene.folder.parent), target, str(step)],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)},
        start_new_session=True,
    )


def check_after_the_kill(scene, before, after):
    """The next command of any kind finds the files old or new, and an undo goes back."""
    shadow = scene.shadow()
    was_cut_off = shadow.journal.intent() is not None
    shadow.snapshots()
    assert shadow.journal.intent() is None
    now = every_byte(scene.folder), scene.staged()
    assert now in (before, after)
    if was_cut_off:
        assert now == after, "what had begun is finished"
        assert "cut off" in shadow.notes[0]
        scene.shadow().undo()
        assert (every_byte(scene.folder), scene.staged()) == before
    return was_cut_off


def killed_at(tmp_path, step):
    """Return whether a restore was under way when it was killed, None if it was over before."""
    folder = tmp_path / f"s{step}"
    folder.mkdir()
    scene = Scene(folder)
    for number in range(FILES):
        scene.write(f"d{number % 5}/f{number}", f"old {number}")
    scene.commit()
    scene.write("staged", "s")
    scene.git("add", "staged")
    taken = scene.take()
    after = every_byte(scene.folder), scene.staged()
    change(scene)
    before = every_byte(scene.folder), scene.staged()
    with worker(scene, taken.id, step) as process:
        code = process.wait(DEADLINE)
    scene.start_numbers(2000)
    if code == 0:
        return None
    assert code == -9
    return check_after_the_kill(scene, before, after)


def check_kills(tmp_path, first, stride):
    """Kill a restore at steps; it is under way at some of them."""
    ends, step = [], first
    while (end := killed_at(tmp_path, step)) is not None:
        ends.append(end)
        step += stride
    assert set(ends) == {True, False}


def test_a_restore_killed_here_and_there_is_finished_or_was_not_begun(tmp_path):
    check_kills(tmp_path, 2, 13)


@pytest.mark.long
@pytest.mark.parametrize("part", range(4))
def test_a_restore_killed_at_anything_it_does_is_finished_or_was_not_begun(tmp_path, part):
    check_kills(tmp_path, part, 4)


@pytest.mark.long
@pytest.mark.parametrize("part", range(60))
def test_a_restore_killed_while_it_writes_files_is_finished(tmp_path, part):
    """It is killed once so many files have changed: in the middle of git's own work."""
    folder = tmp_path / "s"
    folder.mkdir()
    scene = Scene(folder)
    for number in range(3000):
        scene.write(f"d{number % 50}/f{number}", f"old {number}")
    scene.commit()
    taken = scene.take()
    after = every_byte(scene.folder), scene.staged()
    for number in range(3000):
        scene.write(f"d{number % 50}/f{number}", f"new {number}")
    before = every_byte(scene.folder), scene.staged()
    watched = scene.folder / f"d{part % 50}" / f"f{part % 50}"
    with worker(scene, taken.id, -1) as process:
        while process.poll() is None and not _reads(watched, "old"):
            pass
        os.killpg(process.pid, signal.SIGKILL)  # git dies with it, as under the reaper shim
    scene.start_numbers(2000)
    shadow = scene.shadow()
    shadow.snapshots()
    assert (every_byte(scene.folder), scene.staged()) in (before, after)


def _reads(path, text):
    try:
        return path.read_text().startswith(text)
    except FileNotFoundError:
        return False


def test_a_restore_that_fails_halfway_is_taken_back(scene):
    taken = scene.take()
    change(scene)
    before = every_byte(scene.folder), scene.staged()
    with pytest.raises(ConfigError, match="all files are as they were: No space left") as caught:
        scene.shadow(git=FailingGit(scene)).restore(taken.id)
    assert "full disk" in str(caught.value.hint)
    assert (every_byte(scene.folder), scene.staged()) == before
    assert scene.shadow().journal.intent() is None


def test_one_that_cannot_be_taken_back_is_finished_by_the_next_command(scene):
    taken = scene.take()
    after = every_byte(scene.folder), scene.staged()
    change(scene)
    git = FailingGit(scene)
    git.fails = 2
    with pytest.raises(ConfigError, match="could not be taken back") as caught:
        scene.shadow(git=git).restore(taken.id)
    assert "next command" in str(caught.value.hint)
    shadow = scene.shadow()
    shadow.recover()
    assert (every_byte(scene.folder), scene.staged()) == after
    assert "neither old nor new" in shadow.notes[0]
    rescued = next(one for one in shadow.snapshots() if one.kind == "rescue")
    scene.shadow().restore(rescued.id)
    assert scene.read("d0/f0") == "half"


def test_only_files_that_differ_are_written(scene):
    taken = scene.take()
    times = {p: (scene.folder / p.decode()).stat().st_mtime_ns for p in every_byte(scene.folder)}
    scene.write("d0/f0", "new")
    scene.shadow().restore(taken.id)
    now = {p: (scene.folder / p.decode()).stat().st_mtime_ns for p in times}
    assert {path for path in times if times[path] != now[path]} == {b"d0/f0"}


def test_the_index_of_a_person_at_work_is_respected(scene):
    taken = scene.take()
    scene.write("d0/f0", "new")
    lock = scene.folder / ".git/index.lock"
    lock.touch()
    scene.take()  # it only reads
    with pytest.raises(HinderedError, match="git is at work") as caught:
        scene.shadow().restore(taken.id)
    assert "delete that file" in str(caught.value.hint)
    assert scene.read("d0/f0") == "new"


@pytest.mark.parametrize("is_index", [False, True], ids=["before", "after"])
def test_a_lock_that_a_dead_restore_left_is_known_from_that_of_a_person(scene, is_index):
    """It is the new index, under two names, before it is the index and after."""
    taken = scene.take()
    staged = scene.staged()
    scene.git("reset", "-q")
    git = scene.folder / ".git"
    own = git / ("index" if is_index else "index.prsm")
    own.touch()
    (git / "index.lock").hardlink_to(own)
    keeper = scene.shadow()
    with keeper.at_work():
        keeper.root("").staging.put_back(taken.main.staging)
    assert scene.staged() == staged
    assert not list(git.glob("index.*"))


def test_something_that_no_snapshot_holds_is_not_overwritten(tmp_path):
    scene = Scene(tmp_path, limits=Limits(file_bytes=10))
    scene.write("a", "small")
    taken = scene.take()
    scene.write("a", "larger than ten bytes")
    with pytest.raises(HinderedError, match="no snapshot can hold: a") as caught:
        scene.shadow().restore(taken.id)
    assert "move it away" in str(caught.value.hint)
    assert scene.read("a") == "larger than ten bytes"


def test_a_pipe_in_the_way_is_named(scene):
    taken = scene.take()
    (scene.folder / "d0/f0").unlink()
    os.mkfifo(scene.folder / "d0/f0")
    with pytest.raises(HinderedError, match="d0/f0 is a pipe"):
        scene.shadow().restore(taken.id)


def test_content_that_git_threw_away_is_told_before_anything_changes(scene):
    scene.git("reset", "-q")
    (scene.folder / "staged").unlink()
    taken = scene.take()
    scene.write("d0/f0", "new")
    scene.git("add", "-A")
    scene.git("commit", "-q", "--amend", "-m", "other")
    scene.git("reflog", "expire", "--expire=now", "--all")
    scene.git("gc", "-q", "--prune=now")
    before = every_byte(scene.folder)
    with pytest.raises(PrsmError, match="git gc") as caught:
        scene.shadow().restore(taken.id)
    assert "snapshot pack" in str(caught.value.hint)
    assert every_byte(scene.folder) == before


def test_packed_snapshots_outlive_what_git_throws_away(scene):
    taken = scene.take()
    before = every_byte(scene.folder)
    scene.shadow().pack()
    scene.write("d0/f0", "new")
    scene.git("add", "-A")
    scene.git("commit", "-q", "--amend", "-m", "other")
    scene.git("reflog", "expire", "--expire=now", "--all")
    scene.git("gc", "-q", "--prune=now")
    scene.shadow().restore(taken.id)
    assert every_byte(scene.folder) == before


def test_a_file_that_git_threw_away_is_stored_anew(scene):
    scene.write("d0/f0", "new")
    scene.take()
    scene.git("rm", "-q", "--cached", "d1/f1")
    scene.git("commit", "-q", "--amend", "-m", "other")
    scene.git("reflog", "expire", "--expire=now", "--all")
    scene.git("gc", "-q", "--prune=now")
    before = every_byte(scene.folder)
    taken = scene.take()
    (scene.folder / "d1/f1").unlink()
    scene.shadow().restore(taken.id)
    assert every_byte(scene.folder) == before


@as_plain_user
def test_a_read_only_folder_is_named_before_anything_changes(scene):
    taken = scene.take()
    scene.write("d0/f0", "new")
    scene.write("d1/f1", "new")
    (scene.folder / "d0").chmod(0o555)
    with pytest.raises(HinderedError, match="read-only") as caught:
        scene.shadow().restore(taken.id)
    (scene.folder / "d0").chmod(0o755)
    assert "chmod u+w" in str(caught.value.hint)
    assert scene.read("d1/f1") == "new"


@pytest.mark.parametrize("damage", ["index", "config", "refs", "all"])
def test_a_damaged_shadow_is_mended_or_set_aside_and_told(scene, damage):
    scene.take()
    [place] = scene.state.glob("shadows/*/*/roots/main/git")
    if damage == "index":
        (place / "index").write_bytes(b"nothing of an index")
    elif damage == "config":
        (place / "config").write_bytes(b"[core\n")
    elif damage == "refs":
        for ref in (place / "refs/prsm").iterdir():
            ref.write_text("no id\n")
    else:
        for file in place.rglob("*"):
            if file.is_file():
                file.chmod(0o600)
                file.write_bytes(b"\0")
    shadow = scene.shadow()
    taken = shadow.take()
    shadow.snapshots()
    told = {"index": "", "refs": "is damaged", "config": "set aside", "all": "set aside"}[damage]
    assert told in "".join(shadow.notes)
    assert bool(shadow.notes) is bool(told)
    before = every_byte(scene.folder)
    change(scene)
    scene.shadow().restore(taken.id)
    assert every_byte(scene.folder) == before


def test_two_processes_take_turns(scene):
    held = scene.shadow()
    script = (
        "import fcntl, sys; f = open(sys.argv[1]); fcntl.flock(f, fcntl.LOCK_EX);"
        " print('held', flush=True); sys.stdin.read()"
    )
    held.take()
    with subprocess.Popen(
        [sys.executable, "-c", script, str(held.place / "lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdout
        assert other.stdin
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(ConfigError, match="another process is at work"):
            Shadow(
                scene.run,
                scene.folder,
                scene.state,
                environ=scene.environ,
                now=float,
                new_id=lambda: "ab",
                wait_seconds=0.05,
            ).take()
        other.stdin.close()
    scene.take()


def test_a_bare_repository_is_refused(tmp_path):
    scene = Scene(tmp_path, repository=False)
    scene.git("init", "-q", "--bare")
    with pytest.raises(ConfigError, match="bare repository") as caught:
        scene.take()
    assert "worktree" in str(caught.value.hint)


def test_a_folder_that_is_no_repository_has_a_bound(tmp_path):
    scene = Scene(tmp_path, repository=False, limits=Limits(folder_files=3))
    for number in range(4):
        scene.write(str(number))
    with pytest.raises(ConfigError, match="3 files of") as caught:
        scene.take()
    assert "git init" in str(caught.value.hint)


def test_a_folder_that_is_gone_is_named(scene):
    shadow = scene.shadow()
    shadow.take()
    shutil.rmtree(scene.folder)
    with pytest.raises(ConfigError, match="no folder"):
        shadow.take()


def test_what_the_person_excludes_is_never_stored(scene):
    (scene.home / ".config/git").mkdir(parents=True)
    (scene.home / ".config/git/ignore").write_text("*.key\n")
    (scene.folder / ".git/info").mkdir(exist_ok=True)
    (scene.folder / ".git/info/exclude").write_text("private\n")
    scene.write("my.key", "secret")
    scene.write("private/a", "secret")
    taken = scene.take()
    assert not {path for _, path in scene.shadow().plan(taken.id).files()}
    [place] = scene.state.glob("shadows/*/*/roots/main/git")
    listed = scene.git("--git-dir", str(place), "ls-files")
    assert "d0/f0" in listed
    assert "my.key" not in listed
    assert "private" not in listed
    other = scene.home / "mine"
    other.write_text("*.token\n")
    scene.git("config", "--global", "core.excludesFile", str(other))
    scene.write("my.token", "secret")
    assert scene.take().main.tree != taken.main.tree, "what is excluded no more is stored"
    listed = scene.git("--git-dir", str(place), "ls-files")
    assert "my.token" not in listed


def test_only_the_newest_safety_snapshots_are_kept(scene):
    taken = scene.take()
    for number in range(KEPT_SAFETY + 3):
        scene.write("d0/f0", str(number))
        scene.shadow().restore(taken.id)
    kinds = [one.kind for one in scene.shadow().snapshots()]
    assert (kinds.count("safety"), kinds.count("manual")) == (KEPT_SAFETY, 1)
    scene.shadow().undo()
    assert scene.read("d0/f0") == str(KEPT_SAFETY + 2)


def test_a_deleted_snapshot_leaves_nothing_behind(scene):
    secret = os.urandom(9000)
    kept = scene.take()
    scene.write("secret", secret)
    taken = scene.take()
    (scene.folder / "secret").unlink()
    scene.take()
    scene.shadow().delete(taken.id)
    size = sum(f.stat().st_size for f in scene.state.rglob("*") if f.is_file())
    assert [one.id for one in scene.shadow().snapshots()][-1] == kept.id
    assert size < 9000 + 60_000
    [place] = scene.state.glob("shadows/*/*/roots/main/git")
    every = scene.git("--git-dir", str(place), "cat-file", "--batch-all-objects", "--batch-check")
    assert " blob 9000" not in every


@pytest.mark.parametrize("wanted", ["", "../../etc/passwd", "zz", "refs/heads/main", "*", "-1"])
def test_an_id_is_looked_up_and_never_a_path(scene, wanted):
    scene.take()
    with pytest.raises(ConfigError, match="no snapshot"):
        scene.shadow().restore(wanted)


def test_our_own_state_in_the_folder_is_left_out(scene):
    scene.state = scene.folder / "deep" / "state"
    scene.take()
    taken = scene.take()
    assert not [one for one in taken.roots if "state" in one.path]
    assert not scene.shadow().plan(taken.id).files()
