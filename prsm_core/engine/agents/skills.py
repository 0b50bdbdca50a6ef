"""The skills that agents are told of: looked for once a run, and kept with each agent's prompt."""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING

from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from prsm_core.config.paths import SkillPlaces
    from prsm_core.domain.agents import AgentDescriptor
    from prsm_core.engine.context.skills import View
    from prsm_core.engine.state import AgentRecord
    from prsm_core.interfaces.provider import ProviderCapabilities
    from prsm_core.permissions.skills import Skill

_SIGN = "\n\nSkills: "  # what is not in a prompt that tells of none

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
        self._workspace = workspace
        self._capabilities = capabilities
        self._is_external = is_external
        self._redact = redact
        self._found: tuple[Skill, ...] = ()

    async def look(self) -> None:
        """Look which there are, as a run begins or is gone on with."""
        self._found = ()
        places = self._places
        if places is None or not any(map(os.path.isdir, places.folders())):
            return
        from prsm_core.engine.context.skills import redacted  # few have any
        from prsm_core.permissions.skills import find_skills

        found = await asyncio.to_thread(find_skills, places)
        for mistake in found.mistakes:
            _log.info("a skill does not count: %s", mistake)
        self._found = redacted(found.skills, self._redact)

    def given(self, agent: AgentDescriptor) -> AgentDescriptor:
        """Return an agent that is about to be born with what it is told of skills."""
        if not self._found or not self._may_read(agent):
            return agent
        from prsm_core.engine.context.skills import with_skills

        return replace(agent, system_prompt=with_skills(agent.system_prompt, self._found))

    def prompt(self, agent: AgentDescriptor) -> str:
        """Return the system prompt of an agent as its model is given it now."""
        if _SIGN not in agent.system_prompt:
            return agent.system_prompt
        from prsm_core.engine.context.skills import as_told

        return as_told(agent.system_prompt, self._view(), self._known(agent))

    def news(self, record: AgentRecord) -> str:
        """Return what an agent is told of skills as its next life begins; blank for nothing new."""
        agent, told = record.descriptor, record.skills
        record.skills = found = self._found
        if not (found or told or _SIGN in agent.system_prompt) or not self._may_read(agent):
            return ""
        from prsm_core.engine.context.skills import news, shown, skills_in

        before = skills_in(agent.system_prompt) if told is None else told
        view, known = self._view(), self._known(agent)
        return news(shown(before, view, known), shown(found, view, known))

    def withheld(self, prompts: Iterable[str]) -> str:
        """Return why agents that go on are told of less than before; blank where they are not."""
        telling = [prompt for prompt in prompts if _SIGN in prompt]
        if not telling:
            return ""
        from prsm_core.engine.context.skills import skills_in

        view, told = self._view(), {skill for prompt in telling for skill in skills_in(prompt)}
        left_out = sum(not view.counts(skill) for skill in told)
        if not left_out:
            return ""
        why = "the workspace is not trusted" if view.holds else "context.skills is false"
        return f"{left_out} of the skills that agents were told of are told no more: {why}"

    def _view(self) -> View:
        from prsm_core.engine.context.skills import View

        places = self._places
        if places is None:
            return View(self._workspace, None, holds=False, trusted=False)
        return View(self._workspace, places.home, holds=True, trusted=places.trusted)

    def _known(self, agent: AgentDescriptor) -> frozenset[str]:
        return self._capabilities(agent.provider).skills

    def _may_read(self, agent: AgentDescriptor) -> bool:
        return "Read" in agent.tools and not self._is_external(agent.provider)
