"""What the verdict on a command depends on beside its text, and the one when judging it fails."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from prsm_core.domain.permissions import Deny
from prsm_core.domain.record import Record

if TYPE_CHECKING:
    from prsm_core.domain.agents import PermissionMode

MAX_PART = 120  # characters of a command that a reason shows


class CommandSetting(Record, frozen=True, kw_only=True):
    """What the verdict on a command depends on beside its text."""

    mode: PermissionMode
    cwd: str
    workspace: str
    trusted: bool


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
