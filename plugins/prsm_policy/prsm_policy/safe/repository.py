"""Which programs git would start by the configuration of a repository.

What counts is what one command would start: from what git says is configured where it runs, and
in the submodules it looks into. The configuration of the user and of the system is theirs. A
folder that may be a bare repository is asked about: git is told elsewhere to ignore such folders,
but an old one does not.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from prsm_core.policies import is_within, protected_part
from prsm_policy.safe.gitkeys import recurses, starts

if TYPE_CHECKING:
    from prsm_policy.places import Place
    from prsm_policy.safe.gitkeys import Setting

_MAX_REPOSITORIES = 40  # one in another


def may_start_programs(name: str, place: Place) -> bool:
    """Return whether a subcommand of git may start what a repository here configures.

    Raises UnaskedError where git must be asked and nobody may wait.
    """
    if name == "version" or not place.is_seen:
        return False
    return any(_Look(name, place).is_hostile(folder) for folder in place.folders)


def has_remote(name: str, place: Place) -> bool:
    """Return whether a remote of that name is configured wherever a command may run.

    Without one git takes the name for a repository that lies here, and starts a program for it.
    Raises UnaskedError where git must be asked and nobody may wait.
    """
    return not place.is_seen or all(
        _names(folder, f"remote.{name}.url", place) for folder in place.folders
    )


def _names(folder: str, key: str, place: Place) -> bool:
    while place.looks.spend():
        if os.path.lexists(f"{folder}/.git"):
            answer = place.looks.ask_git(folder)
            return answer is not None and any(each.key == key for each in answer.settings)
        if folder == "/":
            return False
        folder = folder.rpartition("/")[0] or "/"
    return False


class _Look:
    """What one command would start, in one repository and in those it looks into."""

    def __init__(self, name: str, place: Place) -> None:
        self._name = name
        self._place = place
        self._left = _MAX_REPOSITORIES

    def is_hostile(self, folder: str) -> bool:
        """Return whether the repository around a folder makes git start a program."""
        while self._place.looks.spend():
            if os.path.lexists(f"{folder}/.git"):
                return self._starts(folder)
            if os.path.lexists(f"{folder}/HEAD"):
                return True
            if folder == "/":
                return False
            folder = folder.rpartition("/")[0] or "/"
        return True

    def _starts(self, folder: str) -> bool:
        self._left -= 1
        answer = self._place.looks.ask_git(folder) if self._left >= 0 else None
        if answer is None:
            return True
        if answer.work_tree != folder and not is_within(answer.work_tree, self._place.root):
            return True
        own = [setting for setting in answer.settings if self._is_of_repository(setting)]
        if starts(self._name, own) or os.path.lexists(answer.hook):
            return True
        if answer.submodules and recurses(self._name, answer.settings):
            return True
        return any(self._is_hostile_part(path) for path in answer.submodules)

    def _is_hostile_part(self, path: str) -> bool:
        if not self._place.looks.spend():
            return True
        return os.path.lexists(f"{path}/.git") and self._starts(path)

    def _is_of_repository(self, setting: Setting) -> bool:
        """Return whether a setting may have come with the repository, or from an agent."""
        if not setting.is_persons:
            return True
        origin = os.path.realpath(setting.origin)
        return is_within(origin, self._place.root) and protected_part(origin) is None
