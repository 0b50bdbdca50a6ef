"""The command line, environment and thread settings that Codex is started with; all pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from prsm_core.domain.agents import PermissionMode
from prsm_core.domain.tools import EDIT_TOOLS, NATIVE_TOOLS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from prsm_codex.config import CodexConfig
    from prsm_core.domain.tools import McpServer, ToolSpec
    from prsm_core.interfaces.provider import SessionRequest

SERVER = "prsm"  # the name of the model provider that we define in Codex
OPENAI_URL = "https://api.openai.com/v1"
DEFAULT_MODEL = "default"  # Codex chooses
_MCP_START_SECONDS = 60
_MCP_CALL_SECONDS = 7 * 24 * 3600  # the engine's own clocks end a call

# Off: what would start agents, continue turns or reach the network behind the engine's back.
_FEATURES_OFF = ("apps", "goals", "image_generation", "skill_search", "tool_suggest")
_SHELL_TOOLS = NATIVE_TOOLS - {"WebFetch", "WebSearch"}  # all that Codex does through its shell


def app_server_argv(config: CodexConfig) -> tuple[str, ...]:
    """Return the command line of the app-server; there is never a key in it."""
    argv = [*config.command, "app-server"]
    for feature in ("plugins", "unbounded_connection_retries", "multi_agent"):
        argv += ["--disable", feature]
    for key, value in _overrides(config).items():
        argv += ["-c", f"{key}={toml(value)}"]
    return tuple(argv)


def _overrides(config: CodexConfig) -> dict[str, Any]:
    overrides: dict[str, Any] = {
        "shell_environment_policy.inherit": "core",
        "suppress_unstable_features_warning": True,
        "check_for_update_on_startup": False,
        "analytics.enabled": False,
        "features.default_mode_request_user_input": True,
        **{f"features.{name}": False for name in _FEATURES_OFF},
    }
    if config.custom_server:
        server = {
            "name": "PRSM",
            "base_url": config.base_url or OPENAI_URL,
            "wire_api": "responses",
            # the engine retries: the two must not multiply
            "request_max_retries": 0,
            "stream_max_retries": 0,
        }
        if config.api_key_env:
            server["env_key"] = config.api_key_env
        overrides["model_provider"] = SERVER
        overrides[f"model_providers.{SERVER}"] = server
    return overrides


def toml(value: Any) -> str:
    """Return a value as TOML on one line (a JSON text is a TOML basic string)."""
    if isinstance(value, dict):
        pairs = ", ".join(f"{key} = {toml(inner)}" for key, inner in value.items())
        return "{ " + pairs + " }"
    return json.dumps(value, ensure_ascii=False)


def child_env(
    config: CodexConfig, environ: Mapping[str, str], *, home: Path, temp: Path
) -> dict[str, str]:
    """Return what is added to the environment of the app-server.

    `temp` stands beside `home`: a home below the temp directory breaks Codex's sandbox.
    """
    env = {**config.env, "CODEX_HOME": str(home), "TMPDIR": str(temp)}
    if config.api_key_env:
        env[config.api_key_env] = environ[config.api_key_env]
    return env


def thread_start(
    request: SessionRequest, tools: Sequence[ToolSpec], config: CodexConfig
) -> dict[str, Any]:
    """Return the parameters of `thread/start`."""
    return {
        **_thread(request, config),
        "ephemeral": False,  # an ephemeral thread cannot be resumed
        "experimentalRawEvents": True,
        "dynamicTools": [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "inputSchema": dict(tool.input_schema),
            }
            for tool in tools
        ],
    }


def thread_resume(thread_id: str, request: SessionRequest, config: CodexConfig) -> dict[str, Any]:
    """Return the parameters of `thread/resume`; Codex restores the tools, but not the settings."""
    last_turn = {"limit": 1, "sortDirection": "desc", "itemsView": "full"}
    return {
        **_thread(request, config),
        "threadId": thread_id,
        "excludeTurns": True,  # a long thread in one line would be longer than a line may be
        "initialTurnsPage": last_turn,
    }


def _thread(request: SessionRequest, config: CodexConfig) -> dict[str, Any]:
    params: dict[str, Any] = {
        "cwd": request.cwd,
        "approvalPolicy": "untrusted",
        # A thread that starts writable is written down as trusted: the turn lifts this instead.
        "sandbox": "read-only",
        "developerInstructions": request.system_prompt,
        "config": thread_config(request, config),
    }
    if request.model != DEFAULT_MODEL:
        params["model"] = request.model
    if config.custom_server:
        params["modelProvider"] = SERVER
    return params


def thread_config(request: SessionRequest, config: CodexConfig) -> dict[str, Any]:
    """Return a thread's settings, as dotted keys (nested ones are lost on a resume)."""
    tools = request.native_tools
    search = "WebSearch" in tools and not config.lean
    settings: dict[str, Any] = {
        "features.shell_tool": bool(tools & _SHELL_TOOLS),
        "features.view_image": "Read" in tools and not config.lean,
        "web_search": "live" if search else "disabled",
    }
    for name, server in request.mcp_servers.items():
        settings[f"mcp_servers.{name}"] = _mcp_server(server)
    return settings


def _mcp_server(server: McpServer) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "required": True,  # otherwise its tools may be missing from the first request
        "startup_timeout_sec": _MCP_START_SECONDS,
        "tool_timeout_sec": _MCP_CALL_SECONDS,
    }
    if server.url:
        return {**settings, "url": server.url, "http_headers": dict(server.headers)}
    return {
        **settings,
        "command": server.command,
        "args": list(server.args),
        "env": dict(server.env),
    }


def turn_start(
    thread_id: str, text: str | None, request: SessionRequest, message_id: str
) -> dict[str, Any]:
    """Return the parameters of `turn/start`; without text the thread goes on where it stopped."""
    params: dict[str, Any] = {
        "threadId": thread_id,
        "input": [{"type": "text", "text": text}] if text else [],
        "clientUserMessageId": message_id,
        "sandboxPolicy": {"type": "workspaceWrite" if may_edit(request) else "readOnly"},
    }
    if request.reasoning_effort:
        params["effort"] = request.reasoning_effort
    return params


def may_edit(request: SessionRequest) -> bool:
    """Return whether the agent may change files in its working folder."""
    return bool(request.native_tools & EDIT_TOOLS) and request.mode is not PermissionMode.PLAN
