"""Births: what is written of new agents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.domain.writes import AgentSpawned, Told

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prsm_core.domain.steps import Write
    from prsm_core.domain.writes import EffectNoted
    from prsm_core.engine.providers.enforcement import Enforcement
    from prsm_core.engine.state import AgentRecord


def births_of(
    records: Sequence[AgentRecord],
    note: Callable[[AgentRecord], EffectNoted] | None,
    enforcement: Enforcement,
) -> list[Write]:
    """Return what is written of new agents, what they note for the call, and what is told of them.

    That is what stands in for what was wanted, and what their providers do not enforce.
    """
    births: list[Write] = []
    for record in records:
        noted = None if note is None else note(record)
        call = None if noted is None else noted.effect.call_id
        births.append(AgentSpawned(agent=record.descriptor, call=call))
        if noted is not None:
            births.append(noted)
        late = enforcement.tell_parts(record.descriptor.provider, record.agent_id)
        for line in filter(None, (record.stand_in, *late)):
            data = {"level": "warning", "text": line}
            births.append(Told(kind="notice", agent_id=record.agent_id, data=data))
    return births
