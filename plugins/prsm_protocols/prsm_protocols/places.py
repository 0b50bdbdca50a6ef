"""Where pages are read from, and where this plugin keeps what it must find again."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

PAGES = ".prism/protocols"  # of a workspace that is trusted


def state_folder() -> Path:
    """Return the folder of PRSM's state, as the core resolves it from the environment."""
    if home := os.environ.get("PRSM_HOME"):
        return Path(home).expanduser().absolute() / "state"
    return platformdirs.user_state_path("prsm")


def kept_folder() -> Path:
    """Return the folder of the pages that agents are pinned to."""
    return state_folder() / "protocols"


def measurements_folder() -> Path:
    """Return the folder that measurements go to where the settings name none."""
    return state_folder() / "_measurements"
