"""What a file holds before an edit: looked at inside the workspace only, up to a size.

A file whose name says that it holds secrets is not looked at: what is found goes into an event.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from prsm_core.domain.record import Record
from prsm_core.policies.within import is_within

LARGEST = 1 << 20  # bytes of a file that is read


class WorkspaceFiles(Record, frozen=True):
    """The files of a workspace; paths are relative to `cwd`."""

    cwd: str
    workspace: str

    def text(self, path: str) -> str | None:
        """Return what is in a file, nothing where there is none, None where it is not looked at."""
        from prsm_core.policies.names import secret_part  # with the first path: see the room

        try:
            found = os.path.realpath(Path(self.cwd, path))
            if not Path(found).exists():
                return ""
            about = Path(found).stat()
        except (OSError, ValueError):  # a name that no file can have, or a folder that is closed
            return None
        root = os.path.realpath(self.workspace)
        if not is_within(found, root) or secret_part(found[len(root) :]):
            return None
        if not stat.S_ISREG(about.st_mode):
            return None
        return _read(Path(found), about.st_size)


def _read(file: Path, size: int) -> str | None:
    if size > LARGEST:
        return None
    try:
        with file.open("rb") as opened:
            return opened.read(LARGEST).decode()
    except (OSError, UnicodeDecodeError):  # it is no text
        return None
