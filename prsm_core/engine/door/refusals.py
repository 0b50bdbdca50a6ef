"""What every AppHandle refuses, in the same words."""

from __future__ import annotations

from prsm_core.domain.agents import PermissionMode
from prsm_core.errors import ConfigError

WAYS = ("prompt", "turn", "act")  # of an undo


def check_way(what: str) -> None:
    """Raise ConfigError for what no AppHandle undoes."""
    if what not in WAYS:
        raise ConfigError(
            f"{what!r} cannot be undone", hint=f"undo one of {', '.join(WAYS)}", code="unknown_undo"
        )


def run_open(session: str) -> ConfigError:
    """Return the error of an undo below agents that work."""
    return ConfigError(
        f"a run is open in session {session}: its agents work with what would be taken back",
        hint=f"end it first: press Ctrl-C where it runs, or `prsm kill master --session {session}`",
        code="run_open",
    )


def not_kept() -> ConfigError:
    """Return the error of an engine that keeps no files."""
    return ConfigError(
        "files are not kept here",
        hint="let `workspace.snapshots` be something else than off",
        code="no_snapshots",
    )


def known_mode(mode: str) -> PermissionMode:
    """Return the mode of that name; raises ConfigError where there is none."""
    try:
        return PermissionMode(mode)
    except ValueError as error:
        known = ", ".join(PermissionMode)
        raise ConfigError(f"there is no mode {mode!r}", hint=f"use one of {known}") from error
