"""The team: which models an agent may give its children now, in a few lines of its prompt."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import takewhile
from typing import TYPE_CHECKING

from msgspec import Struct, field

from prsm_core.domain.agents import AgentRole
from prsm_core.domain.notes import ModelChoice
from prsm_core.domain.record import Record
from prsm_core.engine.providers.model_choice import model_of, resolve_model, resolve_peers
from prsm_core.engine.providers.model_names import DEFAULT_MODEL
from prsm_core.errors import ModelNotAvailableError
from prsm_core.kit.quotation import quote_word

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from prsm_core.domain.agents import AgentDescriptor
    from prsm_core.domain.tools import ToolOutcome
    from prsm_core.engine.providers.model_names import Listing, ModelNames
    from prsm_core.engine.state import AgentRecord

    _Whose = tuple[ModelChoice, frozenset[str] | None]

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

    names: ModelNames
    usable: Callable[[], Collection[str]]
    summaries: Mapping[str, str]
    is_gone: Callable[[str], bool] = lambda _: False
    unseen: Callable[[], Collection[str]] = tuple
    _listed: dict[str, Listing] = field(default_factory=dict)  # when the newest one was made
    _newest: Workforce | None = None

    def __call__(self) -> Workforce:
        """Return the present workforce."""
        usable, unseen, listed = self.usable(), self.unseen(), self.names.listed
        newest = self._newest
        is_same = newest is not None and (newest.usable, newest.unseen) == (usable, unseen)
        if newest is None or not is_same or not _is_same(self._listed, listed):
            newest = Workforce(
                names=self.names,
                usable=usable,
                summaries=self.summaries,
                is_gone=self.is_gone,
                unseen=unseen,
            )
            self._newest, self._listed = newest, dict(listed)
        return newest


def _is_same(kept: Mapping[str, Listing], now: Mapping[str, Listing]) -> bool:
    """Whether providers have listed nothing new: a listing is only ever replaced."""
    return kept.keys() == now.keys() and all(kept[name] is now[name] for name in now)


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
    unseen: Callable[[], Collection[str]]
    look: Callable[[], None]

    def add(self, record: AgentRecord, tool: str, outcome: ToolOutcome) -> ToolOutcome:
        """Return the answer to a tool call, with any news."""
        if self.unseen():
            if tool in _MAKING:
                self.look()
            return outcome
        source = self.workforce(), record.descriptor
        if record.team_source == source:  # nearly always: each answer comes by here
            return outcome
        team, told = source[0].team_of(source[1]), record.team
        if team != told and not isinstance(outcome.data, Mapping):
            return outcome
        if told is None:
            told = told_of_team(record.descriptor.system_prompt)
        record.team, record.team_source, news = team, source, news_of_team(told, team)
        if not news:
            return outcome
        notice = "\n".join(filter(None, (outcome.data.get("notice"), news)))
        return outcome.with_notice(notice)
