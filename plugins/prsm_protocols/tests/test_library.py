"""The pages of a workspace are as its files are, however little is looked at for it."""

from __future__ import annotations

import os
import time
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
SECOND = 1_000_000_000


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    """Two pages, in a folder that was last changed long ago as far as its time can be set."""
    folder = tmp_path / PAGES
    folder.mkdir(parents=True)
    (folder / "inbox.md").write_text(INBOX, encoding="utf-8")
    (folder / "idle.md").write_text(IDLE, encoding="utf-8")
    os.utime(folder, (1000, 1000))
    return folder


@pytest.fixture
def listings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The folders that are listed from now on."""
    listed: list[str] = []
    scandir = os.scandir

    def noted(folder: str) -> object:
        listed.append(str(folder))
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", noted)
    return listed


def late() -> int:
    """Return a time at which whatever is changed gets another than what was changed before."""
    return time.time_ns() + 10 * SECOND


def test_a_folder_that_is_as_it_was_is_listed_once(
    tmp_path: Path, pages: Path, listings: list[str]
) -> None:
    library, workspace = Library(late), str(tmp_path)
    assert library.unchanged(workspace) is None  # nothing was read yet
    known = library.read(workspace)
    assert library.unchanged(workspace) is known
    listings.clear()
    assert library.unchanged(workspace) is known
    assert listings == []


def test_a_folder_is_listed_as_long_as_its_time_may_not_tell_of_a_change(
    tmp_path: Path, pages: Path, listings: list[str]
) -> None:
    library, workspace = Library(lambda: pages.stat().st_ctime_ns), str(tmp_path)
    known = library.read(workspace)
    assert library.unchanged(workspace) is known
    listings.clear()
    assert library.unchanged(workspace) is known
    assert len(listings) == 1


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
    library, workspace = Library(late), str(tmp_path)
    known = library.read(workspace)
    for _ in range(2):
        assert library.unchanged(workspace) is known
    change(pages)
    assert library.unchanged(workspace) is None
    assert library.read(workspace) is not known


def test_pages_that_are_wrong_are_so_as_long_as_they_are_the_same(
    tmp_path: Path, pages: Path
) -> None:
    (pages / "inbox.md").write_text("# Nothing\n", encoding="utf-8")
    library = Library(late)
    for ask in (library.read, library.unchanged, library.unchanged):
        with pytest.raises(ProtocolError):
            ask(str(tmp_path))
