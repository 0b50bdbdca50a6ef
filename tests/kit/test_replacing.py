"""Files are replaced as a whole, and nothing else is."""

import os
import socket

import pytest

from prsm_core.kit.regular import replace_file


def test_a_file_is_replaced_with_its_mode_and_a_link_by_a_file(tmp_path):
    path, link = tmp_path / "a", tmp_path / "b"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to(path)
    replace_file(path, b"new")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"new", 0o640)
    replace_file(link, b"other")
    assert (link.is_symlink(), link.read_bytes(), path.read_bytes()) == (False, b"other", b"new")


@pytest.mark.parametrize("kind", ["pipe", "socket", "folder"])
def test_what_is_no_file_is_never_replaced(tmp_path, kind):
    path = tmp_path / "odd"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(str(path))
    before = path.lstat()
    with pytest.raises(OSError, match=r"regular file|directory"):
        replace_file(path, b"new")
    assert (path.lstat().st_ino, path.lstat().st_mode) == (before.st_ino, before.st_mode)
    assert [each.name for each in tmp_path.iterdir()] == ["odd"]
