"""Where pages are read from, and where this plugin keeps what it must find again."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from prsm_core.kit import state_folder

if TYPE_CHECKING:
    from pathlib import Path

PAGES = ".prism/protocols"  # of a workspace that is trusted
MEASUREMENTS = "_measurements"  # of PRSM's state


def kept_folder() -> Path:
    """Return the folder of the pages that agents are pinned to."""
    return _kept_in(state_folder())


@lru_cache(8)  # each decision about a tool asks
def _kept_in(state: Path) -> Path:
    return state / "protocols"


def measurements_folder() -> Path:
    """Return the folder that measurements go to where the settings name none."""
    return state_folder() / MEASUREMENTS
