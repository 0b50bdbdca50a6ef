"""What becomes of a run when its person leaves: said beforehand, and told at the end."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prsm_core import AppHandle
    from prsm_tui.model.session import Session


async def owns_runs(app: AppHandle, session: str) -> bool:
    """Return whether the session's runs end with this process."""
    for row in await app.sessions.list():
        if row.session == session:
            return row.pid == os.getpid()
    return True  # one that has not begun is in no ledger yet


def what_follows(session: Session, *, owns: bool) -> str:
    """Return what leaving does; `owns`: the session's runs end with this process."""
    if session.run is None or not session.run.is_open:
        return "no run is open"
    if not owns:
        return "the run goes on, since another process has it"
    return f"the run stops here as interrupted; `prsm resume {session.id}` goes on with it"
