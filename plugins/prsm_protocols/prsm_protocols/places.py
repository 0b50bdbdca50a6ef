"""Where pages are read from, and where this plugin keeps what it must find again."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

import platformdirs

PAGES = ".prism/protocols"  # of a workspace that is trusted


def state_folder() -> Path:
    """Return the folder of PRSM's state, as the core resolves it from the environment."""
    return _state_of(os.environ.get("PRSM_HOME"))


@lru_cache(8)
def _state_of(home: str | None) -> Path:
    """Return the folder for a value of PRSM_HOME; each decision about a tool asks for it."""
    if home:
        return Path(home).expanduser().absolute() / "state"
    return platformdirs.user_state_path("prsm")


def kept_folder() -> Path:
    """Return the folder of the pages that agents are pinned to."""
    return _kept_of(os.environ.get("PRSM_HOME"))


@lru_cache(8)
def _kept_of(home: str | None) -> Path:
    return _state_of(home) / "protocols"


def measurements_folder() -> Path:
    """Return the folder that measurements go to where the settings name none."""
    return state_folder() / "_measurements"
