"""What every AppHandle refuses, in the same words."""

from __future__ import annotations

from prsm_core.domain.agents import PermissionMode
from prsm_core.errors import ConfigError


def known_mode(mode: str) -> PermissionMode:
    """Return the mode of that name; raises ConfigError where there is none."""
    try:
        return PermissionMode(mode)
    except ValueError as error:
        known = ", ".join(PermissionMode)
        raise ConfigError(f"there is no mode {mode!r}", hint=f"use one of {known}") from error
