"""The one place that does something with a session, one after the other, in the order asked for.

What is read of files, providers and models may take seconds: it has an order of its own.

What goes wrong is told, and what a person typed for nobody is given back: nothing is lost.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Protocol

from prsm_core import PermissionMode, PrsmError
from prsm_core.kit import escape_exact, first_line
from prsm_tui.editor import Ends, edit
from prsm_tui.file_acts import PAGE, FileActs, FileListening
from prsm_tui.model import boards
from prsm_tui.model.requests import parse_answer
from prsm_tui.pump import said

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from prsm_core import AppHandle, RunHandle
    from prsm_core.door import ModelRow
    from prsm_tui.file_acts import Do
    from prsm_tui.model.agents import Agent
    from prsm_tui.model.boards import Board
    from prsm_tui.model.session import Session

    Act = Callable[[], Awaitable[None]]

VIA = "prsm tui"
DELIVERIES = ("inject", "queue", "interrupt")
_WAITING = 100  # acts that have not begun
_WHEN = {
    "injected": "it has it now",
    "queued": "it reads it at its next step",
    "interrupting": "its turn ends for it",
}


class Listening(FileListening, Protocol):
    """Who is told what became of an act."""

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


class Acts:
    """Owns all that is done in a session; runs begin in this process, or where `starts` says."""

    def __init__(
        self,
        app: AppHandle,
        session: Session,
        listener: Listening,
        starts: Starting | None = None,
    ) -> None:
        self._app = app
        self._starts = starts
        self._session = session
        self._tell = listener
        self._queue: asyncio.Queue[Act] = asyncio.Queue(_WAITING)
        self._slow: asyncio.Queue[Act] = asyncio.Queue(_WAITING)  # what may take seconds
        self._runs: asyncio.TaskGroup | None = None
        self._loading: set[str] = set()
        self.looks = Looks(app, session, listener, self._do_slowly)
        self.files = FileActs(app, session, listener, self._do_slowly, self._deliver)

    def turn_to(self, app: AppHandle) -> None:
        """Do it by another handle of the session from now on."""
        self._app = app
        self.looks.turn_to(app)
        self.files.turn_to(app)

    async def serve(self) -> None:
        """Do what is asked for, until cancelled."""
        async with asyncio.TaskGroup() as self._runs:
            _ = self._runs.create_task(self._drain(self._slow), name="what takes seconds")
            await self._drain(self._queue)

    async def _drain(self, queue: asyncio.Queue[Act]) -> None:
        """Do what is in a queue, one after the other, until cancelled."""
        while True:
            act = await queue.get()
            try:
                await act()
            except PrsmError as error:
                self._tell.told("error", said(error))

    def begin(self) -> None:
        """Start the task of the command line, or go on with the run that it names."""
        options = self._app.options
        if options.task or options.resumes:
            self._do(lambda: self._start(options.task or "", None))

    def say(self, agent: str | None, text: str, delivery: str) -> None:
        """Say something to an agent; to a master that has ended it is a further task."""
        self._do(lambda: self._say(agent, text, delivery))

    def attach(self, image: str) -> None:
        """Have an image shown with what is said next; a blank path: none of them."""
        session = self._session
        session.images = (*session.images, image) if image else ()
        count = len(session.images)
        told = f"{count} image{'s' * (count > 1)} with what you say next; /attach alone: none"
        self._tell.told("info", told if image else "no image is shown with what you say next")
        self._tell.changed()

    def kill(self, agent: str) -> None:
        """End an agent and all below it."""
        self._do(lambda: self._kill(agent))

    def restart(self, agent: str, prompt: str) -> None:
        """Start an ended agent again."""
        self._do(lambda: self._restart(agent, prompt))

    def stop(self) -> None:
        """End the open run."""
        self._do(self._stop)

    def mode(self, name: str) -> None:
        """Set the mode of further runs."""
        self._do(lambda: self._mode(name))

    def fork(self) -> None:
        """Begin another session as this one is now."""
        self._do(self._fork)

    def resolve(self, requests: Sequence[str], verdict: str) -> None:
        """Answer permissions."""
        for request in requests:
            self._do(partial(self._resolve, request, verdict))

    def answer(self, request: str, typed: str) -> None:
        """Answer a question."""
        self._do(lambda: self._answer(request, typed))

    def page(self, agent: str) -> None:
        """Load a page of an agent's history, unless one is on its way."""
        if agent not in self._loading:
            self._loading.add(agent)
            self._do(lambda: self._page(agent))

    def edit(self, agent: str | None, text: str) -> None:
        """Let a person go on with a text in an editor."""
        self._do(lambda: self._edit(agent, text))

    def complete(self, text: str) -> None:
        """Find what the last word of a text may become."""
        self._do(lambda: self._complete(text))

    def _do(self, act: Act) -> None:
        self._put(self._queue, act)

    def _do_slowly(self, act: Act) -> None:
        """Do what may take seconds: no answer waits for it."""
        self._put(self._slow, act)

    def _put(self, queue: asyncio.Queue[Act], act: Act) -> None:
        try:
            queue.put_nowait(act)
        except asyncio.QueueFull:
            self._tell.told("error", f"not done: {_WAITING} things before it wait already")

    async def _start(self, task: str, agent: str | None) -> None:
        images = self._taken_images()
        if self._starts is not None:
            self._starts.begin(task, continues=False, images=images, **self._chosen_model())
            return
        shown = {"images": images} if images else {}
        try:
            self._watch(await self._app.start_run(task, **shown, **self._chosen_model()))
        except PrsmError as error:
            self._session.images = images
            self._give_back(agent, task, error)

    def _taken_images(self) -> tuple[str, ...]:
        """Return the images that are shown with what is said now, and with nothing after it."""
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

    async def _say(self, agent: str | None, text: str, delivery: str) -> None:
        known = self._session.agents.get(agent or "")
        if known is None or not known.is_live:
            await self._begin(known, text)
            return
        images = self._taken_images()
        try:
            when = await self._deliver(known.id, text, delivery, images)
        except PrsmError as error:
            self._session.images = images
            self._give_back(agent, text, error)
            return
        self._tell.told("info", f"to {known.name}: {first_line(text, 60)} ({when})")

    async def _deliver(
        self, agent: str | None, text: str, delivery: str, images: Sequence[str] = ()
    ) -> str:
        """Say something to an agent that works, or, as a further task, to the last master.

        Return when that is read. Raises PrsmError.
        """
        if agent is None:
            self._watch(await self._app.continue_run(text, images))
            return "it begins now"
        how = await self._app.prompt_agent(agent, text, delivery, images)
        when = _WHEN.get(how, escape_exact(how))
        self._session.said_to(self._session.agents[agent], text, when)
        return when

    async def _begin(self, agent: Agent | None, task: str) -> None:
        """Start a run, or give the last master a further task."""
        master, run = self._session.master(), self._session.run
        if agent is not None and agent is not master:
            why = f"{agent.name} has ended: /restart TEXT starts it again"
            self._tell.unsent(agent.id, task)
            self._tell.told("warning", why)
            return
        if run is not None and run.is_open:
            self._tell.unsent(None if agent is None else agent.id, task)
            self._tell.told(
                "warning", "a run is open: it has no agent yet, or its master has ended"
            )
            return
        if master is None or run is None:
            await self._start(task, None)
            return
        if self._starts is not None:
            self._starts.begin(task, continues=True, images=self._taken_images())
            return
        images = self._taken_images()
        try:
            await self._deliver(None, task, "", images)
        except PrsmError as error:
            self._session.images = images
            self._give_back(master.id, task, error)

    def _give_back(self, agent: str | None, text: str, error: PrsmError) -> None:
        self._tell.unsent(agent, text)
        self._session.note("error", said(error), 0.0)
        self._tell.told("error", f"not sent: {said(error)}")

    async def _kill(self, agent: str) -> None:
        names = [escape_exact(name) for name in await self._app.kill(agent)]
        self._tell.told("info", f"killed: {', '.join(names) or 'nobody'}")

    async def _restart(self, agent: str, prompt: str) -> None:
        try:
            await self._app.restart(agent, prompt)
        except PrsmError as error:
            self._give_back(agent, f"/restart {prompt}", error)
            return
        self._tell.told("info", f"{self._session.name_of(agent)} begins again")

    async def _stop(self) -> None:
        stopped = await self._app.interrupt_run()
        self._tell.told("info", "the run is interrupted" if stopped else "no run is open")

    async def _mode(self, name: str) -> None:
        modes = [mode.value for mode in PermissionMode]
        if name not in modes:
            self._tell.told("warning", f"the modes are: {', '.join(modes)}")
            return
        await self._app.set_mode(PermissionMode(name))
        self._session.mode = name
        self._tell.told("info", f"runs that begin from now on have the mode {name}")

    async def _fork(self) -> None:
        session = escape_exact(await self._app.fork())
        self._tell.told("info", f"forked as session {session}: prsm resume {session}")

    async def _resolve(self, request: str, verdict: str) -> None:
        await self._settle(request, self._app.resolve_permission(request, verdict, via=VIA))

    async def _answer(self, request: str, typed: str) -> None:
        asked = self._session.requests.get(request)
        answer = None if asked is None else parse_answer(typed, asked)
        if answer is not None:
            await self._settle(request, self._app.answer(request, answer, via=VIA))

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
            page = await self._app.history(agent, before=before, limit=PAGE)
            self._session.take_page(agent, page)
        finally:
            self._loading.discard(agent)
        self._tell.paged(agent)

    async def _edit(self, agent: str | None, text: str) -> None:
        with self._tell.lent() as ends:
            text = await edit(text, ends)
        self._tell.edited(agent, text)

    async def _complete(self, text: str) -> None:
        found = await self._app.complete(text)
        self._tell.completed(text, [one.text for one in found])


class Looks:
    """Makes the pages of what a session has around it, and chooses the next model."""

    def __init__(self, app: AppHandle, session: Session, listener: FileListening, do: Do) -> None:
        self._app = app
        self._session = session
        self._tell = listener
        self._do = do
        session.asked_model = escape_exact(app.options.model or "")
        self.owns = True  # whether runs end with this process
        self._makers: Mapping[str, Callable[[], Awaitable[Board]]] = {
            boards.MODELS: self._models,
            boards.PROVIDERS: self._providers,
            boards.BUDGET: self._budget,
            boards.POLICY: self._policy,
            boards.SETTINGS: self._settings,
        }

    def turn_to(self, app: AppHandle) -> None:
        """Go by another handle of the session from now on."""
        self._app = app

    def load(self, name: str) -> None:
        """Make a page again."""
        self._do(lambda: self._load(name))

    def choose_model(self, wanted: str, agent: str | None) -> None:
        """Let an agent, else the newest master, go on with a model; without one the first task."""
        self._do(lambda: self._choose_model(wanted, agent))

    async def _load(self, name: str) -> None:
        try:
            board = await self._makers[name]()
        except PrsmError as error:
            board = boards.failed(name, said(error))
        self._session.boards.put(name, board)
        self._tell.changed()

    async def _models(self) -> Board:
        return boards.models_board(await self._app.models(), self._session)

    async def _providers(self) -> Board:
        return boards.providers_board(await self._app.providers())

    async def _budget(self) -> Board:
        return boards.budget_board(await self._app.budget(), self._session)

    async def _policy(self) -> Board:
        return boards.policy_board(await self._app.policy(), self._session)

    async def _settings(self) -> Board:
        return boards.settings_board(self._app.options, self._session, owns=self.owns)

    async def _choose_model(self, wanted: str, chosen: str | None) -> None:
        agent = self._session.agents.get(chosen or "") or self._session.master()
        if agent is None:
            await self._choose_first(wanted)
        else:
            name = escape_exact(await self._app.set_model(agent.id, wanted))
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
        fitting = [row for row in await self._app.models() if wanted in _names(row)]
        if len(fitting) != 1:
            how = "no model is called" if not fitting else "several models are called"
            hint = "/model shows them; name one as PROVIDER/MODEL"
            self._tell.told("warning", f"{how} {escape_exact(wanted)}: {hint}")
            return
        chosen = f"{fitting[0].provider}/{fitting[0].model}"
        self._session.next_model = chosen
        what = f"the task begins with a master of {escape_exact(chosen)}"
        self._tell.told("info", f"{what}; /model default takes it back")


def _names(row: ModelRow) -> set[str]:
    return {row.model, f"{row.provider}/{row.model}", *row.aliases}
