"""One turn of Codex: its text, its pending requests, and decisions about its calls."""

from __future__ import annotations

import asyncio
import contextlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from prsm_codex import approvals, hooks, rollout
from prsm_codex.events import arguments_of, escalates
from prsm_core import Deny, Notice, PermissionRequest, ToolCallFinished, ToolCallStarted
from prsm_core.kit import Turn, as_object, first_of, one_line, quote_conversation

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Mapping, Sequence

    from prsm_codex.confined import Sandbox
    from prsm_codex.rpc import ServerRequest
    from prsm_core import AgentHost, AssembledContext, ProviderServices, SessionRequest

# The thread lacks its answer and says "the user interrupted the previous turn on purpose".
COMPLETED_NOTE = "Your task_complete was accepted, and nothing was interrupted. Its answer: "
_GO_ON = "Continue where the conversation stopped."

Said = tuple[str, str]  # role and content of a message
HAS_COMPLETED = "This agent has completed; nothing more is done for it."
_NO_TURN = "no turn of this agent is running"
_KNOWN_SECONDS = 10.0  # a call is asked for at once, the turn's id comes by another way
_LEAVES = "leave its sandbox"


def turn_text(context: AssembledContext, said: Sequence[Said] = ()) -> str | None:
    """Return the prompt of a turn, after what no thread holds; None if the thread only goes on."""
    message = prompt_of(context)
    earlier = [*((m.role, m.content) for m in context.history), *said]
    if not earlier:
        return message
    return f"{quote_conversation(earlier)}\n\n{message or _GO_ON}"


def prompt_of(context: AssembledContext) -> str | None:
    """Return the message that a turn begins with."""
    return context.current_message.content if context.current_message else None


class CodexTurn(Turn):
    """State of one turn. The session decides, this keeps."""

    def __init__(self) -> None:
        super().__init__()
        self._requests: dict[ServerRequest, asyncio.Task[object] | None] = {}
        self._hooked: set[asyncio.Task[object]] = set()  # decide about calls of the vendor
        self.id: str | None = None
        self.known = asyncio.Event()  # the id is known, or nobody needs it any more
        self.completing: str | None = None  # the accepted call that ends the turn
        self.is_counted = False  # the tokens of the response with that call were reported
        # The response with the newest calls is complete; only raw events show that.
        self.has_responded = asyncio.Event()

    def begin(self, turn_id: str) -> None:
        """Note the vendor's id."""
        self.id = turn_id
        self.known.set()

    def concerns(self, turn_id: object) -> bool:
        """Return whether something with this turn id belongs here.

        A turn is announced before anything else of it. Until then all is of the last turn.
        """
        return turn_id is None or turn_id == self.id

    def takes(self, turn_id: object) -> bool:
        """Return whether a request with this turn id is still to be worked on."""
        return self.concerns(turn_id) and not (self.over.is_set() or self.completing)

    def hear(self, method: str, params: Mapping[str, Any]) -> None:
        """Note whether the response with the newest call is complete, and counted."""
        if method == "thread/tokenUsage/updated":
            self.is_counted = True
        elif method == "rawResponse/completed":
            self.is_counted = bool(params.get("usage"))
            self.has_responded.set()
        elif method == "rawResponseItem/completed":
            kind = as_object(params.get("item")).get("type")
            if str(kind).endswith("_call"):
                self.is_counted = False
                self.has_responded.clear()

    def close(self) -> None:
        """End all work for a turn that nobody reads any more."""
        self.known.set()  # somebody may wait for the id of a turn that never began
        self.ended()

    def opened(self, request: ServerRequest) -> None:
        """Note a request that the current task works on."""
        self._requests[request] = asyncio.current_task()

    def closed(self, request: ServerRequest) -> None:
        """Forget a request."""
        self._requests.pop(request, None)

    @contextlib.contextmanager
    def deciding(self) -> Iterator[None]:
        """Cancel the block when the turn ends: the call it decides about does not run then."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a decision needs a task")
        self._hooked.add(task)
        try:
            yield
        finally:
            self._hooked.discard(task)

    async def refuse_others(self, request: ServerRequest, why: str) -> None:
        """Answer every pending request but one with a refusal."""
        self.cancel_decisions()
        for other in tuple(self._requests):
            refusal = approvals.refusal(other.method, why)
            if other is not request and refusal is not None:
                await other.answer(refusal)

    def cancel_decisions(self) -> None:
        """Let no call run that is still undecided."""
        for task in self._hooked:
            if task is not asyncio.current_task():
                task.cancel()
        self._hooked.clear()

    def ended(self) -> None:
        """End all work for a turn that is over: the vendor does not say so."""
        self.cancel_decisions()
        for task in self._requests.values():
            if task is not None and task is not asyncio.current_task():
                task.cancel()
        self._requests.clear()


@dataclass(slots=True, kw_only=True, eq=False)
class ToolDecider:
    """Lets the host decide about each call of one agent.

    orchestration: The hook's names of the orchestration tools, which need no permission here.
    key: Returns the name by which Codex tells that an allowed call begins.
    sandbox: What it stops is refused without a question.
    setting: The setting by which a person allows such calls.
    escalated: Returns the ids of calls that want to leave the sandbox. They are refused, too. None
        if only the thread's file says which they are.
    allowed: What was allowed, by `key`.
    asked: The ids of calls that were allowed since somebody looked.
    """

    session: SessionRequest
    host: AgentHost
    services: ProviderServices
    orchestration: frozenset[str]
    key: Callable[[str, PermissionRequest], str]
    sandbox: Sandbox
    setting: str
    escalated: Callable[[], Container[str] | None]
    allowed: dict[str, list[PermissionRequest]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    _has_noted: bool = field(default=False, init=False)

    async def decide(self, turn: CodexTurn | None, payload: Mapping[str, Any]) -> str | None:
        """Return why a call may not run, None when it may."""
        if turn is None or not await self._is_of(turn, payload.get("turn_id")):
            return HAS_COMPLETED if turn is not None and turn.completing else _NO_TURN
        if payload.get("tool_name") in self.orchestration | hooks.HARMLESS:
            return None
        call_id = str(payload.get("tool_use_id"))
        wanted = hooks.tool_request(payload, self.session.agent_id, self.session.cwd)
        place = {"cwd": wanted.cwd} if wanted.command else {}
        wanted = replace(wanted, call_id=call_id, arguments={**wanted.arguments, **place})
        with turn.deciding():
            refusal = await self._refusal(turn, wanted, payload)
            if refusal is not None:
                started = ToolCallStarted(call_id, wanted.tool, wanted.arguments)
                await turn.put([started, ToolCallFinished(call_id, "denied", error=refusal)])
                return refusal
        self.allowed.setdefault(self.key(call_id, wanted), []).append(wanted)
        self.asked.append(call_id)
        return None

    async def _refusal(
        self, turn: CodexTurn, wanted: PermissionRequest, payload: Mapping[str, Any]
    ) -> str | None:
        """Return why a call may not run. Nobody is asked about one that cannot work."""
        if await self._escalates(wanted.call_id, payload):
            return await self._cannot(turn, wanted, _LEAVES)
        if needed := await asyncio.to_thread(self.sandbox.hindrance, wanted):
            return await self._cannot(turn, wanted, needed)
        verdict = await self.host.authorize(wanted)
        return verdict.reason if isinstance(verdict, Deny) else None

    async def _escalates(self, call_id: str | None, payload: Mapping[str, Any]) -> bool:
        """Return whether a call asks to leave the sandbox, which the hook is not told."""
        known, thread = self.escalated(), payload.get("transcript_path")
        if known is not None or not isinstance(thread, str) or call_id is None:
            return call_id in (known or ())
        item = await asyncio.to_thread(rollout.find_item, Path(thread), call_id)
        return escalates(arguments_of(item))

    async def _cannot(self, turn: CodexTurn, wanted: PermissionRequest, needed: str) -> str:
        """Return the refusal of a call that Codex's sandbox stops. It names another way.

        If there is none, a notice tells the person once which setting allows such calls.
        """
        why = f"this call would {needed}, and Codex's sandbox lets no call do so, whoever allows it"
        if any(tool.name == "run_bash" for tool in self.host.tools):
            return f"{why}. Use run_bash for it: that runs outside of the sandbox."
        if not self.sandbox.writable and needed.startswith("write"):
            return f"{why}: this agent may not change files."
        if not self._has_noted:
            self._has_noted = True
            what = one_line(wanted.command or " ".join(wanted.paths))
            text = f"Codex's sandbox stops `{what}`: it would {needed}."
            await turn.put([Notice("warning", f"{text} To allow such calls: {self.setting}.")])
        return f"{why}. It needs a setting of the user: {self.setting}. Leave it to the user."

    async def _is_of(self, turn: CodexTurn, turn_id: object) -> bool:
        """Return whether a call belongs to the turn and the turn still takes calls."""
        is_known = await first_of(self.services.clock, _KNOWN_SECONDS, turn.known.wait)
        return is_known and turn.takes(turn_id)


def runs_as_asked(item: Mapping[str, Any], wanted: PermissionRequest) -> bool:
    """Return whether a command begins with the text and in the folder that were asked for."""
    if wanted.command is None or item.get("type") != "commandExecution":
        return True
    folder = str(item.get("cwd") or wanted.cwd)
    is_there = os.path.normpath(folder) == os.path.normpath(wanted.cwd)
    return is_there and approvals.unwrap(str(item.get("command") or "")) == wanted.command
