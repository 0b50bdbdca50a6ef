"""The provider `regions`: agents whose mind is a program, and owners asked without disturbance."""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from prsm_core import (
    AgentError,
    ErrorKind,
    ModelInfo,
    Notice,
    OrchestrationError,
    PermissionMode,
    Provider,
    ProviderCapabilities,
    ProviderStatus,
    PrsmError,
    Question,
    StopReason,
    TokenUsage,
    TurnEnded,
    UsageReported,
)
from prsm_core.kit import Turn, TurnSession
from prsm_regions.config import RegionsConfig, Richness
from prsm_regions.drafts import Draft, PlanError
from prsm_regions.execution import Execution, Workplace, chosen
from prsm_regions.judging import Judges
from prsm_regions.lifecycle import TASK_MACHINE, Lifecycle, SubtaskState, TaskState
from prsm_regions.notes import Notes
from prsm_regions.planning import Planner
from prsm_regions.report import costs_text, plan_data, plan_text, results_text, unheld
from prsm_regions.router import A2ARouter, OwnerReply
from prsm_regions.signatures import AgentSelect
from prsm_regions.symbols.oracle import Oracle, index_of, lister
from prsm_regions.team import Team, data_of, reviewer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from prsm_core import (
        AgentHost,
        AssembledContext,
        ChildNow,
        ProviderEvent,
        ProviderServices,
        SessionRequest,
    )
    from prsm_regions.plan import Plan

# A program uses none, and says so: what it cost is then known.
NO_TOKENS = UsageReported(
    TokenUsage(
        input_tokens=0,
        output_tokens=0,
        cached_input_tokens=0,
        reasoning_tokens=0,
        total_tokens=0,
    ),
    cost_usd=0.0,
)
DEFAULT = "default"  # the model's name where none is meant: whichever can be used plans

_YES = frozenset({"y", "yes"})


def build(settings: Mapping[str, Any], services: ProviderServices) -> RegionsProvider:
    """Build the provider from its section; raise ConfigError for what is wrong in it."""
    return RegionsProvider(RegionsConfig.from_settings(settings), services)


class RegionsProvider(Provider):
    """Runs a plan as a program would be run; the model is the planner's, as in `regions/codex`."""

    capabilities = ProviderCapabilities(
        enforcement="pre_tool", resume="call", streams=False, tokens_told="step"
    )
    known_models = (ModelInfo(model_id=DEFAULT),)

    def __init__(self, config: RegionsConfig, services: ProviderServices) -> None:
        self._config = config
        self._services = services

    @asynccontextmanager
    async def open_session(
        self, request: SessionRequest, host: AgentHost
    ) -> AsyncIterator[RegionsSession]:
        """Open an agent's session; see Provider."""
        index = index_of(self._services.state_dir, request.workspace or request.cwd)
        async with Oracle(index, list_files=lister(self._services)) as oracle:
            session = RegionsSession(request, host, self._config, self._services, oracle)
            try:
                yield session
            finally:
                await session.interrupt()

    async def probe(self) -> ProviderStatus:
        """Say that it can be used: all that it needs is in the process; see Provider."""
        return ProviderStatus(available=True)

    async def knows_model(self, model: str) -> bool:
        """Take any name: it is looked for when the planner begins; see Provider."""
        return True


class RegionsSession(TurnSession[Turn]):
    """One agent's session: each turn is one run of the program."""

    def __init__(
        self,
        request: SessionRequest,
        host: AgentHost,
        config: RegionsConfig,
        services: ProviderServices,
        oracle: Oracle,
    ) -> None:
        super().__init__(request.name, services)
        self._request = request
        self._host = host
        self._config = config
        self._oracle = oracle
        self._notes = Notes(services.state_dir / f"{request.agent_id}.json", services.redact)
        self.resume_token = request.resume_token or request.agent_id
        if request.resume_token is not None:
            self._notes.read()
            carried = request.carried
            calls = () if carried is None else (call.call_id for call in carried.calls)
            prompts = () if carried is None else carried.prompts
            self.taken = frozenset((*calls, *prompts))

    def new_turn(self) -> Turn:
        """Return what keeps a turn; see TurnSession."""
        return Turn()

    async def begin(self, turn: Turn, context: AssembledContext) -> None:
        """Run the program; see TurnSession."""
        if context.current_message is not None and self._request.carried is None:
            self._notes.begin(context.current_message.content)
        turn.sent = True
        await turn.put([NO_TOKENS])

        async def tell(event: ProviderEvent) -> None:
            await turn.put([event])

        team = Team(self._host, self._notes, tell)
        try:
            await Program(self._workplace(team), self._request.mode).run()
        except PrsmError as error:
            text = error.message if error.hint is None else f"{error.message} ({error.hint})"
            why = AgentError(kind=ErrorKind.UNKNOWN, message=text)
            await turn.put([TurnEnded(StopReason.ERROR, why)])
        else:
            await turn.put([TurnEnded(StopReason.END_TURN)])

    def _workplace(self, team: Team) -> Workplace:
        request, config = self._request, self._config
        own = None if request.model == DEFAULT else request.model
        planner = Planner(team, request.cwd, config.planner or own)
        owners = Owners(team)
        return Workplace(
            team=team,
            judges=Judges(team, config),
            planner=planner,
            router=A2ARouter(request.cwd, self._oracle, services=self.services, ask_owner=owners),
            oracle=self._oracle,
            config=_with_effort(config, request.labels.get("effort")),
            workspace=os.path.realpath(request.cwd),
            intent=self._notes.intent,
        )

    async def ask_to_end(self, turn: Turn) -> None:
        """End the turn: nothing runs elsewhere; see TurnSession."""
        await self.aborted(turn)


def _with_effort(config: RegionsConfig, effort: str | None) -> RegionsConfig:
    """Return settings with the effort that a label of the run says."""
    if effort is None:
        return config
    try:
        return replace(config, effort=Richness(effort))
    except ValueError:
        raise OrchestrationError(
            f"the label effort is {effort!r}", hint=f"say one of {', '.join(Richness)}"
        ) from None


_OF = "regions/answers_for"  # label: the owner whose conversation it continues
_LATE = "its answer was not there in time"
_TURNS = 2  # one to answer in, and one for who forgets to complete its task
_HOW = "Complete your task with the answer alone."
_NO_QUESTIONS = "Nobody can say more. Answer from what you know, or say that you do not know it."


class Owners:
    """Asks for owners: the `ask_owner` of a router.

    Who answers begins with the owner's conversation, has no tools, and a budget of tokens of its
    own; the owner goes on and never hears of it.
    """

    def __init__(self, team: Team) -> None:
        self._team = team

    async def __call__(self, owner: str, question: str, max_tokens: int) -> OwnerReply:
        """Return what the owner would say, with all tokens that took; see AskOwner."""
        key = f"owner{self._team.number('owner')}"
        asked = self._child(owner)

        async def made() -> dict[str, Any]:
            wanted = reviewer(f"{question} {_HOW}", f"{asked.provider}/{asked.model}", "owner")
            wanted["labels"][_OF] = owner
            budget = {"tokens": max_tokens, "turns": _TURNS}
            return {**wanted, "continues": owner, "tools": [], "depth": 0, "budget": budget}

        child = data_of(await self._team.call(key, "spawn_child", made))
        agent = str(child["agent_id"])
        message = await self._result(key, agent)
        used = self._child(agent).spent.usage.known_total
        tokens = max_tokens if used is None else used
        if message.get("success"):
            return OwnerReply(str(message.get("summary", "")), tokens)
        why = message.get("error") or message.get("summary") or "it ended without an answer"
        return OwnerReply("", tokens, str(why))

    async def give_up(self, owner: str) -> int | None:
        """End whoever answers for an owner; return the tokens that it has used, as far as known."""
        late = [
            one.agent_id
            for one in self._team.host.children()
            if one.labels.get(_OF) == owner and one.result is None
        ]
        for agent in late:
            await self._team.host.end_child(agent, _LATE)
        used = [self._child(agent).spent.usage.known_total for agent in late]
        return sum(filter(None, used)) if late and None not in used else None

    async def _result(self, key: str, agent: str) -> Mapping[str, Any]:
        number = 0
        while (message := await self._team.hear(agent))["type"] == "question":
            number += 1
            await self._team.respond(f"{key}q{number}", message, _NO_QUESTIONS)
        return message

    def _child(self, agent: str) -> ChildNow:
        if (child := self._team.child(agent)) is None:
            raise OrchestrationError(f"there is no agent {agent}")
        return child


class Program:
    """Carries one intent out. It calls tools as a model would, and has no token of its own."""

    def __init__(self, at: Workplace, mode: PermissionMode) -> None:
        self.life = Lifecycle(TASK_MACHINE, TaskState.IDLE)
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
