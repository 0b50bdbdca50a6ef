"""Which commands only read, and which only look something up; by their text alone.

The file system is not looked at, and nothing is said of what may be read: these commands are let
through or not by other rules.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from prsm_core.permissions.lookups import is_lookup
from prsm_core.permissions.paths import Place
from prsm_core.permissions.policy import every_part
from prsm_core.permissions.safe import is_safe
from prsm_core.shell import read_script
from prsm_core.shell.tables import word_set

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prsm_core.permissions.tree import Reach
    from prsm_core.shell import Command
    from prsm_core.shell.words import Word

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


def only_reads(command: str) -> bool:
    """Return whether a command is known to change nothing."""
    return every_part(read_script(command), _anywhere(), _reads)


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
