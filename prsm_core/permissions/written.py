"""What agents may have written of the project's environment: programs that git ignores.

The programs of a virtual environment and of `node_modules` run unasked in a trusted workspace, and
no review of changes shows what is in them. So an edit there is asked about, and what was let
through all the same counts from then on, also for later sessions, until a person trusts the
workspace again. Manifests and lock files may be edited: what fetches by them is asked about until
it was let through once.

Only names count, wherever they lie in the workspace.
"""

from __future__ import annotations

import os
import re
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING

from prsm_core.config.paths import private_dir
from prsm_core.errors import ConfigError
from prsm_core.shell.tables import word_set

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from prsm_core.shell import Command, Script

# Folders and files of an environment, which people and installers write, not agents.
_ENVIRONMENT = word_set(
    ".venv venv site-packages .tox .nox node_modules .yarn .pnp.cjs vendor .bundle gradlew"
    " gradle/wrapper mvnw .mvn"
)
VENDOR = "vendor"
_VENDORED = word_set("bin composer bundle autoload.php")
# Programs that lie among the project's sources: they may be edited, and count then.
SCRIPTS = word_set("bin/rails bin/rake bin/rspec bin/rubocop manage.py")
# What a program fetches by, or builds its environment from.
PYTHON_MANIFESTS = word_set(
    "pyproject.toml uv.lock uv.toml poetry.lock poetry.toml pdm.lock pdm.toml pipfile pipfile.lock"
    " hatch.toml setup.py setup.cfg requirements .python-version tox.ini tox.toml noxfile.py"
)
HOOK_MANIFESTS = word_set(".pre-commit-config.yaml")
_NAMES = _ENVIRONMENT | SCRIPTS | PYTHON_MANIFESTS | HOOK_MANIFESTS
_REQUIREMENTS = re.compile(r"(?:[\w.-]*[-_.])?(?:requirements|constraints)[\w.-]*\.(?:txt|in)")
_FOLDER_OF_REQUIREMENTS = "requirements"
# What a text must hold to name any of these, or to install something.
_CLOSER_LOOK = re.compile(
    r"tar|zip|7z|cpio|pax|patch|rsync|cp|mv|ln|venv|site-packages|yarn|pnp|vendor|bundle|grad|mvn|\.tox|\.nox|nox|bin|manage|toml|lock|pip|setup"
    r"|require|constraints|python|tox|commit|install|add|sync|[*?\[]|npm|uv|poetry|node",
    re.IGNORECASE,
)
_SEPARATORS = re.compile(r"[^\w./*?\[\]-]+")
_INSTALLERS = {
    "pip": word_set(".venv venv"),
    "pip3": word_set(".venv venv"),
    "uv": word_set(".venv"),
    "poetry": word_set(".venv"),
    "pdm": word_set(".venv"),
    "pipenv": word_set(".venv"),
    **dict.fromkeys(word_set("npm pnpm yarn bun"), word_set("node_modules")),
    "composer": word_set("vendor"),
    "bundle": word_set("vendor .bundle"),
}
_INSTALLS = word_set(
    "install i ci add sync update upgrade remove uninstall rebuild dedupe link lock require venv"
)
# By the program that fetches: what it has fetched by.
_FETCHES = {
    **dict.fromkeys(word_set("uv poetry pdm pipenv hatch rye tox nox"), PYTHON_MANIFESTS),
    "pre-commit": HOOK_MANIFESTS,
}
_FETCHING = word_set("run sync install add update test tox nox")
# What these write is told by what they are given, not by their words.
_UNPACKS = word_set("tar bsdtar unzip 7z cpio pax patch rsync")
_COPIES = word_set("cp mv install ln")
_HERE = word_set(". ./")
_RUNS = word_set("source .")
# Subcommands of git that leave the files of the workspace as they are.
_KEEPS_FILES = word_set("add commit push fetch tag branch log show diff status")


class Written:
    """The names of what agents may have written, kept in a file beside the trust in a workspace.

    Args:
        path: The file; None keeps nothing beyond this process.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._names: set[str] = set()
        self._seen: tuple[int, int] | None = None
        self._is_lost = False

    def has_any(self, names: Iterable[str]) -> bool:
        """Return whether an agent may have written one of these; so too where that is not known."""
        self._read()
        return self._is_lost or not self._names.isdisjoint(names)

    def names(self) -> list[str]:
        """Return all that agents may have written."""
        self._read()
        return sorted(self._names)

    def note_command(
        self, script: Script, text: str, parts: Iterable[Command], root: str, *, unasked: bool
    ) -> None:
        """Take note of a command that was let through in a workspace, which is at `root`.

        `parts` are those of its commands that may write. `unasked` says that no person and no rule
        has allowed it: then what it installs is the agent's choice.
        """
        if not unasked:
            self._forget(_fetched(script))
        untold = script.opaque or script.unresolved or script.doubtful or script.evaluates
        self.note(
            {
                *_named(parts, root),
                *(_names_in(text, root) if untold else ()),
                *(_installed(script) if unasked else ()),
            }
        )

    def note(self, names: Iterable[str]) -> None:
        """Take note that an agent may write what has these names."""
        self._read()
        self._append("+", set(names) - self._names)

    def _forget(self, names: Iterable[str]) -> None:
        if names:
            self._read()
            self._append("-", self._names.intersection(names))

    def _append(self, sign: str, names: set[str]) -> None:
        if not names:
            return
        self._names = self._names | names if sign == "+" else self._names - names
        if self._path is None:
            return
        try:
            private_dir(self._path.parent)
            with self._path.open("a") as file:
                file.writelines(f"{sign}{name}\n" for name in sorted(names))
        except (OSError, ConfigError):
            # Nobody will know of it later, so that for now nothing counts as unwritten.
            self._is_lost = True

    def _read(self) -> None:
        """Read what is in the file, unless that was read already."""
        if self._path is None or self._is_lost:
            return
        try:
            status = os.stat(self._path)  # noqa: PTH116 - on the way of every decision
            if self._seen == (seen := (status.st_size, status.st_mtime_ns)):
                return
            lines = self._path.read_text().splitlines()
        except FileNotFoundError:
            self._names, self._seen = set(), None
            return
        except (OSError, ValueError):
            self._is_lost = True
            return
        names: set[str] = set()
        for line in lines:
            (names.add if line[:1] == "+" else names.discard)(line[1:])
        self._names, self._seen = names, seen


@lru_cache(maxsize=4096)
def environment_part(path: str) -> str | None:
    """Return the part of a path that is of the project's environment, None if none is."""
    return next((name for name in _parts(path) if name in _ENVIRONMENT), None)


def names_of(path: str) -> set[str]:
    """Return the names by which a path counts as written."""
    return {name for name in _parts(path) if name in _NAMES}


def may_name(text: str) -> bool:
    """Return quickly whether a command needs a closer look for what it writes."""
    return _CLOSER_LOOK.search(text) is not None


def _parts(path: str) -> Iterator[str]:
    """Yield each part of a path, in lower case, and each with the one before it.

    `vendor` may be a word of the project's own business: it counts where it is the first of a path,
    and where its content is that of a package manager.
    """
    parts = [part for part in path.casefold().split("/") if part not in {"", "."}]
    for at, part in enumerate(parts):
        if part != VENDOR or at == 0 or not _VENDORED.isdisjoint(parts[at + 1 : at + 2]):
            yield part
        if at:
            yield f"{parts[at - 1]}/{part}"
        if _REQUIREMENTS.fullmatch(part):
            yield _FOLDER_OF_REQUIREMENTS


def _named(parts: Iterable[Command], root: str) -> set[str]:
    """Return what commands name that they do not just run."""
    found: set[str] = set()
    for part in parts:
        if part.name in _UNPACKS or (part.name in _COPIES and part.texts[-1] in _HERE):
            found |= _ENVIRONMENT
        named = {name for text in _operands(part) for name in _names_in(text, root)}
        # Installers read manifests: `pip install -r requirements.txt`.
        found |= named - PYTHON_MANIFESTS if _folders_of_installer(part) else named
    return found


def _operands(command: Command) -> Iterator[str]:
    """Yield all texts of a command but the program that it runs."""
    skipped = 2 if command.texts[:1] and command.texts[0] in _RUNS else 1
    if command.name == "git" and not _KEEPS_FILES.isdisjoint(command.texts[1:2]):
        skipped = len(command.texts)
    yield from command.texts[skipped:]
    yield from (word.text for word in (*command.writes, *command.feeds))
    yield from (each.value.text for each in command.assigned)


def _names_in(text: str, root: str) -> set[str]:
    """Return the names in a text; where the workspace itself lies says nothing."""
    found: set[str] = set()
    for path in _SEPARATORS.split(text.replace(f"{root}/", "")):
        found |= names_of(path) | _matched(path.casefold().removeprefix("./"))
    return found


def _matched(path: str) -> set[str]:
    """Return the names that a pattern may stand for where the command runs.

    As bash has it, what begins with a dot is matched by what begins so.
    """
    first = path.partition("/")[0]
    if not any(letter in first for letter in "*?["):
        return set()
    return {
        name
        for name in _NAMES
        if (name[0] == first[0] or name[0] != ".") and fnmatchcase(name.partition("/")[0], first)
    }


def _installed(script: Script) -> set[str]:
    """Return the folders that a command installs into."""
    return {name for command in script.commands for name in _folders_of_installer(command)}


def _folders_of_installer(command: Command) -> frozenset[str]:
    for at, text in enumerate(command.texts):
        folders = _INSTALLERS.get(text.rpartition("/")[2])
        if folders and not _INSTALLS.isdisjoint(command.texts[at + 1 :]):
            return folders
    return frozenset()


def _fetched(script: Script) -> set[str]:
    """Return the manifests by which a command has fetched all that they want."""
    found: set[str] = set()
    for command in script.commands:
        if command.name in _FETCHES and not _FETCHING.isdisjoint((command.name, *command.texts)):
            found |= _FETCHES[command.name]
    return found
