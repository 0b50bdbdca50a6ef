"""Finds what PRSM has on a disk, and says by which lines it is removed."""

from __future__ import annotations

import os
import shlex
import sys
from contextlib import suppress
from importlib.metadata import distributions
from pathlib import Path
from typing import TYPE_CHECKING

from prsm_core.catalog.packages import OWN_PACKAGES
from prsm_core.cli.checkup.folders import format_size
from prsm_core.cli.installing import CORE, managed_by
from prsm_core.domain.record import Record
from prsm_core.kit.places import own_folders

if TYPE_CHECKING:
    from collections.abc import Sequence

_MEANINGS = (
    "configuration",
    "data: ledgers, snapshots, trust",
    "state: locks, logs, vendors' homes",
    "worktrees of agents",
)


class Place(Record, frozen=True, kw_only=True):
    """A folder of PRSM's, and the bytes below it."""

    what: str
    path: Path
    size: int

    @property
    def row(self) -> tuple[str, str, str]:
        """The place as a row of a table."""
        return self.what, str(self.path), format_size(self.size)


def find_places() -> list[Place]:
    """Return the folders that are there; one in another of them is counted alone."""
    config, data, state, trees, _ = own_folders(os.environ)
    folders = (config, data, state, trees)
    return [
        Place(what=what, path=path, size=_size(path, folders))
        for what, path in zip(_MEANINGS, folders, strict=True)
        if path.is_dir()
    ]


def removal_lines() -> list[str]:
    """Return the lines for a shell: first the folders, then the packages."""
    folders = [place.path for place in find_places()]
    outer = [path for path in folders if not _is_within(path, folders)]
    return [*(f"rm -rf -- {shlex.quote(str(path))}" for path in outer), _package_line()]


def _is_within(path: Path, folders: Sequence[Path]) -> bool:
    return any(path != other and path.is_relative_to(other) for other in folders)


def _package_line() -> str:
    prefix = Path(sys.prefix)
    if (manager := managed_by(prefix)) is not None:
        return shlex.join((*manager, "uninstall", prefix.name))
    own = {CORE, *(package.distribution for package in OWN_PACKAGES.values())}
    names = sorted(own & {each.name for each in distributions()})
    return shlex.join((sys.executable, "-m", "pip", "uninstall", *names))


def _size(folder: Path, others: Sequence[Path]) -> int:
    """Return the bytes of the files below a folder, but for those of another one of PRSM's."""
    total = 0
    for root, names, files in os.walk(folder):
        names[:] = [name for name in names if Path(root, name) not in others]
        total += sum(_file_size(Path(root, file)) for file in files)
    return total


def _file_size(path: Path) -> int:
    # Its owner may be at work.
    with suppress(OSError):
        return path.lstat().st_size
    return 0
