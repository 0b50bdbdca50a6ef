"""What every AppHandle refuses, in the same words."""

from __future__ import annotations

from prsm_core.domain.agents import PermissionMode
from prsm_core.errors import ConfigError, PrsmError

NOT_BUILT = "not_built"


def not_built(what: str) -> PrsmError:
    """Return the error of an operation that is not there yet."""
    return PrsmError(
        f"this version of prsm cannot do that yet: {what}",
        hint="a later version of prsm-core can",
        code=NOT_BUILT,
    )


def known_mode(mode: str) -> PermissionMode:
    """Return the mode of that name; raises ConfigError where there is none."""
    try:
        return PermissionMode(mode)
    except ValueError as error:
        known = ", ".join(PermissionMode)
        raise ConfigError(f"there is no mode {mode!r}", hint=f"use one of {known}") from error
