"""What was in files before an agent began, and who has changed them since, by what was found.

Its own first change tells what was there; else what the last earlier change left, or the snapshot
taken before it began, or the folder before the first call that may write. It asks no clock, and
needs no commit.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from prsm_core.files import text_path
from prsm_files.artifacts import Blob
from prsm_files.session.deciding import authors_of
from prsm_files.session.naming import newest_commit
from prsm_files.shadow.git import GitFailedError
from prsm_files.shadow.records import LINK, PROGRAM, Entry
from prsm_files.shadow.trackers import base_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from prsm_core.files import AgentRecord, ChangeRow, FilesContext
    from prsm_files.session.keeper import FilesKeeper
    from prsm_files.session.late import LateWatch
    from prsm_files.shadow.worktree import Shadow

_UNJUDGED = "what agents claim about files in {} is judged by git and the clock alone"


class Seen(Struct, frozen=True, kw_only=True):
    """What the session recorded about a file."""

    before: Blob | None = None  # as the agent began; None: it was not there, or was not kept
    others: tuple[str, ...] = ()  # who has changed it since, where the agent has not; "": unknown


class Witness:
    """Knows the files of the workspace by what was found in them."""

    def __init__(self, watch: LateWatch, keeper: FilesKeeper, of: FilesContext) -> None:
        self._watch = watch
        self._keeper = keeper
        self._store, self._session, self._roster = of.store, of.session, of.roster
        self._conversations = of.conversations
        self._workspace = Path(of.workspace)

    def _family(self, record: AgentRecord) -> set[str]:
        return {one.agent_id for one, _ in self._roster.family(record)}

    async def changes(self, record: AgentRecord) -> Sequence[ChangeRow]:
        """Return the changes that an agent, or one below it, may have made since it began."""
        rows, family = await self._watch.rows(), self._family(record)
        own = [row for row in rows if authors_of(row) & family]
        if not own:
            return ()
        since = await self._found_since(await self._conversations.born(record.agent_id))
        return [row for row in own if row.change.id in since]

    async def of(self, record: AgentRecord, paths: Sequence[str]) -> Mapping[str, Seen]:
        """Return the session's records of files, by their path below the agent's folder."""
        born = await self._conversations.born(record.agent_id)
        rows = await self._watch.get().rows()
        since = await self._found_since(born)
        position = await newest_commit(self._store, self._session, born)
        snapshots = (await self._store.state(self._session)).snapshots
        tree = next((one.tree for one in snapshots[::-1] if one.last_commit < position), None)
        family, cwd = self._family(record), record.descriptor.cwd

        def look(shadow: Shadow) -> Mapping[str, Seen]:
            return self._look(shadow, cwd, paths, rows, since, family, tree)

        return await self._keeper.attempt(self._workspace, look, _UNJUDGED) or {}

    async def _found_since(self, born: int) -> set[str]:
        events = self._store.events(self._session, after=born)
        found = [e async for e in events if e.type == "file_changed" and "change" in e.data]
        return {event.data["change"] for event in found}

    def _look(
        self,
        shadow: Shadow,
        cwd: str,
        paths: Sequence[str],
        rows: Sequence[ChangeRow],
        since: Collection[str],
        family: set[str],
        tree: str | None,
    ) -> Mapping[str, Seen]:
        top, folder = os.path.realpath(shadow.folder), os.path.realpath(cwd)
        places = {
            path: os.path.relpath(place, top)
            for path in paths
            if (place := f"{folder}/{path}").startswith(f"{top}/")
        }
        names, seen = self._roster.names(), dict[str, Seen]()
        # Each with the repository that it is in.
        contents: dict[str, tuple[str, Entry]] = {}
        unknown: dict[str, str] = {}
        for path, place in places.items():
            history = [
                row
                for row in rows
                if text_path(row.change.path) == place and text_path(row.change.folder) == top
            ]
            later = [row for row in history if row.change.id in since]
            own = [row for row in later if authors_of(row) & family]
            if later and not own:
                agents = [author.agent for row in later for author in row.change.authors]
                others = dict.fromkeys(names.get(agent, agent) for agent in agents)
                seen[path] = Seen(others=tuple(others) or ("",))
            elif own or history:
                seen[path] = Seen()
                # What was there before its own first change, or after the last one before it.
                one = own[0].change if own else history[-1].change
                mode, blob = (one.old_mode, one.before) if own else (one.new_mode, one.after)
                if mode is not None and mode != LINK and blob:
                    contents[path] = text_path(one.root), Entry(mode, blob)
            else:
                unknown[place] = path
        with shadow.at_work():
            if unknown:
                held: Mapping[str, Entry] = {}
                # Of a tree that is gone nothing is known.
                with suppress(GitFailedError):
                    held = shadow.root("").shadow.tree(tree or base_of(self._session), [*unknown])
                files = {place: one for place, one in held.items() if one.mode != LINK}
                contents |= {unknown[place]: ("", one) for place, one in files.items()}
            return seen | _blobs(shadow, contents)


def _blobs(shadow: Shadow, contents: Mapping[str, tuple[str, Entry]]) -> dict[str, Seen]:
    """Return contents with their sizes; one that is gone is as if nothing had been there."""
    found = dict.fromkeys(contents, Seen())
    for top in filter(shadow.has_root, {root for root, _ in contents.values()}):
        mine = {path: one for path, (root, one) in contents.items() if root == top}
        sizes = shadow.root(top).sizes([one.blob for one in mine.values()])
        for path, one in mine.items():
            if (size := sizes.get(one.blob)) is not None:
                is_program = one.mode == PROGRAM
                known = Blob(id=one.blob, size=size, is_executable=is_program)
                found[path] = Seen(before=known)
    return found
