"""The index is what a fresh parse would be, whatever happens to files, to it, or beside it."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prsm_regions.symbols.answers import render
from prsm_regions.symbols.definitions import definitions
from prsm_regions.symbols.files import MAX_SIZE
from prsm_regions.symbols.grammars import grammar_of
from prsm_regions.symbols.index import Index, StoppedError
from prsm_regions.symbols.oracle import Oracle, index_of, lister
from prsm_testing import open_services

NAMES = ("a.py", "b.py", "sub/c.py", "sub/d.ts", "e.txt")
TEXTS = ("def one(): pass\n", "class Two:\n    def m(self): pass\n", "def one(: broken\n", "\0", "")


def _write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text, encoding="utf-8")


async def lookup(oracle: Oracle, root: str, name: str) -> str | None:
    await oracle.refresh(root)
    found = await oracle.find(root, name)
    return render(found) if found else None


def _fresh(root: Path, path: str) -> list:
    grammar = grammar_of(path)
    raw = (root / path).read_bytes() if (root / path).is_file() else b""
    return definitions(raw, grammar) if grammar and b"\0" not in raw else []


EDIT = st.tuples(st.sampled_from(NAMES), st.sampled_from((*TEXTS, None)), st.sampled_from((0, 1)))


@settings(max_examples=25, deadline=None)
@given(rounds=st.lists(st.lists(EDIT, max_size=4), max_size=5))
def test_after_any_edits_in_two_trees_the_index_is_a_fresh_parse(rounds):
    with tempfile.TemporaryDirectory() as folder:
        roots = [Path(folder, "one"), Path(folder, "two")]
        for root in roots:
            root.mkdir()
        index = Index(Path(folder, "state/index"))
        for edits in rounds:
            for path, text, which in edits:
                if text is None:
                    (roots[which] / path).unlink(missing_ok=True)
                else:
                    _write(roots[which], path, text)
            for root in roots:
                there = [path for path in NAMES if (root / path).exists()]
                index.refresh(str(root), there)
                for path in NAMES:
                    assert index.in_file(str(root), path) == _fresh(root, path)
        index.close()


@pytest.fixture
def root(tmp_path):
    _write(tmp_path / "tree", "core/auth.py", "class AuthValidator:\n    def check(self): pass\n")
    return str(tmp_path / "tree")


@pytest.fixture
def index(tmp_path):
    made = Index(tmp_path / "state" / "index")
    yield made
    made.close()


FILES = ("core/auth.py",)


def _kinds(index: Index, root: str) -> list[str]:
    index.refresh(root, FILES)
    return [one.kind for _, one in index.with_name(root, "AuthValidator", 9)]


def test_a_text_that_two_trees_hold_is_parsed_once(index, root, tmp_path):
    _write(tmp_path / "other", FILES[0], Path(root, FILES[0]).read_text(encoding="utf-8"))
    assert _kinds(index, root) == _kinds(index, str(tmp_path / "other")) == ["class"]
    assert index.parsed == 1


@pytest.mark.parametrize("damage", [b"no database at all" * 200, b"", None, "newer", "torn"])
def test_an_index_that_cannot_be_used_is_made_anew(index, root, damage):
    assert _kinds(index, root) == ["class"]
    index.close()
    if damage is None:
        index.path.unlink()
    elif damage == "newer":
        with contextlib.closing(sqlite3.connect(index.path)) as db:
            db.execute("PRAGMA user_version=9")
    elif damage == "torn":
        index.path.write_bytes(index.path.read_bytes()[:5000] + b"\xff" * 3000)
    else:
        index.path.write_bytes(damage)
    assert _kinds(index, root) == ["class"]


def test_an_index_that_is_removed_while_it_is_open_is_made_anew(index, root):
    assert _kinds(index, root) == ["class"]
    index.path.unlink()
    assert _kinds(index, root) == ["class"]


def test_processes_that_index_one_tree_at_once_all_end(index, root):
    for number in range(30):
        _write(Path(root), f"m{number}.py", f"def f{number}(): pass\n")
    code = (
        "import sys, os, pathlib; from prsm_regions.symbols.oracle import Index\n"
        "index = Index(pathlib.Path(sys.argv[2]))\n"
        "sys.stdin.read()\n"
        "index.refresh(sys.argv[1], sorted(os.listdir(sys.argv[1])))\n"
        "print(len(index.with_name(sys.argv[1], 'f7', 9)))"
    )
    place = str(index.path.with_name("index"))
    command = [sys.executable, "-c", code, root, place]
    with contextlib.ExitStack() as running:
        pipes = partial(subprocess.Popen, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        all_: list[Any] = [running.enter_context(pipes(command)) for _ in range(4)]
        for one in all_:  # they have begun, and open it at the same time
            one.stdin.close()
        assert [one.stdout.read() for one in all_] == [b"1\n"] * 4


def test_who_opens_an_index_waits_for_another_process_that_does(root, tmp_path):
    """SQLite says at once that it is locked, while the other one gives it its write-ahead log."""
    index = Index(tmp_path / "state" / "index", busy_s=0.05)
    index.path.parent.mkdir()
    with open(f"{index.path}.lock", "w", encoding="ascii") as lock:  # noqa: PTH123
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(TimeoutError, match="another process"):
            index.refresh(root, FILES)
    assert _kinds(index, root) == ["class"]
    index.close()


def test_what_is_no_text_too_long_or_a_link_out_is_not_looked_into(index, root, tmp_path):
    (tmp_path / "secret.py").write_text("def secret(): pass\n", encoding="utf-8")
    (tmp_path / "away").mkdir()
    (tmp_path / "away/far.py").write_text("def far(): pass\n", encoding="utf-8")
    Path(root, "link.py").symlink_to(tmp_path / "secret.py")
    Path(root, "folder").symlink_to(tmp_path / "away")
    os.mkfifo(Path(root, "pipe.py"))
    Path(root, "binary.py").write_bytes(b"def b(): pass\0")
    with Path(root, "big.py").open("wb") as big:
        big.truncate(50_000_000)
    assert big.name
    files = ["link.py", "folder/far.py", "pipe.py", "binary.py", "big.py", "gone.py", "a\0b.py"]
    index.refresh(root, files)
    assert not [name for name in ("secret", "far", "b") if index.with_name(root, name, 9)]
    assert index.unread(root) == [("big.py", "50 MB long"), ("binary.py", "no text")]
    assert MAX_SIZE < 50_000_000


@pytest.mark.parametrize(
    "raw",
    ["def größe(): pass\n".encode(), "def größe(): pass\n".encode("utf-16"),
     b"\xef\xbb\xbf" + "def größe(): pass\n".encode()],
)  # fmt: skip
def test_texts_of_other_encodings_are_read(index, root, raw):
    Path(root, "x.py").write_bytes(raw)
    index.refresh(root, ["x.py"])
    assert index.with_name(root, "größe", 9)


def test_a_file_that_just_changed_is_read_again_by_the_next_look(index, root):
    index.refresh(root, FILES)
    index.refresh(root, FILES)
    before = Path(root, FILES[0]).stat()
    Path(root, FILES[0]).write_text("class Other:        \n    def check(self): pass\n", "utf-8")
    os.utime(Path(root, FILES[0]), ns=(before.st_atime_ns, before.st_mtime_ns))
    index.refresh(root, FILES)
    assert index.with_name(root, "Other", 9)
    assert not index.with_name(root, "AuthValidator", 9)


def test_a_look_that_is_stopped_keeps_what_it_read(index, root):
    _write(Path(root), "b.py", "def b(): pass\n")
    asked = iter([False, True, True])
    with pytest.raises(StoppedError):
        index.refresh(root, [*FILES, "b.py"], lambda: next(asked, True))
    assert _kinds(index, root) == ["class"]
    assert index.parsed == 1


async def test_looks_that_are_asked_for_at_once_are_one(tmp_path, root):
    listed = []

    async def list_files(place: str) -> list[str]:
        listed.append(place)
        return list(FILES)

    async with Oracle(tmp_path / "state/index", list_files=list_files) as oracle:
        await asyncio.gather(*(oracle.refresh(root) for _ in range(20)))
        assert len(listed) <= 2
        assert await lookup(oracle, root, "AuthValidator.check") is not None
        assert await lookup(oracle, root, "AuthValidater") is None
        assert await oracle.near(root, "AuthValidater") == ["AuthValidator"]


async def test_a_look_whose_waiter_is_gone_leaves_the_oracle_usable(tmp_path, root):
    async with Oracle(tmp_path / "state/index") as oracle:
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(oracle.refresh(root))
            await asyncio.sleep(0)
            waiting.cancel()
        text = await lookup(oracle, root, "AuthValidator") or ""
        assert text.splitlines()[0] == "class AuthValidator (core/auth.py:1-2)"


async def test_files_are_listed_by_git_ignored_ones_left_out(tmp_path, root):
    for argv in (["init", "-q"], ["add", "core"]):
        await asyncio.to_thread(subprocess.run, ["git", *argv], cwd=root, check=True)
    _write(Path(root), ".gitignore", "hidden.py\n")
    _write(Path(root), "hidden.py", "")
    _write(Path(root), "neu é.py", "")
    async with open_services(tmp_path / "s") as given:
        found = await lister(given)(root)
        assert sorted(found or ()) == [".gitignore", "core/auth.py", "neu é.py"]
        assert await lister(given)(str(tmp_path)) is None
    assert index_of(tmp_path, f"{root}/core") == index_of(tmp_path, root)


@pytest.mark.requirement("R3", "R10")
async def test_a_file_that_has_just_changed_has_an_outline(tmp_path):
    """Its stamp says nothing yet, and its size is known all the same."""
    path = tmp_path / "tree" / "new.py"
    path.parent.mkdir()
    path.write_text("def made_just_now(): pass\n" + "#" * 500, encoding="utf-8")
    now = time.time_ns()
    os.utime(path, ns=(now + 10**9, now + 10**9))
    async with Oracle(tmp_path / "state" / "index") as oracle:
        for _ in range(2):
            await oracle.refresh(str(path.parent))
            assert "made_just_now" in await oracle.outline(str(path.parent), ".")
        assert oracle.parsed == 1, "it is read again, and its text is known"


LOOKER = """
import asyncio, json, pathlib, sys
from prsm_testing import open_services
from prsm_regions.symbols.oracle import index_of, lister
from prsm_regions.symbols.answers import render
from prsm_regions.symbols.oracle import Oracle

async def lookup(oracle, root, name):
    await oracle.refresh(root)
    return render(await oracle.find(root, name))

async def main(state, root, rounds):
    index = index_of(pathlib.Path(state), root)
    async with open_services(pathlib.Path(state)) as services:
        async with Oracle(index, list_files=lister(services)) as oracle:
            told = []
            for n in range(rounds):
                pathlib.Path(root, f"own{n}.py").write_text(f"def own{n}(): pass\\n")
                found = await lookup(oracle, root, f"own{n}")
                told.append((found or "").splitlines()[0])
            print(json.dumps([told, await lookup(oracle, root, "shared7"), oracle.parsed]))

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


def test_two_worktrees_and_two_processes_have_one_index_and_find_all_at_once(tmp_path):
    rounds, shared = 6, 20
    main, other = tmp_path / "main", tmp_path / "other"
    for number in range(shared):
        _write(main, f"m{number}.py", f"def shared{number}(): pass\n")
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@localhost"]
    for argv in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"],
                 ["worktree", "add", "-q", str(other)]):  # fmt: skip
        subprocess.run([*git, *argv], cwd=main, check=True)
    state = tmp_path / "state"
    both = [
        subprocess.Popen(
            [sys.executable, "-c", LOOKER, str(state), str(root), str(rounds)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for root in (main, other)
    ]
    said = [one.communicate() for one in both]
    assert [one.returncode for one in both] == [0, 0], said
    parsed = 0
    for out, _ in said:
        told, common, count = json.loads(out)
        assert told == [f"function own{n} (own{n}.py:1-1)" for n in range(rounds)]
        assert common.startswith("function shared7 (m7.py:1-1)")
        parsed += count
    assert len(list((state / "symbols").glob("*.sqlite3"))) == 1
    assert parsed == shared + rounds, "a text that both have is parsed by one of them"
    assert index_of(state, str(main)) == index_of(state, str(other))
    assert index_of(state, str(tmp_path)) != index_of(state, str(main))


def test_an_index_that_another_holds_is_told_as_late_and_not_made_anew(root, tmp_path):
    index = Index(tmp_path / "state" / "index", busy_s=0.05)
    assert _kinds(index, root) == ["class"]
    with contextlib.closing(sqlite3.connect(index.path, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        _write(Path(root), "new.py", "def new(): pass\n")
        with pytest.raises(TimeoutError, match="another process"):
            index.refresh(root, [*FILES, "new.py"])
        db.execute("ROLLBACK")
    index.refresh(root, [*FILES, "new.py"])
    assert index.with_name(root, "new", 9)
    index.close()
