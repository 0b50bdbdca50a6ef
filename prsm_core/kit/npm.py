"""The version of a program that npm has installed, where the program takes long to tell it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence


def packaged_version(command: Sequence[str], package: str) -> str | None:
    """Return the version of an npm package, None where no file that `command` names lies in it.

    The words of a command line are looked at one after the other: the first may be `node`.
    """
    for word in command:
        program = _program(word)
        if program is None:
            continue
        for folder in program.parents:
            about = _about(folder / "package.json")
            if about.get("name") == package and isinstance(about.get("version"), str):
                return str(about["version"])
    return None


def _program(word: str) -> Path | None:
    """Return the file that a word stands for; most are none, and some could name none."""
    try:
        program = Path(shutil.which(word) or word).resolve()
        return program if program.is_file() else None
    except (OSError, ValueError):
        return None


def _about(path: Path) -> dict[str, Any]:
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return about if isinstance(about, dict) else {}
