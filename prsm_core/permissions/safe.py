"""Which plain commands are safe: nothing they do needs anybody's consent."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prsm_core.permissions.plain import word_set
from prsm_core.permissions.project_checks import is_project_check, is_version_output
from prsm_core.permissions.readonly import READ_ONLY
from prsm_core.permissions.readonly_git import is_read_only_git

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prsm_core.permissions.paths import Place
    from prsm_core.permissions.plain import SimpleCommand, Word

_SYSTEM_FOLDER = re.compile(r"/(?:usr/local/|usr/)?s?bin/([^/]+)")
# Only these may be set for a command; most others can make a program run another one.
_HARMLESS_VARIABLES = word_set(
    "LANG TZ NO_COLOR FORCE_COLOR CI TERM COLUMNS LINES PYTHONDONTWRITEBYTECODE PYTHONUNBUFFERED"
)


def program_name(word: Word) -> str | None:
    """Return the bare name of a program, None for one that only a path or a pattern leads to."""
    if word.glob or word.tilde:
        return None
    match = _SYSTEM_FOLDER.fullmatch(word.text)
    name = match[1] if match else word.text
    return None if "/" in name else name


def sets_only_harmless(command: SimpleCommand) -> bool:
    """Return whether no variable is set for a command that could change what it does."""
    return all(name in _HARMLESS_VARIABLES or name.startswith("LC_") for name in command.assigned)


def all_acceptable(
    commands: Sequence[SimpleCommand],
    place: Place,
    is_acceptable: Callable[[SimpleCommand, Place], bool],
) -> bool:
    """Return whether each command is acceptable in every folder it may run in.

    A `cd` to a folder below the workspace is followed, but not in a pipeline.
    """
    where: Place | None = place
    for command in commands:
        if where is None or not all(where.is_ordinary(word) for word in command.reads):
            return False
        if command.texts[0] == "cd":
            if command.piped or command.assigned or len(command.words) != 2:
                return False
            where = where.entered(command.words[1])
        elif not is_acceptable(command, where):
            return False
    return where is not None


def is_safe(command: SimpleCommand, place: Place, *, trusted: bool) -> bool:
    """Return whether a command is read-only or, if trusted, one of the project's checks."""
    name = program_name(command.words[0])
    if name is None or not sets_only_harmless(command):
        return False
    arguments = command.words[1:]
    if name == "git":
        return is_read_only_git(arguments, place)
    if name in READ_ONLY:
        return READ_ONLY[name](arguments, place) or is_version_output((name, *command.texts[1:]))
    if is_version_output((name, *command.texts[1:])):
        return True
    return trusted and name == command.texts[0] and is_project_check(command.words, place)
