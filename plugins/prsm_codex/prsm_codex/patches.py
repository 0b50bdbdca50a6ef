"""Patches in Codex's own format: which files one touches, and which command is nothing else."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_FILE = re.compile(r"\*\*\*\s*(?:Add|Update|Delete) File:\s*(.+)|\*\*\*\s*Move to:\s*(.+)")

# Codex does such a command itself, and a shell would do the same: with its delimiter quoted, the
# body is no more than a text. Anything else that starts like it is a command.
_HEREDOC = re.compile(
    r"\s*(?:apply_patch|applypatch)\s*<<\s*(?P<quote>['\"])(?P<end>\w+)(?P=quote)[ \t]*\n"
    r"(?P<body>.*?\n)(?P=end)\s*",
    re.DOTALL,
)


def inside(command: str) -> str | None:
    """Return the patch of a command that only applies one; None for any other command."""
    found = _HEREDOC.fullmatch(command)
    if found is None or found["end"] in found["body"].split("\n"):
        return None  # the shell's text ends earlier: what follows is run
    return found["body"]


def paths(patch: str, cwd: str) -> Iterator[str]:
    """Yield every path that a patch names, where it moves a file to included."""
    for line in patch.split("\n"):
        found = _FILE.fullmatch(line.strip())
        if found:
            yield absolute((found[1] or found[2]).strip(), cwd)


def absolute(path: str, cwd: str) -> str:
    """Return a path as seen from a folder."""
    return str(PurePosixPath(cwd, path))
