"""What agents may have written, kept in a file beside the trust in a workspace."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from prsm_core.config.paths import private_dir
from prsm_core.errors import ConfigError
from prsm_core.policies.written import Written

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


class KeptNames(Written):
    """The names in a file; sessions add to it, and each reads what the others have added."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._seen: tuple[int, int] | None = None

    def _keep(self, sign: str, names: Iterable[str]) -> None:
        try:
            private_dir(self._path.parent)
            with self._path.open("a") as file:
                file.writelines(f"{sign}{name}\n" for name in sorted(names))
        except (OSError, ConfigError):
            # Nobody will know of it later, so that for now nothing counts as unwritten.
            self._is_lost = True

    def _read(self) -> None:
        """Read what is in the file, unless that was read already."""
        if self._is_lost:
            return
        try:
            status = os.stat(self._path)  # noqa: PTH116 - on the way of every decision
            if self._seen == (seen := (status.st_size, status.st_mtime_ns)):
                return
            lines = self._path.read_text().splitlines()
        except FileNotFoundError:
            self._names, self._seen = set(), None
            return
        except (OSError, ValueError):
            self._is_lost = True
            return
        names: set[str] = set()
        for line in lines:
            (names.add if line[:1] == "+" else names.discard)(line[1:])
        self._names, self._seen = names, seen
