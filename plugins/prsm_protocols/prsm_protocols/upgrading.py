"""Whether an agent goes on under a newer version of its protocol: a person is asked, once.

An agent stays on its version. At its next transition after the files of the trusted workspace have
changed, a person says whether it, or all agents of that version, take the new one. It is offered
only where the agent's state is one of the new version, or that says what it has become. The word
for all is kept in the label of the agent that asked, and in memory for those that have not made a
transition when it ends.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from prsm_core import OrchestrationError, Question
from prsm_protocols.labels import KEEPS, UPGRADE
from prsm_protocols.problems import ProtocolError
from prsm_protocols.validator import Standing

if TYPE_CHECKING:
    from prsm_core import ToolCall
    from prsm_protocols.compiled import Protocol
    from prsm_protocols.validator import Validator

ALL, THIS, KEEP = "upgrade all", "upgrade this one", "keep the old one"


class Upgrade:
    """A newer version for an agent, as a person has decided: None is to keep the old one."""

    __slots__ = ("labels", "protocol")

    def __init__(self, protocol: Protocol | None, labels: dict[str, str]) -> None:
        self.protocol = protocol
        self.labels = labels


class Upgrades:
    """Owns what persons have said of newer versions, and asks each once at a time."""

    def __init__(self, validator: Validator) -> None:
        self._validator = validator
        self._for_all: set[tuple[str, str]] = set()  # workspaces, and OLD>NEW of each
        self._asking: dict[tuple[str, str], asyncio.Lock] = {}

    def has_none(self, call: ToolCall, standing: Standing) -> bool:
        """Return whether the files as they are now have no newer version, if that is in memory."""
        if not (standing.is_pinned and call.trusted):
            return False
        try:
            protocols = self._validator.library.unchanged(call.workspace)
        except ProtocolError:
            return False
        newest = None if protocols is None else protocols.get(standing.protocol.name)
        return newest is not None and newest.id == standing.protocol.id

    async def offer(self, call: ToolCall, standing: Standing) -> Upgrade | None:
        """Return what a person says of the newer version, if there is one that fits."""
        newer = await self._newer(call, standing)
        if newer is None or call.labels.get(KEEPS) == newer.hash:
            return None
        pair = f"{standing.protocol.id}>{newer.id}"
        async with self._asking.setdefault((call.workspace, pair), asyncio.Lock()):
            return await self._decided(call, pair, standing, newer)

    async def _newer(self, call: ToolCall, standing: Standing) -> Protocol | None:
        if not standing.is_pinned:
            return None
        name = standing.protocol.name
        try:
            newer = await self._validator.newest_soon(name, call.workspace, trusted=call.trusted)
        except (ProtocolError, OrchestrationError):
            return None  # pages that are wrong, gone or not trusted are no newer version: it stays
        if newer.id == standing.protocol.id or upgraded_state(newer, standing.state) is None:
            return None
        return newer

    async def _decided(
        self, call: ToolCall, pair: str, standing: Standing, newer: Protocol
    ) -> Upgrade:
        said_for_all = any(peer.labels.get(UPGRADE) == pair for peer in call.agents())
        if said_for_all or (call.workspace, pair) in self._for_all:
            return Upgrade(newer, {})
        answer = await call.ask_user(_question(call.agent_name, standing, newer))
        if ALL in answer.choices:
            self._for_all.add((call.workspace, pair))
            return Upgrade(newer, {UPGRADE: pair})
        if THIS in answer.choices:
            return Upgrade(newer, {})
        # Where nobody has answered it stays, and somebody is asked at its next transition.
        return Upgrade(None, {KEEPS: newer.hash} if KEEP in answer.choices else {})


def upgraded(standing: Standing, newer: Protocol, now: float) -> Standing:
    """Return where an agent stands under a newer version, in the state that its own has become."""
    state = upgraded_state(newer, standing.state)
    if state is None:
        raise OrchestrationError(f"{newer.id} has no state {standing.state}", code="no_upgrade")
    since = standing.since if state == standing.state else now
    protocol = newer.led_to(newer.start.home(state))
    return Standing(protocol, state, since, is_pinned=True)


def upgraded_state(newer: Protocol, state: str) -> str | None:
    """Return what a state has become in a newer version, None where it is not said."""
    mapped = dict(newer.start.page.upgrades)
    if state in mapped:
        return mapped[state]
    is_there = state in newer.start.states or newer.start.home(state) != newer.name
    return state if is_there else None


def _question(agent: str, standing: Standing, newer: Protocol) -> Question:
    state = upgraded_state(newer, standing.state)
    return Question(
        text=(
            f"The protocol {newer.name} has changed since {agent} began with it"
            f" ({standing.protocol.hash} is now {newer.hash}). {agent} is in the state"
            f" {standing.state}, and would go on in {state}."
        ),
        options=(ALL, THIS, KEEP),
    )
