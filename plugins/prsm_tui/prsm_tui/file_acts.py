"""What is done with changes and snapshots of files: a part of the acts, in an order of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from prsm_core import PrsmError
from prsm_core.kit import escape_exact, first_line
from prsm_tui.model.comments import letters
from prsm_tui.model.spoken import shown
from prsm_tui.pump import said

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from prsm_core import AppHandle
    from prsm_tui.model.comments import Comment, Letter
    from prsm_tui.model.session import Session

    Do = Callable[[Callable[[], Awaitable[None]]], None]

PAGE = 200  # entries of a history
_NAMED = 3  # paths that a line names


class FileListening(Protocol):
    """Who is told what became of an act."""

    def told(self, level: str, text: str) -> None:
        """Hear something; `level` is info, warning or error."""

    def changed(self) -> None:
        """Hear that the model is another."""

    def found(self, agent: str, call: str | None) -> None:
        """Hear that a call of an agent is in its transcript, or that there is none (None)."""


class FileActs:
    """Does them; `do` puts an act into the queue."""

    def __init__(
        self,
        app: AppHandle,
        session: Session,
        listener: FileListening,
        do: Do,
        say: Callable[[str | None, str, str], Awaitable[str]],
    ) -> None:
        self._app = app
        self._session = session
        self._tell = listener
        self._do = do
        self._say = say
        self._is_loading = False  # or is about to
        self._is_outdated = False  # something came while they were read

    def turn_to(self, app: AppHandle) -> None:
        """Go by another handle of the session from now on."""
        self._app = app

    def load(self) -> None:
        """Read the changes again; where that is under way, once more after it."""
        if self._is_loading:
            self._is_outdated = True
            return
        self._is_loading = True
        self._do(self._load)

    def open(self, change: str) -> None:
        """Read what one change did to lines."""
        self._do(lambda: self._open(change))

    def accept(self, changes: Sequence[str]) -> None:
        """Accept changes."""
        self._do(lambda: self._decide(self._app.accept(changes)))

    def reject(self, changes: Sequence[str]) -> None:
        """Take changes back."""
        self._do(lambda: self._decide(self._app.reject(changes)))

    def comment(self, comments: Sequence[Comment], delivery: str) -> None:
        """Send comments to the agents that wrote the lines, all of one agent at once.

        Those that reach nobody are kept.
        """
        self._session.review.let_go(comments)
        self._do(lambda: self._comment(comments, delivery))

    def explain(self, path: str, line: int) -> None:
        """Tell who made a line, and why."""
        self._do(lambda: self._explain(path, line))

    def find(self, agent: str, call: str) -> None:
        """Load an agent's history until a call of it is there."""
        self._do(lambda: self._find(agent, call))

    def load_snapshots(self) -> None:
        """Read the snapshots again."""
        self._do(self._load_snapshots)

    def take_snapshot(self, description: str) -> None:
        """Keep the files as they are."""
        self._do(lambda: self._take_snapshot(description))

    def plan(self, snapshot: str) -> None:
        """Tell what a restore would change."""
        self._do(lambda: self._plan(snapshot))

    def restore(self, snapshot: str) -> None:
        """Let the files be as in a snapshot."""
        self._do(lambda: self._restored(self._app.restore_snapshot(snapshot)))

    def undo_act(self) -> None:
        """Take back what was done to files last: a restore, a rejection, a merge or an undo."""
        self._do(self._undone)

    async def _load(self) -> None:
        review = self._session.review
        try:
            review.take(await self._app.changes())
        except PrsmError as error:
            review.fail(said(error))
        finally:
            self._is_loading = False
        self._tell.changed()
        if self._is_outdated:
            self._is_outdated = False
            self.load()

    async def _open(self, change: str) -> None:
        review = self._session.review
        try:
            review.take_detail(await self._app.show_change(change))
        except PrsmError as error:
            review.fail_detail(change, said(error))
        self._tell.changed()

    async def _decide(self, deciding: Awaitable[Sequence[Mapping[str, Any]]]) -> None:
        """Tell what became of changes; what stays although it was to go is a warning."""
        made = await deciding
        states: dict[str, list[str]] = {}
        for one in made:
            states.setdefault(escape_exact(str(one["state"])), []).append(shown(one["path"]))
        parts = [f"{state}: {_some(paths)}" for state, paths in states.items()]
        stays = [one for one in made if one["state"] == "unmerged"]
        parts += [f"{shown(one['path'])} stays: {shown(one['why'])}" for one in stays]
        act = next((one["act"] for one in made if one.get("act")), None)
        parts += [f"undo: prsm undo {escape_exact(str(act))}"] if act else []
        self._tell.told("warning" if stays else "info", " · ".join(parts) or "nothing was decided")
        await self._load()

    async def _comment(self, comments: Sequence[Comment], delivery: str) -> None:
        if any(self._session.review.find(comment.change) is None for comment in comments):
            await self._load()  # they were kept before the changes were read here
        to_send, left = letters(self._session, comments)
        for why, unsent in left.items():
            self._keep(unsent, "warning", why)
        for letter in to_send:
            await self._send(letter, delivery)
        self._tell.changed()

    async def _send(self, letter: Letter, delivery: str) -> None:
        agent = None if letter.agent is None else letter.agent.id
        try:
            when = await self._say(agent, letter.text, delivery)
        except PrsmError as error:
            self._keep(letter.comments, "error", said(error))
            return
        count = len(letter.comments)
        what = first_line(letter.comments[0].text, 60) if count == 1 else f"{count} comments"
        self._tell.told("info", f"sent {letter.told}: {what} ({when})")

    def _keep(self, comments: Sequence[Comment], level: str, why: str) -> None:
        """Keep what reached nobody, unless something else was said there meanwhile."""
        review = self._session.review
        for comment in comments:
            if comment.place not in review.kept:
                review.keep(comment)
        what = "the comment is" if len(comments) == 1 else f"{len(comments)} comments are"
        self._tell.told(level, f"not sent: {why}; {what} kept")

    async def _explain(self, path: str, line: int) -> None:
        told = await self._app.rationale(path, line)
        name = escape_exact(str(told.get("name") or "nobody known"))
        reason = told.get("reason")
        why = "it gave no reason" if reason is None else first_line(str(reason["text"]), 1000)
        self._tell.told("info", f"line {line} as it is now is of {name}: {why}")

    async def _find(self, agent: str, call: str) -> None:
        known = self._session.agents.get(agent)
        if known is None:
            self._tell.told("warning", "that agent is of an earlier run, and not in the tree")
            return
        while known.transcript.find_block(call) is None and not known.transcript.is_whole:
            before = known.transcript.since
            page = await self._app.history(agent, before=before, limit=PAGE)
            self._session.take_page(agent, page)
        self._tell.found(agent, None if known.transcript.find_block(call) is None else call)

    async def _load_snapshots(self) -> None:
        shelf = self._session.shelf
        try:
            shelf.take(await self._app.snapshots())
        except PrsmError as error:
            shelf.fail(said(error))
        self._tell.changed()

    async def _take_snapshot(self, description: str) -> None:
        taken = await self._app.take_snapshot(description)
        unquiet = "; ".join(map(shown, taken.unquiet))
        level = "warning" if unquiet else "info"
        wrote = f"; an agent wrote meanwhile: {unquiet}" if unquiet else ""
        self._tell.told(level, f"snapshot {escape_exact(taken.id)} is taken{wrote}")
        await self._load_snapshots()

    async def _plan(self, snapshot: str) -> None:
        shelf = self._session.shelf
        try:
            shelf.take_plan(snapshot, await self._app.restore_snapshot(snapshot, dry_run=True))
        except PrsmError as error:
            shelf.fail_plan(snapshot, said(error))
        self._tell.changed()

    async def _undone(self) -> None:
        """Tell what came of the undo of an act; what stays although it was to go is a warning."""
        done = await self._app.undo("act")
        if done.get("restored") is not None:
            await self._tell_restored(done)
            return
        stays = [f"{shown(one['path'])} stays: {shown(one['why'])}" for one in done["stays"]]
        act = "" if done["act"] is None else f" · prsm undo {escape_exact(str(done['act']))} redoes"
        parts = [f"undone: files changed: {done['files']}{act}", *stays]
        self._tell.told("warning" if stays else "info", " · ".join(parts))
        await self._load()

    async def _restored(self, restoring: Awaitable[Mapping[str, Any]]) -> None:
        await self._tell_restored(await restoring)

    async def _tell_restored(self, done: Mapping[str, Any]) -> None:
        self._session.shelf.forget_plans()
        differs = [shown(path) for path in done.get("differs") or ()]
        notes = [shown(note) for note in done.get("notes") or ()]
        parts = [f"restored {escape_exact(str(done['restored']))}: files changed: {done['files']}"]
        parts += [f"{path} was changed by another program meanwhile" for path in differs]
        self._tell.told("warning" if differs else "info", " · ".join([*parts, *notes]))
        await self._load_snapshots()


def _some(paths: Sequence[str]) -> str:
    more = len(paths) - _NAMED
    return ", ".join(paths[:_NAMED]) + (f" and {more} more" if more > 0 else "")
