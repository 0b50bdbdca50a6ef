"""Tools that change the schema of a data base, where they drop, clean or go back.

They write it as one word (`db:drop`, `ecto.reset`, `migrate/fresh`) or as several (`database drop`,
`migration revert`), and so do the scripts that projects call after them: the shape counts, whatever
the program.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from prsm_core.permissions.danger.places import SPEAKERS
from prsm_core.permissions.safe.tools import READ_ONLY
from prsm_core.shell.words import word_set

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_core.shell import Command

_NOUN = (
    r"db|databases?|schemas?|migrat(?:e|ions?)|ecto|sql|tables?|doctrine|fixtures|site|prisma|pg"
    r"|postgres|mysql|mongo|redis|firestore|keyspace|liquibase|ash|migratus"
)
_LOSS = (
    r"drop(?:-?all|s)?|reset|wipe|fresh|purge|clean|clear|flush|truncate|empty|nuke|destroy|erase"
    r"|refresh|revert|rollback|undo|down|downgrade|uninstall|zero|truncate_all|rollback_all"
)
_GONE = r"(?:db|database|schema|firestore|keyspace):(?:delete|remove|rm)"
_ONE_WORD = re.compile(
    rf"(?:[\w-]+[:./])*(?:{_NOUN})[:._/-](?:[\w-]+[:._/-])*(?:{_LOSS})(?:[:._-][\w-]+)*"
    rf"|(?:{_LOSS})[-_:.](?:the[-_])?(?:{_NOUN})|\w*:?drop-?all|{_GONE}|flyway[:_]?(?:clean|undo)|db:schema:load"
    r"|db:seed:replant|doctrine:fixtures:load",
    re.IGNORECASE,
)
# A script of the project's that is called after what it does.
_SCRIPT = re.compile(
    rf"(?:[\w.-]+/)+(?:(?:{_LOSS})[-_](?:{_NOUN})|(?:{_NOUN})[-_](?:{_LOSS}))(?:\.\w+)?",
    re.IGNORECASE,
)
# Without any of these in it no other command line is one of those; a search for them is quick.
_HINTS = (
    *("drop", "reset", "wipe", "fresh", "purge", "clean", "clear", "flush", "truncate", "empty"),
    *("nuke", "destroy", "erase", "revert", "rollback", "undo", "down", "uninstall", "zero"),
    *("first", "prev", "seed", "load", "delete", "remove", ":rm"),
)
_FIRST = re.compile(_NOUN, re.IGNORECASE)
_THEN = re.compile(_LOSS, re.IGNORECASE)
_DESTROYS = re.compile(r"drop|wipe|nuke|destroy|truncate", re.IGNORECASE)
# By program: words that lose data, alone or as one command line.
_TOOLS: Mapping[str, re.Pattern[str]] = {
    name: re.compile(pattern)
    for names, pattern in (
        ("flyway", r"clean|undo|.*\bclean\b.*"),
        ("alembic aerich", r".*\bdowngrade\b.*"),
        ("prisma", r".*(?:reset\b|--force-reset|--accept-data-loss).*"),
        ("drizzle-kit", r"(?:drop\b|push.*--force).*"),
        ("liquibase", r".*\b(?:drop-?[aA]ll|rollback\S*|future-rollback\S*)\b.*"),
        ("migrate golang-migrate", r".*\b(?:drop|down|force|goto)\b.*"),
        (
            "db-migrate migrate-mongo node-pg-migrate umzug migratus tern sea-orm-cli",
            r".*\b(?:down|reset|drop|rollback|fresh)\b.*|.*-d 0\b.*",
        ),
        ("pscale planetscale turso neonctl", r".*\b(?:delete|destroy)\b.*"),
        (
            "dbmate soda sqitch evolve buffalo",
            r".*\b(?:drop|down|rollback|revert|rebase|erase|reset)\b.*",
        ),
        ("phinx yoyo knex sequelize sequelize-cli cake", r".*\b(?:rollback|undo\S*|down)\b.*"),
        ("diesel sqlx", r".*\b(?:reset|drop|revert|redo)\b.*"),
        ("piccolo", r".*\bbackwards\b.*"),
        ("rails rake", r".*\b(?:VERSION=0\b|db:rollback|db:migrate:down).*"),
        ("manage.py django-admin", r"(?:flush|reset_db|migrate .*\bzero)\b.*"),
        ("console doctrine", r".*migrations:migrate .*\b(?:first|prev)\b.*"),
        ("dotnet dotnet-ef", r".*\bdatabase (?:drop|update 0)\b.*"),
        ("hasura atlas", r".*(?:--down|--rollback|\bdown\b|\bclean\b).*"),
        ("mongorestore grate", r".*--drop\b.*"),
        ("pg_restore", r"(?:.* )?(?:--clean|--cl\w*|-[a-zA-Z]*c[a-zA-Z]*)(?: .*)?"),
        ("influx", r"(?:\w+ )?delete\b.*"),
        ("drush", r"(?:sql|site)[-:](?:drop|install)\b.*|si\b.*"),
        ("wp", r"(?:db (?:reset|drop|clean)|site empty)\b.*"),
        ("dbdeployer", r"delete\b.*"),
        ("elasticdump", r".*--delete\b.*"),
        ("skeema", r".*--allow-unsafe\b.*"),
    )
    for name in names.split()
}
_RUN_SCRIPTS = re.compile(r"(?:python|pypy|php|ruby|node|bun|deno)[0-9.]*")
_QUIET = SPEAKERS | READ_ONLY.keys() | word_set("git gh glab hg code vim sed awk")


def migration_danger(command: Command) -> str | None:
    """Return why a command loses data that a migration tool keeps."""
    name, texts = command.name, command.texts[1:]
    if name in _QUIET:
        return None
    if name not in _TOOLS:
        line = " ".join(command.texts).lower()
        if not any(hint in line for hint in _HINTS):
            return None
    reason = "drops, cleans or takes back what is in a data base"
    if command.words and _SCRIPT.fullmatch(command.texts[0]):
        return reason
    if name in _TOOLS:
        return reason if _TOOLS[name].fullmatch(" ".join(texts)) else _shaped(texts, reason)
    if _RUN_SCRIPTS.fullmatch(name):
        rest = texts[1:] if texts[0] == "-m" else texts
        script = rest[0].rpartition("/")[2] if rest else ""
        if script in _TOOLS and _TOOLS[script].fullmatch(" ".join(rest[1:])):
            return reason
    return _shaped(texts, reason)


def _shaped(texts: tuple[str, ...], reason: str) -> str | None:
    operands = [text.rstrip(",") for text in texts if text[:1] != "-" and " " not in text]
    if any(map(_ONE_WORD.fullmatch, operands)) or any(map(_SCRIPT.fullmatch, operands[:2])):
        return reason
    are_two = any(
        (_FIRST.fullmatch(before) and _THEN.fullmatch(after))
        or (_FIRST.fullmatch(after) and _DESTROYS.fullmatch(before))
        for before, after in pairwise(operands)
    )
    return reason if are_two else None
