"""Grants as a lattice: what an agent hands down is never more than it holds itself."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from prsm_core.domain.agents import Grant, PermissionMode
from prsm_core.domain.budgets import NO_LIMITS
from prsm_core.engine.spawn.regions import region_fits
from prsm_core.errors import AgentSpawnError, MaxDepthExceededError

if TYPE_CHECKING:
    from prsm_core.config import Settings
    from prsm_core.domain.agents import AgentDescriptor, SpawnRequest

LADDER = (
    PermissionMode.PLAN,
    PermissionMode.DEFAULT,
    PermissionMode.ACCEPT_EDITS,
    PermissionMode.BYPASS,
)


def narrow_grant(
    request: SpawnRequest,
    parent: Grant,
    *,
    tools: frozenset[str],
    mode: PermissionMode,
    model: str,
    region: tuple[str, ...] | None = None,
) -> Grant:
    """Return the grant of a child that uses `model` ("provider/model").

    A larger depth or budget than the parent's becomes the parent's. Raises MaxDepthExceededError
    when the parent may have no children, AgentSpawnError for a model beyond its grant.
    """
    if parent.depth == 0:
        raise MaxDepthExceededError(
            "you may spawn no agents", hint="do the work yourself, or ask_parent"
        )
    models = _narrow_models(request.models, parent.models)
    _check_models({model}, models)
    below = None if parent.depth is None else parent.depth - 1
    depths = [depth for depth in (request.depth, below) if depth is not None]
    grant = Grant(
        tools=tools,
        mode=mode,
        models=models,
        depth=min(depths, default=None),
        budget=(request.budget or NO_LIMITS).within(parent.budget),
        region=region,
    )
    return _shared(grant)


@lru_cache(maxsize=64)
def _shared(grant: Grant) -> Grant:
    """Return a grant as one value for all who have the same: most siblings do."""
    return grant


def fits(child: Grant, parent: Grant) -> bool:
    """Return whether a grant is one that a parent with the other may hand down."""
    return (
        child.tools <= parent.tools
        and LADDER.index(child.mode) <= LADDER.index(parent.mode)
        and (parent.models is None or (child.models is not None and child.models <= parent.models))
        and (parent.depth is None or (child.depth is not None and child.depth < parent.depth))
        and child.budget.fits(parent.budget)
        and region_fits(child.region, parent.region)
    )


def may_spawn(descriptor: AgentDescriptor, settings: Settings) -> bool:
    """Return whether there may be agents below this one."""
    return descriptor.depth < settings.engine.max_agent_depth and descriptor.grant.depth != 0


def _narrow_models(
    wanted: frozenset[str] | None, granted: frozenset[str] | None
) -> frozenset[str] | None:
    if wanted is None:
        return granted
    _check_models(wanted, granted)
    return wanted


def _check_models(wanted: frozenset[str] | set[str], granted: frozenset[str] | None) -> None:
    if granted is None or wanted <= granted:
        return
    raise AgentSpawnError(
        f"these models are not for you: {', '.join(sorted(wanted - granted))}",
        hint=f"you may use {', '.join(sorted(granted)) or 'none'}",
        code="not_granted",
    )
