"""Act on a session: one act after the other, in the order asked for.

What may take seconds to read, of files, providers and models, has a queue of its own. What goes
wrong is told, and a text that reached nobody is given back.
"""

from __future__ import annotations

import asyncio
import os
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from prsm_core import PermissionMode, PrsmError
from prsm_core.kit import escape_exact, first_line
from prsm_tui.editor import Ends, edit
from prsm_tui.model import boards
from prsm_tui.model.comments import placed, told_to
from prsm_tui.model.requests import parse_answer
from prsm_tui.model.spoken import shown
from prsm_tui.pump import said
from prsm_tui.queue import ActQueue, in_order

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from contextlib import AbstractContextManager

    from prsm_core import AppHandle, RunHandle
    from prsm_core.door import DecidedChange, SentComments, UndoReport
    from prsm_tui.model.agents import Agent
    from prsm_tui.model.board import Board
    from prsm_tui.model.review import Comment
    from prsm_tui.model.session import Session
    from prsm_tui.queue import Do


_T = TypeVar("_T")
VIA = "prsm tui"
DELIVERIES = ("inject", "queue", "interrupt")
PAGE = 200  # entries of a history
_NAMED = 3  # paths that a line names
_WHEN = {
    "injected": "it has it now",
    "queued": "it reads it at its next step",
    "interrupting": "its turn ends for it",
    "follow_up": "it begins now",
}


class Listening(Protocol):
    """Who is told what became of an act."""

    def told(self, level: str, text: str) -> None:
        """Hear something; `level` is info, warning or error."""

    def changed(self) -> None:
        """Hear that the model is another."""

    def found(self, agent: str, call: str | None) -> None:
        """Hear that a call of an agent is in its transcript, or that there is none (None)."""

    def unsent(self, agent: str | None, text: str) -> None:
        """Hear that a text reached nobody."""

    def unanswered(self, request: str) -> None:
        """Hear that an answer did not get through."""

    def paged(self, agent: str) -> None:
        """Hear that a page of an agent's history is there."""

    def lent(self) -> AbstractContextManager[Ends]:
        """Leave the terminal to another program for as long as this is open."""

    def edited(self, agent: str | None, text: str) -> None:
        """Hear what a text has become in the editor."""

    def completed(self, text: str, found: Sequence[str]) -> None:
        """Hear what the last word of a text may become."""


class Starting(Protocol):
    """Who begins runs elsewhere, so that they go on when this interface is left."""

    def begin(
        self,
        task: str,
        *,
        continues: bool,
        provider: str | None = None,
        model: str | None = None,
        images: Sequence[str] = (),
    ) -> None:
        """Begin a task, by a model if one is named, or give the last master a further one."""


class _Acting:
    """Has what acts of all kinds need; `do` puts an act into its queue."""

    def __init__(self, app: AppHandle, session: Session, listener: Listening, do: Do) -> None:
        self._app, self._session, self._tell, self._do = app, session, listener, do

    def turn_to(self, app: AppHandle) -> None:
        """Act by another handle of the session from now on."""
        self._app = app


class Acts(_Acting):
    """Owns all that is done in a session; runs begin in this process, or where `starts` says."""

    def __init__(
        self,
        app: AppHandle,
        session: Session,
        listener: Listening,
        starts: Starting | None = None,
    ) -> None:
        self._queue, self._slow = ActQueue(listener.told), ActQueue(listener.told)
        super().__init__(app, session, listener, self._queue.put)
        # What may take seconds: no answer waits for it.
        do_slowly = self._slow.put
        self._starts = starts
        self._runs: asyncio.TaskGroup | None = None
        self._loading: set[str] = set()
        self.looks = Looks(app, session, listener, do_slowly)
        self.files = FileActs(app, session, listener, do_slowly)

    def turn_to(self, app: AppHandle) -> None:
        """Act by another handle of the session from now on."""
        super().turn_to(app)
        self.looks.turn_to(app)
        self.files.turn_to(app)

    async def serve(self) -> None:
        """Do what is asked for, until cancelled."""
        async with asyncio.TaskGroup() as self._runs:
            _ = self._runs.create_task(self._slow.serve(), name="what takes seconds")
            await self._queue.serve()

    def begin(self) -> None:
        """Start the task of the command line, or go on with the run that it names."""
        options = self._app.options
        if options.task or options.resumes:
            self._do(lambda: self._start(options.task or ""))

    def attach(self, image: str) -> None:
        """Have an image shown with what is said next; a blank path: none of them."""
        session = self._session
        session.images = (*session.images, image) if image else ()
        count = len(session.images)
        told = f"{count} image{'s' * (count > 1)} with what you say next; /attach alone: none"
        self._tell.told("info", told if image else "no image is shown with what you say next")
        self._tell.changed()

    def resolve(self, requests: Sequence[str], verdict: str) -> None:
        """Answer permissions."""
        for request in requests:
            self._resolve(request, verdict)

    def page(self, agent: str) -> None:
        """Load a page of an agent's history, unless one is on its way."""
        if agent not in self._loading:
            self._loading.add(agent)
            self._do(lambda: self._page(agent))

    async def _start(self, task: str) -> None:
        images = self._taken_images()
        if self._starts is not None:
            self._starts.begin(task, continues=False, images=images, **self._chosen_model())
            return
        shown = {"images": images} if images else {}
        try:
            self._watch(await self._app.runs.start(task, **shown, **self._chosen_model()))
        except PrsmError as error:
            self._give_back(None, task, error, images)

    def _taken_images(self) -> tuple[str, ...]:
        images, self._session.images = self._session.images, ()
        return images

    def _chosen_model(self) -> dict[str, str]:
        """Return the model that was chosen for the first master, which is taken once."""
        provider, _, model = self._session.next_model.partition("/")
        self._session.next_model = ""
        return {"provider": provider, "model": model} if model else {}

    def _watch(self, run: RunHandle) -> None:
        if self._runs is not None:
            _ = self._runs.create_task(self._result(run), name="wait for the run")

    async def _result(self, run: RunHandle) -> None:
        """Wait for a run's end, which its events tell of; where it breaks, none may."""
        try:
            await run.result()
        except Exception as error:  # noqa: BLE001 - whatever broke it, a person has to see it
            self._session.note("error", f"the run broke: {said(error)}", 0.0)
            self._tell.told("error", f"the run broke: {said(error)}")

    @in_order
    async def say(self, agent: str | None, text: str, delivery: str) -> None:
        """Say something to an agent; to a master that has ended it is a further task."""
        known = self._session.agents.get(agent or "")
        if known is None or not known.is_live:
            await self._begin(known, text)
            return
        images = self._taken_images()
        try:
            how = await self._app.agents.prompt(known.id, text, delivery, images)
        except PrsmError as error:
            self._give_back(agent, text, error, images)
            return
        when = _WHEN.get(how, escape_exact(how))
        self._session.said_to(known, text, when)
        self._tell.told("info", f"to {known.name}: {first_line(text, 60)} ({when})")

    async def _begin(self, agent: Agent | None, task: str) -> None:
        master, run, why = self._session.master(), self._session.run, ""
        if agent is not None and agent is not master:
            why = f"{agent.name} has ended: /restart TEXT starts it again"
        elif run is not None and run.is_open:
            why = "a run is open: it has no agent yet, or its master has ended"
        if why:
            self._tell.unsent(None if agent is None else agent.id, task)
            self._tell.told("warning", why)
        elif master is None or run is None:
            await self._start(task)
        else:
            await self._follow_up(master, task)

    async def _follow_up(self, master: Agent, task: str) -> None:
        images = self._taken_images()
        if self._starts is not None:
            self._starts.begin(task, continues=True, images=images)
            return
        try:
            self._watch(await self._app.runs.follow_up(task, images))
        except PrsmError as error:
            self._give_back(master.id, task, error, images)

    def _give_back(
        self, agent: str | None, text: str, error: PrsmError, images: tuple[str, ...] = ()
    ) -> None:
        self._session.images = images or self._session.images
        self._tell.unsent(agent, text)
        self._session.note("error", said(error), 0.0)
        self._tell.told("error", f"not sent: {said(error)}")

    @in_order
    async def kill(self, agent: str) -> None:
        """End an agent and all below it."""
        names = [escape_exact(name) for name in await self._app.agents.kill(agent)]
        self._tell.told("info", f"killed: {', '.join(names) or 'nobody'}")

    @in_order
    async def restart(self, agent: str, prompt: str) -> None:
        """Start an ended agent again."""
        try:
            await self._app.agents.restart(agent, prompt)
        except PrsmError as error:
            self._give_back(agent, f"/restart {prompt}", error)
            return
        self._tell.told("info", f"{self._session.name_of(agent)} begins again")

    @in_order
    async def stop(self) -> None:
        """End the open run."""
        stopped = await self._app.runs.interrupt()
        self._tell.told("info", "the run is interrupted" if stopped else "no run is open")

    @in_order
    async def mode(self, name: str) -> None:
        """Set the mode of further runs."""
        modes = [mode.value for mode in PermissionMode]
        if name not in modes:
            self._tell.told("warning", f"the modes are: {', '.join(modes)}")
            return
        await self._app.runs.set_mode(PermissionMode(name))
        self._session.mode = name
        self._tell.told("info", f"runs that begin from now on have the mode {name}")

    @in_order
    async def fork(self) -> None:
        """Begin another session as this one is now."""
        session = escape_exact(await self._app.sessions.fork())
        self._tell.told("info", f"forked as session {session}: prsm resume {session}")

    @in_order
    async def _resolve(self, request: str, verdict: str) -> None:
        await self._settle(request, self._app.requests.resolve(request, verdict, via=VIA))

    @in_order
    async def answer(self, request: str, typed: str) -> None:
        """Answer a question."""
        asked = self._session.requests.get(request)
        answer = None if asked is None else parse_answer(typed, asked)
        if answer is not None:
            await self._settle(request, self._app.requests.answer(request, answer, via=VIA))

    async def _settle(self, request: str, answering: Awaitable[bool]) -> None:
        try:
            if not await answering:
                self._tell.told("warning", "it was answered already, not by this")
        except PrsmError as error:
            self._tell.unanswered(request)
            self._tell.told("error", f"not answered: {said(error)}")

    async def _page(self, agent: str) -> None:
        try:
            before = self._session.agents[agent].transcript.since
            page = await self._app.agents.history(agent, before=before, limit=PAGE)
            self._session.take_page(agent, page)
        finally:
            self._loading.discard(agent)
        self._tell.paged(agent)

    @in_order
    async def edit(self, agent: str | None, text: str) -> None:
        """Let a person go on with a text in an editor."""
        with self._tell.lent() as ends:
            text = await edit(text, ends)
        self._tell.edited(agent, text)

    @in_order
    async def complete(self, text: str) -> None:
        """Find what the last word of a text may become."""
        found = await self._app.complete(text)
        self._tell.completed(text, [one.text for one in found])


class Looks(_Acting):
    """Makes the pages of what a session has around it, and chooses the next model."""

    def __init__(self, app: AppHandle, session: Session, listener: Listening, do: Do) -> None:
        super().__init__(app, session, listener, do)
        session.asked_model = escape_exact(app.options.model or "")
        self.owns = True  # whether runs end with this process

    @in_order
    async def load(self, name: str) -> None:
        """Make a page again."""
        try:
            board = await self._make(name)
        except PrsmError as error:
            board = boards.failed(name, said(error))
        self._session.boards.put(name, board)
        self._tell.changed()

    async def _make(self, name: str) -> Board:
        app, session = self._app, self._session
        match name:
            case boards.MODELS:
                return boards.models_board(await app.models(), session)
            case boards.PROVIDERS:
                return boards.providers_board(await app.providers())
            case boards.BUDGET:
                return boards.budget_board(await app.runs.budget(), session)
            case boards.POLICY:
                return boards.policy_board(await app.policy(), session)
        return boards.settings_board(app.options, session, owns=self.owns)

    @in_order
    async def choose_model(self, wanted: str, chosen: str | None) -> None:
        """Let an agent, else the newest master, go on with a model; without one the first task."""
        agent = self._session.agents.get(chosen or "") or self._session.master()
        if agent is None:
            await self._choose_first(wanted)
        else:
            name = escape_exact(await self._app.agents.set_model(agent.id, wanted))
            agent.next_model = "" if name == agent.label else name
            when = "from its next turn on" if agent.is_live else "in its next life"
            told = f"goes on with {name} {when}" if agent.next_model else f"keeps {name}"
            self._tell.told("info", f"{agent.name} {told}")
        self._tell.changed()

    async def _choose_first(self, wanted: str) -> None:
        """Let the first task begin with a master of a model; `default`: as it would be."""
        if wanted == "default":
            self._session.next_model = ""
            self._tell.told("info", "the task begins as if none had been chosen")
            return
        fitting = [
            row
            for row in await self._app.models()
            if wanted in {row.model, f"{row.provider}/{row.model}", *row.aliases}
        ]
        if len(fitting) != 1:
            how = "no model is called" if not fitting else "several models are called"
            hint = "/model shows them; name one as PROVIDER/MODEL"
            self._tell.told("warning", f"{how} {escape_exact(wanted)}: {hint}")
            return
        chosen = f"{fitting[0].provider}/{fitting[0].model}"
        self._session.next_model = chosen
        what = f"the task begins with a master of {escape_exact(chosen)}"
        self._tell.told("info", f"{what}; /model default takes it back")


class FileActs(_Acting):
    """Does something with changes and snapshots of files."""

    def __init__(self, app: AppHandle, session: Session, listener: Listening, do: Do) -> None:
        super().__init__(app, session, listener, do)
        self._is_loading = False  # or is about to
        self._is_outdated = False  # something came while they were read

    def load(self) -> None:
        """Read the changes again; where that is under way, once more after it."""
        if self._is_loading:
            self._is_outdated = True
            return
        self._is_loading = True
        self._do(self._load)

    @in_order
    async def accept(self, changes: Sequence[str]) -> None:
        """Accept changes."""
        await self._tell_decided(await self._app.changes.accept(changes))

    @in_order
    async def reject(self, changes: Sequence[str]) -> None:
        """Take changes back."""
        await self._tell_decided(await self._app.changes.reject(changes))

    def comment(self, comments: Sequence[Comment], delivery: str) -> None:
        """Send comments to the agents that wrote the lines, all of one agent at once.

        Those that reach nobody are kept.
        """
        self._session.review.let_go(comments)
        self._do(lambda: self._comment(comments, delivery))

    @in_order
    async def load_snapshots(self) -> None:
        """Read the snapshots again."""
        await self._load_snapshots()

    async def _load(self) -> None:
        review = self._session.review
        try:
            review.take(await self._app.changes.list())
        except PrsmError as error:
            review.end_read(said(error))
        finally:
            self._is_loading = False
        self._tell.changed()
        if self._is_outdated:
            self._is_outdated = False
            self.load()

    @in_order
    async def open(self, change: str) -> None:
        """Read what one change did to lines."""
        review, show = self._session.review, self._app.changes.show
        await self._read(show(change), review.take_detail, partial(review.fail_detail, change))

    async def _read(
        self, reading: Awaitable[_T], take: Callable[[_T], None], fail: Callable[[str], None]
    ) -> None:
        try:
            take(await reading)
        except PrsmError as error:
            fail(said(error))
        self._tell.changed()

    async def _tell_decided(self, made: Sequence[DecidedChange]) -> None:
        """Tell what became of changes; what stays although it was to go is a warning."""
        states: dict[str, list[str]] = {}
        for one in made:
            states.setdefault(escape_exact(one.state), []).append(shown(one.path))
        parts = [f"{state}: {_some(paths)}" for state, paths in states.items()]
        stays = [one for one in made if one.state == "unmerged"]
        parts += [f"{shown(one.path)} stays: {shown(one.why)}" for one in stays]
        act = next((one.act for one in made if one.act), None)
        parts += [f"undo: prsm undo {escape_exact(act)}"] if act else []
        self._tell.told("warning" if stays else "info", " · ".join(parts) or "nothing was decided")
        await self._load()

    async def _comment(self, comments: Sequence[Comment], delivery: str) -> None:
        try:
            sent = await self._app.changes.comment([placed(one) for one in comments], delivery)
        except PrsmError as error:
            self._keep(comments, "error", said(error))
            return
        for one in sent:
            self._tell_sent(one, [comments[place] for place in one.comments])
        self._tell.changed()

    def _tell_sent(self, sent: SentComments, comments: Sequence[Comment]) -> None:
        if sent.why is not None:
            self._keep(comments, "warning", shown(sent.why))
            return
        when = _WHEN.get(sent.how or "", escape_exact(sent.how or ""))
        agent = self._session.agents.get(sent.agent or "")
        if agent is not None:
            self._session.said_to(agent, sent.text, when)
        to = told_to(agent)
        what = f"{len(comments)} comments"
        if len(comments) == 1:
            to = told_to(agent, self._session.review.find(comments[0].change))
            what = first_line(comments[0].text, 60)
        self._tell.told("info", f"sent {to}: {what} ({when})")

    def _keep(self, comments: Sequence[Comment], level: str, why: str) -> None:
        """Keep what reached nobody, unless something else was said there meanwhile."""
        review = self._session.review
        for comment in comments:
            if comment.place not in review.kept:
                review.keep(comment)
        what = "the comment is" if len(comments) == 1 else f"{len(comments)} comments are"
        self._tell.told(level, f"not sent: {why}; {what} kept")

    @in_order
    async def explain(self, path: str, line: int) -> None:
        """Tell who made a line, and why."""
        told = await self._app.changes.rationale(path, line)
        name = escape_exact(told.name or "nobody known")
        why = "it gave no reason" if told.reason is None else first_line(told.reason.text, 1000)
        self._tell.told("info", f"line {line} as it is now is of {name}: {why}")

    @in_order
    async def find(self, agent: str, call: str) -> None:
        """Load an agent's history until a call of it is there."""
        known = self._session.agents.get(agent)
        if known is None:
            self._tell.told("warning", "that agent is of an earlier run, and not in the tree")
            return
        while known.transcript.find_block(call) is None and not known.transcript.is_whole:
            before = known.transcript.since
            page = await self._app.agents.history(agent, before=before, limit=PAGE)
            self._session.take_page(agent, page)
        self._tell.found(agent, None if known.transcript.find_block(call) is None else call)

    async def _load_snapshots(self) -> None:
        shelf = self._session.shelf
        await self._read(self._app.snapshots.list(), shelf.take, shelf.end_read)

    @in_order
    async def take_snapshot(self, description: str) -> None:
        """Keep the files as they are."""
        taken = await self._app.snapshots.take(description)
        unquiet = "; ".join(map(shown, taken.unquiet))
        level = "warning" if unquiet else "info"
        wrote = f"; an agent wrote meanwhile: {unquiet}" if unquiet else ""
        self._tell.told(level, f"snapshot {escape_exact(taken.id)} is taken{wrote}")
        await self._load_snapshots()

    @in_order
    async def plan(self, snapshot: str) -> None:
        """Tell what a restore would change."""
        shelf, plan = self._session.shelf, self._app.snapshots.restore(snapshot, dry_run=True)
        await self._read(
            plan, partial(shelf.take_plan, snapshot), partial(shelf.fail_plan, snapshot)
        )

    @in_order
    async def undo_act(self) -> None:
        """Take back what was done to files last: a restore, a rejection, a merge or an undo.

        What stays although it was to go is a warning.
        """
        done = await self._app.changes.undo("act")
        if done.restored is not None:
            await self._tell_restored(done)
            return
        stays = [f"{shown(one.path)} stays: {shown(one.why)}" for one in done.stays]
        act = "" if done.act is None else f" · prsm undo {escape_exact(done.act)} redoes"
        parts = [f"undone: files changed: {done.files}{act}", *stays]
        self._tell.told("warning" if stays else "info", " · ".join(parts))
        await self._load()

    @in_order
    async def restore(self, snapshot: str) -> None:
        """Let the files be as in a snapshot."""
        await self._tell_restored(await self._app.snapshots.restore(snapshot))

    async def _tell_restored(self, done: UndoReport) -> None:
        self._session.shelf.forget_plans()
        differs, notes = map(shown, done.differs), map(shown, done.notes)
        parts = [f"restored {escape_exact(done.restored or '')}: files changed: {done.files}"]
        parts += [f"{path} was changed by another program meanwhile" for path in differs]
        self._tell.told("warning" if done.differs else "info", " · ".join([*parts, *notes]))
        await self._load_snapshots()


def _some(paths: Sequence[str]) -> str:
    more = len(paths) - _NAMED
    return ", ".join(paths[:_NAMED]) + (f" and {more} more" if more > 0 else "")


async def owns_runs(app: AppHandle, session: str) -> bool:
    """Return whether the session's runs end with this process."""
    for row in await app.sessions.list():
        if row.session == session:
            return row.pid == os.getpid()
    return True  # one that has not begun is in no ledger yet
