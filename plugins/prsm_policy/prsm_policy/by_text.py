"""What the text of a command alone says: whether it only reads or looks, and what it runs.

The file system is not looked at, and nothing is said of what may be read: these commands are let
through or not by other rules.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING

from prsm_core.policies import CommandPart, word_set
from prsm_policy.lookups import is_lookup
from prsm_policy.parts import every_part
from prsm_policy.places import Place
from prsm_policy.safe import is_safe
from prsm_policy.safe.checks import check_named
from prsm_policy.shell import read_script
from prsm_policy.shell.exit_codes import read_exit
from prsm_policy.shell.wrappers import PROGRAM_VARIABLES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prsm_policy.shell import Command
    from prsm_policy.shell.words import Word
    from prsm_policy.tree import Reach

# Programs that show how something is, by the words that must follow, beside the services that are
# looked up: what is shown matters here to nobody, so that logs are among them.
_LOOKS = {
    "aws": r"\S+ (?:describe|list|get|wait)\b.*",
    "az": r"(?:\S+ )+(?:list|show)\b.*",
    "docker": r"(?:compose |container )?(?:logs|inspect|stats)\b.*",
    "gcloud": r"(?:\S+ )+(?:list|describe)\b.*",
    "gh": r"run watch\b.*",
    "git": r"ls-remote\b.*",
    "kubectl": r"(?:get|describe|logs|wait|rollout status)\b.*",
    "systemctl": r"(?:show|list-\w+)\b.*",
    "wget": r"(?:-q )?(?:--spider|-q?O ?-)(?!\S).*",
} | dict.fromkeys(
    word_set(
        "dig free host journalctl jobs lsof nc netstat nproc nslookup pg_isready pgrep pidof ping"
        " ps pstree sleep ss uptime vmstat w who"
    ),
    r".*",
)
# Options by which curl sends something, or keeps it in a file.
_CURL_SENDS = re.compile(
    r"-\w*[dFTKoOJ].*|-X(?!GET|HEAD).*|--(?:data|form|json|upload|config|output|remote|request"
    r"|cookie-jar|dump|quote|url-query).*"
)
_NOWHERE = re.compile(r"(?:-o|--output)[ =]?/dev/null\b")

_MISLEADING = PROGRAM_VARIABLES | word_set(
    "PATH LD_PRELOAD LD_LIBRARY_PATH PYTEST_ADDOPTS PYTHONHOME NODE_OPTIONS"
)
# What bash itself runs.
BUILTINS = word_set(
    ". : [ alias bg break builtin cd command continue declare dirs echo enable eval exec exit"
    " export false fg getopts hash help history jobs kill let local logout mapfile popd printf"
    " pushd pwd read readarray readonly return set shift shopt source suspend test times trap"
    " true type typeset ulimit umask unalias unset wait"
)


@dataclass(frozen=True, slots=True)
class _Anywhere(Place):
    """A place of which nothing is known: each path is what it looks like."""

    @property
    def is_seen(self) -> bool:
        """Nothing of it is looked at."""
        return False

    def filled(self, words: Sequence[Word]) -> list[tuple[tuple[Word, ...], Place]]:
        """Take a pattern for two names: more of them matter no more than that."""
        twice = [(word, word) if word.glob else (word,) for word in words]
        return [(tuple(chain.from_iterable(twice)), self)]

    def is_tree_ordinary(self, paths: Sequence[Word], reach: Reach) -> bool:
        """Take each tree for an ordinary one."""
        return True

    def is_ordinary(self, word: Word, *, is_read: bool = True) -> bool:
        """Take each path for an ordinary one."""
        return True

    def is_writable(self, word: Word) -> bool:
        """Take no path for one that may be written."""
        return False

    def entered(self, word: Word) -> Place:
        """Return this place: all are alike."""
        return self

    def is_outside(self, word: Word) -> bool:
        """Take no path for one outside."""
        return False


@lru_cache(maxsize=512)
def only_reads(command: str) -> bool:
    """Return whether a command is known to change nothing."""
    return every_part(read_script(command), _anywhere(), _reads)


@lru_cache(maxsize=512)
def looks_up(command: str) -> bool:
    """Return whether a command does no more than look how something is, here or elsewhere."""
    return every_part(
        read_script(command),
        _anywhere(),
        lambda part, where: _reads(part, where) or is_lookup(part, where) or _looks(part),
    )


def _anywhere() -> Place:
    place = _Anywhere.of("/", "/")
    if place is None:
        raise AssertionError("a folder is in itself")
    return place


def _reads(part: Command, where: Place) -> bool:
    return is_safe(part, where, trusted=False)


def _looks(part: Command) -> bool:
    if part.writes or not all(word.exact for word in part.words):
        return False
    if part.name == "curl":
        options = _NOWHERE.sub("", " ".join(part.texts[1:])).split()
        return not any(map(_CURL_SENDS.fullmatch, options))
    shape = _LOOKS.get(part.name)
    return shape is not None and re.fullmatch(shape, " ".join(part.texts[1:])) is not None


def exact(command: str) -> str:
    """Return a plain single command with its words quoted in one way, any other text as it is."""
    script = read_script(command)
    if not script.plain or script.own != 1:
        return command.strip()
    only = script.commands[0]
    is_bare = not (only.assigned or only.reads) and all(word.known for word in only.words)
    # What a comment or a redirection to nowhere adds is not told by the words.
    is_bare = is_bare and not {"#", ">", "<"} & set(command)
    return shlex.join(only.texts) if is_bare else command.strip()


@lru_cache(maxsize=512)
def exit_parts(command: str) -> tuple[CommandPart, ...] | None:
    """Return the simple commands of a text; None for one that cannot be read."""
    parts = read_exit(command)
    if parts is None:
        return None
    return tuple(
        CommandPart(
            text=part.text,
            program=part.command.name,
            check=_check(part.command),
            folders=part.folders,
            is_told=part.is_told,
        )
        for part in parts
    )


def programs_of(command: str) -> tuple[str, ...]:
    """Return the programs of a text that are neither bash's, nor its own, nor paths.

    Of a path nothing is said: the command may go to another folder first.
    """
    script = read_script(command)
    programs = dict.fromkeys(each.texts[0] for each in script.commands if each.name)
    return tuple(
        program
        for program in programs
        if program not in BUILTINS and program not in script.functions and "/" not in program
    )


def _check(command: Command) -> tuple[str, tuple[str, ...]] | None:
    if any(each.name in _MISLEADING for each in command.assigned):
        return None
    named = check_named([word.text for word in command.words if word.exact])
    return None if named is None else (named[0], tuple(named[1]))
