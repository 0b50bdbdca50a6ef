"""The files that configure PRSM: each may end in .yaml or in .yml, and there is one of them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from prsm_core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Container
    from pathlib import Path

CONFIG, MODELS, POLICY = "config", "models", "policy"
STEMS = (CONFIG, MODELS, POLICY)


def spellings(stem: str) -> tuple[str, str]:
    """Return the names that a file may have; the first is that of one that is made."""
    return f"{stem}.yaml", f"{stem}.yml"


def choose_name(stem: str, there: Container[str]) -> str:
    """Return the name of a file among those that are there; the usual one if there is none."""
    usual, other = spellings(stem)
    return other if other in there and usual not in there else usual


def find_file(folder: Path, stem: str) -> Path:
    """Return where a file of a folder is, or would be made; raises nothing if there are two."""
    return folder / choose_name(stem, _names_in(folder, stem))


def require_one(folder: Path, stem: str, there: Container[str] | None = None) -> str:
    """Return the name of a file; raise ConfigError if it is there by both of its names.

    `there` are the names in the folder, where these are known.
    """
    names = _names_in(folder, stem) if there is None else there
    if all(name in names for name in spellings(stem)):
        usual, other = (folder / name for name in spellings(stem))
        raise ConfigError(
            f"{usual} and {other}: both are there, and one alone would be read",
            hint="put what holds into one of them, and remove the other",
        )
    return choose_name(stem, names)


def _names_in(folder: Path, stem: str) -> set[str]:
    return {name for name in spellings(stem) if os.path.lexists(folder / name)}
