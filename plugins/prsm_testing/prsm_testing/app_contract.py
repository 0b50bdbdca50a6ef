"""The contract of every AppHandle, as a pytest class to subclass.

    class TestMyApp(AppContract):
        @asynccontextmanager
        async def open_scene(self, tmp_path):
            async with open_somehow(tmp_path) as app:
                yield MyScene(app)

The scene is what the application has behind it: a master that does as a test says.
"""

from __future__ import annotations

import asyncio
import math
from abc import ABC, abstractmethod
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from msgspec import to_builtins

from prsm_core.domain.agents import PermissionMode
from prsm_core.domain.permissions import Answer
from prsm_core.door import Comment, Completion, OpenQuestion, PolicyReport
from prsm_core.errors import (
    ConfigError,
    MessageRoutingError,
    ModelNotAvailableError,
    StoreError,
    ToolInputError,
)
from prsm_testing.bound import bounded
from prsm_testing.codes import raises_code

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from prsm_core.domain.events import Event
    from prsm_core.interfaces.frontend import AppHandle, RunHandle


class AppScene(ABC):
    """An application, and the master of its run, which does what a test says.

    Its provider takes images.
    """

    app: AppHandle

    @abstractmethod
    async def say(self, text: str) -> None:
        """Have the master say a whole message; returns once it is committed."""

    @abstractmethod
    async def begin_to_say(self, text: str) -> None:
        """Have the master say a piece of a message, which nothing commits."""

    @abstractmethod
    async def ask(self, question: str, *options: str) -> None:
        """Have the master ask the person, and offer options; returns once that is asked."""

    @abstractmethod
    async def finish(self, summary: str) -> None:
        """Have the master end its work, and the run with it."""


NODE = {
    *("id", "name", "state", "children", "waiting_on", "mode", "context", "open_tools"),
    *("prompts", "labels"),
}
PNG = b"\x89PNG\r\n\x1a\n" + bytes(40)
PIECE = "The second message begins with a few words, and goes on. "  # some may be held back


@bounded
class AppContract(ABC):
    """What every AppHandle does; each test's docstring is the rule."""

    bound_s: ClassVar[float] = 30.0  # how long a test may take

    @abstractmethod
    def open_scene(self, tmp_path: Path) -> AbstractAsyncContextManager[AppScene]:
        """Open an application without a run, on a workspace below `tmp_path`."""

    @asynccontextmanager
    async def _working(
        self, tmp_path: Path
    ) -> AsyncIterator[tuple[AppScene, AppHandle, RunHandle]]:
        """Open an application with a run whose master works, and has said something."""
        async with self.open_scene(tmp_path) as scene:
            yield scene, scene.app, await _started(scene)

    async def test_a_run_is_told_from_its_first_event_to_its_last(self, tmp_path: Path) -> None:
        """Committed events are numbered without a gap; `run_finished` comes before the result."""
        async with self.open_scene(tmp_path) as scene:
            run = await scene.app.runs.start("count")
            await scene.say("one")
            await scene.finish("counted")
            result = await run.result()
            events = await _until(scene.app.events(), _ends(run))
            assert (result.status, result.exit_code) == ("completed", 0)
            assert [event.seq for event in events] == list(range(1, len(events) + 1))
            assert events[0].type == "run_started"
            assert {event.session for event in events} == {run.session}
            assert _texts(events)[-1:] == ["one"]

    async def test_reading_goes_on_where_it_was_left(self, tmp_path: Path) -> None:
        """`events(after=n)` begins with n + 1, whoever read before."""
        async with self.open_scene(tmp_path) as scene:
            run = await scene.app.runs.start("count")
            await scene.say("one")
            await _finish(scene, run, "counted")
            whole = await _until(scene.app.events(), _ends(run))
            for place in (1, len(whole) // 2, len(whole) - 1):
                rest = await _until(scene.app.events(after=place), _ends(run))
                assert rest == whole[place:]

    async def test_a_cursor_beyond_the_last_event_is_refused(self, tmp_path: Path) -> None:
        """A number that the session has not reached is an error, and nothing is awaited."""
        async with self._working(tmp_path) as (_, app, _):
            with raises_code("no_such_event", ConfigError):
                await _until(app.events(after=10_000), lambda _: True)

    async def test_pieces_of_a_message_come_live_and_uncommitted(self, tmp_path: Path) -> None:
        """A delta has no number, and says of which message it is, and where in it."""
        async with self._working(tmp_path) as (scene, app, _):
            async with aclosing(app.events()) as events:  # type: ignore[type-var]
                seen = await _until(events, _says("first"), then=scene.say("first"))
                seen += await _until(events, _is_delta, then=scene.begin_to_say(PIECE))
            assert seen[-1].seq is None
            said = seen[-1].data
            assert said["text"]
            assert PIECE.startswith(said["text"])
            whole = next(event for event in seen[::-1] if _says("first")(event))
            assert (said["turn"], said["at"]) == (whole.data["turn"], 0)
            assert said["message"] == whole.data["message"] + 1

    async def test_pieces_and_a_picture_fit_together(self, tmp_path: Path) -> None:
        """A view and the events after it give a whole message, by `message` and `at`."""
        async with self._working(tmp_path) as (scene, app, _):
            await scene.begin_to_say(PIECE)
            view = await app.view()
            async with aclosing(app.events(after=view.seq)) as events:  # type: ignore[type-var]
                seen = await _until(events, _says(PIECE * 2), then=_say_on(scene))
            said = "".join(turn.text for turn in view.turns)
            for event in filter(_is_delta, seen):
                assert event.data["message"] == seen[-1].data["message"]
                assert event.data["at"] <= len(said)
                said = said[: event.data["at"]] + event.data["text"]
            assert said == PIECE * 2

    async def test_a_view_is_of_one_event_and_reading_goes_on_from_it(self, tmp_path: Path) -> None:
        """Events that the view has do not come again; all later ones do."""
        async with self._working(tmp_path) as (scene, app, run):
            await scene.say("one")
            view = await app.view()
            before = await _until(app.events(), lambda event: event.seq == view.seq)
            assert _texts(before)[-1:] == ["one"]
            assert view.run is not None
            assert (view.run.id, view.run.status) == (run.run_id, "running")
            [root] = view.tree.agents
            assert to_builtins(root).keys() >= NODE
            await _finish(scene, run, "counted")
            rest = await _until(app.events(after=view.seq), _ends(run))
            assert rest[0].seq == view.seq + 1
            assert (view.run.summary, view.run.error) == ("", None)

    async def test_who_looks_once_a_run_is_over_sees_how_it_ended(self, tmp_path: Path) -> None:
        """Its run has the status, summary and error that `run_finished` told."""
        async with self._working(tmp_path) as (scene, app, run):
            await _finish(scene, run, "counted")
            end = (await _until(app.events(), _ends(run)))[-1].data
            told = (await app.view()).run
            assert end["summary"]
            names = ("status", "summary", "error")
            assert [getattr(told, name) for name in names] == [end.get(name) for name in names]

    async def test_a_view_before_any_run_has_none(self, tmp_path: Path) -> None:
        """An empty session has a view, too."""
        async with self.open_scene(tmp_path) as scene:
            view = await scene.app.view()
            assert (view.seq, view.run, view.turns) == (0, None, ())
            assert (view.tree.agents, view.requests) == ((), ())

    async def test_a_run_that_is_interrupted_ends_so_and_another_may_begin(
        self, tmp_path: Path
    ) -> None:
        """Interrupting twice is harmless, also at once."""
        async with self.open_scene(tmp_path) as scene:
            assert await scene.app.runs.interrupt() is False
            run = await _started(scene)
            ends = await asyncio.gather(scene.app.runs.interrupt(), scene.app.runs.interrupt())
            assert ends[0] is True
            result = await run.result()
            assert (result.status, result.exit_code) == ("interrupted", 130)
            assert await scene.app.runs.interrupt() is False
            last = (await _until(scene.app.events(), _ends(run)))[-1]
            assert last.data["status"] == "interrupted"
            again = await scene.app.runs.start("once more")
            await scene.say("here")
            await _finish(scene, again, "done")

    async def test_a_follow_up_goes_to_the_last_master(self, tmp_path: Path) -> None:
        """It is a run of its own, and none while another is open; of two at once one begins."""
        async with self.open_scene(tmp_path) as scene:
            with raises_code("no_master", ConfigError):
                await scene.app.runs.follow_up("more")
            run = await _started(scene)
            with pytest.raises(ConfigError, match="runs a task already"):
                await scene.app.runs.follow_up("more")
            await _finish(scene, run, "counted")
            begun = await asyncio.gather(
                scene.app.runs.follow_up("more"),
                scene.app.runs.follow_up("more"),
                return_exceptions=True,
            )
            [again] = [run for run in begun if not isinstance(run, BaseException)]
            assert [type(run) for run in begun if run is not again] == [ConfigError]
            await scene.say("on it")
            await _finish(scene, again, "counted more")

    async def test_a_prompt_that_says_nothing_is_refused(self, tmp_path: Path) -> None:
        """Nothing of it is sent: an agent that has not read it could not end.

        The same holds for a way that there is not.
        """
        async with self._working(tmp_path) as (scene, app, run):
            for blank in ("", " \n"):
                with pytest.raises(ConfigError) as refused:
                    await app.agents.prompt("master", blank)
                assert (refused.value.code, bool(refused.value.hint)) == ("blank", True)
            with pytest.raises(ConfigError):
                await app.agents.prompt("master", "hurry", "someday")
            await _finish(scene, run, "counted")

    async def test_images_go_with_a_prompt_and_a_follow_up(self, tmp_path: Path) -> None:
        """A path is the caller's, and may be gone afterwards; what is no image is never sent."""
        async with self.open_scene(tmp_path) as scene:
            app, image, text = scene.app, tmp_path / "screen.png", tmp_path / "note.txt"
            image.write_bytes(PNG)
            text.write_text("no image")
            run = await _started(scene)
            for unfit in (str(text), str(tmp_path / "nowhere.png"), "data:text/plain,x"):
                with raises_code("unfit_image", ConfigError):
                    await app.agents.prompt("master", "look", images=[str(image), unfit])
            assert await app.agents.prompt("master", "look", images=[str(image)]) == "queued"
            await _finish(scene, run, "seen")
            with raises_code("unfit_image", ConfigError):
                await app.runs.follow_up("once more", [str(text)])
            again = await app.runs.follow_up("once more", [str(image)])
            image.unlink()
            await scene.say("on it")
            await _finish(scene, again, "seen again")
            events = await _until(app.events(), _ends(again))
            sent = [event for event in events if event.type == "message_routed"]
            assert len([event for event in sent if event.data["kind"] == "user_prompt"]) <= 1

    async def test_what_is_asked_is_answered_once(self, tmp_path: Path) -> None:
        """The first answer wins; who comes later is told."""
        async with self._working(tmp_path) as (scene, app, _):
            await scene.ask("which?")
            [request] = await app.requests.open()
            assert isinstance(request, OpenQuestion)
            assert request.question == "which?"
            assert [each.request for each in (await app.view()).requests] == [request.request]
            assert await app.requests.answer(request.request, Answer(text="this"), via="here")
            assert not await app.requests.answer(request.request, Answer(text="that"))
            told = await app.requests.outcome(request.request)
            assert await app.requests.outcome("") is None, "a blank id is of no request"
            assert told is not None
            assert (told.answer, told.by) == (Answer(text="this"), "user")
            await scene.finish("done")

    async def test_a_choice_that_was_not_offered_is_refused(self, tmp_path: Path) -> None:
        """As are several where one is wanted; the question waits on, and takes a free text too."""
        async with self._working(tmp_path) as (scene, app, _):
            await scene.ask("which?", "left", "right")
            [asked] = await app.requests.open()
            for odd in (("middle",), ("left", "middle"), ("",), ("Left",), ("left", "right")):
                code = "one_choice" if "right" in odd else "not_offered"
                with raises_code(code, ConfigError) as refused:
                    await app.requests.answer(asked.request, Answer(choices=odd, text="so"))
                assert "left, right" in (refused.value.hint or "")
            assert [row.request for row in await app.requests.open()] == [asked.request]
            assert await app.requests.outcome(asked.request) is None
            assert await app.requests.answer(asked.request, Answer(choices=("right",), text="so"))
            told = await app.requests.outcome(asked.request)
            assert told is not None
            assert told.answer == Answer(choices=("right",), text="so")
            late = Answer(choices=("middle",))
            assert not await app.requests.answer(asked.request, late), "it was answered already"
            await scene.finish("done")

    async def test_where_nothing_is_offered_there_is_no_choice(self, tmp_path: Path) -> None:
        """Such a question is answered by a text, or by nothing."""
        async with self._working(tmp_path) as (scene, app, _):
            await scene.ask("why?")
            [asked] = await app.requests.open()
            with pytest.raises(ConfigError) as refused:
                await app.requests.answer(asked.request, Answer(choices=("because",)))
            assert (refused.value.code, bool(refused.value.hint)) == ("not_offered", True)
            assert await app.requests.answer(asked.request, Answer())
            await scene.finish("done")

    async def test_of_two_answers_at_once_one_wins(self, tmp_path: Path) -> None:
        """The other is False, and `outcome` tells whose it was."""
        async with self._working(tmp_path) as (scene, app, _):
            await scene.ask("which?")
            [asked] = await app.requests.open()
            taken = await asyncio.gather(
                app.requests.answer(asked.request, Answer(text="left"), via="left"),
                app.requests.answer(asked.request, Answer(text="right"), via="right"),
            )
            assert sorted(taken) == [False, True]
            winner = "left" if taken[0] else "right"
            told = await app.requests.outcome(asked.request)
            assert told is not None
            assert told.answer == Answer(text=winner)
            assert told.via.startswith(winner)
            await scene.finish("done")

    async def test_a_history_comes_in_pages(self, tmp_path: Path) -> None:
        """Pages from the end add up to the whole history, each entry once."""
        async with self._working(tmp_path) as (scene, app, _):
            for number in range(5):
                await scene.say(f"{number}")
            whole = await app.agents.history("master")
            assert [getattr(entry, "text", "") for entry in whole[-5:]] == list("01234")
            pages: list[Any] = []
            while page := await app.agents.history(
                "master", before=pages[0].seq if pages else None, limit=2
            ):
                assert len(page) <= 2
                pages = [*page, *pages]
            assert pages == list(whole)
            summary = await app.agents.history("master", "summary", limit=3)
            assert [getattr(entry, "text", "") for entry in summary] == list("234")

    async def test_a_history_that_cannot_be_had_is_refused_by_name(self, tmp_path: Path) -> None:
        """An unknown agent or detail is refused, and so is a limit below 1."""
        async with self._working(tmp_path) as (_, app, _):
            with raises_code("unknown_agent", MessageRoutingError):
                await app.agents.history("nobody-of-this-name")
            with pytest.raises(ToolInputError):
                await app.agents.history("master", "loud")
            for limit in (0, -1, -(2**70)):
                with pytest.raises(ConfigError):
                    await app.agents.history("master", limit=limit)

    async def test_numbers_of_any_size_are_taken_for_what_they_say(self, tmp_path: Path) -> None:
        """Any limit is taken; the number of an event that does not exist is refused."""
        async with self._working(tmp_path) as (_, app, _):
            whole = list(await app.agents.history("master"))
            for beyond in (2**63 - 1, 2**63, 2**70):
                assert list(await app.agents.history("master", limit=beyond)) == whole
                assert list(await app.agents.history("master", before=beyond)) == whole
                with raises_code("no_such_event", ConfigError):
                    await _until(app.events(after=beyond), lambda _: True)
                with raises_code("unknown_position", StoreError):
                    await app.sessions.fork(beyond)
            assert list(await app.agents.history("master", before=-1)) == []
            [first] = await _until(app.events(after=-1), lambda _: True)
            assert first.seq == 1

    async def test_what_is_no_mode_or_limit_begins_no_run(self, tmp_path: Path) -> None:
        """Each is refused before anything is begun."""
        async with self.open_scene(tmp_path) as scene:
            overrides: list[dict[str, Any]] = [{"mode": "carefree"}]
            overrides += [{"timeout_s": limit} for limit in (0, -1.0, math.inf, math.nan)]
            for override in overrides:
                with pytest.raises(ConfigError):
                    await scene.app.runs.start("count", **override)
            assert (await scene.app.view()).run is None

    async def test_a_mode_is_that_of_the_next_run(self, tmp_path: Path) -> None:
        """Options and view show it. An unknown mode is refused."""
        async with self.open_scene(tmp_path) as scene:
            await scene.app.runs.set_mode(PermissionMode.PLAN)
            assert scene.app.options.mode is PermissionMode.PLAN
            assert (await scene.app.view()).mode == "plan"
            with pytest.raises(ConfigError):
                await scene.app.runs.set_mode("carefree")  # type: ignore[arg-type]

    async def test_a_follow_up_takes_the_mode_that_was_set(self, tmp_path: Path) -> None:
        """Its master lives on in it, which an event tells."""
        async with self._working(tmp_path) as (scene, app, run):
            await _finish(scene, run, "counted")
            await app.runs.set_mode(PermissionMode.PLAN)
            again = await app.runs.follow_up("more")
            await scene.say("on it")
            await _finish(scene, again, "counted more")
            told = await _until(app.events(), lambda event: event.type == "agent_mode_changed")
            [master] = (await app.view()).tree.agents
            assert (told[-1].agent, told[-1].data["to"]) == (master.id, "plan")
            assert master.mode == "plan"

    async def test_an_agent_goes_on_with_another_model(self, tmp_path: Path) -> None:
        """It does so in its next turn or life. Unknown names are refused with the nearest."""
        async with self._working(tmp_path) as (scene, app, run):
            own = (await app.agents.tree()).agents[0].provider
            assert await app.agents.set_model("master", "second") == f"{own}/second"
            with pytest.raises(MessageRoutingError):
                await app.agents.set_model("nobody-of-this-name", "second")
            with raises_code("no_model", ConfigError):
                await app.agents.set_model("master", " ")
            with pytest.raises(ModelNotAvailableError) as unknown:
                await app.agents.set_model("master", f"{own}x/second")
            assert own in (unknown.value.hint or "")
            assert (await app.agents.tree()).agents[0].next_model == f"{own}/second"
            await _finish(scene, run, "counted")
            assert await app.agents.set_model("master", f"{own}/third") == f"{own}/third"
            again = await app.runs.follow_up("more")
            await scene.say("on it")
            [master] = (await app.agents.tree()).agents
            assert (master.model, master.next_model) == ("third", None)
            await _finish(scene, again, "counted more")
            told = await _until(app.events(), lambda event: event.type == "agent_model_changed")
            assert (told[-1].agent, told[-1].data["model"]) == (master.id, "third")

    async def test_what_a_session_has_around_it_is_told(self, tmp_path: Path) -> None:
        """Sessions, providers, models, the budget, and what a word may become."""
        async with self._working(tmp_path) as (_, app, run):
            sessions = {row.session: row for row in await app.sessions.list()}
            assert sessions[run.session].status == "running"
            assert all(row.name for row in await app.providers())
            assert all(row.model for row in await app.models())
            assert isinstance(await app.policy(), PolicyReport)
            budget = await app.runs.budget()
            assert budget.run.keys() == {"tokens", "usd", "turns", "spawns"}
            assert await app.complete("tell mas") == [Completion(text="master", kind="agent")]

    async def test_a_fork_is_another_session_and_this_one_runs_on(self, tmp_path: Path) -> None:
        """The list has it with its origin, as interrupted. An unknown event is refused."""
        async with self._working(tmp_path) as (scene, app, run):
            await scene.say("one")
            forked = await app.sessions.fork()
            rows = {row.session: row for row in await app.sessions.list()}
            assert (rows[forked].origin, rows[forked].status) == (run.session, "interrupted")
            assert (rows[run.session].origin, rows[run.session].status) == (None, "running")
            for nowhere in (0, 10_000):
                with raises_code("unknown_position"):
                    await app.sessions.fork(nowhere)
            await _finish(scene, run, "counted")

    async def test_readers_may_come_and_go(self, tmp_path: Path) -> None:
        """One that leaves takes nothing from another."""
        async with self._working(tmp_path) as (scene, app, run):
            for _ in range(3):
                await _until(app.events(), lambda event: event.seq == 1)
            await _finish(scene, run, "done")
            events = await _until(app.events(), _ends(run))
            assert events[-1].type == "run_finished"

    async def test_files_are_held_for_as_long_as_somebody_holds_them(self, tmp_path: Path) -> None:
        """It yields the writers once, here none, and then waits until it is closed."""
        async with self._working(tmp_path) as (_, app, _):
            held = app.changes.hold_files()
            assert list(await anext(held)) == []
            close = getattr(held, "aclose", None)
            assert close is not None
            await close()

    async def test_without_changes_there_is_nothing_to_decide(self, tmp_path: Path) -> None:
        """Unknown changes are refused by their code; deciding about all decides nothing."""
        async with self._working(tmp_path) as (_, app, _):
            assert list(await app.changes.list()) == []
            for decide in (app.changes.accept, app.changes.reject):
                assert list(await decide()) == []
                with raises_code("unknown_change"):
                    await decide(["nothing"])
            with raises_code("unknown_change"):
                await app.changes.show("nothing")
            for dry_run in (True, False):
                told = await app.changes.commit(dry_run=dry_run)
                assert (told.commits, told.left) == ((), ())
            with raises_code("unknown_change"):
                await app.changes.commit(["nothing"])
            with pytest.raises(ConfigError):
                await app.changes.commit(by="moon")
            with pytest.raises(ConfigError):
                await app.changes.commit(message=" ")

    async def test_a_comment_on_what_is_not_there_is_refused(self, tmp_path: Path) -> None:
        """By its code, with nothing sent; so is one that says nothing."""
        async with self._working(tmp_path) as (_, app, _):
            assert list(await app.changes.comment([])) == []
            with raises_code("blank", ConfigError):
                await app.changes.comment([Comment(change="nothing", text=" ")])
            with raises_code("unknown_change", ConfigError):
                await app.changes.comment([Comment(change="nothing", text="why?")])

    async def test_nothing_is_taken_back_below_a_run_that_is_open(self, tmp_path: Path) -> None:
        """Only the changes of a turn are. What does not exist is refused by its code."""
        async with self._working(tmp_path) as (scene, app, run):
            assert (await app.changes.undo("turn")).decided == ()
            codes = []
            for what in ("prompt", "everything"):
                with pytest.raises(ConfigError) as refused:
                    await app.changes.undo(what)
                codes.append(refused.value.code)
            assert codes == ["run_open", "unknown_undo"]
            with pytest.raises(ConfigError) as refused:
                await app.changes.undo("act")
            assert refused.value.code in {"nothing_to_undo", "no_snapshots", "run_open"}
            await _finish(scene, run, "done")
            with raises_code("unknown_prompt", ConfigError):
                await app.changes.undo()

    async def test_a_snapshot_is_taken_or_it_is_said_that_files_are_not_kept(
        self, tmp_path: Path
    ) -> None:
        """The error has a code. A snapshot that was taken is in the list."""
        async with self._working(tmp_path) as (scene, app, _):
            taken, code = None, ""
            try:
                taken = await app.snapshots.take("as it is")
            except ConfigError as error:
                code = error.code
            known = {one.id for one in await app.snapshots.list()}
            assert code == "no_snapshots" if taken is None else taken.id in known
            with raises_code("run_open", ConfigError):
                await app.snapshots.restore("0")
            with raises_code(code or "unknown_snapshot", ConfigError):
                await app.snapshots.restore("nothing", dry_run=True)
            await scene.finish("done")

    async def test_of_a_file_that_nobody_changed_no_reason_is_told(self, tmp_path: Path) -> None:
        """Neither the file nor a line has one; the error has a code and a hint."""
        async with self.open_scene(tmp_path) as scene:
            app = scene.app
            assert list(await app.snapshots.list()) == []  # of a session that has not begun
            assert list(await app.changes.worktrees()) == []
            await _started(scene)
            for line in (None, 1):
                with raises_code("unchanged_path") as missing:
                    await app.changes.rationale("a.py", line)
                assert missing.value.hint


async def _until(
    events: AsyncIterator[Event], is_last: Callable[[Event], bool], *, then: Any = None
) -> list[Event]:
    """Return the events up to one; what comes `then` is done once somebody reads."""
    seen = []
    acting = None if then is None else asyncio.ensure_future(then)
    async for event in events:
        seen.append(event)
        if is_last(event):
            break
    if acting is not None:
        await acting
    elif (close := getattr(events, "aclose", None)) is not None:
        await close()
    return seen


async def _started(scene: AppScene) -> RunHandle:
    run = await scene.app.runs.start("count")
    await scene.say("I begin")
    return run


async def _finish(scene: AppScene, run: RunHandle, summary: str) -> None:
    await scene.finish(summary)
    assert (await run.result()).status == "completed"


async def _say_on(scene: AppScene) -> None:
    await scene.begin_to_say(PIECE)
    await scene.say(PIECE * 2)


def _ends(run: RunHandle) -> Callable[[Event], bool]:
    return lambda event: event.type == "run_finished" and event.run == run.run_id


def _says(text: str) -> Callable[[Event], bool]:
    return lambda event: event.type == "message_completed" and event.data["text"] == text


def _is_delta(event: Event) -> bool:
    return event.type == "text_delta"


def _texts(events: list[Event]) -> list[str]:
    return [
        event.data["text"]
        for event in events
        if event.type == "message_completed" and event.data["role"] == "assistant"
    ]
