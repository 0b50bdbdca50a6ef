"""Hints that name programs: what a person is told to run is there, by that name or by its path."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from prsm_core.errors import ProcessError, ProviderNotAvailableError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


_RUN = re.compile(r"(?P<run>\b[Rr]un) `(?P<program>[\w.-]+)(?P<words>[^`]*)`")


def runnable(text: str, commands: Mapping[str, Sequence[str]] | None = None) -> str:
    """Return a text in which each "run `program …`" can be typed as it stands.

    A program that is not on the PATH is replaced by its command in `commands`, or said to be
    missing.
    """
    known = commands or {}

    def typed(match: re.Match[str]) -> str:
        program, words = match["program"], match["words"]
        if shutil.which(program) is not None:
            return match[0]
        command = known.get(program)
        if command is not None and shutil.which(command[0]) is not None:
            return f"{match['run']} `{shlex.join(command)}{words}`"
        return f"{match[0]} (`{program}` is not on your PATH)"

    return _RUN.sub(typed, text)


def proxy_missing(program: str, seconds: float) -> ProviderNotAvailableError:
    """Return the error of a CLI whose proxy did not connect within so many seconds."""
    return ProviderNotAvailableError(
        f"{program} did not start the server of its orchestration tools within {seconds:g} s; "
        "it would have worked without them",
        hint=f"look whether {program} may start MCP servers, and at its own log",
    )


def require_folder(name: str, folder: str | None) -> None:
    """Raise ProcessError when the folder that a program is to work in is not there."""
    if folder is not None and not Path(folder).is_dir():
        raise ProcessError(
            f"{name} was not started: there is no folder {folder}",
            hint="its working folder was removed or never existed; give one that exists",
        )
