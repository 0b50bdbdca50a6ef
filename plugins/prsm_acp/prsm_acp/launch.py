"""How the process of one agent is started: argv, environment, files; the files are written here."""

from __future__ import annotations

import asyncio
import os
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What a process is started with.

    Attributes:
        argv: The program and its arguments.
        cwd: Its working directory.
        env: Variables added to the allow-listed environment.
        files: Texts that are written, for the owner alone, before the start; by absolute path.
    """

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[Path, str] = field(default_factory=dict)


async def prepare(launch: Launch, home: Path) -> None:
    """Make the agent's private folder and write the files of its launch."""
    await asyncio.to_thread(_prepare, launch, home)


def _prepare(launch: Launch, home: Path) -> None:
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path, text in launch.files.items():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)


async def discard(home: Path) -> None:
    """Remove an agent's private folder."""
    await asyncio.to_thread(shutil.rmtree, home, ignore_errors=True)
