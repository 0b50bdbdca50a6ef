"""Which changes a person means, and what is decided about them, for engines and commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import asdict

from prsm_core import ConfigError
from prsm_core.door import AgentName, Change, ChangeAuthor, ChangeDetail, DecidedChange
from prsm_core.files import (
    ACCEPTED,
    OPEN_STATES,
    PENDING,
    REJECTED,
    ConversationStore,
    Decision,
    path_text,
    text_path,
)
from prsm_files.changes.merging import Wanted
from prsm_files.shadow.acts import MERGE, Verdict
from prsm_files.shadow.records import Entry, find_id

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from prsm_core import Store
    from prsm_core.door import Reason
    from prsm_core.files import ChangeRow
    from prsm_files.shadow.acts import Act


# Fields that a change in the ledger and one that is told have alike.
_ALIKE = (
    "path",
    "folder",
    "kind",
    "old_mode",
    "new_mode",
    "before",
    "after",
    "added",
    "removed",
    "how",
)


class Choice(Struct, frozen=True, kw_only=True):
    """Changes that are meant: of ids, of agents or of a call, else of all agents of the session."""

    ids: tuple[str, ...] = ()  # or beginnings of them
    agents: frozenset[str] | None = None  # not what may be of another one, too
    call: str | None = None
    is_sure: bool = False  # leave out what a person may have made, unless its id is given


def choose(
    rows: Sequence[ChangeRow], choice: Choice, states: Collection[str] = OPEN_STATES
) -> Sequence[ChangeRow]:
    """Return the changes that are meant, oldest first. Raises ConfigError for a wrong id."""
    if choice.ids:
        found = [find_change(rows, wanted) for wanted in dict.fromkeys(choice.ids)]
        for row in found:
            if row.state not in states:
                raise _in_another_state(row)
        ids = {row.change.id for row in found}
        return [row for row in rows if row.change.id in ids]
    return [row for row in rows if row.state in states and _is_of(row, choice)]


def _in_another_state(row: ChangeRow) -> ConfigError:
    what = f"change {row.change.id} of {row.change.path} is"
    if row.state in OPEN_STATES:
        return ConfigError(
            f"{what} not accepted yet",
            hint=f"accept it first: prsm changes accept {row.change.id}",
            code="not_accepted",
        )
    return ConfigError(
        f"{what} {row.state} already",
        hint="`prsm changes list` shows what is pending",
        code="already_decided",
    )


def _is_of(row: ChangeRow, choice: Choice) -> bool:
    if not is_of_agents(row) or (choice.is_sure and row.change.is_unsure):
        return False
    if choice.agents is not None and not authors_of(row) <= choice.agents:
        return False
    return choice.call is None or choice.call in {one.call for one in row.change.authors[:1]}


def authors_of(row: ChangeRow) -> set[str]:
    """Return the agents that may have made a change, by their ids."""
    return {one.agent for one in row.change.authors}


def is_of_agents(row: ChangeRow) -> bool:
    """Return whether agents of the session made a change; else it is decided by its id alone."""
    return bool(row.change.authors)


def of_last_turn(rows: Sequence[ChangeRow], *, with_possible: bool = True) -> Sequence[ChangeRow]:
    """Return the open changes of the turn that made the newest, if they are surely that turn's."""
    mine = [row for row in rows if row.state in OPEN_STATES and _turn(row) is not None]
    return [
        row
        for row in mine
        if _turn(row) == _turn(mine[-1]) and (with_possible or not row.change.is_unsure)
    ]


def _turn(row: ChangeRow) -> str | None:
    turns = {one.turn for one in row.change.authors}
    return turns.pop() if len(turns) == 1 else None


def find_change(rows: Iterable[ChangeRow], wanted: str) -> ChangeRow:
    """Return the change of an id, or of the beginning of one. Raises ConfigError."""
    by_id = {row.change.id: row for row in rows}
    found = find_id(list(by_id), wanted, "change")
    if found is None:
        raise ConfigError(
            f"there is no change {wanted!r} in this session",
            hint="`prsm changes list` shows those there are",
            code="unknown_change",
        )
    return by_id[found]


def wanted(rows: Sequence[ChangeRow]) -> Sequence[Wanted]:
    """Return changes as they are taken back: newest first."""
    return [
        Wanted(
            id=row.change.id,
            path=text_path(row.change.path),
            root=text_path(row.change.root),
            before=_entry(row.change.old_mode, row.change.before, row.change.note),
            after=_entry(row.change.new_mode, row.change.after, row.change.note),
        )
        for row in reversed(rows)
    ]


def _entry(mode: str | None, blob: str | None, note: str) -> Entry | None:
    return None if mode is None else Entry(mode, blob or "", "" if blob else note)


def accepted(rows: Sequence[ChangeRow]) -> tuple[Decision, ...]:
    """Return that changes are accepted."""
    return tuple(Decision(row.change.id, row.change.path, ACCEPTED) for row in rows)


def decided_by(rows: Iterable[ChangeRow], act: Act, session: str) -> tuple[Decision, ...]:
    """Return what an act decided, as far as nothing else was decided since."""
    verdicts = {one.change: one for one in act.verdicts if one.session == session}
    return tuple(
        Decision(row.change.id, row.change.path, one.new, one.why or None)
        for row in rows
        if (one := verdicts.get(row.change.id)) is not None
        and (row.state == one.old or {row.state, one.old} <= OPEN_STATES)
    )


def of_merge(rows: Iterable[ChangeRow], act: Act) -> tuple[Verdict, ...]:
    """Return that the changes which a merge brought are rejected by its undo."""
    if act.kind != MERGE or act.session is None:
        return ()
    steps = {
        (one.name, *(None if side is None else side.blob for side in (one.before, one.after)))
        for one in act.wrote
    }
    return tuple(
        Verdict(act.session, row.change.id, row.change.path, row.state, REJECTED)
        for row in rows
        if row.state in {*OPEN_STATES, ACCEPTED}
        and (text_path(row.change.path), row.change.before, row.change.after) in steps
    )


def told_act(act: Act) -> Mapping[str, Any]:
    """Return an act as JSON values."""
    return {
        "act": act.id,
        "kind": act.kind,
        "at": act.at,
        "session": act.session,
        "what": act.what,
        "undoes": act.undoes,
        "restored": act.target,
        "files": [path_text(one.name) for one in act.wrote],
    }


def brought_back_text(rows: Collection[Decision]) -> str:
    """Return the message for an agent whose rejected changes the user has restored."""
    lines = [
        f"- {one.path}: {'is there again' if one.state == PENDING else 'taken back again'}"
        for one in rows
    ]
    return "\n".join(["The user has undone a decision about changes of yours:", *lines])


def told_decision(one: Decision, act: str | UnsetType | None = UNSET) -> DecidedChange:
    """Return a decision as `Changes` tells it, with the act that carried it out."""
    return DecidedChange(change=one.id, path=one.path, state=one.state, why=one.why, act=act)


def told_author(row: ChangeRow, names: Mapping[str, str]) -> dict[str, Any]:
    """Return the likeliest author of a change, as `Change` and `Rationale` tell it."""
    author = row.change.author
    if author is None:
        return dict.fromkeys(("agent", "name", "call", "turn"))
    agent, call = author.agent, author.call or None
    return {"agent": agent, "name": names.get(agent), "call": call, "turn": author.turn}


def told_change(row: ChangeRow, names: Mapping[str, str]) -> Change:
    """Return a change as `Changes.list` tells it."""
    change = row.change
    return Change(
        **{name: getattr(change, name) for name in _ALIKE},
        **told_author(row, names),
        change=change.id,
        repository=change.root,
        authors=tuple(
            ChangeAuthor(agent=one.agent, name=names.get(one.agent), call=one.call or None)
            for one in change.authors
        ),
        beside=tuple(
            AgentName(agent=agent or None, name=names.get(agent) if agent else None)
            for agent in change.beside
        ),
        note=change.note or None,
        at=row.at,
        state=row.state,
        why=row.why,
        decided_at=row.decided_at,
    )


def told_detail(
    row: ChangeRow, names: Mapping[str, str], reason: Reason | None, diff: str
) -> ChangeDetail:
    """Return a change as `Changes.show` tells it."""
    told = asdict(told_change(row, names))
    return ChangeDetail(**told, rationale=reason, diff=diff)


async def names_of(store: Store, session: str) -> Mapping[str, str]:
    """Return what the agents of a session are called, by their ids."""
    agents = await store.agents(session)
    return {row.descriptor.agent_id: row.descriptor.name for row in agents}


async def family_of(store: Store, session: str, agent: str | None) -> frozenset[str] | None:
    """Return an agent, by name or id, and all below it; None for None. Raises ConfigError."""
    if agent is None:
        return None
    rows = await store.agents(session)
    family = {ConversationStore.resolve_agent_id(agent, rows)}
    # Each comes behind the one above it.
    for one in (row.descriptor for row in rows):
        if one.parent_id in family:
            family.add(one.agent_id)
    return frozenset(family)


def taken_back_text(rows: Collection[Decision]) -> str:
    """Return what an agent is told of its changes that a person took back, or tried to."""
    lines = [
        f"- {one.path}: " + ("taken back" if one.state != "unmerged" else f"stays: {one.why}")
        for one in rows
    ]
    what = "The user has rejected changes of yours:"
    return "\n".join([what, *lines, "Do not make them again unless you are told to."])
