"""Files that an agent reads and writes through PRSM."""

from __future__ import annotations

import pytest
from prsm_acp import files
from prsm_acp.errors import INVALID_PARAMS, NOT_FOUND, AcpError


async def test_a_text_comes_back_as_it_was_written(tmp_path):
    path = str(tmp_path / "deep" / "a.txt")
    files.write(path, "one\r\ntwo\n\u20ac")
    assert files.read(path, None, None) == "one\r\ntwo\n\u20ac"


@pytest.mark.parametrize(
    ("line", "limit", "expected"),
    [
        (2, None, "b\nc\n"),
        (1, 1, "a\n"),
        (2, 1, "b\n"),
        (None, 2, "a\nb\n"),
        (9, 1, ""),
        (0, 1, "a\n"),
    ],
)
async def test_a_part_of_a_file_is_told_by_lines(tmp_path, line, limit, expected):
    path = tmp_path / "a.txt"
    path.write_text("a\nb\nc\n")
    assert files.read(str(path), line, limit) == expected


async def test_what_cannot_be_read_says_why(tmp_path):
    with pytest.raises(AcpError, match="Resource not found") as caught:
        files.read(str(tmp_path / "none"), None, None)
    assert caught.value.number == NOT_FOUND
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(AcpError, match="is not text"):
        files.read(str(tmp_path / "bytes"), None, None)
    with pytest.raises(AcpError, match="directory"):
        files.read(str(tmp_path), None, None)
    with (tmp_path / "huge").open("wb") as huge:
        huge.truncate(17 * 2**20)
    with pytest.raises(AcpError, match="has more than"):
        files.read(str(tmp_path / "huge"), None, None)


async def test_a_link_that_appears_after_the_decision_is_not_followed(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    link.symlink_to(target)
    with pytest.raises(AcpError, match="symbolic links"):
        files.write(str(link), "x")
    assert not target.exists()


@pytest.mark.parametrize("path", ["a.txt", "", "/a\0b", 5, None])
def test_only_an_absolute_path_is_one(path):
    with pytest.raises(AcpError) as caught:
        files.real_path(path)
    assert caught.value.number == INVALID_PARAMS


def test_links_in_a_path_are_resolved_before_anybody_decides(tmp_path):
    (tmp_path / "inside").symlink_to("/etc")
    assert files.real_path(str(tmp_path / "inside" / "passwd")) == "/etc/passwd"
