"""What of skills stands in an agent's system prompt, in the ledger and before its model.

The ledger keeps the skills that an agent was told of, by paths that hold wherever the folders are
by then. A session tells those of them that its vendor does not tell by itself, by the paths of now.
"""

from __future__ import annotations

import json
import re
from itertools import takewhile
from typing import TYPE_CHECKING

from msgspec.structs import replace

from prsm_core.config.paths import HOME
from prsm_core.domain.agents import add_shared
from prsm_core.domain.record import Record
from prsm_core.kit.quotation import encode_data
from prsm_core.permissions.skills import Skill

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

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
    """What of the skills in a prompt is told, and where they are now."""

    workspace: str
    home: str | None
    holds: bool  # whether skills are told of at all, as the settings have it
    trusted: bool  # whether the workspace is

    def counts(self, skill: Skill) -> bool:
        """Whether a skill is told of now."""
        here = self.home is not None if skill.is_of_user else self.trusted
        return self.holds and here

    def located(self, skill: Skill) -> Skill:
        """Return a skill with the path that it has now."""
        root = self.home if skill.is_of_user else self.workspace
        return replace(skill, path=f"{root}/{skill.path.removeprefix(HOME)}")


def section(skills: Sequence[Skill]) -> str:
    """Return the lines that tell of as many skills as there is room for; blank without any."""
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
    """Return a system prompt that tells of skills, as the ledger keeps it."""
    told = section(skills)
    return add_shared(system_prompt, told) if told else system_prompt


def skills_in(system_prompt: str) -> tuple[Skill, ...]:
    """Return the skills that a system prompt tells of."""
    return _told(system_prompt)[1]


def as_told(system_prompt: str, view: View, known: Collection[str]) -> str:
    """Return a system prompt of the ledger as a model is given it now.

    `known` are the folders of skills that its vendor tells of by itself.
    """
    if HEAD not in system_prompt:
        return system_prompt
    lines, skills = _told(system_prompt)
    told = shown(skills, view, known)
    rest = [line for line in lines if _LINE.fullmatch(line) is None] if told else []
    now = "\n".join([*([HEAD] if told else []), *map(_line, told), *rest])
    before = "\n".join((HEAD, *lines))
    if now:
        return system_prompt.replace(before, now, 1)
    return system_prompt.replace(f"\n\n{before}", "", 1)


def shown(skills: Sequence[Skill], view: View, known: Collection[str]) -> tuple[Skill, ...]:
    """Return those of some skills that a model is told of, with the paths that they have now."""
    telling = (one for one in skills if view.counts(one) and one.place not in known)
    return tuple(map(view.located, telling))


def news(told: Sequence[Skill], skills: Sequence[Skill]) -> str:
    """Return what an agent that was told of some skills is told of those that there are now."""
    if tuple(told) == tuple(skills):
        return ""
    return f"{_CHANGED}\n{section(skills)}" if skills else _GONE


def redacted(skills: Sequence[Skill], redact: Callable[[str], str]) -> tuple[Skill, ...]:
    """Return skills without secrets in what is told of them; those with one in the path are none.

    A path with something taken out leads nowhere.
    """
    return tuple(
        Skill(redact(one.name), redact(one.description), one.path)
        for one in skills
        if redact(one.path) == one.path
    )


def _told(system_prompt: str) -> tuple[list[str], tuple[Skill, ...]]:
    """Return the lines below the head, and the skills that they tell of."""
    _, _, below = system_prompt.partition(f"{HEAD}\n")
    lines = list(takewhile(lambda line: line.startswith("- "), below.split("\n")))
    found = filter(None, map(_LINE.fullmatch, lines))
    return lines, tuple(Skill(*map(json.loads, match.groups())) for match in found)


def _line(skill: Skill) -> str:
    name, description, path = map(encode_data, (skill.name, skill.description, skill.path))
    return f"- {name}: {description} in {path}"
