"""Tools that change the schema of a data base, where they drop, clean or go back.

They write it as one word (`db:drop`, `ecto.reset`, `migrate/fresh`) or as two (`database drop`,
`migration revert`), and so do the scripts of projects. The shape counts, whatever the program.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from prsm_core.policies import word_set
from prsm_policy.danger.places import SPEAKERS, WRITERS
from prsm_policy.safe.tools import READ_ONLY
from prsm_policy.tables import read_patterns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prsm_policy.shell import Command

_NOUNS = word_set(
    "db database databases schema schemas migrate migration migrations ecto sql table tables"
    " doctrine fixtures prisma pg postgres mysql mongo redis firestore keyspace liquibase flyway"
    " ash migratus"
)
_DESTROYS = word_set("drop dropall drops wipe nuke destroy truncate")
_LOSSES = _DESTROYS | word_set(
    "reset fresh purge clean clear flush empty erase refresh revert rollback undo down downgrade"
    " uninstall zero"
)
# Of these a word for less is one for loss, and others are only stopped by `down`.
_WHOLE = word_set("db database schema firestore keyspace")
_REMOVES = word_set("delete remove rm")
_OTHERS = word_set("db:schema:load db:seed:replant doctrine:fixtures:load")
_PARTS = re.compile(r"[:._/-]|(?<=[a-z])(?=[A-Z])")
_FILE = re.compile(
    r".*\.(?:py|sql|js|mjs|ts|rb|md|txt|json|ya?ml|toml|sh|php|go|rs|html|css|csv|log|db|ex|exs)"
)
# Without any of these in it no other command line is one of those; a search for them is quick.
_HINTS = word_set(
    "drop reset wipe fresh purge clean clear flush truncate empty nuke destroy erase revert undo"
    " rollback down uninstall zero :d first prev seed load delete remove :rm"
)
# By program: words that lose data, alone or as one command line.
_TOOLS = read_patterns("dangers", "loses")
_RUN_SCRIPTS = re.compile(r"(?:python|pypy|php|ruby|node|bun|deno)[0-9.]*")
_QUIET = SPEAKERS | WRITERS | READ_ONLY.keys() | word_set("git gh glab hg code vim sed awk")


def migration_danger(command: Command) -> str | None:
    """Return why a command loses data that a migration tool keeps."""
    line = " ".join(command.texts).lower()
    is_quiet = command.name in _QUIET or not any(hint in line for hint in _HINTS)
    if is_quiet and command.name not in _TOOLS:
        return None
    return "drops, cleans or takes back what is in a data base" if _loses(command) else None


def _loses(command: Command) -> bool:
    name, texts = command.name, command.texts[1:]
    if name in _TOOLS and _TOOLS[name].fullmatch(" ".join(texts)):
        return True
    if _RUN_SCRIPTS.fullmatch(name) and texts:
        rest = texts[1:] if texts[0] == "-m" else texts
        script = rest[0].rpartition("/")[2] if rest else ""
        if script in _TOOLS and _TOOLS[script].fullmatch(" ".join(rest[1:])):
            return True
        return _joins(script.partition(".")[0]) or _shaped(rest[1:])
    is_script = "/" in "".join(command.texts[:1])
    return (is_script and _joins(name.partition(".")[0])) or _shaped(texts)


def _shaped(texts: Sequence[str]) -> bool:
    """Return whether words name a loss: one word by itself, or two that follow one another."""
    operands = [text.rstrip(",") for text in texts if text[:1] != "-" and " " not in text]
    if any(map(_names_loss, operands)):
        return True
    return any(
        (before in _NOUNS and after in _LOSSES)
        or (before in _DESTROYS and after in _NOUNS)
        or (before in _WHOLE and after in _REMOVES)
        for before, after in pairwise(operands)
    )


def _names_loss(word: str) -> bool:
    """Return whether one word joins a noun of data bases with a word of loss."""
    is_path = "/" in word and not word.startswith(("migrate/", "db/"))
    return word in _OTHERS or (not is_path and not _FILE.fullmatch(word) and _joins(word))


def _joins(word: str) -> bool:
    parts = [part.lower() for part in _PARTS.split(word) if part != "the"]
    for before, after in pairwise(parts):
        if before in _LOSSES and (after in _NOUNS or (before, after) == ("drop", "all")):
            return True
        if before in _WHOLE and after in _REMOVES:
            return True
    noun = next((at for at, part in enumerate(parts) if part in _NOUNS), None)
    if noun is None:
        return False
    losses = _LOSSES - {"down"} if parts[noun] in _WHOLE else _LOSSES
    return not losses.isdisjoint(parts[noun + 1 :])
