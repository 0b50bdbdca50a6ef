"""What the verdict on a command depends on beside its text, and what keeps it from being told."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from prsm_core.domain.permissions import Deny
from prsm_core.domain.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable

    from prsm_core.domain.agents import PermissionMode

MAX_PART = 120  # characters of a command that a reason shows


class CommandSetting(Record, frozen=True, kw_only=True):
    """What the verdict on a command depends on beside its text.

    Whoever decides on the thread of a loop does not wait for an answer of git's: what needs one
    then raises UnaskedError.
    """

    mode: PermissionMode
    cwd: str
    workspace: str
    trusted: bool
    waits: bool = True


class UnaskedError(Exception):
    """A verdict needs an answer of git's that is not there, and nobody may wait for it here.

    `ask` waits for the answer: call it in a thread, and judge again.
    """

    def __init__(self, ask: Callable[[], object]) -> None:
        super().__init__("git was not asked yet")
        self.ask = ask


def folder_of(setting: CommandSetting) -> str:
    """Return the folder that a command begins in, resolved; as it is named if it cannot be."""
    try:
        return os.path.realpath(Path(setting.workspace, setting.cwd))
    except ValueError:  # a NUL, or half a character
        return setting.workspace


def policy_failed(error: Exception) -> Deny:
    """Return the refusal of what the policy cannot judge because it fails itself."""
    what = f"{type(error).__name__}: {error}"[:MAX_PART]
    return Deny(f"the command policy failed on it ({what}); report it, and try another command")
