"""A private home whose database is stuck, since Codex was killed in its very first start.

For a quarter of an hour it says that somebody is filling it, and no Codex starts there. Without the
database Codex makes another one at once, from the threads' own files.
"""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from prsm_core import Notice

if TYPE_CHECKING:
    from pathlib import Path

    from prsm_core import ProviderServices

_DATABASES = "state_*.sqlite"
_FILLING_SECONDS = 5.0  # what fills an empty one takes less than one of them
_LOOK_SECONDS = 0.2
_NOTICE = (
    "Codex was killed while it started here for the first time. Its database was set aside, "
    "as {name}: Codex makes another one of its threads."
)


async def unstick(home: Path, services: ProviderServices) -> Notice | None:
    """Set a stuck database aside and return a notice, if there is one.

    Another Codex may just be filling it, so wait for up to five seconds first.
    """
    waited = 0.0
    while (file := await asyncio.to_thread(_being_filled, home)) is not None:
        if waited >= _FILLING_SECONDS:
            return await asyncio.to_thread(_set_aside, file)
        await services.clock.sleep(_LOOK_SECONDS)
        waited += _LOOK_SECONDS
    return None


def _being_filled(home: Path) -> Path | None:
    return next((file for file in sorted(home.glob(_DATABASES)) if _is_being_filled(file)), None)


def _is_being_filled(file: Path) -> bool:
    """Whether a database says so. Of one that cannot be read Codex itself will tell."""
    try:
        with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=1.0)) as database:
            return ("running",) in database.execute("SELECT status FROM backfill_state").fetchall()
    except sqlite3.Error:
        return False


def _set_aside(file: Path) -> Notice:
    for part in (file, *(file.with_name(f"{file.name}{end}") for end in ("-wal", "-shm"))):
        if part.exists():
            part.replace(part.with_name(f"stuck-{part.name}"))
    return Notice("warning", _NOTICE.format(name=f"stuck-{file.name}"))
