"""The part of a provider's contract that is about tokens and cost: when they are told."""
# ruff: noqa: S101 - these are tests; a plugin author runs them

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar

from prsm_core.domain.tools import ToolOutcome
from prsm_core.domain.turns import TurnEnded, UsageReported
from prsm_testing.bound import bounded
from prsm_testing.doubles import RecordingHost, answers, only, run_turn
from prsm_testing.provider_scene import call, needs, streaming

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from prsm_core.domain.turns import ProviderEvent
    from prsm_testing.provider_scene import Scene

    OpenScene = Callable[..., AbstractAsyncContextManager[Scene]]

WHEN = ("none", "turn", "step")
TOLD_SECONDS = 10.0  # how long what a response used may take to be told after the next one began


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
        assert sum(report.usage.input_tokens or 0 for report in first) == 300
        assert sum(report.usage.output_tokens or 0 for report in first) == 3
        assert sum(report.usage.input_tokens or 0 for report in second) == 300
        assert sum(report.usage.output_tokens or 0 for report in second) == 3

    async def test_tokens_and_cost_are_told_when_the_capabilities_say(
        self, open_scene: OpenScene
    ) -> None:
        """`step`: before the call of the next response is answered; `turn`: by the turn's end."""
        told, late = _Told(), []

        async def note(text: str) -> ToolOutcome:
            number = int(text)
            late.extend([kind for kind in promised["step"] if not await told.reaches(kind, number)])
            return ToolOutcome(text="noted")

        calls = [
            {
                "call": call("note", f"n{n}", text=str(n)),
                "usage": {"input_tokens": 100, "output_tokens": 1},
            }
            for n in range(3)
        ]
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


class _Told:
    """What a turn has told so far."""

    def __init__(self) -> None:
        self.amounts: dict[str, list[float]] = {"tokens": [], "cost": []}
        self._changed = asyncio.Event()

    def note(self, event: ProviderEvent) -> None:
        if isinstance(event, UsageReported):
            if event.usage.known_total is not None:
                self.amounts["tokens"].append(event.usage.known_total)
            if event.cost_usd is not None:
                self.amounts["cost"].append(event.cost_usd)
        if isinstance(event, UsageReported | TurnEnded):
            self._changed.set()
            self._changed = asyncio.Event()

    async def reaches(self, kind: str, responses: int) -> bool:
        """Whether what so many responses used was told, or is within a moment."""
        try:
            async with asyncio.timeout(TOLD_SECONDS):
                while not self._has(kind, responses):
                    await self._changed.wait()
        except TimeoutError:
            return False
        return True

    def _has(self, kind: str, responses: int) -> bool:
        if kind == "tokens":
            return sum(self.amounts[kind]) >= 101 * responses
        return len(self.amounts[kind]) >= responses
