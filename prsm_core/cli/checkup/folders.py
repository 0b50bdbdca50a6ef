"""Checks of the folders that PRSM writes to: whose they are, who may enter, what room is left."""

from __future__ import annotations

import os
import shlex
import shutil
import stat
from typing import TYPE_CHECKING

from prsm_core.cli.checkup.finding import Finding, broken, ok, warning
from prsm_core.config.paths import temp_notice

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from prsm_core.config import Paths

LOW_BYTES = 1 << 30
FULL_BYTES = 64 << 20

ELSEWHERE = "set PRSM_HOME to another folder"


def check_folders(paths: Paths, ledger: Path, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Look whether the folders of data and state are this user's alone."""
    bad: list[Finding] = []
    if notice := temp_notice(paths, environ):
        bad.append(warning("folders", notice, ELSEWHERE))
    below = (paths.state / "runs", paths.state / "logs")
    for folder in (paths.data, ledger.parent, paths.state, *below):
        bad.extend(finding for finding in _look(folder) if finding not in bad)
    yield from bad
    if not bad:
        yield ok("folders", f"{paths.data} and {paths.state} are for this user only")


def check_disk(paths: Paths) -> Iterator[Finding]:
    """Look how much room is left where data and state lie."""
    seen = set()
    for folder in (paths.data, paths.state):
        place = _existing(folder)
        device = place.stat().st_dev
        if device not in seen:
            seen.add(device)
            yield judge_space(place, shutil.disk_usage(place).free)


def judge_space(place: Path, free: int) -> Finding:
    """Return what `free` bytes mean for PRSM."""
    message = f"{format_size(free)} free at {place}"
    cure = f"make room there, or {ELSEWHERE}"
    if free < FULL_BYTES:
        return broken("disk", message, cure)
    return warning("disk", message, cure) if free < LOW_BYTES else ok("disk", message)


def format_size(size: float) -> str:
    """Return bytes as a person reads them: 512 B, 1.5 MiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def _look(folder: Path) -> Iterator[Finding]:
    place = _existing(folder)
    if not place.is_dir():
        yield broken("folders", f"{place} is not a folder", f"remove it, or {ELSEWHERE}")
    elif not os.access(place, os.W_OK | os.X_OK):
        yield broken("folders", f"{place} cannot be written to", f"allow it, or {ELSEWHERE}")
    elif place == folder:
        yield from _look_at_mode(folder)


def _look_at_mode(folder: Path) -> Iterator[Finding]:
    found = folder.stat()
    mode = f"{stat.S_IMODE(found.st_mode):04o}"
    cure = f"chmod 700 {shlex.quote(str(folder))}"
    if found.st_uid != os.geteuid():
        yield broken("folders", f"{folder} belongs to another user", ELSEWHERE)
    elif found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        yield broken("folders", f"others may write to {folder} (mode {mode})", cure)
    elif found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        yield warning("folders", f"others may look into {folder} (mode {mode})", cure)


def _existing(folder: Path) -> Path:
    """Return the folder, or the nearest one above it that there is."""
    return next(place for place in (folder, *folder.parents) if os.path.lexists(place))
