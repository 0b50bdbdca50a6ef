"""References in what a person says: what is one, what is read for it, and what never is."""

from __future__ import annotations

import os
import socket

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from prsm_core.kit.quotation import REFERENCED, quote, without_references
from prsm_core.permissions.paths import why_not_read
from prsm_core.workspace.references import (
    LARGEST,
    MOST,
    MOST_BYTES,
    find_references,
    read_references,
    with_references,
)

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


def named(text):
    return [(found.path, found.first, found.last) for found in find_references(text)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("look at @src/a.py", [("src/a.py", None, None)]),
        ("@a.py:10-40 and (@b.py:7), then @docs/.", None),
        ('"@a.py", @"two words.md":3-4!', [("a.py", None, None), ("two words.md", 3, 4)]),
        ("@größe/ä.txt … @文件.md", [("größe/ä.txt", None, None), ("文件.md", None, None)]),
        ("mail me@example.org or \\@a.py, a@b@c", []),
        ("`@a.py` and ``x `@b.py` ``", []),
        ('@"`1`" @"a `b` c.md"', []),
        ("```\n@decorator\n```\n@real.py", [("real.py", None, None)]),
        ("~~~py\n@a.py\n```\n@b.py\n~~~", []),
        ("@ @@ @\n", []),
        ("@../x @/etc/passwd", [("../x", None, None), ("/etc/passwd", None, None)]),
        ("@a.py:x @a:1:2", [("a.py:x", None, None), ("a:1", 2, 2)]),
    ],
)
def test_what_is_a_reference(text, found):
    if found is None:
        found = [("a.py", 10, 40), ("b.py", 7, 7), ("docs/", None, None)]
    assert named(text) == found


TEXTS = st.text(st.sampled_from('@ab./:19- \n`~"\\(),ä\0\udc80'), max_size=40)


@given(TEXTS)
@example("@" * 40)
@example('@"`1`"')
@settings(max_examples=500)
def test_references_are_parts_of_their_text_in_order(text):
    at = 0
    for found in find_references(text):
        assert at <= found.start < found.end <= len(text)
        assert text[found.start] == "@"
        assert found.path
        assert found.path in text[found.start : found.end]
        assert found.start == 0 or not text[found.start - 1].isalnum()
        at = found.end


@given(TEXTS)
def test_what_stands_in_a_fence_refers_to_nothing(text):
    inside = text.replace("`", "").replace("~", "")
    assert named(f"```\n{inside}\n```\n") == []


@given(TEXTS.filter(lambda text: REFERENCED not in text))
def test_what_a_person_said_can_be_had_back(text):
    blocks = [f'"a.py":\n{quote("x")}', f'"b":\n{quote(chr(10))}']
    whole = with_references(text, blocks)
    assert without_references(whole).rstrip() == text.rstrip()
    told = f"The user writes:\n{quote(whole)}\n\nw1 writes:\n{quote('hello')}"
    back = without_references(told)
    assert back.endswith("\n\nw1 writes:\n> hello")
    assert "a.py" not in back.replace(quote(text), "")


@pytest.fixture
def workspace(tmp_path):
    folder = tmp_path / "ws"
    folder.mkdir()
    (folder / "a.py").write_text("".join(f"line {n}\n" for n in range(1, 51)))
    return folder


def read(workspace, text, *, shows_images=True):
    def why_not(path):
        return why_not_read(path, str(workspace), str(workspace))

    return read_references(text, str(workspace), why_not, shows_images=shows_images)


@pytest.mark.requirement("U4")
def test_a_file_some_lines_and_a_folder_are_quoted(workspace):
    (workspace / "docs" / "deep").mkdir(parents=True)
    (workspace / "docs" / "one two.md").write_text("# One")
    (workspace / "docs" / ".env").write_text("KEY=1")
    (workspace / "docs" / "deep" / "x\ny").write_text("")
    found = read(workspace, 'see @a.py:3-4, @docs/ and @"docs/one two.md", @a.py:3-4')
    assert found.told == []
    assert found.blocks == [
        '"a.py", lines 3 to 4:\n> line 3\n> line 4',
        '"docs/":\n> deep/\n>   "x\\ny"\n> one two.md',
        '"docs/one two.md":\n> # One',
    ]
    [last] = read(workspace, "@a.py:49-80").blocks
    assert last == '"a.py", lines 49 to 50:\n> line 49\n> line 50'


def test_what_is_no_file_is_plain_text_unless_it_looks_like_one(workspace):
    found = read(workspace, "ask @nobody about @dataclass(frozen=True) and @src/gone.py, @gone.md")
    assert found.blocks == []
    assert found.told == [
        "@src/gone.py is not shown: there is no such file in the workspace",
        "@gone.md is not shown: there is no such file in the workspace",
    ]


@pytest.mark.requirement("U4")
def test_nothing_outside_of_the_workspace_is_read(workspace, tmp_path):
    (tmp_path / "secret.txt").write_text("the secret")
    (workspace / "link").symlink_to(tmp_path / "secret.txt")
    (workspace / "up").symlink_to(tmp_path)
    (workspace / "in").symlink_to("a.py")
    found = read(workspace, f"@../secret.txt @link @up/secret.txt @{tmp_path}/secret.txt @up")
    assert found.blocks == []
    assert [told.split(": ")[-1] for told in found.told] == ["it is outside the workspace"] * 5
    absolute = read(workspace, f"@{workspace}/a.py:1 @in:2")
    assert [block.split("> ")[-1] for block in absolute.blocks] == ["line 1", "line 2"]


def test_what_agents_may_not_read_unasked_is_not_shown(workspace):
    (workspace / ".env").write_text("TOKEN=hunter2")
    (workspace / "innocent.txt").symlink_to(".env")
    (workspace / "server.key").write_text("private")
    found = read(workspace, "@.env @innocent.txt @server.key @./")
    assert "hunter2" not in str(found)
    assert [told.split()[0] for told in found.told] == ["@.env", "@innocent.txt", "@server.key"]
    assert all("may hold a secret" in told for told in found.told)


def test_what_waits_or_acts_when_it_is_opened_is_not_opened(workspace):
    os.mkfifo(workspace / "pipe.txt")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(workspace / "sock.txt"))
        found = read(workspace, "@pipe.txt @sock.txt")
    assert found.blocks == []
    assert [told.split(": ")[-1] for told in found.told] == [
        "it is neither a file nor a folder"
    ] * 2


@pytest.mark.requirement("U4")
def test_large_files_are_cut_and_binary_ones_left_out(workspace):
    (workspace / "large.txt").write_text("ä" * LARGEST)
    (workspace / "odd.txt").write_bytes(b"caf\xe9\n")
    (workspace / "data.bin").write_bytes(b"\0\1\2")
    found = read(workspace, "@large.txt @odd.txt @data.bin")
    large, odd = found.blocks
    assert large.endswith("\n> … [cut by prsm at 100 of 200 KB]")
    assert LARGEST < len(large.encode()) < LARGEST + 100
    assert odd == '"odd.txt":\n> caf\ufffd'
    assert found.told == ["@data.bin is not shown: it is no text"]


def test_all_of_a_text_has_limits(workspace):
    for number in range(MOST + 1):
        (workspace / f"{number}.txt").write_text("x" * 10)
    many = read(workspace, " ".join(f"@{n}.txt" for n in range(MOST + 1)))
    assert len(many.blocks) == MOST
    assert many.told == [f"@{MOST}.txt is not shown: a text may refer to {MOST} files"]
    for number in range(6):
        (workspace / f"{number}.txt").write_text("x" * LARGEST)
    much = read(workspace, " ".join(f"@{n}.txt" for n in range(6)))
    assert sum(map(len, much.blocks)) < MOST_BYTES + 1000
    assert len(much.told) == 2


def test_an_image_is_given_as_one_where_that_is_shown(workspace):
    (workspace / "shot.png").write_bytes(PNG)
    assert read(workspace, "@shot.png").images == [str(workspace / "shot.png")]
    found = read(workspace, "@shot.png", shows_images=False)
    assert found.images == []
    assert found.told == [
        "@shot.png is not shown: it is an image, and the provider of the agent takes none"
    ]


def test_lines_that_there_are_not_are_told(workspace):
    found = read(workspace, "@a.py:51 @a.py:9-3")
    assert found.blocks == []
    assert found.told == [
        "@a.py is not shown: it has no line 51",
        "@a.py is not shown: its lines end before",
    ]
