"""The safe room: which commands need nobody's consent.

They are programs that only look or, in a workspace that is trusted, the project's own checks.
`options` is a grammar of harmless command lines. `compositions` are safe commands put together,
where `producers` print what others take.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from prsm_core.policies import environment_part, word_set
from prsm_policy.safe.checks import is_project_check, is_version_output
from prsm_policy.safe.compositions import is_safe_structure
from prsm_policy.safe.ecosystems import is_query
from prsm_policy.safe.environment import is_activation
from prsm_policy.safe.git import is_read_only_git
from prsm_policy.safe.producers import carried_by_find
from prsm_policy.safe.tools import READ_ONLY, TAKES_UNKNOWN, ends_in_time, is_endless
from prsm_policy.shell.find_nested import find_nested
from prsm_policy.shell.grammar import RefusedError
from prsm_policy.shell.structure import read_structure
from prsm_policy.shell.words import Word

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prsm_policy.places import Place
    from prsm_policy.shell.script import Command, Script

__all__ = ["every_part", "is_safe", "is_safe_text", "program_name", "sets_only_harmless"]

MAX_WORDS = 500  # a longer text is not plain

_SYSTEM_FOLDER = re.compile(r"/(?:usr/local/|usr/)?s?bin/([^/]+)")
# Only these may be set for a command; most others can make a program run another one.
_HARMLESS_VARIABLES = word_set(
    "LANG TZ NO_COLOR FORCE_COLOR CI TERM COLUMNS LINES PYTHONDONTWRITEBYTECODE PYTHONUNBUFFERED"
    " RUST_BACKTRACE RUST_LOG"
)
_VARIABLE_VALUE = re.compile(r"[A-Za-z0-9_.,@:+-]*|[A-Z][A-Za-z_]+/[A-Za-z_/]+")
_LOG_LEVELS = re.compile(r"[A-Za-z0-9_.,:=\[\]/-]*")
# Wrappers that change nothing but time and place of what they run.
_TRANSPARENT = word_set("timeout time nice command")
_MAX_WRAPPERS = 5
_ACTIVATES = frozenset({"source", "."})
_EXECUTES = frozenset({"-exec", "-execdir"})


def program_name(word: Word) -> str | None:
    """Return the bare name of a program, None for one that only a path or a pattern leads to."""
    if not word.known:
        return None
    if "/" not in word.text:
        return word.text
    match = _SYSTEM_FOLDER.fullmatch(word.text)
    return match[1] if match else None


def sets_only_harmless(
    command: Command, place: Place | None = None, *, trusted: bool = False
) -> bool:
    """Return whether no variable is set for a command that could change what it does.

    Where the user trusts the workspace, Python may look for modules in its folders.
    """
    return all(
        _is_harmless(each.name, each.value)
        or (trusted and each.name == "PYTHONPATH" and _are_inside(each.value, place))
        for each in command.assigned
    )


def _is_harmless(name: str, value: Word) -> bool:
    if not value.known or not (name in _HARMLESS_VARIABLES or name.startswith("LC_")):
        return False
    shape = _LOG_LEVELS if name == "RUST_LOG" else _VARIABLE_VALUE
    return shape.fullmatch(value.text) is not None


def _are_inside(value: Word, place: Place | None) -> bool:
    folders = value.text.split(":")
    if place is None or not value.known or not all(folders):
        return False
    own = [value.told(folder) for folder in folders]
    return all(place.is_ordinary(each) and not environment_part(each.text) for each in own)


def every_part(
    script: Script, place: Place | None, is_acceptable: Callable[[Command, Place], bool]
) -> bool:
    """Return whether a text is plain and each of its commands acceptable wherever it may run.

    A `cd` to a folder below the workspace is followed, but not in a pipeline.
    """
    commands = script.commands[: script.own]
    if not script.plain or not commands:
        return False
    if sum(len(command.words) for command in commands) > MAX_WORDS:
        return False
    for command in commands:
        if place is None or not place.are_ordinary(command.reads):
            return False
        if command.texts[0] == "cd":
            if command.piped or command.assigned or len(command.words) != 2:
                return False
            place = place.entered(command.words[1])
        elif not is_acceptable(command, place):
            return False
    return place is not None


def is_safe(command: Command, place: Place, *, trusted: bool) -> bool:
    """Return whether a command only looks or, if trusted, is one of the project's checks."""
    if not any(word.glob for word in command.words):
        return _is_safe(command, place, trusted=trusted)
    filled = place.filled(command.words)
    return filled is not None and all(
        _is_safe(replace(command, words=words), where, trusted=trusted) for words, where in filled
    )


def _is_safe(command: Command, place: Place, *, trusted: bool) -> bool:
    is_limited = False
    for _ in range(_MAX_WRAPPERS):
        inner = _unwrapped(command)
        if inner is None:
            break
        is_limited = is_limited or ends_in_time(command)
        command = inner
    name = program_name(command.words[0])
    if not sets_only_harmless(command, place, trusted=trusted) or command.writes or command.feeds:
        return False
    if name is None:
        return trusted and command.words[0].known and _is_of_project(command.words, place)
    if not _takes_unknown(name, command):
        return False
    if not is_limited and is_endless(name, command.words[1:]):
        return False
    if name == "find" and not _EXECUTES.isdisjoint(command.texts):
        carried = carried_by_find(command, place)
        if carried is None or not all(is_reader(each, place) for each in carried[1]):
            return False
        command = carried[0]
    return _is_known(name, command, place, trusted=trusted)


def _takes_unknown(name: str, command: Command) -> bool:
    """Return whether what a program does with words that are not known yet can be told."""
    unknown = [word for word in command.words if not word.exact]
    if not unknown or name in {"echo", "printf"}:
        return True
    return name in TAKES_UNKNOWN and not any(word.glob for word in unknown)


def _is_known(name: str, command: Command, place: Place, *, trusted: bool) -> bool:
    arguments = command.words[1:]
    if name == "git":
        return is_read_only_git(arguments, place)
    texts = (name, *command.texts[1:])
    if name == "rg" and command.behind and "--files" not in texts:
        arguments = (*arguments, Word("-"))  # what it searches where it is told no path
    if name in READ_ONLY:
        return READ_ONLY[name](arguments, place) or is_version_output(texts, place, trusted=trusted)
    if is_version_output(texts, place, trusted=trusted):
        return True
    if trusted and name in _ACTIVATES and is_activation(command.words, place):
        return True
    return trusted and name == command.texts[0] and _is_of_project(command.words, place)


def _is_of_project(words: Sequence[Word], place: Place) -> bool:
    return is_project_check(words, place) or is_query(words, place)


def is_reader(command: Command, place: Place) -> bool:
    """Return whether a command only looks at what it is given, whatever comes in."""
    name = program_name(command.words[0])
    return name in READ_ONLY and is_safe(command, place, trusted=False)


def is_safe_text(text: str, count: int, place: Place, *, trusted: bool) -> bool:
    """Return whether a text of so many commands, put together in any way, is safe."""
    found = read_structure(text)
    if found is None or found[1] != count:
        return False

    def judge(command: Command, where: Place) -> bool:
        return is_safe(command, where, trusted=trusted)

    return is_safe_structure(found[0], place, judge, is_reader)


def _unwrapped(command: Command) -> Command | None:
    """Return what a transparent wrapper runs, None for any other command."""
    name = command.words[0].text
    if name not in _TRANSPARENT or not command.words[0].known:
        return None
    try:
        nested = find_nested(command)
    except RefusedError:
        return None
    if not nested.certain or len(nested.commands) != 1 or nested.codes:
        return None
    inner = nested.commands[0]
    if name == "time" and command.words[1].text.startswith("-") and command.words[1].text != "-p":
        return None  # the program of that name can write a file
    return inner
