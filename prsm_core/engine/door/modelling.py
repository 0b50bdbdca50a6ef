"""A person's choice of the model that an agent goes on with.

It is a note in the ledger before anything comes of it. An agent that lives takes it between two
turns; of one that nobody runs, whoever begins its next life does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import asdict, replace

from prsm_core.domain.notes import NamedModel
from prsm_core.domain.steps import Step
from prsm_core.domain.writes import AgentNoted, Told
from prsm_core.engine.providers.model_choice import ModelChoice, resolve_model
from prsm_core.errors import ConfigError
from prsm_core.kit.sanitize import UNFIT_CURE, is_fit

if TYPE_CHECKING:
    from prsm_core.domain.agents import AgentDescriptor
    from prsm_core.domain.notes import Notes
    from prsm_core.engine.engine import OrchestrationEngine
    from prsm_core.engine.state import AgentRecord


async def set_model(engine: OrchestrationEngine, agent_id: str, text: str) -> str:
    """Let an agent's turns that begin from now on be of a model; return that, "provider/model".

    Raises ModelNotAvailableError, with the nearest names, ProviderNotAvailableError, and
    ConfigError where no model is named (code `no_model`) or its client chooses it (`external`).
    """
    record = engine.manager.roster.find(agent_id)
    if record is not None:
        agent, notes = record.descriptor, record.notes
    else:
        known = await engine.conversations.now(agent_id)
        agent, notes = known.agent, known.notes
    now = ModelChoice(
        provider=agent.provider, model=agent.model, reasoning_effort=agent.reasoning_effort
    )
    choice = await _found(engine, agent, now, text)
    chosen = None if choice == now else NamedModel(**asdict(choice))
    if record is None:
        await _keep(engine, agent, replace(notes, chosen=chosen))
    elif chosen != record.notes.chosen:
        record.note(chosen=chosen)
        if record.state.is_terminal:
            await _keep(engine, agent, record.notes)
        else:
            await _tell(engine, record, choice, is_other=chosen is not None)
    return choice.name


async def _found(
    engine: OrchestrationEngine, agent: AgentDescriptor, now: ModelChoice, text: str
) -> ModelChoice:
    """Return the model that a name means, once its provider was found to be there."""
    if not text.strip():
        raise ConfigError("no model is named", hint="`prsm models list` tells all", code="no_model")
    if not is_fit(text):  # noted, it would be in every later step of the agent
        raise ConfigError("the model's name is no Unicode text", hint=UNFIT_CURE, code="unfit")
    await engine.listings.check([text], now.provider)
    choice = resolve_model(text, now, engine.listings.names)
    for provider in (now.provider, choice.provider):
        if engine.providers.is_external(provider):
            raise ConfigError(
                f"a client chooses the models of provider {provider}, not PRSM", code="external"
            )
    await engine.providers.choose(choice.provider, leads=agent.parent_id is None)
    if choice.reasoning_effort is None and choice.provider == now.provider:
        return replace(choice, reasoning_effort=now.reasoning_effort)
    return choice


async def _tell(
    engine: OrchestrationEngine, record: AgentRecord, choice: ModelChoice, *, is_other: bool
) -> None:
    """Write what was noted of an agent that lives, and say so."""
    text = f"its next turn is of model {choice.name}" if is_other else "it keeps its model"
    told = Told(kind="notice", data={"level": "info", "text": f"{text}: a person has chosen it"})
    await engine.manager.steps.write(record, told)
    engine.holds.release(record.agent_id)


async def _keep(engine: OrchestrationEngine, agent: AgentDescriptor, notes: Notes) -> None:
    """Write what was noted of an agent that nobody runs: its run, which may be over, is silent."""
    run_id = engine.journal.run_id or agent.run_id
    step = Step(
        step_id=f"{run_id}:model:{engine.ids.ulid()}",
        session_id=agent.session_id,
        run_id=run_id,
        agent_id=None,
        at=engine.clock.time(),
        writes=(AgentNoted(notes=notes, agent_id=agent.agent_id),),
    )
    await engine.manager.steps.commit(step)
