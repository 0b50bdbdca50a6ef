"""Programs under other names: links that lead to them, and commands that make such names."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from prsm_core.policies import word_set
from prsm_policy.shell.data_shells import DATA_SHELLS
from prsm_policy.shell.inline import bare_name
from prsm_policy.shell.wrappers import FINDERS, INTERPRETERS, LOOSE, SHELLS, WRAPPERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from prsm_policy.places import Place
    from prsm_policy.rules import Rules
    from prsm_policy.shell import Command

_NAMES_ANEW = word_set("ln cp mv install rsync link gln gcp gmv")
_RUNS_OTHERS = frozenset().union(SHELLS, WRAPPERS, LOOSE, FINDERS, INTERPRETERS, DATA_SHELLS)
_ENTERS = word_set("cd pushd")
_SYSTEM = ("/bin/", "/usr/bin/", "/usr/local/bin/", "/sbin/", "/usr/sbin/", "/usr/local/sbin/")


def renamed(commands: Sequence[Command], rules: Rules, place: Place | None) -> str | None:
    """Return why a program may be one that rules are about under another name, else None."""
    for command in commands:
        if command.name in _NAMES_ANEW and (name := _gives_name(command, rules)):
            return f"{name} may get another name by it"
    called = [command for command in commands if _is_by_path(command)]
    if not called or place is None:
        return None
    folders = tuple(_folders(commands, place))
    leads = (_leads(command, folders, rules, place) for command in called)
    return next(filter(None, leads), None)


def _gives_name(command: Command, rules: Rules) -> str | None:
    for text in command.texts[1:]:
        folder, slash, name = text.rpartition("/")
        if slash and name in rules and f"{folder}/".startswith("/"):
            return name
    return None


def _is_by_path(command: Command) -> bool:
    program = command.texts[0] if command.texts else ""
    return "/" in program and "\0" not in program and not program.startswith(_SYSTEM)


def _folders(commands: Iterable[Command], place: Place) -> Iterator[str]:
    """Yield where the commands may run, as far as that is written."""
    yield from place.folders
    for command in commands:
        if command.name in _ENTERS and len(command.texts) > 1 and "\0" not in command.texts[1]:
            for folder in place.folders:
                yield f"{folder}/{command.texts[1]}"


def _leads(command: Command, folders: Sequence[str], rules: Rules, place: Place) -> str | None:
    program = command.texts[0]
    for folder in folders:
        if not place.looks.spend():
            return "too many programs lie elsewhere"
        path = program if program.startswith("/") else f"{folder}/{program}"
        if os.path.islink(path):  # noqa: PTH114 - text all the way, it may be no path
            target = os.path.realpath(path)
            if _counts(command.name, target.rpartition("/")[2], rules):
                return f"{program!r} is a link to {target!r}"
    return None


def _counts(name: str, target: str, rules: Rules) -> bool:
    """Return whether a link makes a program another one that matters: by a rule, or what it runs.

    `python` may well lead to `python3.11`.
    """
    if bare_name(target) == bare_name(name):
        return False
    return target in rules or bare_name(target) in _RUNS_OTHERS or target in _RUNS_OTHERS
