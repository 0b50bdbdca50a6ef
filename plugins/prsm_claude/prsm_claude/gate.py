"""What an agent may do: every call passes here before it is made, and here the turn may end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from prsm_claude import naming
from prsm_claude.control import Hook
from prsm_core import Deny

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from prsm_claude.events import Translator
    from prsm_claude.tools import ToolServer
    from prsm_claude.turn import ClaudeTurn
    from prsm_core import (
        AgentHost,
        ProviderServices,
        SessionRequest,
        ToolOutcome,
    )

    Json = dict[str, Any]

HOOK_SECONDS = 7 * 24 * 3600  # a hook may wait for other agents; the engine's own clocks end it
HAS_COMPLETED = "This agent has completed; nothing more is done for it."
_TURN_OVER = "This turn is over."


def _decision(permission: str, reason: str | None = None) -> Json:
    output = {"hookEventName": "PreToolUse", "permissionDecision": permission}
    if reason is not None:
        output["permissionDecisionReason"] = reason
    return {"hookSpecificOutput": output}


ALLOW = _decision("allow")
DEFER = _decision("defer")


def deny(reason: str) -> Json:
    """Return a hook's answer that forbids a call."""
    return _decision("deny", reason)


def _permitted(given: Json) -> Json:
    """Return the answer that lets a call be made with this input."""
    return {"behavior": "allow", "updatedInput": given}


def _refused(reason: str) -> Json:
    return {"behavior": "deny", "message": reason}


class Gate:
    """The hooks and callbacks of one session; `settle(turn)` is awaited once it completes."""

    def __init__(
        self,
        request: SessionRequest,
        host: AgentHost,
        services: ProviderServices,
        translator: Translator,
        tools: ToolServer,
        settle: Callable[[ClaudeTurn], Awaitable[None]],
    ) -> None:
        self._request = request
        self._host = host
        self._services = services
        self._translator = translator
        self._tools = tools
        self._settle = settle
        self._turn: ClaudeTurn | None = None
        self._has_turn = asyncio.Event()
        self._allowed: set[str] = set()  # ids of calls of the turn that may run

    @property
    def hooks(self) -> dict[str, Hook]:
        """The hooks to register; the one that judges calls forbids those on which it fails."""
        return {
            "PreToolUse": Hook(run=self.before_tool, seconds=HOOK_SECONDS, must_hold=True),
            "PostToolUse": Hook(run=self.after_tool, matcher=f"mcp__{naming.SERVER}__.*"),
        }

    def open(self, turn: ClaudeTurn) -> None:
        """Let calls through, for this turn."""
        self._turn = turn
        self._has_turn.set()

    def close(self, turn: ClaudeTurn) -> None:
        """End whatever still waits for a turn that is over."""
        turn.let_all_go(deny(_TURN_OVER))
        self._turn = None
        self._has_turn.clear()
        self._allowed.clear()
        self._tools.forget()

    async def before_tool(self, given: Any, use_id: str | None) -> Json:
        """Answer the PreToolUse hook of any tool."""
        turn = await self._current()
        name, call_id = str(given.get("tool_name")), str(use_id)
        arguments = given.get("tool_input")
        arguments = arguments if isinstance(arguments, dict) else {}
        if turn.completing is not None:
            self._translator.reasons[call_id] = HAS_COMPLETED
            return deny(HAS_COMPLETED)
        if naming.is_question(name):
            return {}  # the answers are given where the CLI asks for leave
        if naming.is_ours(name):
            return await self._orchestrate(turn, call_id, naming.plain(name), arguments)
        cwd = str(given.get("cwd") or self._request.cwd)
        started = self._translator.started(call_id, naming.canonical(name), arguments)
        await turn.put(started)
        work = self._authorize(name, arguments, cwd, call_id)
        return await turn.wait_for(call_id, work)

    async def after_tool(self, _given: Any, use_id: str | None) -> Json:
        """End the turn behind the answer of the call that completes the agent."""
        turn = self._turn
        if turn is None or turn.completing is None or turn.completing != use_id:
            return {}
        return {"continue": False, "stopReason": "task complete"}

    async def can_use_tool(self, name: str, given: Json, call_id: str) -> Json:
        """Answer what the CLI asks beyond the hook: the person's answers, and its own doubts."""
        turn = await self._current()
        if naming.is_question(name):
            answered = await turn.wait_for(call_id, self._answers(given, call_id))
            return _permitted(answered) if "answers" in answered else _refused(_TURN_OVER)
        if call_id not in self._allowed:
            work = self._authorize(name, given, self._request.cwd, call_id)
            await turn.wait_for(call_id, work)
        if call_id in self._allowed:
            return _permitted(given)
        return _refused(self._translator.reasons.get(call_id, _TURN_OVER))

    async def _current(self) -> ClaudeTurn:
        """Return the running turn; a resumed CLI asks before there is one."""
        while self._turn is None:
            await self._has_turn.wait()
        return self._turn

    async def _orchestrate(
        self, turn: ClaudeTurn, call_id: str, name: str, arguments: Mapping[str, Any]
    ) -> Json:
        """Run an orchestration call; the one that completes the agent settles all others."""
        ended = self._translator.begun(call_id)
        if ended:  # a task of its own: the engine must know of the call when it hears of the end
            self._services.start_soon(turn.put, ended, name="claude step")
        work = self._outcome(call_id, name, arguments)
        outcome = await turn.wait_for(call_id, work, may_park=True)
        if isinstance(outcome, dict):
            return outcome
        if outcome.ends_turn:
            turn.completing = call_id
            turn.let_all_go(deny(HAS_COMPLETED))
            await self._settle(turn)
        await self._tools.prepare(name, arguments, outcome)
        return ALLOW

    async def _outcome(self, call_id: str, name: str, arguments: Mapping[str, Any]) -> ToolOutcome:
        known = self._request.answers.get(call_id)
        if known is not None:
            return known
        return await self._host.call_tool(name, arguments, call_id=call_id)

    async def _authorize(
        self, name: str, arguments: Mapping[str, Any], cwd: str, call_id: str
    ) -> Json:
        wanted = naming.permission(self._request.agent_id, name, arguments, cwd, call_id)
        verdict = await self._host.authorize(wanted)
        if isinstance(verdict, Deny):
            self._translator.reasons[call_id] = verdict.reason
            return deny(verdict.reason)
        self._allowed.add(call_id)
        return ALLOW

    async def _answers(self, given: Json, call_id: str) -> Json:
        """Return a question's input with the person's answers."""
        answers = {
            key: naming.answer_text(await self._host.ask_user(replace(question, call_id=call_id)))
            for key, question in naming.questions(given)
        }
        return {**given, "answers": answers}
