"""The contract of every Provider, as a pytest class to subclass.

    class TestMyProvider(ProviderContract):
        def build(self, settings, services):
            return build(settings, services)

        @asynccontextmanager
        async def play(self, scenario):
            async with ModelServer(scenario) as server:
                yield Stage(model=server, settings={"base_url": server.base_url})

`play` lets the vendor's model follow a scenario (its format: `prsm_testing.playback`) and
yields the settings that lead to it. What the capabilities do not promise is skipped, and told.

HarmlessContract is stricter: what a vendor's program or server says of a failure is shown, logged
and handed on, so a provider makes it harmless where it comes in, as `prsm_core.kit.one_line` does.
"""

from __future__ import annotations

import asyncio
import sys
import time
import unicodedata
from abc import ABC, abstractmethod
from contextlib import aclosing, asynccontextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from prsm_core.domain.permissions import Allow, Answer, Deny
from prsm_core.domain.tools import ToolOutcome
from prsm_core.domain.turns import (
    AssistantMessage,
    ErrorKind,
    Notice,
    StepEnded,
    StopReason,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
    ToolOutput,
    TurnEnded,
    UsageReported,
)
from prsm_core.errors import ProviderNotAvailableError, PrsmError
from prsm_testing.bound import bounded
from prsm_testing.doubles import (
    RecordingHost,
    answers,
    completes,
    only,
    open_services,
    run_turn,
    session_request,
    until,
)
from prsm_testing.provider_scene import (
    FOR_THE_LEDGER,
    LEDGER_MARK,
    Scene,
    Stage,
    call,
    end,
    error,
    failure,
    is_call,
    needs,
    reason,
    streaming,
)
from prsm_testing.resume_contract import ResumeContract

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from prsm_core.domain.turns import ProviderEvent
    from prsm_core.interfaces.provider import Provider, ProviderServices

    OpenScene = Callable[..., AbstractAsyncContextManager[Scene]]


WHEN = ("none", "turn", "step")
TOLD_SECONDS = 10.0  # how long what a response used may take to be told after the next one began

__all__ = ["ProviderContract", "Scene", "Stage"]

INTERRUPT_SECONDS = 2.0  # what the contract allows
BUSY_SECONDS = 3.0  # added to it: a machine that runs other things is not the provider's fault
COMMAND = "echo hi > made.txt && cat made.txt"
_ONE = "echo one > made.txt && cat made.txt"
COMMANDS = (_ONE, "echo two > made.txt; cat made.txt; exit 3", _ONE)


@bounded
class MeteringContract:
    """What every Provider does with what was used; a part of ProviderContract."""

    bound_s: ClassVar[float] = 180.0  # for a test in all
    tells_usage: ClassVar[bool] = True  # the vendor tells how many tokens were used

    async def test_usage_is_told_in_differences_that_add_up(self, open_scene: OpenScene) -> None:
        """Each report is what was used since the last one, over responses and turns."""
        needs(self.tells_usage, "tells_usage")
        usage = [{"input_tokens": 100 * n, "output_tokens": n} for n in (1, 2, 3)]
        host = RecordingHost(note=answers("noted"))
        async with (
            open_scene(
                {"call": call("note", "n", text="x"), "usage": usage[0]},
                {"say": "done", "usage": usage[1]},
                {"say": "more", "usage": usage[2]},
            ) as scene,
            scene.session(host) as session,
        ):
            first = only(UsageReported, await run_turn(session, "Note it."))
            second = only(UsageReported, await run_turn(session, "Go on."))
        for reports in (first, second):
            assert sum(report.usage.input_tokens or 0 for report in reports) == 300
            assert sum(report.usage.output_tokens or 0 for report in reports) == 3

    async def test_tokens_and_cost_are_told_when_the_capabilities_say(
        self, open_scene: OpenScene
    ) -> None:
        """`step`: before the call of the next response is answered; `turn`: by the turn's end."""
        told, late = _Told(), []

        async def note(text: str) -> ToolOutcome:
            number = int(text)
            late.extend([kind for kind in promised["step"] if not await told.reaches(kind, number)])
            return ToolOutcome(text="noted")

        usage = {"input_tokens": 100, "output_tokens": 1}
        calls = [{"call": call("note", f"n{n}", text=str(n)), "usage": usage} for n in range(3)]
        async with (
            open_scene(*calls, {"say": "done"}) as scene,
            scene.session(RecordingHost(note=note)) as session,
        ):
            capabilities = scene.provider.capabilities
            when = {"tokens": capabilities.tokens_told, "cost": capabilities.cost_told}
            assert set(when.values()) <= set(WHEN)
            assert self.tells_usage or capabilities.tokens_told == "none"
            promised = {word: [kind for kind in when if when[kind] == word] for word in WHEN}
            needs(promised["step"] or promised["turn"], "tokens_told or cost_told")
            async with streaming(session, "Note them.") as turn:
                async for event in turn:
                    told.note(event)
        assert late == [], "told later than promised"
        for kind in (*promised["step"], *promised["turn"]):
            assert told.amounts[kind], f"no {kind} until the turn's end"
        if "cost" not in promised["none"]:
            assert all(amount >= 0 for amount in told.amounts["cost"])
        if "tokens" not in promised["none"]:
            assert sum(told.amounts["tokens"]) >= 303


def _needs_gate(scene: Scene) -> None:
    gated = scene.provider.capabilities.enforcement in ("pre_tool", "approval")
    needs(gated, "enforcement is pre_tool or approval")


class _Told:
    """What a turn has told so far."""

    def __init__(self) -> None:
        self.amounts: dict[str, list[float]] = {"tokens": [], "cost": []}

    def note(self, event: ProviderEvent) -> None:
        if isinstance(event, UsageReported):
            if event.usage.known_total is not None:
                self.amounts["tokens"].append(event.usage.known_total)
            if event.cost_usd is not None:
                self.amounts["cost"].append(event.cost_usd)

    async def reaches(self, kind: str, responses: int) -> bool:
        """Whether what so many responses used was told, or is within a moment."""
        with suppress(TimeoutError):
            await until(lambda: self._has(kind, responses), timeout_s=TOLD_SECONDS)
        return self._has(kind, responses)

    def _has(self, kind: str, responses: int) -> bool:
        if kind == "tokens":
            return sum(self.amounts[kind]) >= 101 * responses
        return len(self.amounts[kind]) >= responses


@bounded
class ProviderContract(MeteringContract, ResumeContract, ABC):
    """What every Provider does; each test's docstring is the rule."""

    bound_s: ClassVar[float] = 180.0  # for a test in all; one that hangs fails, and says where
    tells_usage: ClassVar[bool] = True  # the vendor tells how many tokens were used
    tells_steps: ClassVar[bool] = True  # … and when a response of its model is complete
    ends_unasked: ClassVar[bool] = True  # the model is asked nothing behind a call that ends a turn
    # The step by which the vendor's model asks the person "A or B?" with these two options.
    question_step: ClassVar[Mapping[str, Any] | None] = None

    @abstractmethod
    def build(self, settings: Mapping[str, Any], services: ProviderServices) -> Provider:
        """Build the provider; `settings` are those that `play` gave."""

    @abstractmethod
    def play(self, scenario: Mapping[str, Any]) -> AbstractAsyncContextManager[Stage]:
        """Let the vendor's model follow the scenario."""

    def without_program(self, settings: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return settings that name a program that does not exist; None where none is run."""
        return {**settings, "command": ["no-such-program-of-prsm"]}

    @pytest.fixture
    def open_scene(self, tmp_path: Path) -> OpenScene:
        """Open a provider whose model plays the steps; leaving it checks what is left."""

        @asynccontextmanager
        async def open_scene(*steps: Mapping[str, Any]) -> AsyncIterator[Scene]:
            scenario = {"lanes": {"agent": {"marker": "", "steps": list(steps)}}}
            cwd = tmp_path / "work"
            cwd.mkdir(exist_ok=True)
            async with (
                self.play(scenario) as stage,
                open_services(tmp_path / "state") as services,
            ):
                async with aclosing(self.build(stage.settings, services)) as provider:
                    try:
                        yield Scene(provider=provider, services=services, stage=stage, cwd=cwd)
                    except Exception as error:
                        asked, failures = len(stage.model.requests), list(stage.model.failures)
                        error.add_note(f"the model had {asked} requests; its failures: {failures}")
                        raise
                assert services.live == [], "aclose leaves no process"
                assert list(stage.model.failures) == []

        return open_scene

    async def test_a_turn_gives_the_whole_message_and_ends_once(
        self, open_scene: OpenScene
    ) -> None:
        """A message comes whole, the one TurnEnded is the last event, and the session goes on."""
        async with open_scene({"say": "one two three"}, {"say": "four"}) as scene:
            async with scene.session() as session:
                first = await run_turn(session, "Count.")
                second = await run_turn(session, "Go on.")
                assert session.reusable
            assert [scene.times("Count."), scene.times("Go on.")] == [1, 1]
        assert [message.text for message in only(AssistantMessage, first)] == ["one two three"]
        assert [message.text for message in only(AssistantMessage, second)] == ["four"]
        assert reason(first) is reason(second) is StopReason.END_TURN
        assert end(first).error is None

    async def test_what_a_context_has_for_the_ledger_reaches_no_model(
        self, open_scene: OpenScene
    ) -> None:
        """Session, turn, role, tool set, permissions, source and workspace are in no request."""
        async with open_scene({"say": "one"}, {"say": "two"}) as scene, scene.session() as session:
            await run_turn(session, "Count.", **FOR_THE_LEDGER)
            await run_turn(session, "Go on.", **FOR_THE_LEDGER)
            heard = [request.conversation.text for request in scene.stage.model.requests]
        assert len(heard) > 1
        assert [text for text in heard if LEDGER_MARK in text] == []

    async def test_deltas_join_to_the_message(self, open_scene: OpenScene) -> None:
        """What is streamed is what the message then says."""
        async with open_scene({"say": "one two three four"}) as scene, scene.session() as session:
            needs(scene.provider.capabilities.streams, "streams")
            events = await run_turn(session, "Count.")
        deltas = [delta.text for delta in only(TextDelta, events)]
        assert "".join(deltas) == "one two three four"
        assert len(deltas) > 1

    async def test_an_orchestration_call_reaches_the_host_and_its_answer_the_model(
        self, open_scene: OpenScene
    ) -> None:
        """Name, arguments and the model's call id arrive; it is no tool of the vendor."""
        host = RecordingHost(note=answers("it was noted"))
        async with (
            open_scene({"call": call("note", "n", text="x y")}, {"say": "done"}) as scene,
            scene.session(host) as session,
        ):
            events = await run_turn(session, "Note it.")
            assert scene.outputs("n") == ["it was noted"]
        (asked,) = host.calls
        assert (asked.name, asked.arguments) == ("note", {"text": "x y"})
        assert asked.call_id is not None
        assert is_call(asked.call_id, "n")
        assert only(ToolCallStarted, events) == []
        assert only(ToolCallFinished, events) == []
        assert reason(events) is StopReason.END_TURN

    async def test_two_calls_of_one_response_are_open_at_the_same_time(
        self, open_scene: OpenScene
    ) -> None:
        """A call that waits does not keep the next one from the host."""
        both = asyncio.Barrier(2)

        async def meet(text: str) -> ToolOutcome:
            await both.wait()
            return ToolOutcome(text=f"met {text}")

        calls = [call("meet", name, text=name) for name in ("first", "second")]
        async with (
            open_scene({"call": calls}, {"say": "done"}) as scene,
            scene.session(RecordingHost(meet=meet)) as session,
        ):
            await run_turn(session, "Meet.")
            assert scene.outputs("first") == ["met first"]
            assert scene.outputs("second") == ["met second"]

    async def test_a_step_ends_after_its_calls_were_handed_over(
        self, open_scene: OpenScene
    ) -> None:
        """At StepEnded the host knows every call of the response; each response has one."""
        needs(self.tells_steps, "tells_steps")
        host = RecordingHost(note=answers("noted"))
        calls = [call("note", f"n{n}", text=str(n)) for n in range(5)]
        async with (
            open_scene({"call": calls}, {"say": "done"}) as scene,
            scene.session(host) as session,
            streaming(session, "Note it.") as turn,
        ):
            known = [len(host.calls) async for event in turn if isinstance(event, StepEnded)]
        assert known == [5, 5]

    async def test_a_call_that_ends_the_turn_ends_it_and_its_answer_is_kept(
        self, open_scene: OpenScene
    ) -> None:
        """Nothing is called or asked for after `ends_turn`; a following turn's model is told."""
        host = RecordingHost(task_complete=completes, note=answers("noted"))
        async with (
            open_scene(
                {"call": call("task_complete", "done", text="all")},
                {"call": call("note", "late", text="x")},
                {"say": "more"},
                {"say": "more"},
            ) as scene,
            scene.session(host) as session,
        ):
            events = await run_turn(session, "Finish.")
            assert [asked.name for asked in host.calls] == ["task_complete"]
            if self.ends_unasked:
                assert len(scene.stage.model.requests) == 1, "the model was asked behind the end"
            if session.reusable:
                await run_turn(session, "One thing more.")
                assert scene.was_told('{"ok":true}')
        assert end(events) == TurnEnded(StopReason.END_TURN)

    async def test_an_error_outcome_reaches_the_model(self, open_scene: OpenScene) -> None:
        """A refused call is an answer too, and the turn goes on."""
        host = RecordingHost(note=answers("there is no such child", is_error=True))
        async with (
            open_scene({"call": call("note", "n", text="x")}, {"say": "done"}) as scene,
            scene.session(host) as session,
        ):
            events = await run_turn(session, "Note it.")
            (output,) = scene.outputs("n")
        assert "there is no such child" in output
        assert reason(events) is StopReason.END_TURN

    @pytest.mark.parametrize("allowed", [True, False])
    async def test_a_command_runs_only_when_it_is_allowed(
        self, open_scene: OpenScene, allowed: bool
    ) -> None:
        """The host is asked first, with the text the model wrote and the canonical name."""
        host = RecordingHost(verdict=lambda _: Allow() if allowed else Deny("not in here"))
        async with open_scene({"shell": COMMAND}, {"say": "done"}) as scene:
            _needs_gate(scene)
            async with scene.session(host) as session:
                events = await run_turn(session, "Make it.")
            assert (scene.cwd / "made.txt").exists() is allowed
        (asked,) = host.requests
        assert (asked.tool, asked.command, asked.cwd) == ("Bash", COMMAND, str(scene.cwd))
        (started,) = only(ToolCallStarted, events)
        (finished,) = only(ToolCallFinished, events)
        assert (started.tool, started.arguments["command"]) == ("Bash", COMMAND)
        assert finished.call_id == started.call_id
        for output in only(ToolOutput, events):
            assert output.call_id == started.call_id
            assert events.index(started) < events.index(output) < events.index(finished)
        assert finished.status == ("completed" if allowed else "denied")
        assert ("hi" in (finished.result or "")) is allowed

    async def test_what_is_allowed_is_told_and_each_call_ends_once(
        self, open_scene: OpenScene
    ) -> None:
        """Every allowed command begins and ends once; the same command again is another call.

        The end of one that succeeded has what it wrote, where the vendor tells all of it.
        """
        host = RecordingHost()
        async with open_scene(*({"shell": one} for one in COMMANDS), {"say": "done"}) as scene:
            _needs_gate(scene)
            async with scene.session(host) as session:
                events = await run_turn(session, "Run them.")
        allowed = [asked.command for asked in host.requests]
        started, finished = only(ToolCallStarted, events), only(ToolCallFinished, events)
        assert [one.arguments["command"] for one in started] == allowed == list(COMMANDS)
        assert sorted(one.call_id for one in started) == sorted(one.call_id for one in finished)
        assert len({one.call_id for one in started}) == len(COMMANDS)
        ends = {one.call_id: one for one in finished}
        for begun, text in zip(started, ("one", "two", "one"), strict=True):
            came_to = ends[begun.call_id]
            is_told = came_to.is_whole and came_to.status == "completed"
            assert text in (came_to.result or "") or not is_told

    async def test_a_question_of_the_vendor_reaches_the_person(self, open_scene: OpenScene) -> None:
        """The person sees text and options, the model gets the choice."""
        if self.question_step is None:
            pytest.skip("the vendor's model cannot ask the person: question_step is None")
        host = RecordingHost(answer=Answer(choices=("B",)))
        async with (
            open_scene(self.question_step, {"say": "done"}) as scene,
            scene.session(host) as session,
        ):
            await run_turn(session, "Ask.")
            assert "B" in scene.heard.outputs[-1][2]
        (question,) = host.questions
        assert "A or B?" in question.text
        assert question.options == ("A", "B")
        assert host.requests == []

    async def test_after_a_rate_limit_the_turn_goes_on_and_the_model_sees_the_prompt_once(
        self, open_scene: OpenScene
    ) -> None:
        """It can be tried again; going on sends nothing twice."""
        busy = failure(429, code="rate_limit_exceeded", times=2)
        async with open_scene(busy, {"say": "done"}) as scene, scene.session() as session:
            first = await run_turn(session, "Only once.")
            assert session.reusable
            second = await run_turn(session, None)
            third = await run_turn(session, None)
            assert scene.times("Only once.") == 1
            assert len(scene.stage.model.requests) == 3, "the engine retries, not the vendor"
        for events in (first, second):
            assert reason(events) is StopReason.ERROR
            assert (error(events).kind, error(events).retryable) == (ErrorKind.RATE_LIMIT, True)
        assert reason(third) is StopReason.END_TURN

    async def test_a_refused_login_is_not_tried_again(self, open_scene: OpenScene) -> None:
        """An auth failure lasts."""
        async with open_scene(failure(401)) as scene, scene.session() as session:
            events = await run_turn(session, "Hello.")
        assert (error(events).kind, error(events).retryable) == (ErrorKind.AUTH_FAILURE, False)

    async def test_text_is_put_into_the_running_turn(self, open_scene: OpenScene) -> None:
        """The model sees it in the same turn; outside a turn nothing is taken."""
        waiting, go_on = asyncio.Event(), asyncio.Event()

        async def wait(**_: Any) -> ToolOutcome:
            waiting.set()
            await go_on.wait()
            return ToolOutcome(text="ok")

        host = RecordingHost(wait=wait)
        async with open_scene({"call": call("wait", "w")}, {"say": "done"}) as scene:
            needs(scene.provider.capabilities.steer, "steer")
            async with scene.session(host) as session, asyncio.TaskGroup() as group:
                assert not await session.steer("Too early.")
                turn = group.create_task(run_turn(session, "Wait."))
                await waiting.wait()
                assert await session.steer("Look left.")
                go_on.set()
                events = await turn
                assert not await session.steer("Too late.")
            said = [scene.times(text) for text in ("Too early.", "Look left.", "Too late.")]
            assert said == [0, 1, 0]
        assert reason(events) is StopReason.END_TURN

    async def test_an_interrupt_ends_a_silent_turn_within_two_seconds(
        self, open_scene: OpenScene, record_property: Callable[[str, object], None]
    ) -> None:
        """It ends as aborted; how long it took is the test's property `report`."""
        async with (
            open_scene({"say": "a b c", "hang": True}) as scene,
            scene.session() as session,
            asyncio.TaskGroup() as group,
        ):
            turn = group.create_task(run_turn(session, "Hello."))
            await scene.stage.model.wait_for_requests(1)
            begin = time.monotonic()
            async with asyncio.timeout(INTERRUPT_SECONDS + BUSY_SECONDS):
                await session.interrupt()
                events = await turn
            took = f"{time.monotonic() - begin:.2f} s"
        record_property("report", f"interrupt: {type(self).__module__}: {took}")
        assert end(events) == TurnEnded(StopReason.ABORTED)

    async def test_an_interrupt_ends_a_call_that_waits(self, open_scene: OpenScene) -> None:
        """No handler works on for a turn that is over."""
        waiting, ended = asyncio.Event(), asyncio.Event()

        async def wait(**_: Any) -> ToolOutcome:
            waiting.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()
            raise AssertionError("unreachable")

        async with (
            open_scene({"call": call("wait", "w")}) as scene,
            scene.session(RecordingHost(wait=wait)) as session,
            asyncio.TaskGroup() as group,
        ):
            turn = group.create_task(run_turn(session, "Wait."))
            await waiting.wait()
            async with asyncio.timeout(INTERRUPT_SECONDS + BUSY_SECONDS):
                await session.interrupt()
                events = await turn
                await ended.wait()
        assert reason(events) is StopReason.ABORTED

    async def test_closing_the_stream_early_interrupts_the_turn(
        self, open_scene: OpenScene
    ) -> None:
        """The session then takes another turn, or says that it cannot."""
        async with (
            open_scene({"say": "a b c d e f", "hang": True}, {"say": "done"}) as scene,
            scene.session() as session,
        ):
            needs(scene.provider.capabilities.streams, "streams")
            async with streaming(session, "Hello.") as turn:
                async for event in turn:
                    if isinstance(event, TextDelta):
                        break
            if session.reusable:
                assert reason(await run_turn(session, "Go on.")) is StopReason.END_TURN

    async def test_cancelling_the_reader_interrupts_the_turn(self, open_scene: OpenScene) -> None:
        """Agents are killed like this: nothing of the turn goes on."""
        async with (
            open_scene({"say": "a b c", "hang": True}, {"say": "done"}) as scene,
            scene.session() as session,
            asyncio.TaskGroup() as group,
        ):
            turn = group.create_task(run_turn(session, "Hello."))
            await scene.stage.model.wait_for_requests(1)
            turn.cancel()
            await asyncio.wait({turn})
            if session.reusable:
                assert reason(await run_turn(session, "Go on.")) is StopReason.END_TURN

    async def test_a_session_is_resumed_by_its_token_in_a_new_provider(
        self, open_scene: OpenScene
    ) -> None:
        """The vendor's own thread goes on: history and tools are there."""
        host = RecordingHost(note=answers("noted"))
        steps = ({"say": "one"}, {"call": call("note", "n", text="x")}, {"say": "two"})
        async with open_scene(*steps) as scene:
            native = scene.provider.capabilities.resume in ("call", "native")
            needs(native, "resume is call or native")
            async with scene.session(host) as session:
                await run_turn(session, "Count to one.")
                token = session.resume_token
            assert token is not None
            await scene.provider.aclose()
            async with (
                aclosing(self.build(scene.stage.settings, scene.services)) as again,
                again.open_session(session_request(scene.cwd, resume_token=token), host) as session,
            ):
                events = await run_turn(session, "Count to two.")
            assert [scene.times("Count to one."), scene.times("Count to two.")] == [1, 1]
            assert "one" in scene.heard.text
            assert scene.outputs("n") == ["noted"]
        assert reason(events) is StopReason.END_TURN

    async def test_an_open_session_holds_one_process_which_ends_with_it(
        self, open_scene: OpenScene
    ) -> None:
        """Closing a session makes room for the process of another one."""
        async with open_scene({"say": "done"}) as scene:
            needs(scene.provider.capabilities.own_process, "own_process")
            async with scene.session() as session:
                before_a_turn = len(scene.services.live)
                await run_turn(session, "Hello.")
                after_it = len(scene.services.live)
            assert (before_a_turn, after_it, scene.services.live) == (1, 1, [])

    async def test_the_history_of_a_new_session_stands_before_its_prompt(
        self, open_scene: OpenScene
    ) -> None:
        """After a rebuild the model is told what was said."""
        history = (("user", "Count apples."), ("assistant", "Two apples."))
        async with open_scene({"say": "done"}) as scene, scene.session() as session:
            await run_turn(session, "Go on.", *history)
            text = scene.heard.text
        places = [text.index(said) for said in ("Count apples.", "Two apples.", "Go on.")]
        assert places == sorted(places)

    async def test_the_provider_is_probed_without_a_session(self, open_scene: OpenScene) -> None:
        """It is available, and no model is asked."""
        async with open_scene() as scene:
            status = await scene.provider.probe()
            assert list(scene.stage.model.requests) == []
        assert status.available, status.reason

    async def test_a_missing_program_is_told_with_a_cure(
        self, open_scene: OpenScene, tmp_path: Path
    ) -> None:
        """`probe` says so, and a session raises ProviderNotAvailableError."""
        async with open_scene() as scene:
            settings = self.without_program(scene.stage.settings)
            if settings is None:
                pytest.skip("the provider runs no program: without_program returns None")
            async with aclosing(self.build(settings, scene.services)) as provider:
                status = await provider.probe()
                with pytest.raises(ProviderNotAvailableError) as caught:
                    async with provider.open_session(session_request(tmp_path), RecordingHost()):
                        pass
        assert not status.available
        assert status.reason
        assert status.hint
        assert caught.value.hint

    async def test_closing_the_provider_ends_what_still_runs(self, open_scene: OpenScene) -> None:
        """A turn ends too, and no process is left."""
        steps = {"say": "a b c", "hang": True}
        async with open_scene(steps) as scene, asyncio.TaskGroup() as group:
            async with scene.session() as session:
                turn = group.create_task(run_turn(session, "Hello."))
                await scene.stage.model.wait_for_requests(1)
                await scene.provider.aclose()
                assert reason(await turn) in (StopReason.ABORTED, StopReason.ERROR)
            await until(lambda: not scene.services.live)


CAUSE = "scripted cause"
# Says on stderr what it is given, and ends; also when it is asked for its version.
_DIES = "import sys; sys.stderr.buffer.write(bytes.fromhex(sys.argv[1])); sys.exit(3)"
_MARKS = {"LEFT-TO-RIGHT MARK", "RIGHT-TO-LEFT MARK", "ARABIC LETTER MARK"}
_TURNING = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


# Format characters that are seen, or that only say how signs stand to each other.
_SEEN = ("ARABIC ", "SYRIAC ", "KAITHI ", "EGYPTIAN ")
_UNSEEN = ("VARIATION SELECTOR-", "MONGOLIAN FREE VARIATION SELECTOR ", "KHMER VOWEL INHERENT ")
_FILLERS = {
    *("HANGUL CHOSEONG FILLER", "HANGUL JUNGSEONG FILLER", "HANGUL FILLER"),
    *("HALFWIDTH HANGUL FILLER", "COMBINING GRAPHEME JOINER"),
}


@cache
def acting_characters() -> str:
    """Return all characters that act on a terminal, turn text round or hide, without surrogates.

    By Unicode's own data: control characters, separators of lines and paragraphs, what sets the
    direction of text, and what shows nothing.
    """
    every = map(chr, range(sys.maxunicode + 1))
    return "".join(char for char in every if _acts(char) and unicodedata.category(char) != "Cs")


def _acts(char: str) -> bool:
    if (category := unicodedata.category(char)) in {"Cc", "Cs", "Zl", "Zp", "Cn"}:
        return category != "Cn"  # three of four: they have neither a name nor a direction
    name = unicodedata.name(char, "")
    if name in _MARKS or name in _FILLERS or name.startswith(_UNSEEN):
        return True
    is_turning = unicodedata.bidirectional(char) in _TURNING
    return is_turning or (category == "Cf" and not name.startswith(_SEEN))


def hostile_line() -> str:
    """Return one line that says `CAUSE`, with every acting character that ends no line."""
    kept = (char for char in acting_characters() if char not in "\n\r\0")
    return f"{CAUSE}{''.join(kept)}\x1b[31m red \x1b]0;owned\x07."


@bounded
class HarmlessContract(ProviderContract):
    """What a Provider does that makes harmless what its vendor says; ProviderContract and more."""

    async def test_what_a_program_says_at_its_end_acts_on_no_terminal(
        self, open_scene: OpenScene, tmp_path: Path
    ) -> None:
        """Neither in an error that is raised, nor in an event, nor in what `probe` tells."""
        said = hostile_line().encode().hex()
        async with open_scene() as scene:
            settings = self.without_program(scene.stage.settings)
            if "command" not in (settings or {}):
                pytest.skip("no program is set by `command`, says without_program")
            command = [sys.executable, "-I", "-S", "-c", _DIES, said]
            settings = {**(settings or {}), "command": command}
            async with aclosing(self.build(settings, scene.services)) as provider:
                status = await provider.probe()
                told = [text for text in (status.reason, status.hint, status.version) if text]
                opened = provider.open_session(session_request(tmp_path), RecordingHost())
                try:
                    async with opened as session:
                        told += _told(await run_turn(session, "Hello."))
                except PrsmError as error:
                    told += [error.message, error.hint or ""]
        assert any(CAUSE in text for text in told), told
        assert not _acting(told)

    async def test_what_a_server_says_of_a_failure_acts_on_no_terminal(
        self, open_scene: OpenScene
    ) -> None:
        """Neither in the turn's error, nor in a notice."""
        refused = failure(400, message=hostile_line(), times="always")  # some ask twice
        async with open_scene(refused) as scene, scene.session() as session:
            told = _told(await run_turn(session, "Hello."))
        assert told
        assert not _acting(told)


def _told(events: Sequence[ProviderEvent]) -> list[str]:
    """Return what events tell people of a failure."""
    told: list[str] = []
    for event in events:
        if isinstance(event, Notice):
            told += event.text.split("\n")  # the end of a stderr has some lines
        elif isinstance(event, TurnEnded) and event.error is not None:
            told.append(event.error.message)
    return told


def _acting(told: Sequence[str]) -> set[str]:
    return {char for text in told for char in text if _acts(char)}
