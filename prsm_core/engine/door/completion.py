"""What the word that a person types may become: a path of the workspace, or an agent's name."""

from __future__ import annotations

import asyncio
import os
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from prsm_core.door import Completion

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST = 50
_LOOKED_AT = 20_000  # entries of a folder
_PATH = "@"


async def complete_word(text: str, workspace: str, names: Iterable[str]) -> list[Completion]:
    """Return what the last word of a text may become; see AppHandle.complete."""
    word = "" if text[-1:].isspace() else (text.split() or [""])[-1]
    if word.startswith(_PATH):
        return await asyncio.to_thread(_paths, Path(workspace), word.removeprefix(_PATH))
    found = sorted(name for name in names if word and name.startswith(word))
    return [Completion(text=name, kind="agent") for name in found[:MOST]]


def _paths(workspace: Path, begun: str) -> list[Completion]:
    """Return the entries of a folder that begin so, folders first; none outside the workspace."""
    above, _, start = begun.rpartition("/")
    root, folder = workspace.resolve(), (workspace / above).resolve()
    if begun.startswith("/") or "\0" in begun or not folder.is_relative_to(root):
        return []
    try:
        with os.scandir(folder) as entries:
            found = [
                (not entry.is_dir(), entry.name)
                for entry in islice(entries, _LOOKED_AT)
                if entry.name.startswith(start) and (start or not entry.name.startswith("."))
            ]
    except OSError:  # there is no such folder, or none that may be read: nothing begins so
        return []
    before = f"{above}/" if above else ""
    return [
        Completion(text=_written(f"{before}{name}"), kind="file")
        if is_file
        else Completion(text=f"{_PATH}{before}{name}/", kind="folder")
        for is_file, name in sorted(found)[:MOST]
    ]


def _written(path: str) -> str:
    """Return a path as it is referred to: one with blanks in quotes."""
    return f'{_PATH}"{path}"' if any(map(str.isspace, path)) else f"{_PATH}{path}"
