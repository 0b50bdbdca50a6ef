"""From an intent to a plan: who plans, what it is told, and what it has to mend."""

from __future__ import annotations

import os
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prsm_core import OrchestrationError
from prsm_regions.drafts import PlanError
from prsm_regions.ground import Ground
from prsm_regions.plan import Limits, Plan, compile_plan, read_overrides
from prsm_regions.signatures import TaskDecompose
from prsm_regions.team import data_of, reviewer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prsm_core import Spent
    from prsm_regions.team import Team

PRIOR_TOKENS = 15_000  # that a subtask takes, where no other one is known
CORRECTIONS = 2  # that a planner is sent back with
_SHOWN = 200  # entries of the tree that a planner is told at once; it reads the rest itself


class Planner:
    """Owns the planner, which keeps its thread: it also answers what agents ask."""

    def __init__(self, team: Team, workspace: str, model: str | None) -> None:
        self._team = team
        self._workspace = workspace
        self._wanted = model
        self.agent = ""
        self.model = model or ""
        self.tokens_each = PRIOR_TOKENS
        self.models: tuple[str, ...] = ()
        self.beyond: dict[str, str] = {}  # providers whose agents no region holds, and why
        self._asked = 0

    async def plan(self, intent: str) -> Plan:
        """Return the plan for an intent.

        Raises OrchestrationError without a planner, PlanError once it was sent back twice.
        """
        await self._choose()
        text = await self._begin(intent)
        left = await self._tokens_left()

        async def each() -> int:
            host = self._team.host
            return tokens_each(await host.spent_with_label("regions/role", "subtask"))

        self.tokens_each = await self._team.notes.once("each", each)
        limits = Limits(model_problem=self._problem, tokens_left=left, tokens_each=self.tokens_each)
        overrides = read_overrides(intent)
        for attempt in range(1 + CORRECTIONS):
            try:
                return compile_plan(text, Ground(self._workspace), overrides, limits)
            except PlanError as error:
                if attempt == CORRECTIONS:
                    raise
                text = await self._again(f"mend{attempt}", _correction(error))
        raise AssertionError("unreachable")

    async def answer(self, question: str) -> str:
        """Return the planner's answer to what an agent asks; it goes on with its thread."""
        self._asked += 1
        try:
            return await self._again(f"answer{self._asked}", question)
        except OrchestrationError as error:
            return f"Nobody could say ({error.message}): decide yourself, and say so at the end."

    async def _choose(self) -> None:
        task = "split a task into parts"
        asked = {"task_description": task, "regions": True}
        found = data_of(await self._team.say("models", "recommend_model", **asked))
        self.beyond = dict(found.get("beyond_regions", {}))
        usable = [one["model"] for one in found.get("usable", ())]
        best = [one["model"] for one in found.get("models", ())]
        self.models = tuple(dict.fromkeys(name for name in usable if not _is_own(name)))
        self.model = self._wanted or next((one for one in best if not _is_own(one)), "")
        if not self.model:
            raise OrchestrationError(
                "no model can plan: no provider that has one can be used",
                hint="install a provider, or name a model: providers.regions.planner",
            )
        if self._wanted is not None and (problem := self._problem(self._wanted)) is not None:
            raise OrchestrationError(
                f"nothing can plan: {problem}", hint="name another: providers.regions.planner"
            )

    def _problem(self, model: str) -> str | None:
        """Return what is wrong with the name of a model, with the nearest ones."""
        known = self.models if self._wanted == model else (*self.models, self.model)
        providers = {name.partition("/")[0] for name in known}
        if model in known or model.partition("/")[0] in providers:
            return None
        if not known:
            return f"there is no model {model!r}, nor any other: prsm providers says why"
        near = get_close_matches(model, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(self.models)}"
        return f"there is no model {model!r}: {hint}"

    async def _begin(self, intent: str) -> str:
        async def made() -> dict[str, Any]:
            given = TaskDecompose(intent=intent, tree=_tree(self._workspace), models=self.models)
            return reviewer(given.prompt(), self.model, "planner")

        child = data_of(await self._team.call("planner", "spawn_child", made))
        self.agent = str(child["agent_id"])
        return _said(await self._team.consult("planner", self.agent))

    async def _again(self, key: str, prompt: str) -> str:
        data_of(await self._team.say(key, "restart_child", child_id=self.agent, prompt=prompt))
        return _said(await self._team.consult(key, self.agent))

    async def _tokens_left(self) -> int | None:
        told = data_of(await self._team.say("budget", "get_budget"))
        tokens = told.get("run", {}).get("tokens", {})
        left = tokens.get("left") if isinstance(tokens, dict) else None
        return left if isinstance(left, int) else None


def tokens_each(past: Sequence[Spent]) -> int:
    """Return the tokens that a subtask takes: the mean of those that were, else a prior."""
    known = [tokens for one in past if (tokens := one.usage.known_total)]
    return round(sum(known) / len(known)) if known else PRIOR_TOKENS


def _said(message: Mapping[str, Any]) -> str:
    if message["type"] == "task_result" and message["success"]:
        return str(message["summary"])
    why = message.get("error") or message.get("summary") or "it ended without a result"
    raise OrchestrationError(f"the planner failed: {why}")


def _correction(error: PlanError) -> str:
    listed = "\n".join(f"- {problem}" for problem in error.problems)
    return (
        f"Your plan cannot be carried out:\n{listed}\n\n"
        "Complete your task with the whole plan, mended."
    )


def _is_own(model: str) -> bool:
    return model.partition("/")[0] == "regions"


def _tree(workspace: str) -> str:
    """Return the first two levels of a workspace, but for what is hidden."""
    root, shown = Path(workspace), []
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        place = Path(folder).relative_to(root)
        names: Sequence[str] = [*(f"{name}/" for name in folders), *sorted(files)]
        shown += [
            str(place / name) + ("/" * name.endswith("/")) for name in names if name[0] != "."
        ]
        if len(place.parts) >= 1:
            folders.clear()
        if len(shown) > _SHOWN:
            return "\n".join([*shown[:_SHOWN], "…"])
    return "\n".join(shown)
