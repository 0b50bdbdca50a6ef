"""Changes of files as a test says they are, and what a person decides about them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from prsm_files.commits.records import Commit, Outcome
from prsm_files.session.committing import Wording, committed, told_outcome
from prsm_files.session.deciding import (
    Choice,
    accepted,
    choose,
    of_last_turn,
    told_change,
    told_decision,
)
from prsm_files.session.deciding import find_change as find_row
from prsm_files.session.reasons import find_reason, of_path, reason_values, told_reason
from prsm_files.session.taking_back import nothing_kept, told
from prsm_files.shadow.acts import nothing_to_undo

from prsm_core.domain.changes import (
    ACCEPTED,
    OPEN_STATES,
    REJECTED,
    Author,
    ChangeRow,
    Decision,
    FileChange,
)
from prsm_core.domain.snapshots import SessionSnapshot
from prsm_core.engine.door.files import snapshot_values
from prsm_core.engine.door.refusals import check_way, not_kept, run_open
from prsm_core.engine.journal.views import conversation
from prsm_core.errors import ConfigError, MessageRoutingError
from prsm_core.kit.arguments import takes_checked

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Collection, Mapping, Sequence

    from prsm_files.session.reasons import Reason

    from prsm_core.domain.events import Event
    from prsm_core.interfaces.frontend import RunOptions


COMMIT = "c0" * 20  # the id of each
SAFETY = "5afe5afe5a"  # the snapshot before each restore


@takes_checked
class ScriptedChanges:
    """The part of a ScriptedApp that is about changes; no file is touched."""

    session: str
    options: RunOptions

    def __init__(self) -> None:
        self.change_rows: list[ChangeRow] = []  # which the session has found
        self.change_diffs: dict[str, str] = {}  # of some of them, by their ids
        self.keeps_files = False  # whether snapshots can be taken
        self.snapshot_rows: list[Mapping[str, Any]] = []  # as `snapshots` tells them
        self.restore_changes: Sequence[Mapping[str, Any]] = ()  # of each restore: path and change
        self.restored: list[str] = []  # snapshots, in the order of their restores
        self._log: list[Event] = []  # all that was said

    @property
    def has_open_run(self) -> bool:
        """Whether a run is open."""
        raise NotImplementedError

    def find_change(
        self, change: str, path: str, agent: str | None = None, *, diff: str = "", **fields: Any
    ) -> None:
        """Let the session have found a change of an agent, which is told; None: from outside.

        Its lines are those of `diff`, which a patch begins; `call`, `turn` and `state` are further
        fields, as are those of a FileChange.
        """
        row = {"state": fields.pop("state", "pending")}
        author = {"call": fields.pop("call", ""), "turn": fields.pop("turn", None)}
        made = FileChange(
            **{
                "id": change,
                "scan": change,
                "path": path,
                "folder": self.options.workspace,
                "kind": "modified",
                "added": _lines(diff, "+"),
                "removed": _lines(diff, "-"),
                "how": "outside" if agent is None else "named",
                "authors": () if agent is None else (Author(agent, **author),),
                **fields,
            }
        )
        self.change_rows.append(ChangeRow(change=made, at=float(len(self._log)), **row))
        self.change_diffs[change] = diff
        told = {"change": change, "path": path, "kind": made.kind, "how": made.how}
        self.say("file_changed", agent, **told, added=made.added, removed=made.removed)

    def say(self, kind: str, agent: str | None = None, /, **data: Any) -> None:
        """Commit an event."""
        raise NotImplementedError

    def _names(self) -> Mapping[str, str]:
        """Return what agents are called, by their ids."""
        raise NotImplementedError

    def _resolve(self, agent: str) -> str:
        for agent_id, name in self._names().items():
            if agent in (agent_id, name):
                return agent_id
        raise MessageRoutingError(f"no agent is called {agent!r}", code="unknown_agent")

    async def changes(self) -> Sequence[Mapping[str, Any]]:
        """Return the changes that the test has given."""
        return [told_change(row, self._names()) for row in self.change_rows]

    async def show_change(self, change: str) -> Mapping[str, Any]:
        """Return a change that the test has given, with the lines that it has given to it."""
        row = find_row(self.change_rows, change)
        diff = self.change_diffs.get(row.change.id, "")
        reason = reason_values(self._reason(row))
        return {**told_change(row, self._names()), "rationale": reason, "diff": diff}

    async def accept(
        self, changes: Sequence[str] = (), *, agent: str | None = None, call: str | None = None
    ) -> Sequence[Mapping[str, Any]]:
        """Accept changes; an agent has none below it."""
        return self._decide(accepted(self._chosen(changes, agent, call)))

    async def reject(
        self,
        changes: Sequence[str] = (),
        *,
        agent: str | None = None,
        call: str | None = None,
        possible: bool = False,
    ) -> Sequence[Mapping[str, Any]]:
        """Take changes back: all of them merge."""
        rows = self._chosen(changes, agent, call, is_sure=not possible)
        return self._decide([Decision(r.change.id, r.change.path, REJECTED) for r in rows])

    async def undo(
        self,
        what: str = "prompt",
        wanted: str | None = None,
        *,
        files: bool = True,
        conversation: bool = True,
        mine: bool = False,
        possible: bool = False,
    ) -> Mapping[str, Any]:
        """Take the last turn's changes back; nothing is kept that another undo would need."""
        check_way(what)
        if what == "turn":
            rows = of_last_turn(self.change_rows, with_possible=possible)
            made = [Decision(r.change.id, r.change.path, REJECTED) for r in rows]
            return {**told(None, None, None), "decided": self._decide(made)}
        if self.has_open_run:
            raise run_open(self.session)
        if what == "act":
            if not self.restored:
                raise nothing_to_undo()
            return self._restored(self.restored.pop())
        raise nothing_kept(self.session)

    async def snapshots(self) -> Sequence[Mapping[str, Any]]:
        """Return those that a test has given, and that were taken."""
        return self.snapshot_rows

    async def take_snapshot(self, description: str = "") -> Mapping[str, Any]:
        """Note a snapshot, if the test says that files are kept; else raise ConfigError."""
        if not self.keeps_files:
            raise not_kept()
        row = SessionSnapshot(
            snapshot_id=f"{len(self.snapshot_rows) + 1:010x}",
            last_commit=len(self._log),
            kind="manual",
            taken_at=float(len(self._log)),
            folder=self.options.workspace,
            tree="",
            description=description,
        )
        self.snapshot_rows.append(snapshot_values(self.session, row))
        return self.snapshot_rows[-1]

    async def restore_snapshot(self, snapshot: str, *, dry_run: bool = False) -> Mapping[str, Any]:
        """Note a restore; what it changes is what the test has said."""
        if not dry_run and self.has_open_run:
            raise run_open(self.session)
        if not self.keeps_files:
            raise not_kept()
        if snapshot not in {one["id"] for one in self.snapshot_rows}:
            raise ConfigError(f"there is no snapshot {snapshot!r}", code="unknown_snapshot")
        if dry_run:
            return {**self._restored(snapshot), "snapshot": None}
        self.restored.append(snapshot)
        return self._restored(snapshot)

    def _restored(self, snapshot: str) -> Mapping[str, Any]:
        changes = list(self.restore_changes)
        what = {
            "restored": snapshot,
            "snapshot": SAFETY,
            "act": SAFETY,
            "files": len(changes),
            "changes": changes,
        }
        return {**told(None, None, None), **what}

    async def commit_changes(
        self,
        changes: Sequence[str] = (),
        *,
        agent: str | None = None,
        by: str = "agent",
        message: str | None = None,
        dry_run: bool = False,
    ) -> Mapping[str, Any]:
        """Note accepted changes as committed, all in one commit; there is no repository."""
        Wording(by=by, message=message).check()
        rows = self._chosen(changes, agent, None, {ACCEPTED})
        commit = Commit(
            root="",
            message=message or "changes",
            changes=tuple(row.change.id for row in rows),
            files=tuple(row.change.path for row in rows),
            id="" if dry_run else COMMIT,
        )
        outcome = Outcome(commits=(commit,) if rows else ())
        if not dry_run:
            self._decide(committed(rows, outcome))
        return told_outcome(outcome, rows, self._names())

    async def rationale(self, path: str, line: int | None = None) -> Mapping[str, Any]:
        """Return why a change that the test has given was made; all lines are of the newest."""
        row = of_path(self.change_rows, self.options.workspace, path)[0]
        return told_reason(row, self._names(), self._reason(row))

    async def worktrees(self) -> Sequence[Mapping[str, Any]]:
        """Return nothing: nobody has any."""
        return ()

    async def hold_files(self) -> AsyncGenerator[Sequence[str], None]:
        """Say that nobody writes; nobody does."""
        yield ()
        await asyncio.get_running_loop().create_future()  # until it is closed

    def _reason(self, row: ChangeRow) -> Reason | None:
        author = row.change.author
        if author is None:
            return None
        said = [event for event in self._log if event.agent == author.agent]
        return find_reason(conversation(said, numbered=True), author.call)

    def _chosen(
        self,
        ids: Sequence[str],
        agent: str | None,
        call: str | None,
        states: Collection[str] = OPEN_STATES,
        *,
        is_sure: bool = False,
    ) -> Sequence[ChangeRow]:
        agents = None if agent is None else frozenset({self._resolve(agent)})
        choice = Choice(ids=tuple(ids), agents=agents, call=call, is_sure=is_sure)
        return choose(self.change_rows, choice, states)

    def _decide(self, made: Sequence[Decision]) -> Sequence[Mapping[str, Any]]:
        by_id = {one.id: one for one in made}
        self.change_rows = [
            replace(row, state=by_id[row.change.id].state, why=by_id[row.change.id].why)
            if row.change.id in by_id
            else row
            for row in self.change_rows
        ]
        told = [told_decision(one) for one in made]
        if told:
            self.say("changes_decided", changes=told)
        return told


def _lines(diff: str, sign: str) -> int:
    """Return how many lines of a patch have a sign; those that name the file have three."""
    return sum(
        line.startswith(sign) and not line.startswith(sign * 3) for line in diff.splitlines()
    )
