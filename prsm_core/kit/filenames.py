"""How a file system compares names, and which names are a file's before there is one."""

from __future__ import annotations

import os
import sys
import unicodedata
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# What is a file's by convention, without a suffix. A word that may as well be a folder's is one
# in capitals alone: `LICENSE`, and not `license`.
_FILES = frozenset(
    (
        *("makefile", "gnumakefile", "bsdmakefile", "dockerfile", "containerfile", "jenkinsfile"),
        *("vagrantfile", "gemfile", "rakefile", "guardfile", "podfile", "fastfile", "brewfile"),
        *("procfile", "justfile", "pipfile", "tiltfile", "earthfile", "caddyfile", "snakefile"),
        *("codeowners", "gradlew", "mvnw", "kbuild", "kconfig", "sconstruct", "sconscript"),
        *(".env", ".envrc", ".gitignore", ".gitattributes", ".gitmodules", ".gitkeep", ".mailmap"),
        *(".dockerignore", ".npmignore", ".npmrc", ".nvmrc", ".editorconfig", ".prettierrc"),
        *(".prettierignore", ".eslintrc", ".eslintignore", ".babelrc", ".flake8", ".pylintrc"),
        *(".coveragerc", ".clang-format", ".clang-tidy", ".python-version", ".tool-versions"),
        *(".bashrc", ".profile", ".htaccess", ".browserslistrc", ".stylelintrc", ".luacheckrc"),
    )
)
_FILES_IN_CAPITALS = frozenset(
    (
        *("LICENSE", "LICENCE", "COPYING", "NOTICE", "PATENTS", "AUTHORS", "CONTRIBUTORS"),
        *("MAINTAINERS", "OWNERS", "README", "CHANGELOG", "CHANGES", "NEWS", "HISTORY", "TODO"),
        *("VERSION", "INSTALL", "MANIFEST", "WORKSPACE", "BUILD", "UNLICENSE"),
    )
)

Fold = Callable[[str], str]
"""Makes a path what it is compared by: two that lead to one file become the same text."""

_FOLDERS = 20  # below a folder, of which one tells how it compares names
_NORMALISES = sys.platform == "darwin"  # its file systems do, whether they know case or not


def names_file(path: str) -> bool:
    """Return whether a missing path is a file by its name: it has a suffix, or is known."""
    name = path.rpartition("/")[2]
    has_suffix = "." in name.strip(".")
    return has_suffix or name.lower() in _FILES or name in _FILES_IN_CAPITALS


def exact(path: str) -> str:
    """Return a path as it is: the file system tells every two names apart."""
    return path


def normalised(path: str) -> str:
    """Return a path for a file system that keeps case and knows each letter by one spelling."""
    return unicodedata.normalize("NFD", path)


def folded(path: str) -> str:
    """Return a path for a file system that knows no case, nor how a letter is composed."""
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", path).casefold())


def fold_of(
    folder: str, *, normalises: bool = _NORMALISES, look: Callable[[str], os.stat_result] = os.lstat
) -> Fold:
    """Return how names in a folder, which may be missing, are compared, by looking.

    Only folders are looked at: a file can have a second name in other letters.
    """
    for path in _folders_near(folder):
        head, _, name = path.rpartition("/")
        if (other := name.swapcase()) != name:
            is_one = _are_one(path, f"{head}/{other}", look)
            return folded if is_one else _plain(normalises)
    return _plain(normalises)


def _plain(normalises: bool) -> Fold:
    return normalised if normalises else exact


def _folders_near(folder: str) -> Iterator[str]:
    """Yield some folders in a folder, then itself and those above it; none that is missing."""
    while not os.path.isdir(folder) and folder != os.path.dirname(folder):  # noqa: PTH112, PTH120
        folder = os.path.dirname(folder)  # noqa: PTH120 - asked about with each decision
    try:
        with os.scandir(folder) as entries:
            inside = (one.path for one in entries if one.is_dir(follow_symlinks=False))
            yield from list(islice(inside, _FOLDERS))
    except OSError:  # one that cannot be listed has a name itself
        pass
    while folder not in {"", "/"}:
        yield folder
        folder = os.path.dirname(folder)  # noqa: PTH120


def _are_one(path: str, other: str, look: Callable[[str], os.stat_result]) -> bool:
    try:
        return os.path.samestat(look(path), look(other))
    except OSError:  # there is no such name
        return False
