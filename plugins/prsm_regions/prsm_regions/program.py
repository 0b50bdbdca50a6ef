"""The program: decompose, confirm, spawn, wait, report, and try again what failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core import Notice, OrchestrationError, PermissionMode, Question
from prsm_regions.costs import costs_text
from prsm_regions.drafts import Draft, PlanError
from prsm_regions.execution import Execution, Workplace, chosen
from prsm_regions.lifecycle import SubtaskState, TaskState, task_lifecycle
from prsm_regions.report import plan_data, plan_text, results_text, unheld
from prsm_regions.signatures import AgentSelect

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prsm_regions.plan import Plan

_YES = frozenset({"y", "yes"})


class Program:
    """Carries one intent out. It calls tools as a model would, and has no token of its own."""

    def __init__(self, at: Workplace, mode: PermissionMode) -> None:
        self.life = task_lifecycle()
        self._at = at
        self._team = at.team
        self._mode = mode
        self._changes = 0

    async def run(self) -> None:
        """Run to the end, `task_complete`; raise OrchestrationError where there is no plan."""
        await self._go(TaskState.DECOMPOSING)
        try:
            plan = await self._at.planner.plan(self._at.intent)
        except (PlanError, OrchestrationError) as error:
            await self._go(TaskState.CANCELLED, error.message)
            raise
        await self._go(TaskState.CONFIRMING)
        models = await self._select(plan)
        refusal = await self._confirm(plan, models)
        if refusal is not None:
            await self._go(TaskState.CANCELLED, refusal)
            await self._complete(refusal)
            return
        execution = Execution(plan, models, self._at)
        await self._go(TaskState.SPAWNING)
        await execution.begin()
        await self._go(TaskState.RUNNING)
        await execution.run()
        await self._finish(execution)

    async def _select(self, plan: Plan) -> list[str]:
        """Return the model of each subtask."""
        planner, config = self._at.planner, self._at.config
        models = []
        for one in plan.subtasks:
            given = AgentSelect(
                subtask=Draft(name=one.name, description=one.description, region=one.region),
                models=planner.models,
                wanted=one.model,
                default=config.model or planner.model,
            )
            models.append((await self._at.judges.select(given)).model)
        return models

    async def _confirm(self, plan: Plan, models: Sequence[str]) -> str | None:
        """Return None where the plan is to be carried out, else why it is not."""
        cost = self._at.planner.tokens_each * len(plan.subtasks)
        data = plan_data(plan, models, cost, estimated=True)
        if not self._at.config.worktrees:  # from one its region alone is merged
            data["warnings"] += unheld(plan, models, self._at.planner.beyond)
        text = plan_text(plan, data)
        if self._mode is PermissionMode.PLAN:
            return f"{text}\nNothing was begun: the mode is plan."
        question = Question(text=f"{text}\nCarry it out? [y/n]", options=("yes", "no"), data=data)
        answer = await self._team.ask("plan", question)
        if is_yes(answer):
            return None
        said = answer["text"] or ", ".join(answer["choices"]) or "no"
        return f"The plan was not confirmed, and nothing was begun: {said}"

    async def _finish(self, execution: Execution) -> None:
        """Report, and try again what failed as long as a person wants it, twice at most."""
        table = results_text(execution.plan, execution.lives)
        for attempt in range(self._at.config.retries + 1):
            done = all(life.state is SubtaskState.COMPLETED for life in execution.lives)
            await self._go(TaskState.COMPLETED if done else TaskState.DONE)
            table = results_text(execution.plan, execution.lives)
            await self._team.event(f"results{attempt}", Notice("info", table))
            if done or attempt == self._at.config.retries:
                break
            wanted = await self._ask_retry(attempt, table, execution.unfinished)
            if not wanted:
                break
            await self._go(TaskState.RETRYING)
            execution.retry(wanted)
            await execution.begin()
            await self._go(TaskState.RUNNING)
            await execution.run()

        async def costs() -> str:
            return costs_text(execution.plan, execution.agents, self._team.host.children())

        told = await self._team.notes.once("costs", costs)
        await self._complete(f"{table}\n\n{told}")

    async def _ask_retry(self, attempt: int, table: str, failed: Sequence[int]) -> tuple[int, ...]:
        data = {"type": "retry", "subtask_indices": list(failed), "attempt": attempt + 1}
        text = f"{table}\n\nRetry failed subtask(s)? [y/n]"
        question = Question(text=text, options=("yes", "no"), data=data)
        answer = await self._team.ask(f"retry{attempt}", question)
        return chosen(answer["text"], failed) if is_yes(answer) else ()

    async def _go(self, state: TaskState, error: str | None = None) -> None:
        self.life.go(state, error)
        self._changes += 1
        short = None if error is None else error[:1000]
        await self._team.label(f"task{self._changes}", state=state.value, error=short)

    async def _complete(self, summary: str) -> None:
        """End the turn with what there is to say, once nobody has anything new to say."""
        number = 1
        outcome = await self._team.say("done1", "task_complete", summary=summary)
        while outcome.is_error and "unread_prompt" in outcome.text:
            number += 1
            message = await self._team.next_message()
            said = message.get("text", "")
            summary = f"{summary}\nSaid too late to be passed on: {said}"
            outcome = await self._team.say(f"done{number}", "task_complete", summary=summary)
        if outcome.is_error:
            raise OrchestrationError(outcome.text)


def is_yes(answer: dict[str, list[str] | str]) -> bool:
    """Return whether a person said yes."""
    said = str(answer["text"]).strip().lower().partition(" ")[0].rstrip(",.!:")
    return "yes" in answer["choices"] or said in _YES
