"""The pages of a workspace are as its files are, however little is looked at for it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from prsm_protocols.library import Library
from prsm_protocols.places import PAGES
from prsm_protocols.problems import ProtocolError

from plugins.prsm_protocols.tests.conftest import IDLE, INBOX

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

OTHER = IDLE.replace("idle", "rest")


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    """Two pages of a workspace."""
    folder = tmp_path / PAGES
    folder.mkdir(parents=True)
    (folder / "inbox.md").write_text(INBOX, encoding="utf-8")
    (folder / "idle.md").write_text(IDLE, encoding="utf-8")
    return folder


def test_pages_that_are_as_they_were_are_read_once(tmp_path: Path, pages: Path) -> None:
    library, workspace = Library(), str(tmp_path)
    assert library.current(workspace) is None  # nothing was read yet
    known = library.read(workspace)
    assert library.current(workspace) is known
    assert library.read(workspace) is known


def _edited(pages: Path) -> None:
    (pages / "inbox.md").write_text(INBOX + "\nMore.\n", encoding="utf-8")


def _of_another_time(pages: Path) -> None:
    os.utime(pages / "inbox.md", (2000, 2000))


def _replaced(pages: Path) -> None:
    times = (pages / "idle.md").stat()
    (pages / "new").write_text(IDLE, encoding="utf-8")
    os.utime(pages / "new", ns=(times.st_atime_ns, times.st_mtime_ns))
    (pages / "new").rename(pages / "idle.md")


def _added(pages: Path) -> None:
    (pages / "rest.md").write_text(OTHER, encoding="utf-8")


def _taken_away(pages: Path) -> None:
    (pages / "idle.md").unlink()


def _renamed(pages: Path) -> None:
    (pages / "idle.md").rename(pages / "rest.md")


def _gone(pages: Path) -> None:
    pages.rename(pages.with_name("elsewhere"))


CHANGES = (_edited, _of_another_time, _replaced, _added, _taken_away, _renamed, _gone)


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_changes_in_a_folder_has_it_read_again(
    tmp_path: Path, pages: Path, change: Callable[[Path], None]
) -> None:
    library, workspace = Library(), str(tmp_path)
    known = library.read(workspace)
    change(pages)
    assert library.current(workspace) is None
    assert library.read(workspace) is not known


def test_pages_that_are_wrong_are_so_as_long_as_they_are_the_same(
    tmp_path: Path, pages: Path
) -> None:
    (pages / "inbox.md").write_text("# Nothing\n", encoding="utf-8")
    library = Library()
    for ask in (library.read, library.current, library.read):
        with pytest.raises(ProtocolError):
            ask(str(tmp_path))
