"""Decisions about the calls that Codex's tool hook asks for, and the record of what was allowed."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from prsm_codex import approvals, hooks
from prsm_core import (
    Deny,
    PermissionRequest,
    ToolCallFinished,
    ToolCallStarted,
    deadline,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from prsm_codex.turn import CodexTurn
    from prsm_core import (
        AgentHost,
        ProviderServices,
        SessionRequest,
    )

HAS_COMPLETED = "This agent has completed; nothing more is done for it."
_NO_TURN = "no turn of this agent is running"
_KNOWN_SECONDS = 10.0  # a call is asked for at once, the turn's id comes by another way


class ToolDecider:
    """Lets the host decide about each call of one agent.

    `orchestration` are the names that the hook gives the orchestration tools: these are asked for
    when they arrive. `key` names what is allowed as Codex names it when it begins.
    """

    def __init__(
        self,
        session: SessionRequest,
        host: AgentHost,
        services: ProviderServices,
        *,
        orchestration: frozenset[str],
        key: Callable[[str, PermissionRequest], str],
    ) -> None:
        self._session = session
        self._host = host
        self._services = services
        self._free = orchestration | hooks.HARMLESS
        self._key = key
        self.allowed: dict[str, list[PermissionRequest]] = {}

    async def decide(self, turn: CodexTurn | None, payload: Mapping[str, Any]) -> str | None:
        """Return why a call may not run, None when it may."""
        if turn is None or not await self._is_of(turn, payload.get("turn_id")):
            return HAS_COMPLETED if turn is not None and turn.completing else _NO_TURN
        if payload.get("tool_name") in self._free:
            return None
        call_id = str(payload.get("tool_use_id"))
        wanted = hooks.tool_request(payload, self._session.agent_id, self._session.cwd)
        wanted = replace(wanted, call_id=call_id)
        with turn.deciding():
            verdict = await self._host.authorize(wanted)
            if isinstance(verdict, Deny):
                started = ToolCallStarted(call_id, wanted.tool, _arguments(wanted))
                denied = ToolCallFinished(call_id, "denied", error=verdict.reason)
                await turn.put([started, denied])
                return verdict.reason
        self.allowed.setdefault(self._key(call_id, wanted), []).append(wanted)
        return None

    async def _is_of(self, turn: CodexTurn, turn_id: object) -> bool:
        """Return whether a call is one of a turn that still takes calls."""
        try:
            async with deadline(self._services, _KNOWN_SECONDS):
                await turn.known.wait()
        except TimeoutError:
            return False
        return turn.takes(turn_id)


def _arguments(wanted: PermissionRequest) -> dict[str, Any]:
    return {**wanted.arguments, "cwd": wanted.cwd} if wanted.command else dict(wanted.arguments)


def runs_as_asked(item: Mapping[str, Any], wanted: PermissionRequest) -> bool:
    """Return whether a command that begins has the text and the folder that were asked for."""
    if wanted.command is None or item.get("type") != "commandExecution":
        return True
    folder = str(item.get("cwd") or wanted.cwd)
    is_there = os.path.normpath(folder) == os.path.normpath(wanted.cwd)
    return is_there and approvals.unwrap(str(item.get("command") or "")) == wanted.command
