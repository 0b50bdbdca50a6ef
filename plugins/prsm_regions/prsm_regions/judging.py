"""Judgements of a run: by rules, or by an agent where a setting names its model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from prsm_core import Notice, OrchestrationError
from prsm_regions import rules
from prsm_regions.drafts import PlanError
from prsm_regions.signatures import read_answer
from prsm_regions.team import data_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from prsm_regions.config import RegionsConfig
    from prsm_regions.signatures import (
        AgentSelect,
        Evaluation,
        ProgressEval,
        Prompt,
        PromptBuild,
        Selection,
        Signature,
    )
    from prsm_regions.team import Team

Out = TypeVar("Out", bound=Struct)
BY_RULES = "rules"


class Judges:
    """Makes each judgement as the settings have it.

    Where an agent gives no answer that can be read, the rules decide, and a notice says so.
    """

    def __init__(self, team: Team, config: RegionsConfig) -> None:
        self._team = team
        self._config = config
        self._asked = 0

    async def select(self, given: AgentSelect) -> Selection:
        """Return who carries a subtask out."""
        return await self._judge(self._config.select, given, rules.select)

    async def build(self, given: PromptBuild) -> Prompt:
        """Return what an agent is told; where its region ends it is told whoever wrote it."""
        built = await self._judge(self._config.build, given, rules.build_prompt)
        return rules.with_boundary(built, given.subtask)

    async def judge(self, given: ProgressEval) -> Evaluation:
        """Return how a subtask ended."""
        return await self._judge(self._config.judge, given, rules.judge)

    async def _judge(self, by: str, given: Signature[Out], rule: Callable[[Any], Out]) -> Out:
        if by == BY_RULES:
            return rule(given)
        self._asked += 1
        key = f"judge{self._asked}"
        try:
            text = await self._ask(key, by, given)
            return read_answer(type(given), text)
        except (OrchestrationError, PlanError) as error:
            what = f"{type(given).__name__} by {by}: {error.message}; the rules decide"
            await self._team.event(key, Notice("warning", what))
            return rule(given)

    async def _ask(self, key: str, model: str, given: Signature[Any]) -> str:
        child = data_of(
            await self._team.say(
                key,
                "spawn_child",
                prompt=given.prompt(),
                role="reviewer",
                model=model,
                mode="plan",
                labels={"regions/state": None, "regions/role": "judge"},
            )
        )
        message = await self._team.consult(key, str(child["agent_id"]))
        if message["type"] != "task_result" or not message["success"]:
            raise OrchestrationError(str(message.get("error", "it ended without a result")))
        return str(message["summary"])
