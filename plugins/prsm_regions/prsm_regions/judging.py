"""Judgements of a run: by rules, or by an agent where a setting names its model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from prsm_core import Notice, OrchestrationError
from prsm_core.files import UNCHECKED
from prsm_core.kit import names_file
from prsm_regions.drafts import PlanError
from prsm_regions.signatures import (
    AgentSelect,
    Evaluation,
    ProgressEval,
    Prompt,
    PromptBuild,
    Selection,
    read_answer,
)
from prsm_regions.team import data_of, reviewer

if TYPE_CHECKING:
    from collections.abc import Callable

    from prsm_regions.config import RegionsConfig
    from prsm_regions.drafts import Draft
    from prsm_regions.signatures import Signature
    from prsm_regions.team import Team

Out = TypeVar("Out", bound=Struct)
BY_RULES = "rules"

BOUNDARY = (
    "You are working in {region}. If you need types or signatures from outside your region, "
    "describe what you need instead of reading the file directly."
)
_HOW = (
    'Describe it by ask_parent, as "I need the type signature of NAME from PATH": the answer '
    "comes at once."
)


class Judges:
    """Makes each judgement as the settings have it; rules decide where an answer cannot be read."""

    def __init__(self, team: Team, config: RegionsConfig) -> None:
        self._team = team
        self._config = config
        self._asked = 0

    async def select(self, given: AgentSelect) -> Selection:
        """Return who carries a subtask out."""
        return await self._judge(self._config.select, given, select)

    async def build(self, given: PromptBuild) -> Prompt:
        """Return what an agent is told; where its region ends it is told whoever wrote it."""
        built = await self._judge(self._config.build, given, build_prompt)
        return with_boundary(built, given.subtask)

    async def judge(self, given: ProgressEval) -> Evaluation:
        """Return how a subtask ended."""
        return await self._judge(self._config.judge, given, judge)

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
        wanted = reviewer(given.prompt(), model, "judge")
        child = data_of(await self._team.say(key, "spawn_child", **wanted))
        message = await self._team.consult(key, str(child["agent_id"]))
        if message["type"] != "task_result" or not message["success"]:
            raise OrchestrationError(str(message.get("error", "it ended without a result")))
        return str(message["summary"])


def select(given: AgentSelect) -> Selection:
    """Return what was wanted, else the default."""
    if given.wanted:
        return Selection(model=given.wanted, reason="as wanted")
    return Selection(model=given.default, reason="the default")


def build_prompt(given: PromptBuild) -> Prompt:
    """Return the task, where it may be done, and what else is known."""
    subtask = given.subtask
    parts = [
        f"{subtask.name}\n\n{subtask.description}",
        f"{BOUNDARY.format(region=shown_region(subtask))} {_HOW}",
        f"It is one part of this, and others do the rest: {given.intent}",
        _titled("What your region holds now:", given.outline),
        _titled("What you build upon, as it is:", given.interfaces),
        _titled("It is done when these pass:", "\n".join(subtask.checks)),
        _titled("It was tried before, and failed. Do not fail for the same reason:", given.failure),
        _titled("Here is the information you requested:", given.answers),
    ]
    return Prompt(prompt="\n\n".join(part for part in parts if part))


def with_boundary(built: Prompt, subtask: Draft) -> Prompt:
    """Return a prompt that says where its region ends, as all have to."""
    boundary = BOUNDARY.format(region=shown_region(subtask))
    if boundary in built.prompt:
        return built
    return Prompt(prompt=f"{built.prompt}\n\n{boundary} {_HOW}")


def shown_region(subtask: Draft) -> str:
    """Return a region as agents are told of it: /ui/** is a folder, /ui/app.py a file."""
    region = subtask.region.strip("/")
    if region in {"", "."}:
        return "/**"
    return f"/{region}" if names_file(subtask.region) else f"/{region}/**"


def judge(given: ProgressEval) -> Evaluation:
    """Return how a subtask ended: a claim that something contradicts is partial."""
    if not given.success:
        return Evaluation(state="failed", reason=given.error or given.summary or "it failed")
    against = tuple(gap for gap in given.gaps if gap != UNCHECKED)
    reasons = [
        _listed("it wrote beside its region, which was not taken over", given.outside),
        _listed("it does not merge with what is there", given.conflicts),
        _listed("what it claims could not be confirmed", against),
        _listed("it still asks for", given.asks),
    ]
    why = "; ".join(reason for reason in reasons if reason)
    return Evaluation(state="partial" if why else "completed", reason=why)


def _listed(what: str, names: tuple[str, ...]) -> str:
    return f"{what}: {', '.join(names)}" if names else ""


def _titled(title: str, text: str) -> str:
    return f"{title}\n{text}" if text.strip() else ""
