"""Warnings that a person has seen: only a hint, so a missing or torn file repeats one."""

from __future__ import annotations

import hashlib
import json
import logging
from functools import cached_property
from typing import TYPE_CHECKING

from prsm_core.config.paths import private_dir
from prsm_core.errors import ConfigError
from prsm_core.kit.regular import read_whole, replace_file

if TYPE_CHECKING:
    from pathlib import Path

_log = logging.getLogger("prsm.config")

FILE = "seen-warnings.json"
MOST = 500  # texts, the newest
_LARGEST = 64 << 10  # bytes of a file that is read
_DIGITS = 32


class SeenWarnings:
    """Remembers texts by their hash: one that changes is new, and none is kept as it is."""

    def __init__(self, state: Path) -> None:
        """Remember in a folder, the state of this person's PRSM; it need not exist."""
        self._path = state / FILE
        self._new: list[str] = []

    def is_new(self, text: str) -> bool:
        """Return whether a text was not asked about before; from now on it was."""
        key = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:_DIGITS]
        if key in self._before or key in self._new:
            return False
        self._new.append(key)
        return True

    def save(self) -> None:
        """Keep what was new, beside what other runs have kept meanwhile."""
        if not self._new:
            return
        keys = dict.fromkeys((*_read(self._path), *self._new))
        try:
            private_dir(self._path.parent)
            replace_file(self._path, json.dumps(list(keys)[-MOST:]).encode())
        except (OSError, ConfigError) as error:
            _log.debug("seen warnings are not kept: %s", error)

    @cached_property
    def _before(self) -> frozenset[str]:
        return frozenset(_read(self._path))


def _read(path: Path) -> list[str]:
    try:
        keys = json.loads(read_whole(path, _LARGEST))
    except (OSError, ValueError, RecursionError) as error:
        _log.debug("no seen warnings are read: %s", error)
        return []
    return [key for key in keys if isinstance(key, str)] if isinstance(keys, list) else []
