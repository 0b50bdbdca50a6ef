"""The versions of the ledger's schema, made by scripts that never change once released."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from prsm_core.errors import StoreError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

# In the header of the file: "PRSL"; and "PRSM" in those from before version 1 of the schema.
APPLICATION_ID = 0x5052534C
_EARLIER_ID = 0x5052534D

_SCRIPTS = ("schema.sql",)
NEWEST = len(_SCRIPTS)


def no_ledger(path: object) -> StoreError:
    """Return the error of a ledger that is not there, or was never begun."""
    return StoreError(
        f"there is no ledger at {path}",
        hint="A first run makes it; or set PRSM_HOME to where it is.",
        code="no_ledger",
    )


def load_migrations() -> Sequence[str]:
    """Return the SQL scripts; script n (from 0) leads from version n to n + 1."""
    beside = Path(__file__).with_name
    return tuple(beside(name).read_text(encoding="utf-8") for name in _SCRIPTS)


def check_version(conn: sqlite3.Connection, newest: int = NEWEST) -> int:
    """Return the version of the file, 0 for an empty one.

    Raises StoreError when the file is not a ledger (code `not_a_ledger`), was written by a PRSM
    that no migration leads from (`older_ledger`), or is newer than this program (`newer_ledger`).
    """
    (version,) = conn.execute("PRAGMA user_version").fetchone()
    (application,) = conn.execute("PRAGMA application_id").fetchone()
    (tables,) = conn.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application == _EARLIER_ID:
        raise StoreError(
            f"the ledger {_path(conn)} was written by an earlier PRSM and cannot be read",
            hint="The next `prsm run` keeps it under another name and begins a new ledger.",
            code="older_ledger",
        )
    if tables and application != APPLICATION_ID:
        raise StoreError(
            "the file is an SQLite database, but not a ledger of PRSM",
            hint="give the path of a ledger, or of a file that does not exist yet",
            code="not_a_ledger",
        )
    if version > newest:
        raise StoreError(
            f"the ledger has version {version}; this program knows versions up to {newest}",
            hint="Upgrade prsm-core, or use another PRSM_HOME.",
            code="newer_ledger",
        )
    return int(version)


def migrate(conn: sqlite3.Connection, migrations: Sequence[str] | None = None) -> None:
    """Bring the ledger to the newest version, each step in a transaction; a new one in one."""
    scripts = load_migrations() if migrations is None else migrations
    version = check_version(conn, len(scripts))
    while version < len(scripts):
        steps = scripts[version : version + 1] if version else scripts
        version += len(steps)
        try:
            conn.executescript(
                f"BEGIN IMMEDIATE; {'; '.join(steps)};"
                f"PRAGMA application_id = {APPLICATION_ID};"
                f"PRAGMA user_version = {version}; COMMIT;"
            )
        except BaseException:
            if conn.in_transaction:
                conn.rollback()
            raise


def require_current(conn: sqlite3.Connection, newest: int = NEWEST) -> None:
    """Raise StoreError unless a ledger to read is the newest version, `no_ledger` if not begun."""
    version = check_version(conn, newest)
    if not version:
        raise no_ledger(_path(conn))
    if version < newest:
        raise StoreError(
            f"the ledger has version {version}, reading needs version {newest}",
            hint="open it once for writing (any run does); that upgrades it",
            code="older_ledger",
        )


def _path(conn: sqlite3.Connection) -> str:
    (_, _, path) = conn.execute("PRAGMA database_list").fetchone()
    return str(path)
