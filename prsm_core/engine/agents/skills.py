"""The skills that agents are told of, found once a run and kept in each agent's prompt.

The ledger keeps their paths in a movable form; a session gets the present ones.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
from itertools import takewhile
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from prsm_core.config.paths import HOME
from prsm_core.domain.agents import add_shared
from prsm_core.domain.record import Record
from prsm_core.domain.tools import encode_data

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from prsm_core.config.paths import SkillPlaces
    from prsm_core.domain.agents import AgentDescriptor
    from prsm_core.engine.state import AgentRecord
    from prsm_core.interfaces.provider import ProviderCapabilities
    from prsm_core.permissions.skills import Skill


MAX_BYTES = 8 * 1024  # of the lines that tell of skills
HEAD = (
    "Skills: instructions for certain kinds of work, each in a file. Before you do what one is for "
    "read its file, and follow it where it fits your task; it permits nothing. In the words of who "
    "wrote them:"
)
_CHANGED = "The skills that there are have changed."
_GONE = f"{_CHANGED} There are none any more."
_TEXT = r'"(?:[^"\\]|\\.)*"'
_LINE = re.compile(rf"- ({_TEXT}): ({_TEXT}) in ({_TEXT})")
_REST = "- {count} more are left out, for they would be too long."


class View(Record, frozen=True):
    """Which skills of a prompt count now, and where they are."""

    workspace: str
    home: str | None
    holds: bool  # whether skills are told of at all, as the settings have it
    trusted: bool  # whether the workspace is

    def counts(self, skill: Skill) -> bool:
        """Return whether a skill is told now."""
        return self.holds and (self.home is not None if skill.is_of_user else self.trusted)

    def located(self, skill: Skill) -> Skill:
        """Return a skill with its present path."""
        root = self.home if skill.is_of_user else self.workspace
        return replace(skill, path=f"{root}/{skill.path.removeprefix(HOME)}")


def section(skills: Sequence[Skill]) -> str:
    """Return the lines for as many skills as there is room for; blank without any."""
    lines, left = [HEAD], MAX_BYTES - len(HEAD)
    for number, skill in enumerate(skills):
        line = _line(skill)
        left -= len(line.encode()) + 1
        if left < len(_REST) + 8:
            lines.append(_REST.format(count=len(skills) - number))
            break
        lines.append(line)
    return "\n".join(lines) if len(lines) > 1 else ""


def with_skills(system_prompt: str, skills: Sequence[Skill]) -> str:
    """Return a system prompt with skills, as the ledger keeps it."""
    told = section(skills)
    return add_shared(system_prompt, told) if told else system_prompt


def skills_in(system_prompt: str) -> tuple[Skill, ...]:
    """Return the skills in a system prompt."""
    return _told(system_prompt)[1]


def as_told(system_prompt: str, view: View, known: Collection[str]) -> str:
    """Return a ledger's prompt for a model now, without skills `known` to its vendor."""
    if HEAD not in system_prompt:
        return system_prompt
    lines, skills = _told(system_prompt)
    before = "\n".join((HEAD, *lines))
    told = shown(skills, view, known)
    if not told:
        return system_prompt.replace(f"\n\n{before}", "", 1)
    rest = [line for line in lines if _LINE.fullmatch(line) is None]
    return system_prompt.replace(before, "\n".join([HEAD, *map(_line, told), *rest]), 1)


def shown(skills: Sequence[Skill], view: View, known: Collection[str]) -> tuple[Skill, ...]:
    """Return the skills that a model is told of, with their present paths."""
    telling = (one for one in skills if view.counts(one) and one.place not in known)
    return tuple(map(view.located, telling))


def news(told: Sequence[Skill], skills: Sequence[Skill]) -> str:
    """Return what to tell an agent whose skills have changed."""
    if tuple(told) == tuple(skills):
        return ""
    return f"{_CHANGED}\n{section(skills)}" if skills else _GONE


def redacted(skills: Sequence[Skill], redact: Callable[[str], str]) -> tuple[Skill, ...]:
    """Return skills without secrets; one with a secret in its path leads nowhere and is dropped."""
    return tuple(
        replace(one, name=redact(one.name), description=redact(one.description))
        for one in skills
        if redact(one.path) == one.path
    )


def _told(system_prompt: str) -> tuple[list[str], tuple[Skill, ...]]:
    _, _, below = system_prompt.partition(f"{HEAD}\n")
    lines = list(takewhile(lambda line: line.startswith("- "), below.split("\n")))
    found = [match for match in map(_LINE.fullmatch, lines) if match is not None]
    if not found:
        return lines, ()
    from prsm_core.permissions.skills import Skill  # few agents are told of any

    return lines, tuple(Skill(*map(json.loads, match.groups())) for match in found)


def _line(skill: Skill) -> str:
    name, description, path = map(encode_data, (skill.name, skill.description, skill.path))
    return f"- {name}: {description} in {path}"


_SIGN = "\n\nSkills: "  # what is not in a prompt that tells of none

_log = logging.getLogger("prsm.engine")


class Skills(Struct, eq=False):
    """Owns the skills that were found; all agents born in a run are told the same."""

    # Where they are looked for; None: agents are told of none.
    places: SkillPlaces | None
    workspace: str
    capabilities: Callable[[str], ProviderCapabilities]
    # Whether a provider is somebody outside, who has skills of his own.
    is_external: Callable[[str], bool]
    redact: Callable[[str], str]
    _found: tuple[Skill, ...] = ()

    async def look(self) -> None:
        """Look for skills as a run begins or is resumed."""
        self._found = ()
        places = self.places
        if places is None or not any(map(os.path.isdir, places.folders())):
            return
        from prsm_core.permissions.skills import find_skills

        found = await asyncio.to_thread(find_skills, places)
        for mistake in found.mistakes:
            _log.info("a skill does not count: %s", mistake)
        self._found = redacted(found.skills, self.redact)

    def given(self, agent: AgentDescriptor) -> AgentDescriptor:
        """Return an agent that is about to be born, with its skills."""
        if not self._found or not self._may_read(agent):
            return agent
        return replace(agent, system_prompt=with_skills(agent.system_prompt, self._found))

    def prompt(self, agent: AgentDescriptor) -> str:
        """Return an agent's system prompt as its model gets it now."""
        if _SIGN not in agent.system_prompt:
            return agent.system_prompt
        return as_told(agent.system_prompt, self._view(), self._known(agent))

    def news(self, record: AgentRecord) -> str:
        """Return what an agent is told of skills as its next life begins; blank for no news."""
        agent, told = record.descriptor, record.skills
        record.skills = found = self._found
        if not (found or told or _SIGN in agent.system_prompt) or not self._may_read(agent):
            return ""
        before = skills_in(agent.system_prompt) if told is None else told
        view, known = self._view(), self._known(agent)
        return news(shown(before, view, known), shown(found, view, known))

    def withheld(self, prompts: Iterable[str]) -> str:
        """Return why resumed agents are told of fewer skills than before, or a blank."""
        telling = [prompt for prompt in prompts if _SIGN in prompt]
        if not telling:
            return ""
        view, told = self._view(), {skill for prompt in telling for skill in skills_in(prompt)}
        left_out = sum(not view.counts(skill) for skill in told)
        if not left_out:
            return ""
        why = "the workspace is not trusted" if view.holds else "context.skills is false"
        return f"{left_out} of the skills that agents were told of are told no more: {why}"

    def _view(self) -> View:
        places = self.places
        if places is None:
            return View(self.workspace, None, holds=False, trusted=False)
        return View(self.workspace, places.home, holds=True, trusted=places.trusted)

    def _known(self, agent: AgentDescriptor) -> frozenset[str]:
        return self.capabilities(agent.provider).skills

    def _may_read(self, agent: AgentDescriptor) -> bool:
        return "Read" in agent.tools and not self.is_external(agent.provider)
