"""Reading a session's changes of files, as they were after any commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prsm_core.domain.changes import to_change_row
from prsm_core.store.as_of import CHANGES
from prsm_core.store.codec import decode
from prsm_core.store.event_log import AFTER_ALL

if TYPE_CHECKING:
    import sqlite3

    from prsm_core.domain.changes import ChangeRow


def read_changes(conn: sqlite3.Connection, session_id: str, at: int = AFTER_ALL) -> list[ChangeRow]:
    """Return the session's changes of files as they were after a commit, oldest first."""
    rows = conn.execute(CHANGES, {"session": session_id, "at": at})
    names = [column[0] for column in rows.description]
    return [to_change_row(_decoded(dict(zip(names, row, strict=True)))) for row in rows]


def _decoded(row: dict[str, Any]) -> dict[str, Any]:
    return row | {name: decode(row[name]) for name in ("authors", "beside")}
