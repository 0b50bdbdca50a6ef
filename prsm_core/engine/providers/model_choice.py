"""Choose an agent's model: as named, by the complexity of its task, or its parent's.

A model of the same tier stands in for one whose provider is missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from prsm_core.catalog.selection import build_model_registry, check_fit, choose_model
from prsm_core.domain.notes import ModelChoice
from prsm_core.domain.record import Record
from prsm_core.errors import ModelNotAvailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from prsm_core.catalog.selection import ModelRegistry
    from prsm_core.domain.agents import AgentDescriptor, SpawnRequest
    from prsm_core.domain.models import ModelCapability
    from prsm_core.engine.providers.model_names import ModelNames


def model_of(agent: AgentDescriptor) -> ModelChoice:
    """Return the model that an agent runs on."""
    return ModelChoice(
        provider=agent.provider, model=agent.model, reasoning_effort=agent.reasoning_effort
    )


def resolve_model(text: str | None, parent: ModelChoice, names: ModelNames) -> ModelChoice:
    """Return the model that a name means, wherever a model is named.

    A name is an alias, a provider for its default model, "provider/model", or a model of the
    parent's provider; None is the parent's model. Raises ModelNotAvailableError with the nearest
    names if it is none of these, and for a provider that is not installed.
    """
    if text is None:
        return parent
    provider, model = names.place(text, parent.provider)
    alias = names.settings.models.get(text.strip())
    effort = None if alias is None else alias.reasoning_effort
    return ModelChoice(provider=provider, model=model, reasoning_effort=effort)


def inherited_model(parent: AgentDescriptor, names: ModelNames) -> ModelChoice:
    """Return the model of a child that names none: what its parent hands down."""
    own = model_of(parent)
    if parent.grant.model is None:
        return own
    handed = resolve_model(parent.grant.model, own, names)
    return replace(handed, reasoning_effort=parent.reasoning_effort)


class Peers(Record, frozen=True):
    """The models that agents may use, and configured ones that are unavailable here."""

    names: frozenset[str] | None  # "provider/model"; None: none are configured, all may be used
    missing: tuple[str, ...] = ()  # each as what is wrong with it


def resolve_peers(parent: ModelChoice, names: ModelNames) -> Peers:
    """Return the models of `defaults.peer_models`; missing ones still restrict."""
    texts = names.settings.defaults.peer_models
    if not texts:
        return Peers(None)
    found, missing = set(), list[str]()
    for text in texts:
        try:
            found.add(resolve_model(text, parent, names).name)
        except ModelNotAvailableError as error:
            missing.append(error.message)
    return Peers(frozenset(found), tuple(missing))


def choose_child_model(
    request: SpawnRequest,
    parent: ModelChoice,
    names: ModelNames,
    granted: Collection[str] | None,
    avoid: Collection[str] = (),
    is_gone: Callable[[str], bool] = lambda _: False,
) -> ModelChoice:
    """Return the model of a child.

    A named model must be among any `defaults.peer_models`, and not known to be too weak for the
    complexity; a stand-in may replace it if its provider `is_gone` or not installed. Without a name
    the complexity chooses among usable models of the registry, except those of providers to
    `avoid`; if none is known to fit, the child gets its parent's. Raises ModelNotAvailableError.
    """
    if request.model is None and request.complexity is None:
        return parent
    peers = resolve_peers(parent, names).names

    def is_allowed(model: ModelCapability) -> bool:
        name = _name(model)
        is_peer = peers is None or name in peers or name == parent.name
        return is_peer and _is_usable(model, names.providers, granted, avoid)

    choice = _stand_in(request.model, parent.provider, names, is_allowed, is_gone)
    choice = choice or resolve_model(request.model, parent, names)
    is_of_profile = request.expert is not None and request.model == request.expert.model
    if request.model is not None and not is_of_profile:
        _check_peer(choice, parent, peers)
    if request.complexity is None:
        return choice
    registry = build_model_registry(names.settings)
    known = registry.get(choice.provider, choice.model)
    if request.model is not None:
        check_fit(known, request.complexity)
        return choice
    best = choose_model(registry, request.complexity, is_allowed=is_allowed, preferred=known)
    if best is None or best == known:
        return choice
    return ModelChoice(provider=best.provider, model=best.model_id)


def _stand_in(
    text: str | None,
    base: str,
    names: ModelNames,
    is_allowed: Callable[[ModelCapability], bool],
    is_gone: Callable[[str], bool],
) -> ModelChoice | None:
    missing = None if text is None else names.meant(text, base)
    if missing is None or (missing[0] in names.providers and not is_gone(missing[0])):
        return None

    for model in stand_ins(missing, build_model_registry(names.settings), is_allowed):
        if not is_gone(model.provider):
            return ModelChoice(provider=model.provider, model=model.model_id)
    return None


def find_recommendable(
    parent: ModelChoice,
    names: ModelNames,
    granted: Collection[str] | None,
    avoid: Collection[str] = (),
) -> list[ModelCapability]:
    """Return the registry's models that children of `parent` may be recommended."""
    peers = resolve_peers(parent, names).names
    return [
        model
        for model in build_model_registry(names.settings)
        if (peers is None or _name(model) in peers)
        and _is_usable(model, names.providers, granted, avoid)
    ]


def _name(model: ModelCapability) -> str:
    return f"{model.provider}/{model.model_id}"


def _is_usable(
    model: ModelCapability,
    providers: Collection[str],
    granted: Collection[str] | None,
    avoid: Collection[str],
) -> bool:
    is_granted = granted is None or _name(model) in granted
    return is_granted and model.provider in providers and model.provider not in avoid


def _check_peer(choice: ModelChoice, parent: ModelChoice, peers: Collection[str] | None) -> None:
    if peers is not None and choice.name not in peers and choice.name != parent.name:
        raise ModelNotAvailableError(
            f"model {choice.name} is not one that agents may use",
            hint=f"they may use {', '.join(sorted({*peers, parent.name}))}",
            code="model_not_allowed",
        )


def stand_ins(
    wanted: tuple[str, str], registry: ModelRegistry, is_allowed: Callable[[ModelCapability], bool]
) -> list[ModelCapability]:
    """Return others' models of the wanted one's tier: cheaper, then faster ones first."""
    known = registry.get(*wanted)
    if known is None:
        return []
    alike = [
        model
        for model in registry
        if model.tier is known.tier and model.provider != known.provider and is_allowed(model)
    ]
    return sorted(alike, key=lambda m: (m.cost_factor, -m.speed_factor, m.provider, m.model_id))


def describe_stand_in(text: str, gone: str, provider: str, model: str, names: ModelNames) -> str:
    """Return the note on a stand-in for a named model of a missing provider."""
    known = build_model_registry(names.settings).get(provider, model)
    tier = "" if known is None else f" ({known.tier.value})"
    return (
        f"provider {gone} of model {text!r} cannot be used: {provider}/{model}, "
        f"of the same tier{tier}, stands in for it"
    )
