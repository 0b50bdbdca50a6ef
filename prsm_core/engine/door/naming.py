"""The name of a session, which a person gives it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from prsm_core.domain.ids import Ids
from prsm_core.domain.steps import Step
from prsm_core.domain.writes import SessionNamed
from prsm_core.errors import ConfigError
from prsm_core.kit.text import escape_exact

if TYPE_CHECKING:
    from prsm_core.interfaces.store import SessionInfo, Store

LONGEST = 120  # characters of a name


async def name_session(store: Store, info: SessionInfo, name: str) -> str | None:
    """Give a session a name, none where it is blank, and return it; raises as `checked_name`."""
    new, session = checked_name(name), info.session_id
    step = Step(
        step_id=f"{session}:name:{Ids(time.time).ulid()}",
        session_id=session,
        run_id=info.run_id or "",
        agent_id=None,
        at=time.time(),
        writes=(SessionNamed(name=new),),
    )
    await store.commit(step)
    return new


def checked_name(name: str) -> str | None:
    """Return a name without the space around it; None for a blank one.

    Raises ConfigError for one that is too long, or acts on a terminal.
    """
    text = " ".join(name.split())
    if len(text) > LONGEST:
        raise ConfigError(
            f"a name of {len(text)} characters is too long", hint=f"use {LONGEST} at most"
        )
    if text != escape_exact(text):
        raise ConfigError(
            f"the name {escape_exact(text)!r} has characters that act on a terminal",
            hint="leave them out",
        )
    return text or None
