"""The contract of every Hub, as a pytest class to subclass.

    class TestMyHub(HubContract):
        @asynccontextmanager
        async def open_scene(self, tmp_path):
            async with open_somehow(tmp_path) as hub:
                yield MyScene(hub, workspace)

The scene is what stands behind the hub: masters that ask a person, and end with the answer. What
`open` and `attach` give is judged by `AppContract`.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from msgspec.structs import replace

from prsm_core.domain.agents import PermissionMode
from prsm_core.errors import ConfigError, ControlError, PrsmError, SessionOwnedError, StoreError
from prsm_testing.bound import bounded
from prsm_testing.codes import raises_code

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Sequence
    from contextlib import AbstractAsyncContextManager

    from prsm_core.door import HubSession
    from prsm_core.interfaces.frontend import RunOptions
    from prsm_core.interfaces.hub import Hub

NOWHERE = "01AAAAAAAAAAAAAAAAAAAAAAAA"


class HubScene(ABC):
    """A hub, a workspace, and runs in it whose master asks a person, and ends with the answer."""

    hub: Hub
    workspace: str

    @abstractmethod
    async def until_asked(self, session: str) -> None:
        """Wait until the session's master asks."""

    @abstractmethod
    async def finish(self, session: str) -> None:
        """Have the session's run end as completed, and its owner with it."""

    @abstractmethod
    async def idle(self, session: str) -> None:
        """Let the time pass after which an owner without a run ends that nobody asks anything."""


@bounded
class HubContract(ABC):
    """What every Hub does with whole sessions; each test's docstring is the rule."""

    bound_s: ClassVar[float] = 60.0  # how long a test may take

    @abstractmethod
    def open_scene(self, tmp_path: Path) -> AbstractAsyncContextManager[HubScene]:
        """Open a hub without sessions, and a workspace below `tmp_path`."""

    @asynccontextmanager
    async def _asking(self, tmp_path: Path) -> AsyncIterator[tuple[HubScene, Hub, str]]:
        """Open a hub with a session whose master asks."""
        async with self.open_scene(tmp_path) as scene:
            yield scene, scene.hub, await _started(scene)

    async def test_a_run_goes_on_by_itself_until_it_ends(self, tmp_path: Path) -> None:
        """It is owned by a process of its own, which `attach` reaches and leaving it does not end.

        Its owner ends with the run.
        """
        async with self._asking(tmp_path) as (scene, hub, session):
            async with hub.attach(session) as app:
                assert [row.session for row in await app.sessions.list()] == [session]
            row = await _row(scene, session)
            assert (row.status, row.task) == ("running", "ask")
            assert row.pid is not None
            assert [each.session for each in await hub.sessions(scene.workspace)] == [session]
            [waits] = row.waits
            assert waits.kind == "question"
            await scene.finish(session)
            row = await _row(scene, session)
            assert (row.status, row.pid, list(row.waits)) == ("completed", None, [])
            with raises_code("no_owner", ControlError):
                async with hub.attach(session):
                    raise AssertionError

    async def test_the_last_master_is_given_a_further_task(self, tmp_path: Path) -> None:
        """With `continues` the run is of the same session, which keeps its log."""
        async with self._asking(tmp_path) as (scene, hub, session):
            await scene.finish(session)
            options = _options(scene, "once more", session=session, continues=True)
            begun = await hub.start(options)
            assert begun.session == session
            await scene.until_asked(session)
            assert (await _row(scene, session)).status == "running"
            await scene.finish(session)

    async def test_what_is_finished_does_not_go_on(self, tmp_path: Path) -> None:
        """`resumes` of a run that is over is refused, and nothing begins."""
        async with self._asking(tmp_path) as (scene, hub, session):
            await scene.finish(session)
            with raises_code("finished", ConfigError):
                await hub.start(_options(scene, None, session=session, resumes=True))
            assert (await _row(scene, session)).pid is None

    async def test_a_session_is_served_without_a_run(self, tmp_path: Path) -> None:
        """A client that attaches decides about changes. The owner ends when nobody asks."""
        async with self._asking(tmp_path) as (scene, hub, session):
            await scene.finish(session)
            options = _options(scene, None, session=session)
            begun = await hub.start(options)
            assert (begun.session, begun.run) == (session, None)
            async with hub.attach(session) as app:
                assert list(await app.changes.accept()) == []
                row = await _row(scene, session)
                assert (row.status, row.pid) == ("completed", begun.pid)
            with pytest.raises(SessionOwnedError):
                await hub.start(options)
            await scene.idle(session)
            assert (await _row(scene, session)).pid is None

    async def test_a_session_that_nobody_runs_is_looked_at(self, tmp_path: Path) -> None:
        """It is told as it was left, and nothing can be done; one that is owned is attached to."""
        async with self._asking(tmp_path) as (scene, hub, session):
            with pytest.raises(SessionOwnedError):
                async with hub.look(session):
                    raise AssertionError
            await scene.finish(session)
            async with hub.look(session) as app:
                view = await app.view()
                assert view.run is not None
                assert (view.session, view.run.status) == (session, "completed")
                assert (list(view.requests), list(await app.requests.open())) == ([], [])
                seen = [event async for event in app.events()]
                assert [event.seq for event in seen] == list(range(1, view.seq + 1))
                master = (await app.agents.tree()).agents[-1]
                told = await app.agents.history(master.id)
                assert list(told) == list(await hub.peek(session, limit=200))
                assert [row.session for row in await app.sessions.list()] == [session]
                assert list(await app.changes.list()) == []
                for act in (
                    app.runs.start("ask"),
                    app.runs.interrupt(),
                    app.agents.prompt(master.id, "go on"),
                    app.changes.accept(),
                    app.snapshots.take(),
                ):
                    with raises_code("no_owner", ControlError) as refused:
                        await act
                    assert refused.value.hint
            assert (await _row(scene, session)).pid is None

    async def test_what_serves_a_session_ends_with_a_run_of_it(self, tmp_path: Path) -> None:
        """Its last master is given a task, in the mode that it has."""
        async with self.open_scene(tmp_path) as scene:
            session = await _started(scene, mode=PermissionMode.ACCEPT_EDITS)
            await scene.finish(session)
            _ = await scene.hub.start(_options(scene, None, session=session))
            async with scene.hub.attach(session) as app:
                _ = await app.runs.follow_up("once more")
            await scene.until_asked(session)
            assert (await _row(scene, session)).status == "running"
            await scene.finish(session)
            row = await _row(scene, session)
            assert (row.status, row.pid) == ("completed", None)

    async def test_a_task_or_a_session_is_there_to_be_started(self, tmp_path: Path) -> None:
        """Without a task and a session there is nothing to begin or to serve."""
        async with self._asking(tmp_path) as (scene, hub, session):
            with raises_code("no_task", ConfigError):
                await hub.start(_options(scene, None))
            with pytest.raises(PrsmError) as unknown:
                await hub.start(_options(scene, None, session=NOWHERE))
            assert NOWHERE in unknown.value.message
            assert [row.session for row in await hub.sessions()] == [session]
            await scene.finish(session)

    async def test_a_session_has_one_owner(self, tmp_path: Path) -> None:
        """An owned session is not opened, begun or deleted by others; its owner goes on."""
        async with self._asking(tmp_path) as (scene, hub, session):
            options = _options(scene, "other", session=session, continues=True)
            with pytest.raises(SessionOwnedError):
                await hub.start(options)
            with pytest.raises(SessionOwnedError):
                await hub.delete(session)
            with pytest.raises(SessionOwnedError):
                async with hub.open(options):
                    raise AssertionError
            assert (await _row(scene, session)).status == "running"
            await scene.finish(session)

    async def test_what_this_process_owns_is_not_begun_by_another(self, tmp_path: Path) -> None:
        """A session that is open here must be closed before it can run by itself."""
        async with self._asking(tmp_path) as (scene, hub, session):
            await scene.finish(session)
            options = _options(scene, "once more", session=session)
            async with hub.open(options):
                with pytest.raises(SessionOwnedError):
                    await hub.start(replace(options, continues=True))
            _ = await hub.start(replace(options, continues=True))
            await scene.until_asked(session)
            await scene.finish(session)

    async def test_a_session_is_owned_before_its_first_run(self, tmp_path: Path) -> None:
        """Every act on it is refused as owned, not as unknown."""
        async with self.open_scene(tmp_path) as scene:
            hub = scene.hub
            async with hub.open(_options(scene, None)) as app:
                session = app.options.session or ""
                with pytest.raises(SessionOwnedError):
                    async with hub.open(_options(scene, None, session=session)):
                        raise AssertionError
                begun = hub.start(_options(scene, "x", session=session))
                for act in (*_acts(hub, session, tmp_path), begun):
                    with pytest.raises(SessionOwnedError) as owned:
                        await act
                    assert session in owned.value.message
                async with hub.attach(session) as again:
                    assert again.options.session == session
                    assert (await again.view()).run is None

    async def test_a_session_has_the_name_that_it_was_given(self, tmp_path: Path) -> None:
        """It is renamed while it runs, too. Blank removes a name; control characters fail."""
        async with self._asking(tmp_path) as (scene, hub, session):
            assert (await _row(scene, session)).name is None
            await hub.rename(session, "  the  blue one ")
            assert (await _row(scene, session)).name == "the blue one"
            with pytest.raises(ConfigError):
                await hub.rename(session, "\x1b[2Jgone")
            await scene.finish(session)
            await hub.rename(session, " ")
            assert (await _row(scene, session)).name is None

    async def test_what_the_master_did_last_is_seen_without_opening(self, tmp_path: Path) -> None:
        """`peek` has the last entries of its history, oldest first, whoever owns the session."""
        async with self._asking(tmp_path) as (scene, hub, session):
            entries = await hub.peek(session)
            async with hub.attach(session) as app:
                [master] = (await app.agents.tree()).agents
                assert entries == await app.agents.history(master.id, limit=20)
            await scene.finish(session)
            entries = await hub.peek(session)
            assert entries
            assert list(await hub.peek(session, limit=1)) == list(entries[-1:])

    async def test_a_fork_begins_as_the_session_was_and_touches_it_not(
        self, tmp_path: Path
    ) -> None:
        """A fork is `interrupted`, names its origin, and can be deleted alone."""
        async with self._asking(tmp_path) as (scene, hub, session):
            fork = await hub.fork(session)
            row = await _row(scene, fork)
            assert (row.origin, row.status, row.pid) == (session, "interrupted", None)
            await hub.delete(fork)
            assert (await _row(scene, session)).status == "running"
            with pytest.raises(StoreError):
                await hub.fork(session, at=100_000)
            await scene.finish(session)

    async def test_what_was_deleted_is_there_no_more(self, tmp_path: Path) -> None:
        """Nothing lists it, and nothing can be done with it; others stay."""
        async with self.open_scene(tmp_path) as scene:
            session, other = await _started(scene), await _started(scene)
            for each in (session, other):
                await scene.finish(each)
            await scene.hub.delete(session)
            assert [row.session for row in await scene.hub.sessions()] == [other]
            with raises_code("unknown_session", StoreError):
                await scene.hub.delete(session)

    async def test_a_session_is_written_to_a_file(self, tmp_path: Path) -> None:
        """It goes to the named file, or into the named folder; an error says why it cannot."""
        async with self._asking(tmp_path) as (scene, hub, session):
            await scene.finish(session)
            path = await hub.export(session, str(tmp_path))
            assert session in path
            assert session in await asyncio.to_thread(Path(path).read_text, encoding="utf-8")
            with pytest.raises(ConfigError):
                await hub.export(session, str(tmp_path / "no" / "folder" / "x.json"))
            with pytest.raises(ConfigError):
                await hub.export(session, str(tmp_path), "pdf")

    async def test_a_session_that_there_is_not_is_told(self, tmp_path: Path) -> None:
        """Every act on an unknown session raises the code `unknown_session`."""
        async with self.open_scene(tmp_path) as scene:
            for act in _acts(scene.hub, NOWHERE, tmp_path):
                with raises_code("unknown_session", StoreError):
                    await act

    async def test_a_run_that_cannot_begin_says_why(self, tmp_path: Path) -> None:
        """The error names the session, and no other one is touched."""
        async with self._asking(tmp_path) as (scene, hub, session):
            with pytest.raises(PrsmError) as refused:
                await hub.start(_options(scene, "x", session=NOWHERE, continues=True))
            assert NOWHERE in refused.value.message
            assert [row.session for row in await hub.sessions()] == [session]
            await scene.finish(session)


def _options(scene: HubScene, task: str | None, **others: Any) -> RunOptions:
    told = scene.hub.options
    return replace(told, task=task, workspace=scene.workspace, **{"session": None, **others})


async def _started(scene: HubScene, **others: Any) -> str:
    begun = await scene.hub.start(_options(scene, "ask", **others))
    await scene.until_asked(begun.session)
    return begun.session


def _acts(hub: Hub, session: str, folder: Path) -> Sequence[Awaitable[object]]:
    """Return what can be done with a session that is not opened for it."""
    named, exported = hub.rename(session, "x"), hub.export(session, str(folder))
    looked = hub.look(session).__aenter__()
    return (hub.peek(session), looked, named, hub.fork(session), hub.delete(session), exported)


async def _row(scene: HubScene, session: str) -> HubSession:
    return next(row for row in await scene.hub.sessions() if row.session == session)
