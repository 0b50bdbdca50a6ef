"""Changes of files, as a frontend sees them and decides about them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prsm_core import ConfigError
from prsm_core.files import ACCEPTED, OPEN_STATES, ConversationStore, FileActs
from prsm_files.commits.records import Outcome
from prsm_files.session.committing import Wording, told_outcome
from prsm_files.session.deciding import (
    Choice,
    choose,
    family_of,
    find_change,
    told_change,
    told_decision,
)
from prsm_files.session.reasons import Reasons, of_line, of_path, reason_values, told_reason

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from prsm_core import Store
    from prsm_core.files import ChangeRow
    from prsm_files.session.changes import ChangeWatch
    from prsm_files.session.late import LateWatch


class Deciding(FileActs):
    """The part of an AppHandle that is about changes; without a watch none are found."""

    def __init__(self, watch: LateWatch | None, store: Store, session: str, workspace: str) -> None:
        self._watch = watch
        self._store = store
        self._session = session
        self._workspace = workspace

    async def changes(self) -> Sequence[Mapping[str, Any]]:
        """Return all changes of the session, oldest first."""
        rows, names = await self._rows(), await self._names()
        return [told_change(row, names) for row in rows]

    async def show_change(self, change: str) -> Mapping[str, Any]:
        """Return a change with its lines and its reason; see AppHandle."""
        row = find_change(await self._rows(), change)
        if self._watch is None:
            raise _not_kept()
        reason = await Reasons(self._store, self._session).of(row)
        text = await self._watch.get().patch([row])
        told = told_change(row, await self._names())
        return {**told, "rationale": reason_values(reason), "diff": text}

    async def rationale(self, path: str, line: int | None = None) -> Mapping[str, Any]:
        """Return why a file, or a line of it, was changed; see AppHandle."""
        rows = of_path(await self._rows(), self._workspace, path)
        row = rows[0]
        if line is not None:
            if self._watch is None:
                raise _not_kept()
            row = of_line(rows, await self._watch.get().origin(rows, line), line)
        reason = await Reasons(self._store, self._session).of(row)
        return told_reason(row, await self._names(), reason)

    async def _rows(self) -> Sequence[ChangeRow]:
        if self._watch is not None:
            return await self._watch.get().rows()
        return await self._store.changes(self._session)

    async def _names(self) -> Mapping[str, str]:
        agents = await self._store.agents(self._session)
        return {row.descriptor.agent_id: row.descriptor.name for row in agents}

    async def accept(
        self, changes: Sequence[str] = (), *, agent: str | None = None, call: str | None = None
    ) -> Sequence[Mapping[str, Any]]:
        """Accept changes; see AppHandle."""
        choice = await self._choice(changes, agent, call)
        watch = await self._able(choice)
        return (
            []
            if watch is None
            else [told_decision(one) for one in await watch.verdicts.accept(choice)]
        )

    async def reject(
        self,
        changes: Sequence[str] = (),
        *,
        agent: str | None = None,
        call: str | None = None,
        possible: bool = False,
    ) -> Sequence[Mapping[str, Any]]:
        """Take changes back; see AppHandle."""
        choice = await self._choice(changes, agent, call, is_sure=not possible)
        watch = await self._able(choice)
        if watch is None:
            return []
        made, act = await watch.verdicts.reject(choice)
        return [{**told_decision(one), "act": act} for one in made]

    async def commit_changes(
        self,
        changes: Sequence[str] = (),
        *,
        agent: str | None = None,
        by: str = "agent",
        message: str | None = None,
        dry_run: bool = False,
    ) -> Mapping[str, Any]:
        """Commit accepted changes; see AppHandle."""
        choice, wording = await self._choice(changes, agent, None), Wording(by=by, message=message)
        wording.check()
        watch = await self._able(choice, {ACCEPTED})
        if watch is None:
            return told_outcome(Outcome(), (), {})
        outcome, rows = await watch.verdicts.commit(choice, wording, is_dry=dry_run)
        return told_outcome(outcome, rows, await self._names())

    async def _able(
        self, choice: Choice, states: Collection[str] = OPEN_STATES
    ) -> ChangeWatch | None:
        """Return who decides; None: there is nothing to decide. Raises ConfigError."""
        rows = await self._store.changes(self._session)
        if self._watch is None and choose(rows, choice, states):
            raise _not_kept()
        return None if self._watch is None else self._watch.get()

    async def _choice(
        self, ids: Sequence[str], agent: str | None, call: str | None, *, is_sure: bool = False
    ) -> Choice:
        agents = None
        if agent is not None:
            rows = await self._store.agents(self._session)
            parents = {row.descriptor.agent_id: row.descriptor.parent_id for row in rows}
            agents = family_of(ConversationStore.resolve_agent_id(agent, rows), parents)
        return Choice(ids=tuple(ids), agents=agents, call=call, is_sure=is_sure)


def _not_kept() -> ConfigError:
    return ConfigError(
        "changes of files are not kept here",
        hint="let `workspace.snapshots` be something else than off",
        code="no_changes",
    )
