"""The command lines, environment and settings of Codex and its threads and turns. Pure."""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from prsm_codex import hooks
from prsm_core import EDIT_TOOLS, NATIVE_TOOLS, PermissionMode, ProviderNotAvailableError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from prsm_codex.config import CodexConfig, Features
    from prsm_core import AssembledContext, Image, McpEndpoint, McpServer, SessionRequest, ToolSpec

TOOL_SERVER = "prsm"  # the name of the MCP server of the orchestration tools
SERVER = "prsm"  # the name of the model provider that we define in Codex
OPENAI_URL = "https://api.openai.com/v1"
DEFAULT_MODEL = "default"  # Codex chooses
_LONGEST_ARGUMENT = 2**16  # bytes; the system takes twice that, which TOML may need
_MCP_LIMITS: Mapping[str, Any] = {
    "required": True,  # otherwise its tools may be missing from the first request
    "startup_timeout_sec": 60,
    "tool_timeout_sec": 7 * 24 * 3600,  # the engine's own clocks end a call
}

# Off: what would start agents, continue turns or reach the network behind the engine's back.
_FEATURES_OFF = ("apps", "goals", "image_generation", "skill_search", "tool_suggest")
# What Codex gives each shell. Its other variables are for its own requests.
_CORE = frozenset({"HOME", "LOGNAME", "PATH", "SHELL", "TMPDIR", "USER"})
_SHELL_TOOLS = NATIVE_TOOLS - {"WebFetch", "WebSearch"}  # all that Codex does through its shell


def app_server_argv(
    config: CodexConfig, features: Features, variables: Iterable[str] = ()
) -> tuple[str, ...]:
    """Return the command line of the app-server, without any key; shells get the `variables`."""
    settings = {
        **_settings(config, features, variables),
        "features.default_mode_request_user_input": True,
        "tools.update_plan.enabled": True,  # a model that Codex does not know has no such tool
    }
    return (*config.command, "app-server", *_flags(features), *_overrides(settings))


def exec_argv(
    config: CodexConfig,
    request: SessionRequest,
    features: Features,
    endpoint: McpEndpoint | None,
    variables: Iterable[str] = (),
    profile: str | None = None,
    effort: str | None = None,
) -> tuple[str, ...]:
    """Return the command line of one turn; `profile` names the file with the `layer`, if any."""
    kind = "workspace-write" if may_edit(request) else "read-only"
    model = () if request.model == DEFAULT_MODEL else ("-m", request.model)
    settings = {
        **_settings(config, features, variables),
        **({} if _is_long(request) else {"developer_instructions": request.system_prompt}),
        "sandbox_workspace_write.network_access": config.network,
        **_tool_settings(request, config),
    }
    if effort:
        settings["model_reasoning_effort"] = effort
    if endpoint is not None:
        settings[f"mcp_servers.{TOOL_SERVER}"] = _tool_server(endpoint)
    options = ("--json", "--ephemeral", "--skip-git-repo-check", "-C", request.cwd, "-s", kind)
    layer = () if profile is None else ("-p", profile)
    flags = (*_flags(features), *_overrides(settings))
    return (*config.command, "exec", *options, *layer, *model, *flags, "-")


def layer(request: SessionRequest, features: Features, variables: Iterable[str] = ()) -> str | None:
    """Return, as TOML, the settings that are too secret or too long for a command line, if any."""
    names = list(variables)
    lines = []
    if _is_long(request):
        lines.append(f"developer_instructions = {toml(request.system_prompt)}")
    if request.mcp_servers:
        lines.append("[mcp_servers]")
    for name, server in request.mcp_servers.items():
        # Nothing shows when they have begun: if not required, their tools might be missing.
        settings = {**_mcp_server(server, features, names), "required": True}
        lines.append(f"{json.dumps(name)} = {toml(settings)}")
    return "\n".join([*lines, ""]) if lines else None


def _is_long(request: SessionRequest) -> bool:
    return len(request.system_prompt.encode(errors="replace")) > _LONGEST_ARGUMENT


def _tool_server(endpoint: McpEndpoint) -> dict[str, Any]:
    program, *arguments = endpoint.argv
    return {
        **_MCP_LIMITS,
        "command": program,
        "args": arguments,
        "env_vars": list(endpoint.env),  # by name, to keep the token out of command lines
        "default_tools_approval_mode": "approve",
        "supports_parallel_tool_calls": True,
    }


def _flags(features: Features) -> list[str]:
    disabled = ["plugins", "unbounded_connection_retries", "multi_agent"]
    if features.no_terminals:
        disabled.append("unified_exec_tty")  # nobody would be asked about input to a terminal
    return [word for feature in disabled for word in ("--disable", feature)]


def _overrides(settings: Mapping[str, Any]) -> list[str]:
    return [word for key, value in settings.items() for word in ("-c", f"{key}={toml(value)}")]


def _settings(
    config: CodexConfig, features: Features, variables: Iterable[str] = ()
) -> dict[str, Any]:
    overrides: dict[str, Any] = {
        # By name: values may hold a password, and anybody can read a command line.
        "shell_environment_policy.inherit": "all",
        "shell_environment_policy.ignore_default_excludes": True,
        "shell_environment_policy.include_only": sorted({*_CORE, *variables}),
        "suppress_unstable_features_warning": True,
        "check_for_update_on_startup": False,
        "analytics.enabled": False,
        **{f"features.{name}": False for name in _FEATURES_OFF},
        **(hooks.overrides() if features.hooked else {}),
    }
    if config.custom_server:
        server = {
            "name": "PRSM",
            "base_url": config.base_url or OPENAI_URL,
            "wire_api": "responses",
            # The engine retries.
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
    if isinstance(value, list):
        return "[" + ", ".join(toml(inner) for inner in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def child_env(
    config: CodexConfig, environ: Mapping[str, str], *, home: Path, temp: Path
) -> dict[str, str]:
    """Return Codex's own variables. `temp` lies beside `home`, or the sandbox would break."""
    env = {**config.env, "CODEX_HOME": str(home), "TMPDIR": str(temp)}
    if config.api_key_env and (key := config.key(environ)):
        env[config.api_key_env] = key
    return env


def thread_start(
    request: SessionRequest,
    tools: Sequence[ToolSpec],
    config: CodexConfig,
    features: Features,
    variables: Iterable[str] = (),
) -> dict[str, Any]:
    """Return the parameters of `thread/start`; MCP servers get these variables."""
    return {
        **_thread(request, config, features, variables),
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


def thread_resume(
    thread_id: str,
    request: SessionRequest,
    config: CodexConfig,
    features: Features,
    variables: Iterable[str] = (),
) -> dict[str, Any]:
    """Return the parameters of `thread/resume`. Codex restores the tools, but not the settings."""
    last_turn = {"limit": 1, "sortDirection": "desc", "itemsView": "full"}
    return {
        **_thread(request, config, features, variables),
        "threadId": thread_id,
        "excludeTurns": True,  # a long thread would not fit into one line
        "initialTurnsPage": last_turn,
    }


def _thread(
    request: SessionRequest, config: CodexConfig, features: Features, variables: Iterable[str] = ()
) -> dict[str, Any]:
    params: dict[str, Any] = {
        "cwd": request.cwd,
        "approvalPolicy": dict(hooks.APPROVAL_POLICY) if features.hooked else "untrusted",
        # Codex saves a thread that starts writable as trusted, so the turn lifts this.
        "sandbox": "read-only",
        "developerInstructions": request.system_prompt,
        "config": thread_config(request, config, features, variables),
    }
    if request.model != DEFAULT_MODEL:
        params["model"] = request.model
    if config.custom_server:
        params["modelProvider"] = SERVER
    return params


def thread_config(
    request: SessionRequest, config: CodexConfig, features: Features, variables: Iterable[str] = ()
) -> dict[str, Any]:
    """Return a thread's settings, as dotted keys: nested ones are lost on a resume."""
    names = list(variables)
    servers = {
        f"mcp_servers.{name}": _mcp_server(server, features, names, request.variables)
        for name, server in request.mcp_servers.items()
    }
    settings = {**_tool_settings(request, config), **servers}
    if request.variables:
        # For the shells of this thread; the process is shared.
        policy = "shell_environment_policy"
        settings[f"{policy}.set"] = dict(request.variables)
        settings[f"{policy}.include_only"] = sorted({*_CORE, *names, *request.variables})
    return settings


def _tool_settings(request: SessionRequest, config: CodexConfig) -> dict[str, Any]:
    """Return the settings of Codex's own tools, and the model's context window."""
    tools = request.native_tools
    search = "WebSearch" in tools and not config.lean
    settings: dict[str, Any] = {
        "features.shell_tool": bool(tools & _SHELL_TOOLS),
        "features.view_image": "Read" in tools and not config.lean,
        "web_search": "live" if search else "disabled",
    }
    model = next((m for m in config.models if m.model_id == request.model), None)
    if model is not None and model.context_window:
        # Codex knows those of its own models only, and assumes at most 272,000 for another.
        settings["model_context_window"] = model.context_window
    return settings


def check_servers(request: SessionRequest, config: CodexConfig) -> None:
    """Raise ProviderNotAvailableError for an MCP server whose name the backend cannot take."""
    one_shot = config.backend == "exec"
    for name in request.mcp_servers:
        if one_shot and name == TOOL_SERVER:
            why = "is PRSM's own"
        elif not one_shot and "." in name:
            why = "has a dot in its name, at which the app-server splits it"
        else:
            continue
        raise ProviderNotAvailableError(
            f"codex: the MCP server {name!r} {why}", hint="Give the server another name."
        )


def _mcp_server(
    server: McpServer,
    features: Features,
    variables: Sequence[str],
    own: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    settings: dict[str, Any] = {**_MCP_LIMITS, "required": server.required}
    settings["startup_timeout_sec"] = max(server.start_seconds, settings["startup_timeout_sec"])
    if features.hooked:
        settings["default_tools_approval_mode"] = "approve"  # the hook has asked
    if server.url:
        return {**settings, "url": server.url, "http_headers": dict(server.headers)}
    return {
        **settings,
        "command": server.command,
        "args": list(server.args),
        "env": {**own, **server.env},
        "env_vars": [name for name in variables if name not in server.env],
    }


def turn_start(
    thread_id: str,
    text: str | None,
    request: SessionRequest,
    message_id: str,
    config: CodexConfig,
    features: Features,
    images: Sequence[Image] = (),
    effort: str | None = None,
) -> dict[str, Any]:
    """Return the parameters of `turn/start`. Without text the thread goes on where it stopped."""
    params: dict[str, Any] = {
        "threadId": thread_id,
        "input": turn_input(text, images) if text else [],
        "clientUserMessageId": message_id,
        "sandboxPolicy": _sandbox(request, config, features),
    }
    if effort:
        params["effort"] = effort
    return params


def effort_of(context: AssembledContext) -> str | None:
    """Return the reasoning effort of a turn; None leaves it to Codex."""
    return (context.thinking_config or {}).get("effort")


def _sandbox(request: SessionRequest, config: CodexConfig, features: Features) -> dict[str, Any]:
    """Return the sandbox of a turn.

    Without the hook Codex asks for each command, and an accepted one runs outside of the sandbox.
    With a sandbox Codex would try it inside first, so that it ran twice, or failed.
    """
    if not may_edit(request):
        return {"type": "readOnly", "networkAccess": config.network}
    if not features.hooked:
        return {"type": "dangerFullAccess"}
    return {"type": "workspaceWrite", "networkAccess": config.network}


def turn_input(text: str, images: Sequence[Image]) -> list[dict[str, Any]]:
    """Return a text and the images that it cites as the input of a turn."""
    shown = [{"type": "localImage", "path": image.path} for image in images]
    return [{"type": "text", "text": text}, *shown]


def may_edit(request: SessionRequest) -> bool:
    """Return whether the agent may change files in its working folder."""
    return bool(request.native_tools & EDIT_TOOLS) and request.mode is not PermissionMode.PLAN
