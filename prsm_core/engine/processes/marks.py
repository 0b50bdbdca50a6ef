"""The mark that each program of an engine carries in its environment, and whose it is.

It reads `PID-START[-PLACE]...`: the engine's pid, its start time, and a digest of each folder of
PRSM's own files that the engine goes by, its workspace's `.prism` among them. So it also says what
the engine worked on once that has ended. Who wants to be rid of the mark can be, but cannot take it
from its ancestors.
"""

from __future__ import annotations

import os
from hashlib import blake2b
from typing import TYPE_CHECKING

from prsm_core.domain.record import Record
from prsm_core.engine.processes.reaper_shim import MARK
from prsm_core.engine.processes.table import ProcessIdentity, boot_id, read_proc

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from prsm_core.engine.processes.table import Relative

_DIGEST_BYTES = 8


class Mark(Record, frozen=True, kw_only=True):
    """What one mark says."""

    engine: ProcessIdentity
    places: frozenset[str]


def place_digests(folders: Iterable[Path]) -> frozenset[str]:
    """Return what marks say of folders, by where these really lie."""
    paths = {os.path.realpath(folder) for folder in folders}
    return frozenset(blake2b(os.fsencode(p), digest_size=_DIGEST_BYTES).hexdigest() for p in paths)


def format_mark(engine: ProcessIdentity, folders: Iterable[Path]) -> str:
    """Return the mark of an engine that goes by these folders."""
    words = (str(engine.pid), str(engine.start_time), *sorted(place_digests(folders)))
    return "-".join(words)


def find_marks(line: Iterable[Relative]) -> list[Mark]:
    """Return the marks in the environments of these processes, as far as those can be read."""
    texts = {_variable(relative.identity.pid) for relative in line}
    return [mark for text in texts if text is not None and (mark := _parsed(text)) is not None]


def _parsed(text: str) -> Mark | None:
    pid, _, rest = text.partition("-")
    start_time, *places = rest.split("-")
    if not (pid.isdecimal() and start_time.isdecimal()):
        return None
    engine = ProcessIdentity(pid=int(pid), start_time=int(start_time), boot_id=boot_id())
    return Mark(engine=engine, places=frozenset(places))


def _variable(pid: int) -> str | None:
    try:
        variables = read_proc(f"/proc/{pid}/environ").split("\0")
    except OSError:
        return None
    name = f"{MARK}="
    return next((one.removeprefix(name) for one in variables if one.startswith(name)), None)
