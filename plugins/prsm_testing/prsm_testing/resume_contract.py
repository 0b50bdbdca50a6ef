"""The part of a provider's contract about a turn that goes on after the engine's death.

Turns are played on an engine that is killed at a point, and go on with another one. `Ledger` keeps
what the engine would have in its ledger by then: what the next session is given is made of that. A
kill is that of all processes first; then the private folder is as it was at that moment, whatever
the provider still writes while it is taken apart.
"""

from __future__ import annotations

import asyncio
import shutil
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from msgspec.structs import replace

from prsm_core.domain.tools import ToolOutcome
from prsm_core.domain.turns import (
    AssistantMessage,
    StepEnded,
    ToolCallFinished,
    ToolCallStarted,
    TurnEnded,
)
from prsm_core.errors import ProviderNotAvailableError
from prsm_core.interfaces.provider import Carried, CarriedCall
from prsm_testing.bound import bounded
from prsm_testing.doubles import (
    TURN_SECONDS,
    RecordingHost,
    open_services,
    session_request,
    turn_context,
    until,
)
from prsm_testing.provider_scene import call as _call
from prsm_testing.provider_scene import is_call, needs

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping
    from contextlib import AbstractAsyncContextManager

    from prsm_core.domain.turns import AssembledContext, ProviderEvent
    from prsm_core.interfaces.provider import Provider, ProviderServices, ProviderSession
    from prsm_testing.doubles import LocalServices
    from prsm_testing.provider_scene import Scene

    OpenScene = Callable[..., AbstractAsyncContextManager[Scene]]

PROMPT = "Work, please."
STEPS: tuple[Mapping[str, Any], ...] = (
    {"call": _call("note", "first", text="x")},
    {
        "say": "Two more.",
        "call": [_call("ask", "second", text="y"), _call("note", "third", text="z")],
    },
    {"call": _call("ask", "fourth", text="w")},
    *({"say": "All done."} for _ in range(4)),  # a response that was cut off is asked for again
)
CALLS = ("first", "second", "third", "fourth")
KNOWN = ("opened", "answered")  # points at which the ledger has the call
POINTS = (
    *(pytest.param(point, 1) for point in KNOWN),
    *(pytest.param("called", skip) for skip in (0, 1, 2, 3)),
    *(pytest.param(point, skip) for point in KNOWN for skip in (0, 2, 3)),
    *(pytest.param(f"before {name}", 0) for name in ("AssistantMessage", "StepEnded")),
    *(pytest.param(f"after {name}", 0) for name in ("AssistantMessage", "StepEnded")),
    pytest.param("after AssistantMessage", 1),
    pytest.param("before TurnEnded", 0),
)

_PASSES = 5  # of the event loop, in which the calls of a response come together


class Kill:
    """Kills at the same point, `times` times, after it was passed `skip` times."""

    def __init__(self, point: str, skip: int, times: int) -> None:
        self._point, self._skip, self._times = point, skip, times
        self.kills = 0

    def __call__(self, point: str) -> bool:
        """Return whether the engine is killed here."""
        if point != self._point or self.kills == self._times:
            return False
        self._skip -= 1
        self.kills += self._skip < 0
        return self._skip < 0


def _settle(tool: str) -> ToolOutcome:
    return ToolOutcome(text=f"the answer to {tool}")


@bounded
class ResumeContract:
    """What a Provider does with a turn that goes on; a part of ProviderContract.

    An engine is killed, up to three times, at one of the points at which it can be: a call comes,
    is in the ledger, has its answer there; something is told, and is in the ledger or not.
    """

    bound_s: ClassVar[float] = 180.0  # for a test in all
    # What the ledger never saw of a response, the provider gives again by itself. Else the model,
    # whose thread has it, is told to make its calls again, and does not repeat what it said.
    gives_again: ClassVar[bool] = False
    # False where a pending call can be answered in its place after a `park` only, and not after a
    # kill: then a prompt tells its answer.
    answers_after_kills: ClassVar[bool] = True
    outlives_early_kills: ClassVar[bool] = True  # else one killed in its first turn may be lost

    if TYPE_CHECKING:

        def build(self, settings: Mapping[str, Any], services: ProviderServices) -> Provider:
            """Build the provider; see ProviderContract."""

    @pytest.mark.parametrize("times", [1, 3])
    @pytest.mark.parametrize(("point", "skip"), POINTS)
    async def test_a_turn_goes_on_where_it_was_killed(
        self, open_scene: OpenScene, point: str, skip: int, times: int
    ) -> None:
        """Each call is made once, each answer and the prompt reach the model once."""
        async with open_scene(*STEPS) as scene:
            self._needs_answers(scene, given=True)
            kill = Kill(point, skip, times)
            ledger, taken = await self._played(scene, kill)
            assert kill.kills >= 1, "the point is never come to"
            assert len(taken) == kill.kills
            if self.gives_again:
                assert ledger.texts == ["Two more.", "All done."]
                assert sorted(call.tool for call in ledger.calls) == ["ask", "ask", "note", "note"]
                for name, tool in zip(CALLS, ("note", "ask", "note", "ask"), strict=True):
                    assert scene.outputs(name) == [f"the answer to {tool}"]
            else:
                self._check_outputs(scene, ledger, was_cut="Message" in point)
            assert ledger.texts[-1] == "All done."
            assert scene.times(PROMPT) == 1

    async def test_what_a_session_has_taken_is_not_told_again(self, open_scene: OpenScene) -> None:
        """A call that waits is answered in the thread, so that no prompt is needed."""
        async with open_scene(*STEPS) as scene:
            self._needs_answers(scene, given=True)
            ledger, taken = await self._played(scene, Kill("opened", 3, 1))
            (only_one,) = taken
            assert ledger.told == 1, "the prompt was the only one"
            assert any(is_call(name, "fourth") for name in only_one)

    async def test_answers_that_were_not_taken_are_told_by_a_prompt(
        self, open_scene: OpenScene
    ) -> None:
        """Where a thread is all that goes on, each answer reaches the model all the same."""
        async with open_scene(*STEPS) as scene:
            self._needs_answers(scene, given=False)
            try:
                ledger, _ = await self._played(scene, Kill("opened", 0, 1))
            except ProviderNotAvailableError as error:
                if self.outlives_early_kills or error.code != "resume_failed":
                    raise
                return  # its conversation is rebuilt
            assert sorted(call.tool for call in ledger.calls) == ["ask", "ask", "note", "note"]
            assert "the answer to note" in scene.heard.text
            assert scene.times(PROMPT) == 1

    async def test_a_thread_that_is_lost_is_told_as_lost(self, open_scene: OpenScene) -> None:
        """So that the engine rebuilds the conversation, and does not give the agent up."""
        async with open_scene() as scene:
            needs(scene.provider.capabilities.resume in ("call", "native"), "resume")
            lost = "0" * 8 + "-0000-7000-8000-" + "0" * 12
            with pytest.raises(ProviderNotAvailableError) as caught:
                async with scene.session(RecordingHost(), resume_token=lost):
                    pass
        assert caught.value.code == "resume_failed"

    def _needs_answers(self, scene: Scene, *, given: bool) -> None:
        """Skip the test unless the calls of a killed engine are, or are not, answered in place."""
        resume = scene.provider.capabilities.resume
        needs(resume in ("call", "native"), "resume is call or native")
        are_given = resume == "call" and self.answers_after_kills
        needs(are_given is given, "pending calls are answered in their place, or by a prompt")

    async def _played(self, scene: Scene, kill: Kill) -> tuple[Ledger, list[frozenset[str]]]:
        crashes = Crashes(
            build=lambda services: self.build(scene.stage.settings, services),
            state=scene.cwd.with_name("state-of-the-killed"),
            cwd=scene.cwd,
            at=kill,
            settle=_settle,
        )
        return await crashes.play(PROMPT)

    def _check_outputs(self, scene: Scene, ledger: Ledger, *, was_cut: bool) -> None:
        """Each call has one output: its answer, or that nobody saw it: make it again.

        A response that `was_cut` off while it was streamed may have lost its calls.
        """
        for name, tool in zip(CALLS, ("note", "ask", "note", "ask"), strict=True):
            outputs = scene.outputs(name)
            if any(is_call(made.call_id, name) for made in ledger.calls):
                assert outputs == [f"the answer to {tool}"]
            else:
                assert len(outputs) == 1 or (was_cut and not outputs)
                assert all("again" in output for output in outputs)


@dataclass(slots=True)
class Ledger:
    """What an engine that was killed has left of one turn."""

    token: str | None = None
    prompts: dict[str, str] = field(default_factory=dict)  # since the model's last word, by id
    heard: dict[str, str] = field(default_factory=dict)  # before it, since the turn went on last
    told: int = 0  # prompts in all
    texts: list[str] = field(default_factory=list)
    calls: list[CarriedCall] = field(default_factory=list)
    end: TurnEnded | None = None
    _responses: list[int] = field(default_factory=list)  # in which the calls came
    _is_retold: bool = False  # whether the only prompt since tells of all that may be lost
    _response: int = 0  # that is under way, or comes next
    _heard: int = -1

    def ask(self, text: str) -> AssembledContext:
        """Note a prompt; return the context that has it."""
        context = turn_context(text)
        self.told += 1
        prompt_id = f"prompt-{self.told}"
        self.prompts[prompt_id] = text
        message = context.current_message
        if message is None:
            raise RuntimeError("a prompt has a message")
        return replace(context, current_message=replace(message, id=prompt_id))

    def take(self, event: ProviderEvent) -> None:
        """Note what the vendor tells."""
        if isinstance(event, AssistantMessage):
            self._hear()
            self.texts.append(event.text)
        elif isinstance(event, ToolCallStarted):
            self.open(event.call_id, event.tool, event.arguments, orchestration=False)
        elif isinstance(event, ToolCallFinished):
            text = event.result or event.error or ""
            failed = event.status != "completed"
            self.close(event.call_id, ToolOutcome(text=text, is_error=failed))
        elif isinstance(event, StepEnded):
            self._response = self._heard + 1
        elif isinstance(event, TurnEnded):
            self.end = event

    def go_on(self, taken: frozenset[str] | None) -> AssembledContext:
        """Return the context of a turn that goes on: a prompt tells what is not taken.

        Where the session does not know that, it is what was not heard, as the engine has it.
        """
        carried = self.carried()
        if taken is None:
            taken = carried.heard
        told = [text for key, text in carried.prompts.items() if key not in taken]
        for call in () if self._is_retold else carried.calls:
            if call.call_id not in taken:
                outcome = "nobody saw its end" if call.outcome is None else call.outcome.text
                told.append(f"Your call of {call.tool} was cut off. Its outcome: {outcome}")
        self.heard.clear()  # its thread has them, or they are told anew
        if not told:
            return turn_context(None)
        self.prompts.clear()  # what it holds of them is told anew
        self._is_retold = True
        return self.ask("\n".join(told))

    def open(
        self, call_id: str, tool: str, arguments: Mapping[str, Any], *, orchestration: bool = True
    ) -> None:
        """Note that a call has begun."""
        self._hear()
        call = CarriedCall(
            call_id=call_id, tool=tool, arguments=arguments, orchestration=orchestration
        )
        self.calls.append(call)
        self._responses.append(self._response)

    def close(self, call_id: str, outcome: ToolOutcome) -> None:
        """Note the outcome of the newest call with an id."""
        place = max(n for n, call in enumerate(self.calls) if call.call_id == call_id)
        self.calls[place] = replace(self.calls[place], outcome=outcome)

    def settle(self, answer: Callable[[str], ToolOutcome]) -> None:
        """Let the engine answer what is pending, without any process."""
        self.calls = [
            replace(call, outcome=answer(call.tool))
            if call.orchestration and call.outcome is None
            else call
            for call in self.calls
        ]

    def _hear(self) -> None:
        self._heard = self._response
        self.heard |= self.prompts
        self.prompts.clear()
        self._is_retold = False

    def carried(self) -> Carried:
        """Return what the vendor's thread may lack."""
        came = zip(self.calls, self._responses, strict=True)
        calls = tuple(call for call, response in came if response == self._heard)
        prompts, heard = self.heard | self.prompts, frozenset(self.heard)
        return Carried(turn_id="turn", prompts=prompts, calls=calls, heard=heard)


class CrashingHost(RecordingHost):
    """A host over a ledger; `at` is told each thing that happens, and whether to be killed there.

    `settle` says what the engine answers; an answer to a call that was pending is given after the
    kill, before the next session is opened.
    """

    def __init__(
        self, ledger: Ledger, at: Callable[[str], bool], settle: Callable[[str], ToolOutcome]
    ) -> None:
        super().__init__(note=_unused, ask=_unused)
        self.crashed = asyncio.Event()
        self.ledger = ledger
        self._at = at
        self._settle = settle

    async def reach(self, point: str) -> None:
        """Stop for ever where the engine is killed."""
        if self.crashed.is_set() or self._at(point):
            self.crashed.set()
            await asyncio.Event().wait()

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        call_id: str | None = None,
        patience_s: float | None = None,
    ) -> ToolOutcome:
        """Note the call, then its answer, then give it."""
        await self.reach("called")
        self.ledger.open(call_id or "", name, dict(arguments))
        for _ in range(_PASSES):
            await asyncio.sleep(0)
        await self.reach("opened")
        outcome = self._settle(name)
        self.ledger.close(call_id or "", outcome)
        await self.reach("answered")
        return outcome


async def _unused(**_: Any) -> ToolOutcome:
    raise AssertionError("the host answers by itself")


@dataclass(frozen=True, slots=True, kw_only=True)
class Crashes:
    """Plays one turn to its end, through as many kills as `at` wants.

    build: Makes the provider, for each engine anew.
    state: Its private folder.
    at: Is asked at each point whether the engine is killed there.
    settle: Returns what the engine answers to a call of a tool.
    """

    build: Callable[[ProviderServices], Provider]
    state: Path
    cwd: Path
    at: Callable[[str], bool]
    settle: Callable[[str], ToolOutcome]

    async def play(self, prompt: str) -> tuple[Ledger, list[frozenset[str]]]:
        """Return the ledger in the end, and what each session that went on had taken.

        Raises TimeoutError where an engine has not come to its end after TURN_SECONDS.
        """
        ledger = Ledger()
        taken: list[frozenset[str]] = []
        context = ledger.ask(prompt)
        while ledger.end is None:
            host = CrashingHost(ledger, self.at, self.settle)
            async with asyncio.timeout(TURN_SECONDS):
                await self._live(host, context if ledger.token is None else None, taken)
            if host.crashed.is_set():
                self._restore()
            ledger.settle(self.settle)
        return ledger, taken

    async def _live(
        self, host: CrashingHost, context: AssembledContext | None, taken: list[frozenset[str]]
    ) -> None:
        """Be one engine, to the turn's end or its own; without a context the turn goes on."""
        ledger = host.ledger
        carried = ledger.carried() if context is None else None
        calls = carried.calls if carried is not None else ()
        answers = {call.call_id: call.outcome for call in calls if call.outcome is not None}
        request = session_request(
            self.cwd, resume_token=ledger.token, carried=carried, answers=answers
        )
        async with open_services(self.state) as services, AsyncExitStack() as stack:
            provider = await stack.enter_async_context(aclosing(self.build(services)))
            session = await stack.enter_async_context(provider.open_session(request, host))
            ledger.token = session.resume_token
            if carried is not None:
                taken.append(session.taken or frozenset())
            start = context or ledger.go_on(session.taken)
            async with asyncio.TaskGroup() as group:
                turn = group.create_task(_read(session, host, start))
                crash = group.create_task(host.crashed.wait())
                await asyncio.wait({turn, crash}, return_when=asyncio.FIRST_COMPLETED)
                crash.cancel()
                if host.crashed.is_set():
                    await self._kill(services)
                    turn.cancel()

    async def _kill(self, services: LocalServices) -> None:
        for process in services.live:
            process.kill()
        await until(lambda: not services.live)
        shutil.copytree(self.state, self._frozen, symlinks=True, ignore=_sockets)

    def _restore(self) -> None:
        """Undo what was written since the kill."""
        shutil.rmtree(self.state)
        self._frozen.rename(self.state)

    @property
    def _frozen(self) -> Path:
        return self.state.with_name(f"{self.state.name}-frozen")


async def _read(session: ProviderSession, host: CrashingHost, start: AssembledContext) -> None:
    stream: AsyncGenerator[ProviderEvent, None] = session.run_turn(start)  # type: ignore[assignment]
    async with aclosing(stream):
        async for event in stream:
            name = type(event).__name__
            await host.reach(f"before {name}")
            host.ledger.take(event)
            await host.reach(f"after {name}")


def _sockets(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if (Path(folder) / name).is_socket()]
