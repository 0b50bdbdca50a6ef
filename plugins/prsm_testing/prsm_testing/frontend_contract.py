"""The contract of every Frontend, as a pytest class to subclass.

    class TestMyFrontend(FrontendContract):
        def build(self, settings):
            return MyFrontend(settings)

Each test runs the frontend on a `ScriptedApp`, with a pseudo-terminal in place of the standard
streams. One through which a person can answer says `interactive = True` and tells with `choose`
and `reply` what the person does; for others those tests are skipped. One that does not end with its
run says `stays = True` and tells with `leave` how a person ends it. One that draws a screen, rather
than writing line by line, says `draws = True`: what it shows is looked for on the screen.
"""

from __future__ import annotations

import asyncio
import os
from abc import ABC, abstractmethod
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from prsm_core.domain.permissions import Answer
from prsm_core.errors import ProviderNotAvailableError
from prsm_core.interfaces.frontend import RunOptions, RunResult
from prsm_testing.app_double import COMPLETED, ScriptedApp, settle
from prsm_testing.bound import bounded
from prsm_testing.samples import HOSTILE_TEXT, later_events, sample_events
from prsm_testing.terminal import Terminal, open_streams, open_terminal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    from prsm_core.interfaces.frontend import Frontend

SLACK_SECONDS = 5.0  # beyond the deadline, for what was cancelled to end
NOTHING_SAID = (Answer(), Answer(text=""))
ENDS = [("completed", 0), ("failed", 1), ("failed", 4), ("killed", 1), ("interrupted", 130)]


@dataclass(frozen=True, slots=True)
class Showing:
    """A frontend that has started its run."""

    task: asyncio.Task[int]
    terminal: Terminal


@bounded
class FrontendContract(ABC):
    """What every Frontend does; each test's docstring is the rule.

    No frontend hangs a test: one that does not come to its end, goes on though it is cancelled, or
    blocks the event loop fails it, and the failure says where it stands.
    """

    interactive: ClassVar[bool] = False  # a person can answer through it
    shows_summary: ClassVar[bool] = True  # the summary is written to the terminal
    stays: ClassVar[bool] = False  # it does not end with its run: a person leaves it
    draws: ClassVar[bool] = False  # it draws a screen
    deadline_s: ClassVar[float] = 10.0  # for the frontend to do anything at all

    @property
    def bound_s(self) -> float:
        """How long a test may take in all."""
        return self.deadline_s + SLACK_SECONDS

    @abstractmethod
    def build(self, settings: Mapping[str, Any]) -> Frontend:
        """Build the frontend as its factory does; it uses the standard streams."""

    async def choose(self, terminal: Terminal, option: str) -> None:
        """Do what a person does who sees a permission request and picks this option."""
        raise NotImplementedError("an interactive frontend tells how a person chooses")

    async def reply(self, terminal: Terminal, choice: str) -> None:
        """Do what a person does who sees a question and picks this choice."""
        raise NotImplementedError("an interactive frontend tells how a person replies")

    async def leave(self, terminal: Terminal) -> None:
        """Do what a person does who ends it, once no run is open."""
        raise NotImplementedError("a frontend that stays tells how a person leaves it")

    @asynccontextmanager
    async def showing(
        self,
        app: ScriptedApp,
        settings: Mapping[str, Any] | None = None,
        *,
        begins: bool = True,
    ) -> AsyncIterator[Showing]:
        """Run the frontend on a terminal; leaving it waits for the frontend's end.

        One that stays is left by its person. With `begins` it is waited for its run.
        """
        with open_terminal() as terminal:
            frontend = self.build({"interactive": self.interactive, **(settings or {})})
            async with self._in_time(app), asyncio.TaskGroup() as group:
                task = group.create_task(frontend.run(app))
                if begins:
                    await app.started()
                showing = Showing(task, terminal)
                yield showing
                await self._left(showing)

    async def _left(self, showing: Showing) -> None:
        """Wait for the end of the frontend, whose run is over; leave it if it stays."""
        if self.stays and not showing.task.done():
            await settle()
            assert not showing.task.done(), "it ended with its run, although it stays"
            await self.leave(showing.terminal)
        await asyncio.wait({showing.task})

    async def _shows(self, terminal: Terminal, text: str) -> None:
        await (terminal.draws(text) if self.draws else terminal.shows(text))

    @asynccontextmanager
    async def _in_time(self, app: ScriptedApp) -> AsyncIterator[None]:
        """Fail after the deadline, and say what the frontend has not done."""
        limit = asyncio.timeout(self.deadline_s)
        try:
            async with limit:
                yield
        except TimeoutError:
            if not limit.expired():
                raise
            if self.stays and (app.run is None or app.run.ended.done()):
                lack = "has not returned, although its person left it, or has not begun its task"
            elif app.run is None:
                lack = "has not started a run: it calls `app.runs.start`"
            elif app.run.ended.done():
                lack = "has not returned, although its run has ended"
            else:
                lack = "has not done what the test waits for"
            pytest.fail(f"after {self.deadline_s:g} s the frontend {lack}")

    @pytest.mark.parametrize(("status", "exit_code"), ENDS)
    async def test_its_exit_code_is_that_of_the_run(self, status: str, exit_code: int) -> None:
        """It starts the task of the options and ends with its run.

        One that stays goes on until it is left; its exit code is then 0.
        """
        app = ScriptedApp()
        async with self.showing(app) as showing:
            app.spawn()
            app.finish(RunResult(status=status, summary="Said.", exit_code=exit_code))
        assert showing.task.result() == (0 if self.stays else exit_code)

    async def test_one_that_stays_waits_where_it_has_no_task(self) -> None:
        """It starts no run by itself, shows one that another begins, and can be left."""
        self._if(self.stays, "it ends with its run: stays is False")
        app = ScriptedApp(RunOptions(task=None))
        async with self.showing(app, begins=False) as showing:
            await settle()
            assert app.run is None, "it began a run, although nobody gave it a task"
            assert not showing.task.done(), "it ended before anybody left it"
            await app.runs.start("by somebody else")
            app.spawn()
            app.finish()
            if self.shows_summary:
                await self._shows(showing.terminal, COMPLETED.summary)
        assert showing.task.result() == 0

    async def test_a_change_of_size_is_taken(self) -> None:
        """After the terminal became narrower or wider, its text can still be seen."""
        self._if(self.draws, "it does not draw a screen: draws is False")
        app = ScriptedApp()
        async with self.showing(app) as showing:
            app.spawn()
            await settle()
            for rows, columns in ((12, 40), (30, 100)):
                showing.terminal.resize(rows, columns)
                await settle()
            app.finish()
            if self.stays:
                await showing.terminal.draws(COMPLETED.summary)
                showing.terminal.resize(10, 30)
                await showing.terminal.draws(COMPLETED.summary)
        assert showing.task.result() == 0

    async def test_the_summary_is_shown(self) -> None:
        """A person sees how the run ended."""
        self._if(self.shows_summary, "it does not write to the terminal: shows_summary is False")
        app = ScriptedApp()
        async with self.showing(app) as showing:
            app.finish()
            await self._shows(showing.terminal, COMPLETED.summary)

    async def test_every_event_of_the_contract_is_taken(self) -> None:
        """No event keeps it from returning the exit code."""
        app = ScriptedApp()
        async with self.showing(app) as showing:
            for event in sample_events()[1:-1]:  # the app tells of the start and the end
                app.say(event.type, event.agent, live=event.seq is None, **event.data)
                await settle()
            app.finish()
        assert showing.task.result() == 0

    async def test_what_a_later_version_tells_is_taken(self) -> None:
        """An unknown type or field is no error."""
        app = ScriptedApp()
        async with self.showing(app) as showing:
            for event in later_events(first_seq=2):
                app.tell(event)
            app.finish()
        assert showing.task.result() == 0

    async def test_the_end_of_an_earlier_run_is_not_its_end(self) -> None:
        """The events of a session may begin with other runs."""
        app = ScriptedApp()
        app.say("run_finished", run="run-0", status="failed", summary="earlier", duration_s=1.0)
        async with self.showing(app) as showing:
            app.say("run_finished", run="run-0", status="failed", summary="earlier", duration_s=1.0)
            await settle()
            assert not showing.task.done()
            app.finish()
        assert showing.task.result() == 0

    async def test_what_an_agent_writes_cannot_steer_the_terminal(self) -> None:
        """Text of agents is shown without the control characters in it."""
        app = ScriptedApp()
        async with self.showing(app) as showing:
            app.spawn("w", "w1", prompt=HOSTILE_TEXT)
            app.say("message_completed", "w", turn="t", role="assistant", text=HOSTILE_TEXT)
            app.finish(RunResult(status="failed", summary=HOSTILE_TEXT, exit_code=1))
        for harm in ("\x1b]0;owned", "\u202egnp"):
            assert harm not in showing.terminal.text

    async def test_a_run_that_cannot_start_is_no_success(self) -> None:
        """What `start_run` raises is raised, or shown and given an exit code."""
        app = ScriptedApp()
        app.refusal = ProviderNotAvailableError("no provider is installed", hint="install one")
        with open_terminal() as terminal:
            await self._fails(app, terminal, "no provider is installed")

    async def test_a_run_that_breaks_is_no_success(self) -> None:
        """What the run's result raises is raised, or shown and given an exit code.

        One that stays shows it, and goes on.
        """
        app = ScriptedApp()
        with open_terminal() as terminal:
            async with self._in_time(app), asyncio.TaskGroup() as group:
                failing = group.create_task(self._fails(app, terminal, "the engine broke"))
                (await app.started()).ended.set_exception(RuntimeError("the engine broke"))
                await failing

    async def _fails(self, app: ScriptedApp, terminal: Terminal, why: str) -> None:
        """Run it; it ends with an error or a code of one, or stays, shows why, and is left."""
        async with asyncio.TaskGroup() as group:
            outcome = group.create_task(self._outcome(app))
            if self.stays:
                shown = group.create_task(self._shows(terminal, why))
                await asyncio.wait({outcome, shown}, return_when=asyncio.FIRST_COMPLETED)
                if not outcome.done():
                    await self.leave(terminal)
                    await outcome
                    return
                shown.cancel()
        assert outcome.result() != 0

    async def test_a_closed_stdout_ends_it_and_does_not_hang_it(self) -> None:
        """As in `prsm run … | head`: it may raise OSError or go on to the run's end."""
        app = ScriptedApp()
        with _closed_output():
            async with self._in_time(app), asyncio.TaskGroup() as group:
                outcome = group.create_task(self._outcome(app))
                if self.stays:  # nobody sees it, or can leave it: it ends, however it likes
                    await outcome
                    return
                await app.started()
                for event in sample_events()[1:-1]:
                    app.say(event.type, event.agent, live=event.seq is None, **event.data)
                app.finish()
        assert outcome.result() in (0, "OSError")

    async def test_cancelling_it_leaves_nothing_behind(self) -> None:
        """No task, no reader of events, and the terminal as it was."""
        before = asyncio.all_tasks()
        app = ScriptedApp()
        async with self.showing(app) as showing:
            app.spawn()
            app.say("permission_requested", "m", **_REQUEST)
            app.say("text_delta", "m", live=True, text="so")
            await settle()
            showing.task.cancel()
            await asyncio.wait({showing.task})
            assert showing.task.cancelled()
            assert not showing.terminal.disorder
        await settle()
        assert asyncio.all_tasks() == before
        assert app.readers == 0
        assert app.answers == []

    async def test_the_terminal_is_left_as_it_was(self) -> None:
        """Its line settings, screen and cursor."""
        app = ScriptedApp()
        async with self.showing(app) as showing:
            app.finish()
            await self._left(showing)
            assert not showing.terminal.disorder

    async def test_without_a_person_it_answers_nothing(self) -> None:
        """With the setting `interactive: false` the engine answers."""
        app = ScriptedApp()
        async with self.showing(app, {"interactive": False}) as showing:
            app.spawn()
            app.say("permission_requested", "m", **_REQUEST)
            app.say("question_asked", "m", **_QUESTION)
            await settle()
            app.say("permission_resolved", "m", request="r1", verdict="deny", by="headless")
            app.say("question_answered", "m", request="q1", answer=None, by="headless")
            app.finish()
        assert app.answers == []
        assert showing.task.result() == 0

    async def test_the_end_of_stdin_allows_nothing(self) -> None:
        """Nobody is there to say yes: it refuses, or leaves the request to the engine."""
        app = ScriptedApp(RunOptions(task=None if self.stays else "do it"))
        with _no_input():
            async with self._in_time(app), asyncio.TaskGroup() as group:
                task = group.create_task(self._outcome(app, interactive=self.interactive))
                if self.stays:
                    await app.runs.start("by somebody else")
                await app.started()
                app.spawn()
                app.say("permission_requested", "m", **_REQUEST)
                app.say("question_asked", "m", **_QUESTION)
                await settle()
                app.finish()
        assert self.stays or task.result() == 0
        assert all(said == "deny" or said in NOTHING_SAID for _, said in app.answers)

    @pytest.mark.parametrize("option", ["once", "deny"])
    async def test_a_person_answers_a_permission_request(self, option: str) -> None:
        """The option that was picked is the verdict."""
        app = self._with_a_person()
        async with self.showing(app) as showing:
            app.spawn()
            app.say("permission_requested", "m", **_REQUEST)
            await self.choose(showing.terminal, option)
            assert await app.answered("r1") == option
            app.finish()
        assert showing.task.result() == 0

    async def test_a_person_answers_a_question(self) -> None:
        """The choice that was picked is the answer."""
        app = self._with_a_person()
        async with self.showing(app) as showing:
            app.spawn()
            app.say("question_asked", "m", **_QUESTION)
            await self.reply(showing.terminal, "blue")
            assert await app.answered("q1") == Answer(choices=("blue",))
            app.finish()

    async def test_a_request_that_was_answered_elsewhere_is_withdrawn(self) -> None:
        """What the person then picks belongs to the next one."""
        app = self._with_a_person()
        async with self.showing(app) as showing:
            app.spawn()
            app.say("permission_requested", "m", **_REQUEST)
            await settle()
            app.say("permission_resolved", "m", request="r1", verdict="deny", by="control")
            await settle()
            app.say("permission_requested", "m", **{**_REQUEST, "request": "r2"})
            await settle()
            await self.choose(showing.terminal, "once")
            await app.answered("r2")
            app.finish()
        assert app.answers == [("r2", "once")]

    async def _outcome(self, app: ScriptedApp, *, interactive: bool = False) -> int | str:
        """Return the exit code, or what kind of error was raised; never wait for ever."""
        frontend = self.build({"interactive": interactive})
        try:
            async with asyncio.timeout(self.deadline_s):
                return await frontend.run(app)
        except TimeoutError:
            pytest.fail(f"the frontend had not ended after {self.deadline_s:g} s")
        except OSError:
            return "OSError"
        except Exception as error:  # noqa: BLE001 - whatever it is, it is an answer
            is_of_output = isinstance(error, ExceptionGroup) and error.split(OSError)[1] is None
            return "OSError" if is_of_output else type(error).__name__

    def _with_a_person(self) -> ScriptedApp:
        self._if(self.interactive, "no person can answer through it: interactive is False")
        return ScriptedApp()

    def _if(self, is_such: bool, why_not: str) -> None:
        if not is_such:
            pytest.skip(why_not)


_REQUEST: Mapping[str, Any] = {
    "request": "r1",
    "tool": "Bash",
    "command": "make install",
    "paths": [],
    "reason": "not known to be harmless",
    "options": ["once", "always", "deny"],
}
_QUESTION: Mapping[str, Any] = {
    "request": "q1",
    "question": "Which colour?",
    "options": ["red", "blue"],
}


@contextmanager
def _closed_output() -> Iterator[None]:
    """Standard output and error that nobody reads any more, and no input."""
    reader, writer = os.pipe()
    os.close(reader)
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        with open_streams(nothing, writer, writer):
            yield
    finally:
        os.close(writer)
        os.close(nothing)


@contextmanager
def _no_input() -> Iterator[None]:
    """Standard input at its end; what is written goes nowhere."""
    nothing = os.open(os.devnull, os.O_RDWR)
    try:
        with open_streams(nothing, nothing, nothing):
            yield
    finally:
        os.close(nothing)
