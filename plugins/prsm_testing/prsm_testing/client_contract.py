"""The contract of every HubFrontend that a program leads, as a pytest class to subclass.

    class TestMyFrontend(ClientFrontendContract):
        def build(self, settings):
            return MyFrontend(settings)

        def begins(self, task):
            return {"type": "run", "intent": task}

Such a frontend has no terminal: a client has started it, and both say a JSON value a line on its
stdin and stdout. It leads one run at a time, which is what `HubFrontendContract` cannot ask. Each
test runs it on a `ScriptedHub`, and is the client.
"""

from __future__ import annotations

import asyncio
import json
import os
from abc import ABC, abstractmethod
from contextlib import aclosing, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from prsm_core.errors import SessionOwnedError, StoreError
from prsm_core.interfaces.frontend import RunOptions, RunResult
from prsm_testing.app_double import settle
from prsm_testing.bound import bounded
from prsm_testing.doubles import until
from prsm_testing.hub_double import ScriptedHub
from prsm_testing.samples import HOSTILE_TEXT, later_events, sample_events

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    from prsm_core.interfaces.hub import HubFrontend
    from prsm_testing.app_double import ScriptedApp

PLACE = "/work"
GARBAGE = (
    b"no JSON\n",
    b"[1, 2\n",
    b"\xff\xfe\n",
    b'{"type": 7}\n',
    b"{}\n",
    b"[" * 100_000 + b"\n",
)


class Client:
    """The client's side: what it says, and all that it was told."""

    def __init__(self, hub: ScriptedHub, saying: int) -> None:
        self.hub = hub
        self.task: asyncio.Task[int]
        self.heard = bytearray()
        self._saying: int | None = saying

    @property
    def told(self) -> list[Any]:
        """What was told, a JSON value of each whole line; raises ValueError for what is none."""
        return [json.loads(line) for line in bytes(self.heard).split(b"\n")[:-1]]

    async def write(self, data: bytes) -> None:
        """Say some bytes."""
        if self._saying is not None:
            await asyncio.to_thread(_write_all, self._saying, data)

    async def say(self, value: Mapping[str, Any]) -> None:
        """Say a JSON value."""
        await self.write(json.dumps(value).encode() + b"\n")

    async def hears(self, part: str) -> None:
        """Wait until something was told in which this stands."""
        await until(lambda: part in self.heard.decode(errors="replace"))

    async def finish(self, app: ScriptedApp, result: RunResult | None = None) -> None:
        """End a run; wait until the frontend has left its session."""
        app.finish(result)
        await until(lambda: self.hub.owned == [])

    def leave(self) -> None:
        """Say nothing more."""
        if self._saying is not None:
            os.close(self._saying)
            self._saying = None


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


@contextmanager
def _replaced(stdin: int, stdout: int) -> Iterator[None]:
    kept = os.dup(0), os.dup(1)
    os.dup2(stdin, 0)
    os.dup2(stdout, 1)
    try:
        yield
    finally:
        for descriptor, before in enumerate(kept):
            os.dup2(before, descriptor)
            os.close(before)


@bounded
class ClientFrontendContract(ABC):
    """What every HubFrontend does that a program leads; each test's docstring is the rule."""

    bound_s: ClassVar[float] = 20.0  # how long a test may take

    @abstractmethod
    def build(self, settings: Mapping[str, Any]) -> HubFrontend:
        """Build the frontend as its factory does."""

    @abstractmethod
    def begins(self, task: str) -> Mapping[str, Any]:
        """Return what the client says to have a run begun."""

    @asynccontextmanager
    async def serving(self, hub: ScriptedHub | None = None) -> AsyncIterator[Client]:
        """Run the frontend with a client; leaving waits for its end, which is the client's."""
        hub = hub or ScriptedHub(RunOptions(workspace=PLACE))
        (stdin, saying), (hearing, stdout) = os.pipe(), os.pipe()
        client = Client(hub, saying)
        async with asyncio.TaskGroup() as group:
            group.create_task(_read_all(hearing, client.heard))
            with _replaced(stdin, stdout):
                os.close(stdin)
                os.close(stdout)
                client.task = group.create_task(self.build({}).run(hub))
                try:
                    await settle()
                    yield client
                finally:
                    client.leave()
                    await asyncio.wait({client.task})
        await hub.aclose()
        assert hub.owned == [], "it left, and a session of its is open"

    async def begin(self, client: Client, task: str) -> ScriptedApp:
        """Have a run begun; return its session."""
        before = len(client.hub.apps)
        await client.say(self.begins(task))
        await until(lambda: len(client.hub.apps) > before)
        app = client.hub.apps[-1]
        await app.started()
        return app

    async def test_a_run_is_begun_and_its_end_is_told(self) -> None:
        """By its task; the exit code of the last run is the frontend's, once its client leaves."""
        async with self.serving() as client:
            app = await self.begin(client, "a task")
            async with aclosing(app.events()) as events:
                assert (await anext(events)).data["task"] == "a task"
            before = len(client.told)
            app.finish()
            await until(lambda: len(client.told) > before)
            assert not client.task.done(), "it ended with its run, although its client stays"
        assert client.task.result() == 0

    async def test_a_run_that_fails_is_no_success(self) -> None:
        """Its error is told, and its exit code comes back."""
        async with self.serving() as client:
            app = await self.begin(client, "a task")
            app.finish(RunResult(status="failed", summary="", exit_code=4, error="it broke"))
            await until(lambda: client.hub.owned == [])
        assert client.task.result() == 4

    async def test_a_second_run_waits_for_the_end_of_the_first(self) -> None:
        """One that is begun meanwhile is refused, the first goes on; behind its end it begins."""
        async with self.serving() as client:
            first = await self.begin(client, "first")
            before = len(client.told)
            await client.say(self.begins("second"))
            await until(lambda: len(client.told) > before)
            assert [len(client.hub.apps), client.hub.owned] == [1, [first.session]]
            await client.finish(first)
            await settle()
            second = await self.begin(client, "second")
            assert second.session != first.session
            await client.finish(second)

    async def test_a_session_that_cannot_be_opened_is_told_and_a_later_run_begins(self) -> None:
        """What opening raises is told, with its cure."""
        hub = ScriptedHub(RunOptions(workspace=PLACE))
        hub.faults[PLACE] = SessionOwnedError("process 1 owns that session", hint="wait for it")
        async with self.serving(hub) as client:
            await client.say(self.begins("a task"))
            await client.hears("process 1 owns that session")
            await client.hears("wait for it")
            hub.faults.clear()
            app = await self.begin(client, "a task")
            await client.finish(app)
        assert client.task.result() == 0

    async def test_a_session_that_breaks_is_told_and_a_later_run_begins(self) -> None:
        """What a run's result raises is told."""
        async with self.serving() as client:
            app = await self.begin(client, "a task")
            assert app.run is not None
            app.run.ended.set_exception(StoreError("the ledger broke"))
            await client.hears("the ledger broke")
            await until(lambda: client.hub.owned == [])
            again = await self.begin(client, "a task")
            await client.finish(again)

    async def test_every_event_is_taken(self) -> None:
        """Of the contract, and of a later version."""
        async with self.serving() as client:
            app = await self.begin(client, "a task")
            for event in sample_events()[1:-1]:  # the app tells of the start and the end
                app.say(event.type, event.agent, live=event.seq is None, **event.data)
                await settle()
            for event in later_events(first_seq=2):
                app.tell(event)
            await client.finish(app)
        assert client.task.result() == 0

    async def test_whatever_an_agent_writes_a_line_is_one_value(self) -> None:
        """Nothing but frames goes to the client, also where something else is printed."""
        async with self.serving() as client:
            app = await self.begin(client, "a task")
            print("a library prints this")  # noqa: T201 - as libraries do
            os.write(1, b"or writes it\n")
            app.spawn("w", "w1", prompt=HOSTILE_TEXT)
            app.say("message_completed", "w", turn="t", role="assistant", text=HOSTILE_TEXT)
            await client.finish(app, RunResult(status="failed", summary=HOSTILE_TEXT, exit_code=1))
        assert client.heard.endswith(b"\n")
        assert all(isinstance(value, dict) for value in client.told)

    async def test_it_answers_nothing_by_itself(self) -> None:
        """The client is the person: what is asked waits for it."""
        async with self.serving() as client:
            app = await self.begin(client, "a task")
            app.spawn()
            app.say("permission_requested", "m", request="r1", tool="Bash", options=["once"])
            app.say("question_asked", "m", request="q1", question="Which?", options=["red"])
            await settle()
            assert app.answers == []
            await client.finish(app)

    @pytest.mark.parametrize("garbage", GARBAGE, ids=range(len(GARBAGE)))
    async def test_what_is_no_command_is_refused_and_the_next_one_done(
        self, garbage: bytes
    ) -> None:
        """An error is told for it, once."""
        async with self.serving() as client:
            await client.write(garbage)
            await until(lambda: len(client.told) == 1)
            app = await self.begin(client, "a task")
            await client.finish(app)

    async def test_where_its_client_leaves_what_runs_is_interrupted(self) -> None:
        """It ends, and leaves no session open; the run can be gone on with."""
        async with self.serving() as client:
            app = await self.begin(client, "a task")
            app.spawn()
            client.leave()
            await asyncio.wait({client.task})
        assert client.task.exception() is None
        assert app.readers == 0

    async def test_cancelling_it_leaves_nothing_behind(self) -> None:
        """No task, no reader of events, and no open session."""
        before = asyncio.all_tasks()
        async with self.serving() as client:
            app = await self.begin(client, "a task")
            await settle()
            client.task.cancel()
            await asyncio.wait({client.task})
            assert client.task.cancelled()
        await settle()
        assert asyncio.all_tasks() == before
        assert app.readers == 0


async def _read_all(descriptor: int, into: bytearray) -> None:
    while data := await asyncio.to_thread(os.read, descriptor, 1 << 16):
        into += data
    os.close(descriptor)
