"""Hosts that offer their tools by MCP, and scenarios whose calls reach them there."""

from __future__ import annotations

import re
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from prsm_codex.provider import CodexProvider, build
from prsm_mcp.bridge import Bridge

from prsm_core.kit.clocks import SystemClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from prsm_testing.playback import Conversation

    from prsm_core.interfaces.provider import AgentHost, ProviderSession, SessionRequest

ITS_OWN = frozenset({"exec_command", "write_stdin", "request_user_input", "view_image"})
_MEASURED = re.compile(r"\AWall time: .*\nOutput:\n")


class BridgedHost:
    """A host whose tools are also behind a bridge."""

    def __init__(self, host: Any, bridge: Bridge) -> None:
        self._host = host
        self._bridge = bridge

    def __getattr__(self, name: str) -> Any:
        return getattr(self._host, name)

    def mcp_endpoint(self, *, patience_s: float | None = None) -> Any:
        return self._bridge.endpoint(self._host, "a" * 32, patience_s=patience_s)


class BridgedProvider(CodexProvider):
    """A provider that gives its sessions such hosts; the bridge is this test's own."""

    @asynccontextmanager
    async def open_session(
        self, request: SessionRequest, host: AgentHost
    ) -> AsyncIterator[ProviderSession]:
        path = self._services.state_dir / "bridge" / "b.sock"
        path.parent.mkdir(mode=0o700, exist_ok=True)
        bridged: Any
        async with Bridge(path, SystemClock()) as bridge:
            bridged = BridgedHost(host, bridge)
            async with super().open_session(request, bridged) as session:
                yield session


def build_bridged(settings: Mapping[str, Any], services: Any) -> CodexProvider:
    """Build a provider with the backend `exec`."""
    config = build({**settings, "backend": "exec"}, services)._config
    return BridgedProvider(config, services)


def namespaced(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """Return a scenario whose orchestration calls are those of the MCP server."""
    return {"lanes": {name: _lane(lane) for name, lane in scenario["lanes"].items()}}


def _lane(lane: Mapping[str, Any]) -> dict[str, Any]:
    return {**lane, "steps": [_step(step) for step in lane["steps"]]}


def _step(step: Mapping[str, Any]) -> dict[str, Any]:
    calls = step.get("call")
    if calls is None:
        return dict(step)
    listed = calls if isinstance(calls, list) else [calls]
    return {**step, "call": [_call(call) for call in listed]}


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    own = call.get("tool") in ITS_OWN or "namespace" in call
    return dict(call) if own else {**call, "namespace": "mcp__prsm"}


class PlainOutputs:
    """A scripted model whose requests do not say how long an MCP call took."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    @property
    def requests(self) -> list[Any]:
        return [replace(request, conversation=_plain(request)) for request in self._model.requests]


def _plain(request: Any) -> Conversation:
    outputs = [
        (call_id, tool, _MEASURED.sub("", text))
        for call_id, tool, text in request.conversation.outputs
    ]
    conversation: Conversation = request.conversation
    return replace(conversation, outputs=tuple(outputs))
