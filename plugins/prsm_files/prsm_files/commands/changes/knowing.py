"""Reads changes of a session that a command line means, and says each in a line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from prsm_core import ConfigError
from prsm_core.commands import open_session
from prsm_core.files import OPEN_STATES, ConversationStore
from prsm_core.kit import escape_exact
from prsm_files.session.deciding import Choice, choose, family_of, find_change, is_of_agents

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from prsm_core import Store
    from prsm_core.files import ChangeRow

MARKS = {"added": "+", "deleted": "-", "modified": "~"}
_OUTSIDE = "(outside)"


class Known(Struct, frozen=True, kw_only=True):
    """Changes of a session, and what its agents are called."""

    session: str
    run: str
    rows: tuple[ChangeRow, ...]
    names: Mapping[str, str]
    unsure: tuple[ChangeRow, ...] = ()  # left out: a person may have made them
    last_seq: int = 0  # of the session's events, all of which are known
    outside: tuple[ChangeRow, ...] = ()  # of no agent of the session: decided by their ids alone


async def known_changes(
    workspace: str,
    session: str | None,
    ids: Sequence[str],
    agent: str | None,
    call: str | None,
    *,
    is_all: bool = False,
    is_sure: bool = False,
    states: Collection[str] = OPEN_STATES,
) -> Known:
    """Read the changes that are meant, which are in some states; with `is_all` all in any.

    With `is_sure` those are left out that a person may have made. Raises PrsmError.
    """
    async with open_session(workspace, session) as (store, info):
        rows = await store.changes(info.session_id)
        agents = await store.agents(info.session_id)
        await _check_ids(store, info.session_id, rows, ids)
    parents = {row.descriptor.agent_id: row.descriptor.parent_id for row in agents}
    family = None
    if agent is not None:
        family = family_of(ConversationStore.resolve_agent_id(agent, agents), parents)
    if is_all:
        found = [row for row in rows if family is None or _may_be_of(row, family)]
    else:
        found = list(choose(rows, Choice(ids=tuple(ids), agents=family, call=call), states))
    left = [row for row in found if row.change.is_unsure] if is_sure and not ids else []
    return Known(
        session=info.session_id,
        run=info.run_id or "",
        last_seq=info.last_seq,
        rows=tuple(row for row in found if row not in left),
        unsure=tuple(left),
        names={row.descriptor.agent_id: row.descriptor.name for row in agents},
        outside=()
        if ids
        else tuple(row for row in rows if row.state in states and not is_of_agents(row)),
    )


async def _check_ids(
    store: Store, session: str, rows: Sequence[ChangeRow], ids: Sequence[str]
) -> None:
    """Raise ConfigError for an id of no change of a session; it names one that has it."""
    for wanted in ids:
        try:
            find_change(rows, wanted)
        except ConfigError as error:
            if error.code != "unknown_change":
                raise
            for info in await store.sessions():
                if _has(await store.changes(info.session_id), wanted):
                    raise ConfigError(
                        f"change {wanted!r} is not of session {session}",
                        hint=f"it is of session {info.session_id}: give --session "
                        f"{info.session_id}",
                        code="unknown_change",
                    ) from error
            raise


def _has(rows: Sequence[ChangeRow], wanted: str) -> bool:
    text = wanted.strip().lower()
    return any(text and row.change.id.startswith(text) for row in rows)


def _may_be_of(row: ChangeRow, family: frozenset[str]) -> bool:
    return any(one.agent in family for one in row.change.authors)


def who(row: ChangeRow, names: Mapping[str, str]) -> str:
    """Return who made a change; with a `?` where a person may have."""
    agents = dict.fromkeys(one.agent for one in row.change.authors)
    mark = "?" if row.change.is_unsure else ""
    return ", ".join(f"{names.get(agent, agent[:8])}{mark}" for agent in agents) or _OUTSIDE


def line_of(row: ChangeRow, names: Mapping[str, str]) -> str:
    """Return a change in one line."""
    change = row.change
    mark = "! " if change.beside else ""
    author = escape_exact(who(row, names))
    return f"{change.id}  {mark}{MARKS[change.kind]} {escape_exact(change.path)}  {author}"
