"""The contract of every HubFrontend, as a pytest class to subclass.

    class TestMyFrontend(HubFrontendContract):
        def build(self, settings, workspaces):
            return MyFrontend(settings, MySection(folders=workspaces))

Each test runs the frontend on a `ScriptedHub`, with a pseudo-terminal in place of the standard
streams, and wants a task begun in two workspaces. One that is told by its settings where to begin
is built so; what a person or a client tells it, `begin` does. One that does not end with its runs
says `stays = True` and tells with `leave` what ends it.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from prsm_core.errors import SessionOwnedError, StoreError
from prsm_core.interfaces.frontend import RunOptions, RunResult
from prsm_testing.app_double import settle
from prsm_testing.bound import bounded
from prsm_testing.hub_double import ScriptedHub
from prsm_testing.samples import HOSTILE_TEXT, later_events, sample_events
from prsm_testing.terminal import open_terminal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from prsm_core.interfaces.hub import HubFrontend
    from prsm_testing.app_double import ScriptedApp
    from prsm_testing.terminal import Terminal

ONE, TWO = "/one", "/two"
SLACK_SECONDS = 5.0  # beyond the deadline, for what was cancelled to end


@dataclass(frozen=True, slots=True)
class Serving:
    """A frontend that was told to begin a task in two workspaces."""

    task: asyncio.Task[int]
    terminal: Terminal
    hub: ScriptedHub


@bounded
class HubFrontendContract(ABC):
    """What every HubFrontend does; each test's docstring is the rule."""

    stays: ClassVar[bool] = False  # it does not end with its runs: something else ends it
    deadline_s: ClassVar[float] = 10.0  # for the frontend to do anything at all

    @property
    def bound_s(self) -> float:
        """How long a test may take in all."""
        return self.deadline_s + SLACK_SECONDS

    @abstractmethod
    def build(self, settings: Mapping[str, Any], workspaces: Sequence[str]) -> HubFrontend:
        """Build the frontend as its factory does, to begin a task in each of the workspaces."""

    async def begin(  # noqa: B027 - most are told by their settings
        self, hub: ScriptedHub, terminal: Terminal, workspaces: Sequence[str]
    ) -> None:
        """Do what has it begin a task in each of the workspaces; its settings did, if nothing."""

    async def leave(self, hub: ScriptedHub, terminal: Terminal) -> None:
        """Do what ends it."""
        raise NotImplementedError("a frontend that stays tells what ends it")

    @asynccontextmanager
    async def serving(self, hub: ScriptedHub | None = None) -> AsyncIterator[Serving]:
        """Run the frontend; leaving it waits for its end. Sessions that it left are closed."""
        hub = hub or ScriptedHub(RunOptions(workspace="/work"))
        with open_terminal() as terminal:
            frontend = self.build({"interactive": False}, (ONE, TWO))
            async with self._in_time(hub), asyncio.TaskGroup() as group:
                task = group.create_task(frontend.run(hub))
                await self.begin(hub, terminal, (ONE, TWO))
                yield Serving(task, terminal, hub)
                if self.stays and not task.done():
                    await settle()
                    assert not task.done(), "it ended with its runs, although it stays"
                    await self.leave(hub, terminal)
                await asyncio.wait({task})
        await hub.aclose()

    @asynccontextmanager
    async def _in_time(self, hub: ScriptedHub) -> AsyncIterator[None]:
        """Fail after the deadline, and say what the frontend has not done."""
        limit = asyncio.timeout(self.deadline_s)
        try:
            async with limit:
                yield
        except TimeoutError:
            if not limit.expired():
                raise
            begun = [app.options.workspace for app in hub.apps if app.run is not None]
            wanted = [place for place in (ONE, TWO) if place not in {*begun, *hub.faults}]
            lack = f"has begun no run in {' and '.join(wanted)}" if wanted else "has not returned"
            lack += f", but runs in {' and '.join(begun)}" if begun and wanted else ""
            pytest.fail(f"after {self.deadline_s:g} s the frontend {lack}")

    async def test_two_sessions_run_at_once(self) -> None:
        """Each is a session of its own; the end of one run leaves the other running."""
        async with self.serving() as serving:
            one, two = await _begun(serving.hub, ONE), await _begun(serving.hub, TWO)
            assert one.session != two.session
            two.spawn()
            two.finish()
            await settle()
            assert one.session in serving.hub.owned, "it left a session whose run goes on"
            assert not serving.task.done()
            one.finish()
        assert serving.task.result() == 0

    async def test_a_run_that_fails_is_no_success(self) -> None:
        """Its exit code comes back, whatever becomes of the others; one that stays ends with 0."""
        async with self.serving() as serving:
            one, two = await _begun(serving.hub, ONE), await _begun(serving.hub, TWO)
            one.finish(RunResult(status="failed", summary="", exit_code=4, error="it broke"))
            two.finish()
        assert (serving.task.result() == 0) == self.stays

    async def test_a_session_that_cannot_be_opened_touches_no_other(self) -> None:
        """What opening raises is shown; the run of the other one is brought to its end."""
        hub = ScriptedHub(RunOptions(workspace="/work"))
        hub.faults[ONE] = SessionOwnedError("process 1 owns that session", hint="wait for it")
        async with self.serving(hub) as serving:
            two = await _begun(hub, TWO)
            await settle()
            assert two.session in hub.owned
            two.finish()
        assert (serving.task.result() == 0) == self.stays

    async def test_a_session_that_breaks_touches_no_other(self) -> None:
        """What a run's result raises is shown; the other one goes on."""
        async with self.serving() as serving:
            one, two = await _begun(serving.hub, ONE), await _begun(serving.hub, TWO)
            assert one.run is not None
            one.run.ended.set_exception(StoreError("the ledger broke"))
            await settle()
            assert two.session in serving.hub.owned, "it left a session that was not broken"
            assert two.run is not None
            assert not two.run.ended.done()
            two.finish()
        assert (serving.task.result() == 0) == self.stays

    async def test_every_event_is_taken(self) -> None:
        """Of the contract, and of a later version."""
        async with self.serving() as serving:
            one, two = await _begun(serving.hub, ONE), await _begun(serving.hub, TWO)
            for event in sample_events()[1:-1]:  # the app tells of the start and the end
                one.say(event.type, event.agent, live=event.seq is None, **event.data)
                await settle()
            for event in later_events(first_seq=2):
                two.tell(event)
            one.finish()
            two.finish()
        assert serving.task.result() == 0

    async def test_what_an_agent_writes_cannot_steer_the_terminal(self) -> None:
        """Text of agents is shown without the control characters in it."""
        async with self.serving() as serving:
            for app in (await _begun(serving.hub, ONE), await _begun(serving.hub, TWO)):
                app.spawn("w", "w1", prompt=HOSTILE_TEXT)
                app.say("message_completed", "w", turn="t", role="assistant", text=HOSTILE_TEXT)
                app.finish(RunResult(status="failed", summary=HOSTILE_TEXT, exit_code=1))
        for harm in ("\x1b]0;owned", "\u202egnp"):
            assert harm not in serving.terminal.text

    async def test_without_a_person_it_answers_nothing(self) -> None:
        """With the setting `interactive: false` the engine answers."""
        async with self.serving() as serving:
            one, two = await _begun(serving.hub, ONE), await _begun(serving.hub, TWO)
            one.spawn()
            one.say("permission_requested", "m", request="r1", tool="Bash", options=["once"])
            one.say("question_asked", "m", request="q1", question="Which?", options=["red"])
            await settle()
            assert [*one.answers, *two.answers] == []
            one.finish()
            two.finish()

    async def test_cancelling_it_leaves_nothing_behind(self) -> None:
        """No task, no reader of events, no open session, and the terminal as it was."""
        before = asyncio.all_tasks()
        async with self.serving() as serving:
            apps = [await _begun(serving.hub, ONE), await _begun(serving.hub, TWO)]
            await settle()
            serving.task.cancel()
            await asyncio.wait({serving.task})
            assert serving.task.cancelled()
            assert not serving.terminal.disorder
        await settle()
        assert asyncio.all_tasks() == before
        assert [app.readers for app in apps] == [0, 0]


async def _begun(hub: ScriptedHub, workspace: str) -> ScriptedApp:
    """Wait until a run was begun in a workspace; return its session."""
    app = await hub.opened(workspace)
    await app.started()
    return app
