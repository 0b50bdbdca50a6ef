"""Where a conversation goes as files go back, and on again: what a restore owes besides.

A *fork* begins as a session was before a prompt. One that was left is *taken up* again. And one in
which nothing was said before the prompt is *set aside*: nothing is gone on with. Each also says
which session was left, and at which commit; so a restore that takes back another one knows the way
back. All of it is JSON values, for it lies beside the files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from prsm_core import StoreError
from prsm_core.domain.writes.runs import SessionSetAside, SessionTakenUp
from prsm_core.engine.forking import ForkRequest, fork_session
from prsm_core.files import COMMITTED, Step

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prsm_core import Store
    from prsm_core.files import ChangeRow, Ids
    from prsm_files.shadow.acts import Act, Owed

FORK, TAKE_UP, SET_ASIDE = "fork", "take_up", "set_aside"
# Codes of errors: what was owed can never be done.
_GONE = frozenset({"unknown_session", "unknown_position", "no_master"})


class LeftSession(NamedTuple):
    """The session that was gone on with until then, and its newest commit."""

    session: str
    position: int


def fork_owed(owner: str, position: int, fork: str, left: LeftSession, *, with_files: bool) -> Owed:
    """Return that a session is to be forked after a commit, under the id `fork`."""
    way = {"session": owner, "position": position, "fork": fork, "files": with_files}
    return {"act": FORK, **way, "left": list(left)}


def set_aside_owed(left: LeftSession, ids: Ids) -> Owed:
    """Return that the session that is left is to be set aside."""
    return {"act": SET_ASIDE, "session": left.session, "id": ids.ulid(), "left": list(left)}


def session_after(owed: Owed | None) -> str | None:
    """Return the session that is gone on with after what is owed; None: none, or as before."""
    if owed is None or owed.get("act") == SET_ASIDE:
        return None
    return str(owed["fork"] if owed.get("act", FORK) == FORK else owed["session"])


async def way_back(store: Store, last: Act, ids: Ids) -> Owed | None:
    """Return what a restore owes that takes the last one back; None: it is of files alone."""
    if last.then is None or "left" not in last.then:
        return None
    now, before = session_after(last.then), last.then["left"]
    known = {info.session_id for info in await store.sessions()}
    if not {one for one in (now, before and before[0]) if one is not None} <= known:
        return None
    left = None if now is None else LeftSession(now, (await store.state(now)).position)
    if before is None:
        return None if left is None else set_aside_owed(left, ids)
    to = LeftSession(*before)
    way = {"act": TAKE_UP, "session": to.session, "as_of": to.position, "id": ids.ulid()}
    return {**way, "left": None if left is None else list(left)}


def sessions_of(owed: Owed | None) -> Sequence[str]:
    """Return the sessions that nobody is to go on with while what is owed is done."""
    if owed is None:
        return ()
    left = owed.get("left") or (None,)
    return tuple(dict.fromkeys(one for one in (left[0], owed["session"]) if one is not None))


async def carry_out(store: Store, owed: Owed, ids: Ids, now: float) -> str | None:
    """Do what a restore owes, once, however often it is tried; return `session_after`."""
    act = owed.get("act", FORK)
    if act == FORK:
        await _fork(store, owed, ids, now)
    elif act == TAKE_UP:
        changes = await _as_then(store, str(owed["session"]), int(owed["as_of"]))
        await _commit(store, owed, SessionTakenUp(changes=changes), now)
    else:
        await _commit(store, owed, SessionSetAside(), now)
    return session_after(owed)


async def _fork(store: Store, owed: Owed, ids: Ids, now: float) -> None:
    fork = str(owed["fork"])
    if all(info.session_id != fork for info in await store.sessions()):
        position, with_files = int(owed["position"]), bool(owed.get("files", True))
        request = ForkRequest(position=position, session_id=fork, with_files=with_files)
        await fork_session(store, str(owed["session"]), request, ids, now)


async def _as_then(store: Store, session: str, position: int) -> tuple[ChangeRow, ...]:
    """Return the changes of a session that a restore has brought back to another state."""
    now = {row.change.id: row.state for row in await store.changes(session)}
    then = (await store.state(session, position)).changes
    return tuple(row for row in then if now[row.change.id] not in {row.state, COMMITTED})


async def _commit(
    store: Store, owed: Owed, write: SessionTakenUp | SessionSetAside, now: float
) -> None:
    session = str(owed["session"])
    state = await store.state(session)
    step = Step(
        step_id=f"{session}:{owed['act']}:{owed['id']}",
        session_id=session,
        run_id=state.runs[-1].run_id,
        agent_id=None,
        at=now,
        writes=(write,),
    )
    await store.commit(step)


async def finish_owed(store: Store, owed: Owed, *, ids: Ids, now: float) -> str:
    """Do what a process that has died still owed; return what is told of it. Raises StoreError."""
    is_fork = owed.get("act", FORK) == FORK
    what = "of a prompt " if is_fork else ""
    where = "as before it" if is_fork else "back"
    try:
        session = await carry_out(store, owed, ids, now)
    except StoreError as error:
        if error.code not in _GONE:
            raise
        return (
            f"an undo {what}was cut off: the files are {where}, and the conversation "
            f"stays: {error.message}"
        )
    has = f"session {session} has the conversation before it"
    if not is_fork:
        has = "the next run begins anew" if session is None else f"session {session} is the newest"
    return f"an undo {what}that was cut off is finished: the files are {where}, and {has}"
