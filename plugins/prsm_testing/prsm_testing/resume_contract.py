"""The part of a provider's contract that is about a turn that goes on after the engine's death."""
# ruff: noqa: S101 - these are tests; a plugin author runs them

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from prsm_core.domain.tools import ToolOutcome
from prsm_core.errors import ProviderNotAvailableError
from prsm_testing.bound import bounded
from prsm_testing.crashing import Crashes, Ledger
from prsm_testing.doubles import RecordingHost
from prsm_testing.provider_scene import call, is_call, needs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractAsyncContextManager

    from prsm_core.interfaces.provider import Provider, ProviderServices
    from prsm_testing.provider_scene import Scene

    OpenScene = Callable[..., AbstractAsyncContextManager[Scene]]

PROMPT = "Work, please."
STEPS: tuple[Mapping[str, Any], ...] = (
    {"call": call("note", "first", text="x")},
    {
        "say": "Two more.",
        "call": [call("ask", "second", text="y"), call("note", "third", text="z")],
    },
    {"call": call("ask", "fourth", text="w")},
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
            ...

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
