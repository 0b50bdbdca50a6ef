"""How the process of one agent is started: argv, environment, files; the files are written here."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from prsm_core.kit import make_private, write_private

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
    make_private(home)
    write_private(launch.files)


async def discard(home: Path) -> None:
    """Remove an agent's private folder."""
    await asyncio.to_thread(shutil.rmtree, home, ignore_errors=True)
