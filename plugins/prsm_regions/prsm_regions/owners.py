"""Owners of regions, asked without being disturbed: one that continues its conversation answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prsm_core import OrchestrationError
from prsm_regions.router import OwnerReply
from prsm_regions.team import data_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_core import ChildNow
    from prsm_regions.team import Team

_OF = "regions/answers_for"  # label: the owner whose conversation it continues
_ROLE = {"regions/state": None, "regions/role": "owner"}
_LATE = "its answer was not there in time"
_TURNS = 2  # one to answer in, and one for who forgets to complete its task
_HOW = "Complete your task with the answer alone."
_NO_QUESTIONS = "Nobody can say more. Answer from what you know, or say that you do not know it."


class Owners:
    """Asks for owners: the `ask_owner` of a router.

    Who answers begins with the owner's conversation as it is by then, has no tools to read or write
    with, and a budget of tokens of its own; the owner goes on and never hears of it.
    """

    def __init__(self, team: Team) -> None:
        self._team = team

    async def __call__(self, owner: str, question: str, max_tokens: int) -> OwnerReply:
        """Return what the owner would say, with all tokens that took; see AskOwner."""
        key = f"owner{self._team.number('owner')}"
        asked = self._child(owner)

        async def made() -> dict[str, Any]:
            return {
                "prompt": f"{question} {_HOW}",
                "continues": owner,
                "role": "reviewer",
                "mode": "plan",
                "tools": [],
                "depth": 0,
                "model": f"{asked.provider}/{asked.model}",
                "budget": {"tokens": max_tokens, "turns": _TURNS},
                "labels": {**_ROLE, _OF: owner},
            }

        child = data_of(await self._team.call(key, "spawn_child", made))
        agent = str(child["agent_id"])
        message = await self._result(key, agent)
        used = self._child(agent).spent.usage.known_total
        tokens = max_tokens if used is None else used
        if message.get("success"):
            return OwnerReply(str(message.get("summary", "")), tokens)
        why = message.get("error") or message.get("summary") or "it ended without an answer"
        return OwnerReply("", tokens, str(why))

    async def give_up(self, owner: str) -> int | None:
        """End whoever answers for an owner; return the tokens that it has used, as far as known."""
        late = [
            one.agent_id
            for one in self._team.host.children()
            if one.labels.get(_OF) == owner and one.result is None
        ]
        for agent in late:
            await self._team.host.end_child(agent, _LATE)
        used = [self._child(agent).spent.usage.known_total for agent in late]
        return sum(filter(None, used)) if late and None not in used else None

    async def _result(self, key: str, agent: str) -> Mapping[str, Any]:
        number = 0
        while (message := await self._team.hear(agent))["type"] == "question":
            number += 1
            await self._team.respond(f"{key}q{number}", message, _NO_QUESTIONS)
        return message

    def _child(self, agent: str) -> ChildNow:
        for one in self._team.host.children():
            if one.agent_id == agent:
                return one
        raise OrchestrationError(f"there is no agent {agent}")
