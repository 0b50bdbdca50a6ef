"""What a folder's restores have written of themselves: the one that is under way, and its debts.

An intent is on the disk before the first file changes, and gone after the last one did. What is to
be done besides, once the files are there, is in it from the beginning; it is owed from the end of
the restore until whoever restores has done it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec import Struct

from prsm_core import ConfigError
from prsm_files.shadow.files import put, read_note, sync
from prsm_files.shadow.whereabouts import INTENT, OWED

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

Owed: TypeAlias = "Mapping[str, Any]"  # JSON values, of which only their owner knows what they mean


class Intent(Struct, frozen=True):
    """A restore that has begun: from the snapshot `safety` to the snapshot `target`."""

    target: str
    safety: str
    begun_at: float  # Unix seconds
    with_staging: bool = True
    then: Owed | None = None  # what is owed once the files are there: JSON values
    number: int | None = None  # of the snapshot as of which changes are decided; None: the target


class Journal:
    """Owns the files, in the folder of a shadow."""

    def __init__(self, folder: Path) -> None:
        self._intent = folder / INTENT
        self._owed = folder / OWED

    def intent(self) -> Intent | None:
        """Return the restore that is under way, or was cut off."""
        given = read_note(self._intent)
        return None if given is None else Intent(**given)

    def begin(self, intent: Intent) -> None:
        """Write the intent, durably. Raises OSError."""
        _write(self._intent, intent)

    def finish(self, then: Owed | None = None) -> None:
        """Write what is owed; then end the restore. Raises OSError."""
        if then is not None:
            _write(self._owed, then)
        self.abandon()

    def owed(self) -> Owed | None:
        """Return what is to be done besides for a restore that is over; None: nothing."""
        return read_note(self._owed)

    def require_nothing_owed(self) -> None:
        """Raise ConfigError while something is owed: another restore would forget it."""
        if self._owed.exists():
            raise ConfigError(
                "what an undo of a prompt was to do with the conversation is not done yet",
                hint="`prsm undo --prompt` does it first, and tells",
                code="owed",
            )

    def settle(self) -> None:
        """Note that what was owed is done. Raises OSError."""
        self._owed.unlink(missing_ok=True)
        sync(self._owed.parent)

    def abandon(self) -> None:
        """End a restore that was taken back."""
        self._intent.unlink(missing_ok=True)
        sync(self._intent.parent)


def _write(file: Path, value: Struct | Mapping[str, Any]) -> None:
    put(file, json.dumps(msgspec.to_builtins(value)).encode("ascii"), is_durable=True)
