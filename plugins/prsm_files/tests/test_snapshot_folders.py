"""A snapshot written as a folder comes back exactly; what is none is refused, and not kept."""

from __future__ import annotations

import json
import os
import shutil
import zlib
from base64 import b85encode
from pathlib import Path

import pytest
from prsm_files.shadow.exchange import PATCH_BYTES, Most, export_folder, import_folder

from plugins.prsm_files.tests.shadow_scene import Scene, every_byte
from prsm_core.errors import ConfigError

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def fill(scene, *, commits):
    """Change files in all ways there are, beside a commit."""
    scene.write("text", "one\ntwo\n")
    scene.write("crlf", b"one\r\ntwo\r\n")
    scene.write("data", bytes(range(256)) * 50)
    scene.write("gone", "x\n")
    scene.write("tool", "#!/bin/sh\n", 0o755)
    scene.write(".gitattributes", "*.txt text eol=crlf\ncrlf diff=x\n")
    (scene.folder / "link").symlink_to("text")
    if commits:
        scene.commit()
    scene.write("text", "one\n2")
    scene.write("crlf", b"one\r\n2\r\n")
    scene.write("data", bytes(range(255, -1, -1)) * 60)
    (scene.folder / "gone").unlink()
    (scene.folder / "tool").chmod(0o644)
    (scene.folder / "link").unlink()
    scene.write("link", "a file now")
    scene.write("new/deep/file", "n")
    scene.write("new/tool", "t", 0o755)
    scene.write("private", "p", 0o600)
    scene.write("empty", "")
    (scene.folder / "new/link").symlink_to("deep/file")
    with open(os.fsencode(scene.folder) + b'/\xff\n"odd', "wb") as file:  # noqa: PTH123
        file.write(b"odd")


def written(scene, folder):
    taken = scene.take(description="as it was")
    export_folder(scene.shadow(), taken.id, folder)
    return taken


@pytest.mark.requirement("D19", "D20")
@pytest.mark.parametrize("kind", ["repository", "no-commit", "folder"])
def test_all_files_and_what_is_staged_come_back_exactly(tmp_path, kind):
    scene = Scene(tmp_path, repository=kind != "folder")
    fill(scene, commits=kind == "repository")
    staged = None
    if kind != "folder":
        scene.write("staged", "s\n")
        scene.git("add", "staged", "data")
        scene.write("staged", "and more\n")
        staged = scene.git("ls-files", "-s")
    before = every_byte(scene.folder)
    taken = written(scene, tmp_path / "out")
    meta = json.loads((tmp_path / "out/meta.json").read_text())
    assert {key: meta[key] for key in ("id", "session", "description", "timestamp", "branch")} == {
        "id": taken.id,
        "session": None,
        "description": "as it was",
        "timestamp": taken.created_at,
        "branch": taken.main.branch,
    }
    assert (tmp_path / "out/working_tree.patch").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "out/untracked/new/tool").stat().st_mode & 0o777 == 0o700
    scene.shadow().delete(taken.id)
    for one in scene.folder.iterdir():
        if one.name not in {".git", "tool"}:
            shutil.rmtree(one) if one.is_dir() else one.unlink()
    if staged is not None:
        scene.git("read-tree", "--empty")
    kept = import_folder(scene.shadow(), tmp_path / "out")
    assert kept.description == "as it was"
    scene.shadow().restore(kept.id)
    assert every_byte(scene.folder) == before
    if staged is not None:
        assert scene.git("ls-files", "-s") == staged
        assert scene.git("diff", "--name-only", "staged") == "staged"


def test_what_is_in_conflict_comes_back(tmp_path):
    scene = Scene(tmp_path)
    scene.write("a", "base\n")
    scene.commit()
    scene.git("checkout", "-q", "-b", "other")
    scene.write("a", "other\n")
    scene.commit()
    scene.git("checkout", "-q", "main")
    scene.write("a", "mine\n")
    scene.commit()
    scene.git("merge", "-q", "other", check=False)
    staged = scene.git("ls-files", "-s")
    assert len(staged.splitlines()) == 3
    written(scene, tmp_path / "out")
    scene.git("add", "a")
    kept = import_folder(scene.shadow(), tmp_path / "out")
    scene.shadow().restore(kept.id)
    assert scene.git("ls-files", "-s") == staged


def test_repositories_in_a_folder_come_back_with_it(tmp_path):
    scene = Scene(tmp_path)
    scene.write("a", "1")
    scene.commit()
    scene.write("in/b", "1")
    scene.git("init", "-q", at=scene.folder / "in")
    scene.commit(at=scene.folder / "in")
    scene.write("in/b", "2")
    scene.write("in/c", "3")
    before = every_byte(scene.folder)
    written(scene, tmp_path / "out")
    scene.write("in/b", "4")
    (scene.folder / "in/c").unlink()
    kept = import_folder(scene.shadow(), tmp_path / "out")
    scene.shadow().restore(kept.id)
    assert every_byte(scene.folder) == before


def meta(change):
    def edit(folder):
        given = json.loads((folder / "meta.json").read_text())
        change(given)
        (folder / "meta.json").write_text(json.dumps(given))

    return edit


def replaced(name, make):
    def edit(folder):
        (folder / name).unlink()
        make(folder / name)

    return edit


def patched(text):
    return lambda folder: (folder / "working_tree.patch").write_bytes(text)


def new_file(path, mode="100644"):
    return (
        f"diff --git a/{path} b/{path}\nnew file mode {mode}\n--- /dev/null\n+++ b/{path}\n"
        "@@ -0,0 +1 @@\n+x\n"
    ).encode()


def delta(size):
    data = b"\x01"
    while size > 0x7F:
        data, size = data + bytes([size & 0x7F | 0x80]), size >> 7
    packed = zlib.compress(data + bytes([size]))
    line = chr(64 + len(packed)).encode() + b85encode(packed, pad=True)
    return (
        b"diff --git a/a b/a\nindex %b..%b 100644\nGIT binary patch\ndelta 9\n%b\n\ndelta 9\n%b\n"
        % (b"0" * 40, b"1" * 40, line, line)
    )


HOSTILE = {
    "no-folder": (shutil.rmtree, "meta.json is missing"),
    "no-patch": (lambda at: (at / "working_tree.patch").unlink(), "working_tree.patch is missing"),
    "no-untracked": (lambda at: shutil.rmtree(at / "untracked"), "untracked is missing"),
    "no-staged": (lambda at: (at / "staged.patch").unlink(), "damaged, or was changed"),
    "no-json": (lambda at: (at / "meta.json").write_text("{"), "is no JSON"),
    "deep-json": (lambda at: (at / "meta.json").write_text("[" * 10**6), "is no JSON"),
    "other-json": (lambda at: (at / "meta.json").write_text('{"format": "x"}'), "something else"),
    "list": (lambda at: (at / "meta.json").write_text("[1]"), "something else"),
    "newer": (meta(lambda m: m.update(version=9)), "version 9"),
    "no-roots": (meta(lambda m: m.update(roots=[])), "says of no files"),
    "root-above": (meta(lambda m: m["roots"].append({**m["roots"][0], "path": "../x"})), "leads"),
    "root-absolute": (meta(lambda m: m["roots"].append({**m["roots"][0], "path": "/x"})), "leads"),
    "root-git": (meta(lambda m: m["roots"].append({**m["roots"][0], "path": "a/.GIT"})), "leads"),
    "root-gone": (
        meta(lambda m: m["roots"].append({**m["roots"][0], "path": "x"})),
        "no repository x",
    ),
    "option": (meta(lambda m: m["roots"][0].update(head="--output=/tmp/x")), "head of"),
    "modes": (meta(lambda m: m["roots"][0].update(modes=[420, 493, {"a": 0o4755}])), "permissions"),
    "head": (meta(lambda m: m["roots"][0].update(head="1" * 40)), "has no commit 1111"),
    "tree": (meta(lambda m: m["roots"][0].update(tree="1" * 40)), "damaged, or was changed"),
    "meta-link": (replaced("meta.json", lambda at: at.symlink_to("/etc/passwd")), "cannot be read"),
    "meta-pipe": (replaced("meta.json", os.mkfifo), "is no file"),
    "patch-link": (
        replaced("working_tree.patch", lambda at: at.symlink_to("/etc/passwd")),
        "cannot be read",
    ),
    "untracked-link": (
        lambda at: (at / "untracked").rename(at / "x") and (at / "untracked").symlink_to("/etc"),
        "untracked is no folder",
    ),
    "pipe": (lambda at: os.mkfifo(at / "untracked/pipe"), "is no file"),
    "repository": (
        lambda at: shutil.copytree(at / "untracked", at / "untracked/.git"),
        "part of a repository",
    ),
    "changed": (lambda at: (at / "untracked/new").write_text("other"), "damaged, or was changed"),
    "more": (lambda at: (at / "untracked/more").write_text("other"), "damaged, or was changed"),
    "path-above": (patched(new_file("../../out")), "git takes it not"),
    "path-absolute": (patched(new_file("/tmp/prsm-out")), "git takes it not"),  # noqa: S108
    "path-git": (patched(new_file(".git/hooks/post-checkout", "100755")), "git takes it not"),
    "no-patch-at-all": (patched(b"nothing of a patch\n"), "git takes it not"),
    "literal": (patched(b"GIT binary patch\nliteral 99999999999\nzcmb\n"), "unpacks to"),
    "delta": (patched(delta(2**40)), "unpacks to"),
    "odd-delta": (patched(b"GIT binary patch\ndelta 9\nzcmb#\n"), "is damaged"),
}


@pytest.fixture
def scene(tmp_path):
    scene = Scene(tmp_path)
    scene.write("a", "1\n")
    scene.commit()
    scene.write("a", "2\n")
    scene.write("new", "3\n")
    return scene


@pytest.mark.parametrize(("edit", "said"), HOSTILE.values(), ids=HOSTILE)
def test_what_is_no_snapshot_is_refused_and_nothing_is_kept(scene, tmp_path, edit, said):
    written(scene, tmp_path / "out")
    edit(tmp_path / "out")
    before, known = every_byte(scene.folder), scene.shadow().snapshots()
    with pytest.raises(ConfigError, match=said) as refused:
        import_folder(scene.shadow(), tmp_path / "out")
    assert refused.value.code == "bad_snapshot"
    assert refused.value.hint
    assert (every_byte(scene.folder), scene.shadow().snapshots()) == (before, known)
    assert not Path("/tmp/prsm-out").exists()  # noqa: S108
    assert not (tmp_path / "out2").exists()


@pytest.mark.parametrize("leads_to", ["/etc", "../other", "deep/../../x"])
def test_a_link_that_leads_out_is_taken_in_only_if_it_is_wanted(scene, tmp_path, leads_to):
    (scene.folder / "out").symlink_to(leads_to)
    (scene.folder / "inside").symlink_to("new")
    before = every_byte(scene.folder)
    written(scene, tmp_path / "out")
    with pytest.raises(ConfigError, match="leads out of the folder") as refused:
        import_folder(scene.shadow(), tmp_path / "out")
    assert "--links" in str(refused.value.hint)
    kept = import_folder(scene.shadow(), tmp_path / "out", with_links=True)
    (scene.folder / "out").unlink()
    scene.shadow().restore(kept.id)
    assert every_byte(scene.folder) == before


@pytest.mark.parametrize("limit", ["files", "all_bytes", "file_bytes"])
def test_what_is_too_large_is_refused(scene, tmp_path, limit):
    scene.write("more", "4\n")
    written(scene, tmp_path / "out")
    with pytest.raises(ConfigError, match=r"larger than|more than"):
        import_folder(scene.shadow(), tmp_path / "out", most=Most(**{limit: 1}))


@pytest.mark.parametrize("name", ["meta.json", "working_tree.patch"])
def test_what_says_too_much_of_itself_is_not_read(scene, tmp_path, name):
    written(scene, tmp_path / "out")
    with (tmp_path / "out" / name).open("ab") as file:
        file.truncate(PATCH_BYTES + 1)
    with pytest.raises(ConfigError, match="larger than"):
        import_folder(scene.shadow(), tmp_path / "out")


def test_a_folder_that_is_there_is_not_written_over(scene, tmp_path):
    taken = scene.take()
    for name in ("file", "gone"):
        (tmp_path / "file").touch()
        (tmp_path / "gone").unlink(missing_ok=True)
        (tmp_path / "gone").symlink_to("nowhere")
        with pytest.raises(ConfigError, match="is there already"):
            export_folder(scene.shadow(), taken.id, tmp_path / name)
