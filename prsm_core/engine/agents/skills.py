"""The skills that agents are told of: looked for once a run, and kept with each agent's prompt."""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING

from msgspec.structs import replace

from prsm_core.engine.context.skills import View, as_told, news, redacted, skills_in, with_skills

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from prsm_core.domain.agents import AgentDescriptor
    from prsm_core.domain.skills import Skill, SkillPlaces
    from prsm_core.engine.state import AgentRecord
    from prsm_core.interfaces.provider import ProviderCapabilities

_log = logging.getLogger("prsm.engine")


class Skills:
    """Owns what was found of skills, and says what each agent is told of it.

    All agents of a run that are born in it are told the same, and none of a skill that appears
    meanwhile: a spawn reads no files, and a tree has one view.
    """

    def __init__(
        self,
        places: SkillPlaces | None,
        *,
        workspace: str,
        capabilities: Callable[[str], ProviderCapabilities],
        is_external: Callable[[str], bool],
        redact: Callable[[str], str],
    ) -> None:
        """Begin without any.

        Args:
            places: Where they are looked for; None: agents are told of none.
            workspace: The session's.
            capabilities: Returns those of a provider, by its name.
            is_external: Whether a provider is somebody outside, who has skills of his own.
            redact: Takes secrets out of a text.
        """
        self._places = places
        self._capabilities = capabilities
        self._is_external = is_external
        self._redact = redact
        self._found: tuple[Skill, ...] = ()
        self._view = View(
            workspace=workspace,
            home=None if places is None else places.home,
            holds=places is not None,
            trusted=places is not None and places.trusted,
        )

    async def look(self) -> None:
        """Look which there are, as a run begins or is gone on with."""
        self._found = ()
        places = self._places
        if places is None or not any(map(os.path.isdir, places.folders())):
            return
        from prsm_core.permissions.skills import find_skills  # few have any

        found = await asyncio.to_thread(find_skills, places)
        for mistake in found.mistakes:
            _log.info("a skill does not count: %s", mistake)
        self._found = redacted(found.skills, self._redact)

    def given(self, agent: AgentDescriptor) -> AgentDescriptor:
        """Return an agent that is about to be born with what it is told of skills."""
        if not self._found or not self._may_read(agent):
            return agent
        return replace(agent, system_prompt=with_skills(agent.system_prompt, self._found))

    def prompt(self, agent: AgentDescriptor) -> str:
        """Return the system prompt of an agent as its model is given it now."""
        known = self._capabilities(agent.provider).skills
        return as_told(agent.system_prompt, self._view, known)

    def news(self, record: AgentRecord) -> str:
        """Return what an agent is told of skills as its next life begins; blank for nothing new."""
        agent, told = record.descriptor, record.skills
        record.skills = self._found
        if not self._may_read(agent):
            return ""
        before = skills_in(agent.system_prompt) if told is None else told
        return news(self._told(agent, before), self._told(agent, self._found))

    def withheld(self, prompts: Iterable[str]) -> str:
        """Return why agents that go on are told of less than before; blank where they are not."""
        told = {skill for prompt in prompts for skill in skills_in(prompt)}
        left_out = sum(not self._view.counts(skill) for skill in told)
        if not left_out:
            return ""
        why = "the workspace is not trusted" if self._view.holds else "context.skills is false"
        return f"{left_out} of the skills that agents were told of are told no more: {why}"

    def _told(self, agent: AgentDescriptor, skills: Iterable[Skill]) -> tuple[Skill, ...]:
        """Return those of some skills that an agent is told of, with the paths that they have."""
        known = self._capabilities(agent.provider).skills
        counting = (s for s in skills if self._view.counts(s) and s.place not in known)
        return tuple(map(self._view.located, counting))

    def _may_read(self, agent: AgentDescriptor) -> bool:
        return "Read" in agent.tools and not self._is_external(agent.provider)
