"""What agents may have written of the project's environment: programs that git ignores.

The programs of a virtual environment and of `node_modules` run unasked in a trusted workspace, and
reviews do not show them. So an edit there is asked about, and what was let through counts from then
on, for later sessions too, until a person trusts the workspace again. Manifests and lock files may
be edited: fetching by them is asked about until let through once. Only names count.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING

from prsm_core.policies.tables import word_set

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# Folders and files of an environment, which people and installers write, not agents.
ENVIRONMENT = word_set(
    ".venv venv site-packages .tox .nox node_modules .yarn .pnp.cjs vendor .bundle gradlew"
    " gradle/wrapper mvnw .mvn"
)
"""Names of what people and installers write."""
_VENDOR = "vendor"
_VENDORED = word_set("bin composer bundle autoload.php")
# Programs that lie among the project's sources: they may be edited, and count then.
_SCRIPTS = word_set("bin/rails bin/rake bin/rspec bin/rubocop manage.py")
# What a program fetches by, or builds its environment from.
PYTHON_MANIFESTS = word_set(
    "pyproject.toml uv.lock uv.toml poetry.lock poetry.toml pdm.lock pdm.toml pipfile pipfile.lock"
    " hatch.toml setup.py setup.cfg requirements .python-version tox.ini tox.toml noxfile.py"
)
"""What programs for Python fetch by."""
HOOK_MANIFESTS = word_set(".pre-commit-config.yaml")
"""What pre-commit fetches by."""
_NAMES = ENVIRONMENT | _SCRIPTS | PYTHON_MANIFESTS | HOOK_MANIFESTS
_REQUIREMENTS = re.compile(r"(?:[\w.-]*[-_.])?(?:requirements|constraints)[\w.-]*\.(?:txt|in)")
_FOLDER_OF_REQUIREMENTS = "requirements"


class Written:
    """The names of what agents may have written; of this process alone."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._is_lost = False

    def has_any(self, names: Iterable[str]) -> bool:
        """Return whether an agent may have written one of these; so too where that is not known."""
        self._read()
        return self._is_lost or not self._names.isdisjoint(names)

    def names(self) -> list[str]:
        """Return all that agents may have written."""
        self._read()
        return sorted(self._names)

    def note(self, names: Iterable[str]) -> None:
        """Take note that an agent may write what has these names."""
        self._read()
        if added := set(names) - self._names:
            self._names = self._names | added
            self._keep("+", added)

    def forget(self, names: Iterable[str]) -> None:
        """Take note that what has these names is a person's choice now."""
        self._read()
        if removed := self._names.intersection(names):
            self._names = self._names - removed
            self._keep("-", removed)

    def _read(self) -> None:
        """Read what is kept elsewhere."""

    def _keep(self, sign: str, names: Iterable[str]) -> None:
        """Keep elsewhere that names were added (+) or removed (-)."""


@lru_cache(maxsize=4096)
def environment_part(path: str) -> str | None:
    """Return the part of a path that is of the project's environment, None if none is."""
    return next((name for name in _parts(path) if name in ENVIRONMENT), None)


def names_of(path: str) -> set[str]:
    """Return the names by which a path counts as written."""
    return {name for name in _parts(path) if name in _NAMES}


def may_be_named(path: str) -> set[str]:
    """Return the names that a pattern may stand for; as in bash, a dot matches only a dot."""
    first = path.partition("/")[0]
    if not any(letter in first for letter in "*?["):
        return set()
    return {
        name
        for name in _NAMES
        if (name[0] == first[0] or name[0] != ".") and fnmatchcase(name.partition("/")[0], first)
    }


def _parts(path: str) -> Iterator[str]:
    """Yield each part of a path in lower case, and each with the one before it.

    `vendor` counts only as a path's first part with a package manager's content: it may be a word
    of the project.
    """
    parts = [part for part in path.casefold().split("/") if part not in {"", "."}]
    for at, part in enumerate(parts):
        if part != _VENDOR or at == 0 or not _VENDORED.isdisjoint(parts[at + 1 : at + 2]):
            yield part
        if at:
            yield f"{parts[at - 1]}/{part}"
        if _REQUIREMENTS.fullmatch(part):
            yield _FOLDER_OF_REQUIREMENTS
