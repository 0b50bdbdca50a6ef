"""Choose an agent's model: as named, by the complexity of its task, or its parent's.

A model of the same tier stands in for one whose provider is missing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import takewhile
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from prsm_core.catalog.selection import build_model_registry, check_fit, choose_model
from prsm_core.domain.agents import AgentRole
from prsm_core.domain.notes import ModelChoice
from prsm_core.domain.record import Record
from prsm_core.engine.providers.model_names import DEFAULT_MODEL
from prsm_core.errors import ModelNotAvailableError
from prsm_core.kit.quotation import quote_word

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from prsm_core.catalog.selection import ModelRegistry
    from prsm_core.domain.agents import AgentDescriptor, SpawnRequest
    from prsm_core.domain.models import ModelCapability
    from prsm_core.domain.tools import ToolOutcome
    from prsm_core.engine.providers.model_names import ModelNames
    from prsm_core.engine.state import AgentRecord

    _Whose = tuple[ModelChoice, frozenset[str] | None]


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


TEAM_BYTES = 400  # of a prompt, as UTF-8
_HEAD = "For spawn_child's model, usable now:"
_REST = "recommend_model lists {count} more."
_RESTS = re.compile(re.escape(_REST).replace(re.escape("{count}"), r"\d+"))
_UNSEEN = "recommend_model tells those of other providers."
_CHANGED = "The models that your children may have have changed."
_PLAIN = re.compile(r"[\w./:@+-]+", re.ASCII)
_WHAT_BYTES = 60  # of what one of them is for
_MAKING = frozenset({"spawn_child", "spawn_children_parallel", "consult_expert"})


class Member(Record, frozen=True, kw_only=True):
    """A model that children may be given: its name, and what it is for."""

    name: str
    what: str = ""

    def to_dict(self) -> dict[str, str]:
        """Return it as JSON values."""
        return {"model": self.name, "for": self.what}


class Workforce(Record, frozen=True, kw_only=True):
    """What is known of a run's providers when an agent is described.

    Agents can start on the `usable` ones, as far as is known. One that `is_gone` was looked at and
    cannot start any; the `unseen` have not been looked at.
    """

    names: ModelNames
    usable: Collection[str] = ()
    summaries: Mapping[str, str]
    is_gone: Callable[[str], bool] = lambda _: False
    unseen: Collection[str] = ()
    _told: dict[_Whose, str] = field(default_factory=dict)  # what agents were told by now

    def members(self, own: ModelChoice, granted: Collection[str] | None) -> list[Member]:
        """Return the models that children may be given by name, within those `granted`."""
        allowed = self.allowed(own, granted)
        found: dict[str, Member] = {}
        for name, choice, what in self._offers(own, allowed):
            if choice.provider in self.usable and (allowed is None or choice.name in allowed):
                found.setdefault(name, Member(name=name, what=what))
        return list(found.values())

    def allowed(self, own: ModelChoice, granted: Collection[str] | None) -> frozenset[str] | None:
        """Return the models an agent's children may have, as "provider/model"; None is all."""
        peers = resolve_peers(own, self.names).names
        if peers is None:
            return None if granted is None else frozenset(granted)
        peers |= {own.name}
        return peers if granted is None else peers & frozenset(granted)

    def _offers(
        self, own: ModelChoice, allowed: Collection[str] | None
    ) -> Iterator[tuple[str, ModelChoice, str]]:
        told = set()
        for name in sorted(self.usable, key=lambda name: (name != own.provider, name)):
            choice = ModelChoice(provider=name, model=DEFAULT_MODEL)
            told.add(choice.name)
            yield name, choice, self.summaries.get(name, "")
        for alias in self.names.settings.models:
            try:
                choice = resolve_model(alias, own, self.names)
            except ModelNotAvailableError:
                continue  # nobody can use it
            told.add(choice.name)
            yield alias, choice, self._known_of(alias, choice)
        for full in sorted(frozenset(allowed or ()) - told):
            provider, _, model = full.partition("/")
            yield full, ModelChoice(provider=provider, model=model), self._strength(full)

    def _known_of(self, alias: str, choice: ModelChoice) -> str:
        described = self.names.settings.models[alias].description
        return described or " ".join(filter(None, (choice.name, self._strength(choice.name))))

    def _strength(self, full: str) -> str:
        provider, _, model = full.partition("/")
        known = self.names.settings.model_registry.get(model)
        if known is None or (known.provider or provider) != provider:
            return ""
        best = max(known.affinities, key=lambda task: known.affinities[task], default="")
        return ", ".join(filter(None, (known.tier and known.tier.value, best)))

    def team_of(self, agent: AgentDescriptor) -> str:
        """Return what an agent is told of its children's possible models."""
        limit = self.names.settings.engine.max_agent_depth
        leads = agent.role in {AgentRole.MASTER, AgentRole.WORKER}
        if not leads or agent.depth >= limit or agent.grant.depth == 0:
            return ""
        return self.describe(model_of(agent), agent.grant.models)

    def describe(self, own: ModelChoice, granted: Collection[str] | None) -> str:
        """Return these lines for an agent, at most TEAM_BYTES, made once for equal agents."""
        whose = own, None if granted is None else frozenset(granted)
        if whose not in self._told:
            members, allowed = self.members(own, granted), self.allowed(own, granted)
            more = self.unseen if allowed is None else {of.partition("/")[0] for of in allowed}
            has_more = bool(members) and not set(self.unseen).isdisjoint(more)
            self._told[whose] = describe_members(members, has_more=has_more)
        return self._told[whose]


class WorkforceNow(Struct, eq=False):
    """Owns the present workforce, until something new is known."""

    _newest: Workforce
    usable: Callable[[], Collection[str]]
    unseen: Callable[[], Collection[str]] = tuple
    _known: tuple[object, ...] = ()  # when the newest one was made

    def __call__(self) -> Workforce:
        """Return the present workforce."""
        usable, unseen = self.usable(), self.unseen()
        known = usable, unseen, *self._newest.names.listed.items()
        if known != self._known:
            self._known = known
            self._newest = replace(self._newest, usable=usable, unseen=unseen, _told={})
        return self._newest


def news_of_team(told: str, team: str) -> str:
    """Return the note for the prompt if the team has changed, else a blank."""
    if set(team.splitlines()) - {_UNSEEN} == set(told.splitlines()) - {_UNSEEN}:
        return ""
    return f"{_CHANGED}\n{team}" if team else f"{_CHANGED} Leave spawn_child's model out."


def told_of_team(system_prompt: str) -> str:
    """Return the team's lines in a system prompt, or a blank."""
    _, head, below = system_prompt.rpartition(f"{_HEAD}\n")
    of_it = takewhile(
        lambda line: line.startswith("- ") or line == _UNSEEN or _RESTS.fullmatch(line),
        below.split("\n"),
    )
    return "\n".join((_HEAD, *of_it)) if head else ""


def describe_members(members: list[Member], *, has_more: bool = False) -> str:
    """Return the lines of as many members as fit, and how to see the others."""
    lines = [_line(member) for member in members]
    for count in range(len(lines), 0, -1):
        rest = [_UNSEEN] if has_more else []
        if count < len(lines):
            rest = [_REST.format(count=len(lines) - count)]
        shown = [_HEAD, *lines[:count], *rest]
        text = "\n".join(shown)
        if len(text.encode()) <= TEAM_BYTES:
            return text
    return _REST.format(count=len(lines)) if lines else ""


def _line(member: Member) -> str:
    what = " ".join(member.what.split()).encode()[:_WHAT_BYTES].decode(errors="ignore")
    name = member.name if _PLAIN.fullmatch(member.name) else quote_word(member.name)
    return f"- {name}: {quote_word(what)[1:-1].rstrip()}" if what else f"- {name}"


class TeamNews(Struct, eq=False):
    """Tells working agents, in a call's answer, what their run has learned of its team.

    Prompts are made before any but the leading provider is looked at, and stay: a change would
    begin a new session. An agent that begins to make children has the others looked at.
    """

    workforce: Callable[[], Workforce]
    look: Callable[[], None]

    def add(self, record: AgentRecord, tool: str, outcome: ToolOutcome) -> ToolOutcome:
        """Return the answer to a tool call, with any news."""
        workforce = self.workforce()
        if workforce.unseen:
            if tool in _MAKING:
                self.look()
            return outcome
        source = workforce, record.descriptor
        if record.team_source == source:  # nearly always: each answer comes by here
            return outcome
        team, told = workforce.team_of(record.descriptor), record.team
        if team != told and not isinstance(outcome.data, Mapping):
            return outcome
        if told is None:
            told = told_of_team(record.descriptor.system_prompt)
        record.team, record.team_source, news = team, source, news_of_team(told, team)
        if not news:
            return outcome
        notice = "\n".join(filter(None, (outcome.data.get("notice"), news)))
        return outcome.with_notice(notice)
