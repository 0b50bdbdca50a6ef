"""Codex itself, in place of the launcher that npm installs: a script that only looks for it.

Node takes as long to start as Codex does, and stays in memory for as long as Codex runs. All else
that the launcher does is to name the package manager, for hints on updates.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_PACKAGE = "@openai/codex"
_LAUNCHER = ("bin", "codex.js")  # in the package
_BUILDS = {
    ("linux", "x86_64"): ("linux-x64", "x86_64-unknown-linux-musl"),
    ("linux", "aarch64"): ("linux-arm64", "aarch64-unknown-linux-musl"),
    ("darwin", "x86_64"): ("darwin-x64", "x86_64-apple-darwin"),
    ("darwin", "arm64"): ("darwin-arm64", "aarch64-apple-darwin"),
}


def unwrapped(argv: Sequence[str]) -> tuple[str, ...]:
    """Return a command line with Codex in place of its launcher, if that is what it runs."""
    first = shutil.which(argv[0])
    program = None if first is None else _behind(Path(first).resolve())
    return tuple(argv) if program is None else (str(program), *argv[1:])


def _behind(launcher: Path) -> Path | None:
    """Return the program that a launcher would run, if it is one."""
    build = _BUILDS.get((sys.platform, os.uname().machine))
    if build is None or launcher.parts[-2:] != _LAUNCHER or not _is_codex(launcher.parents[1]):
        return None
    package, target = build
    # Node looks for a package beside each of the folders that the launcher is in.
    places = (folder / "node_modules" / f"{_PACKAGE}-{package}" for folder in launcher.parents)
    place = next((one for one in places if (one / "package.json").is_file()), launcher.parents[1])
    program = place / "vendor" / target / "bin" / "codex"
    return program if program.is_file() and os.access(program, os.X_OK) else None


def _is_codex(folder: Path) -> bool:
    try:
        about = json.loads((folder / "package.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(about, dict) and about.get("name") == _PACKAGE
