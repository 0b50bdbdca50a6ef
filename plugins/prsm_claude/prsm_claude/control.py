"""The control channel of Claude's CLI: what each side asks the other, beside the conversation.

A request has an id, and the answer names it. The engine greets the CLI and interrupts it; the CLI
asks the hooks, asks for leave, and speaks with PRSM's own MCP server.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from prsm_claude.naming import SERVER

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from prsm_core import BackgroundTask, ProviderServices

    Json = dict[str, Any]

_log = logging.getLogger("prsm.claude")

TYPES = frozenset({"control_request", "control_response", "control_cancel_request"})


class ControlError(Exception):
    """The CLI refused a request, or cannot do what it must."""


class Hook(Struct, frozen=True, kw_only=True):
    """A hook of the CLI.

    Attributes:
        run: Given the hook's input and the id of the call, answers it.
        matcher: The names of the tools that it is for; None for all.
        seconds: How long the CLI waits for the answer; None for its own time.
        must_hold: Whether a call is forbidden when the hook fails.
    """

    run: Callable[[Any, str | None], Awaitable[Json]]
    matcher: str | None = None
    seconds: int | None = None
    must_hold: bool = False

    def registered_as(self, name: str) -> Json:
        """Return the hook as the greeting tells of it."""
        told: Json = {"matcher": self.matcher, "hookCallbackIds": [name]}
        if self.seconds is not None:
            told["timeout"] = self.seconds
        if self.must_hold:
            told["onFailure"] = "block"
        return told


class Callbacks(Struct, frozen=True, kw_only=True):
    """What answers the requests of one CLI.

    Attributes:
        hooks: By the event that they are for.
        can_use_tool: Given the name of a tool, its input and the id of the call, says whether the
            call may be made where the hooks have left that open; None: nothing may.
        serve: Answers what PRSM's own MCP server is asked, JSON-RPC messages; None: there is none.
    """

    hooks: Mapping[str, Hook] = field(default_factory=dict)
    can_use_tool: Callable[[str, Json, str], Awaitable[Json]] | None = None
    serve: Callable[[Json], Json] | None = None


class Control:
    """The channel of one CLI; `take` is given what the CLI says on it.

    Requests of the CLI are answered in tasks of their own: one may wait for a person or for other
    agents, and the CLI has to be heard meanwhile.
    """

    def __init__(
        self,
        services: ProviderServices,
        write: Callable[[str], Awaitable[None]],
        callbacks: Callbacks,
    ) -> None:
        self._services = services
        self._write = write
        self._callbacks = callbacks
        self._numbers = itertools.count(1)
        self._asked: dict[str, asyncio.Future[Json]] = {}
        self._answering: dict[str, BackgroundTask] = {}
        self._ended: Exception | None = None

    async def greet(self, role: str = "") -> Json:
        """Register the hooks, and add an agent's role to the system prompt; return what it tells.

        Raises ControlError for a CLI that would let calls pass where a hook fails.
        """
        hooks = self._callbacks.hooks
        registered = {event: [hook.registered_as(event)] for event, hook in hooks.items()}
        request: Json = {"subtype": "initialize", "hooks": registered or None}
        if role:
            request["appendSystemPrompt"] = role
        told = await self.ask(request)
        if any(hook.must_hold for hook in hooks.values()):
            _check_hooks_hold(told)
        return told

    async def ask(self, request: Json) -> Json:
        """Send a request and return its answer.

        Raises ControlError when the CLI refuses, and what `end` was given once it has ended.
        """
        if self._ended is not None:
            raise self._ended
        name = f"prsm-{next(self._numbers)}"
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._asked[name] = answer
        try:
            await self.send(name, request)
            return await answer
        finally:
            del self._asked[name]

    async def send(self, name: str, request: Json) -> None:
        """Send a request by its id, whose answer nobody waits for."""
        message = {"type": "control_request", "request_id": name, "request": request}
        await self._write(json.dumps(message) + "\n")

    def take(self, message: Json) -> None:
        """Take a message of one of the TYPES."""
        if message["type"] == "control_response":
            self._settle(message["response"])
            return
        name = message["request_id"]
        if message["type"] == "control_request":
            work, request = self._answer, message["request"]
            label = "claude's request"
            self._answering[name] = self._services.start_soon(work, name, request, name=label)
        elif (task := self._answering.pop(name, None)) is not None:
            # The CLI wants no answer any more.
            task.cancel()

    def end(self, error: Exception) -> None:
        """Let nobody wait for a CLI that has ended; `error` says why."""
        self._ended = error
        for answer in self._asked.values():
            if not answer.done():
                answer.set_exception(error)

    def close(self) -> None:
        """Let go of all requests, of both sides."""
        self.end(self._ended or ControlError("it is being closed"))
        answering, self._answering = self._answering, {}
        for task in answering.values():
            task.cancel()

    def _settle(self, response: Json) -> None:
        answer = self._asked.get(response["request_id"])
        if answer is None or answer.done():
            return
        if response.get("subtype") == "error":
            answer.set_exception(ControlError(str(response.get("error"))))
            return
        told = response.get("response")
        answer.set_result(told if isinstance(told, dict) else {})

    async def _answer(self, name: str, request: Json) -> None:
        """Answer a request of the CLI; one that fails it takes for a refusal."""
        try:
            told = {"subtype": "success", "response": await self._answer_to(request)}
        except Exception as error:  # noqa: BLE001 - the CLI forbids the call, and says why
            _log.warning("claude's request %s failed: %s", request["subtype"], error)
            _log.debug("the request failed here", exc_info=error)
            told = {"subtype": "error", "error": str(error)}
        finally:
            self._answering.pop(name, None)
        response = {"request_id": name, **told}
        await self._write(json.dumps({"type": "control_response", "response": response}) + "\n")

    async def _answer_to(self, request: Json) -> Json:
        subtype, callbacks = request["subtype"], self._callbacks
        call_id = request.get("tool_use_id")
        if subtype == "hook_callback":
            hook = callbacks.hooks[request["callback_id"]]
            return await hook.run(request.get("input"), call_id)
        if subtype == "can_use_tool" and callbacks.can_use_tool is not None:
            given = request["input"]
            return await callbacks.can_use_tool(request["tool_name"], given, str(call_id))
        if subtype == "mcp_message" and request.get("server_name") == SERVER and callbacks.serve:
            return {"mcp_response": callbacks.serve(request["message"])}
        raise ControlError(f"nothing here answers {subtype}")


def _check_hooks_hold(told: Json) -> None:
    if not told.get("hook_on_failure_supported"):
        raise ControlError(
            "it lets a call pass when the hook that judges it fails. Update Claude Code."
        )
    if told.get("hooks_applied") is False:
        raise ControlError("it was running already and took no hooks")
