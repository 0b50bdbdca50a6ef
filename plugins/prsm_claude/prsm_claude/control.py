"""The control channel of Claude's CLI: requests of both sides, beside the conversation."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from prsm_claude.naming import SERVER
from prsm_core.kit import as_object

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

    run: Answers the hook, given its input and the id of the call.
    matcher: A pattern of the names of its tools; None for all.
    seconds: How long the CLI waits for the answer; None for its default.
    must_hold: Whether a call is forbidden if the hook fails.
    """

    run: Callable[[Any, str | None], Awaitable[Json]]
    matcher: str | None = None
    seconds: int | None = None
    must_hold: bool = False

    def registered_as(self, name: str) -> Json:
        """Return the hook's entry in the greeting."""
        entry: Json = {"matcher": self.matcher, "hookCallbackIds": [name]}
        if self.seconds is not None:
            entry["timeout"] = self.seconds
        if self.must_hold:
            entry["onFailure"] = "block"
        return entry


class Callbacks(Struct, frozen=True, kw_only=True):
    """Answers the requests of one CLI.

    hooks: By their event.
    can_use_tool: Decides about a call that the hooks leave open, given the name of its tool, its
        input and its id. Without it no such call is made.
    serve: Answers JSON-RPC messages to PRSM's own MCP server, if there is one.
    """

    hooks: Mapping[str, Hook] = field(default_factory=dict)
    can_use_tool: Callable[[str, Json, str], Awaitable[Json]] | None = None
    serve: Callable[[Json], Json] | None = None


class Control:
    """The channel of one CLI.

    Each request of the CLI is answered in a task of its own: it may wait for a person or for other
    agents, and the CLI must be heard meanwhile.
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
        """Register hooks, which the CLI must hold, and the agent's role; return its answer."""
        hooks = self._callbacks.hooks
        registered = {event: [hook.registered_as(event)] for event, hook in hooks.items()}
        request: Json = {"subtype": "initialize", "hooks": registered or None}
        if role:
            request["appendSystemPrompt"] = role
        answer = await self.ask(request)
        if any(hook.must_hold for hook in hooks.values()):
            if not answer.get("hook_on_failure_supported"):
                raise ControlError(
                    "it lets a call pass when the hook that judges it fails. Update Claude Code."
                )
            if answer.get("hooks_applied") is False:
                raise ControlError("it was running already and took no hooks")
        return answer

    async def ask(self, request: Json) -> Json:
        """Send a request and return its answer; raise ControlError, or why the CLI has ended."""
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
        """Send a request whose answer nobody waits for."""
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
            # The CLI gave up its request.
            task.cancel()

    def end(self, error: Exception) -> None:
        """Fail every request to a CLI that has ended."""
        self._ended = error
        for answer in self._asked.values():
            if not answer.done():
                answer.set_exception(error)

    def close(self) -> None:
        """End the requests of both sides."""
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
        answer.set_result(dict(as_object(response.get("response"))))

    async def _answer(self, name: str, request: Json) -> None:
        """Answer a request of the CLI, which takes a failure for a refusal."""
        response: Json = {"request_id": name, "subtype": "success"}
        try:
            response["response"] = await self._answer_to(request)
        except Exception as error:  # noqa: BLE001 - the CLI forbids the call, and says why
            _log.warning("claude's request %s failed: %s", request["subtype"], error)
            _log.debug("the request failed here", exc_info=error)
            response |= {"subtype": "error", "error": str(error)}
        finally:
            self._answering.pop(name, None)
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
