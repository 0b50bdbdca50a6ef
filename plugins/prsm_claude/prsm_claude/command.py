"""The command line, environment and files that the CLI is started with."""

from __future__ import annotations

import json
from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from prsm_claude import naming
from prsm_claude.home import LOGIN_VARIABLES
from prsm_core import ConfigError
from prsm_core.kit import write_private

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from prsm_claude.config import ClaudeConfig
    from prsm_core import McpServer, SessionRequest

DEFAULT_MODEL = "default"  # Claude chooses
_CALL_MS = 7 * 24 * 3600 * 1000  # the engine's own clocks end a call
_MCP_START_MS = 60_000
_NO_KEY = "none"  # the CLI sends nothing without one
_PARALLEL_CALLS = 256

# Off: what would work, ask or write behind the engine's back.
_FIXED = {
    "CLAUDE_CODE_ENTRYPOINT": "sdk-py",
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK": "1",
    "CLAUDE_CODE_DISABLE_TERMINAL_TITLE": "1",
    "CLAUDE_CODE_MAX_TOOL_USE_CONCURRENCY": str(_PARALLEL_CALLS),
    "CLAUDE_BASH_MAINTAIN_PROJECT_WORKING_DIR": "1",
    "BASH_MAX_TIMEOUT_MS": str(_CALL_MS),
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_UPDATES": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "ENABLE_TOOL_SEARCH": "false",  # every tool's schema is in the first request
    "MCP_TIMEOUT": str(_MCP_START_MS),
    "MCP_TOOL_TIMEOUT": str(_CALL_MS),
}

# The CLI begins each system prompt with a line for Anthropic's accounting that differs in each
# conversation. A cache of prefixes on another server would serve no sibling.
_SHARING = {"CLAUDE_CODE_ATTRIBUTION_HEADER": "0"}


@contextmanager
def mcp_config(state_dir: Path, request: SessionRequest, session_id: str) -> Iterator[str]:
    """Yield the MCP servers as an argument: a private file if the user's may hold secrets."""
    config = json.dumps({"mcpServers": mcp_servers(request)})
    if not request.mcp_servers:
        yield config
        return
    path = state_dir / f"start-{session_id}.json"
    try:
        write_private({path: config})
        yield str(path)
    finally:
        path.unlink(missing_ok=True)


def greeting_argv(program: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command line of a CLI without an agent."""
    return (
        *program,
        "--output-format=stream-json",
        "--input-format=stream-json",
        "--verbose",
        "--setting-sources=",
        "--strict-mcp-config",
        "--disable-slash-commands",
    )


def cli_argv(
    program: tuple[str, ...],
    request: SessionRequest,
    servers: str,
    *,
    session_id: str,
    resume: bool,
    orchestrates: bool = True,
) -> tuple[str, ...]:
    """Return the command line of one agent's CLI, with neither keys nor the agent's role.

    Anybody on the machine can read it. `servers` is what `mcp_config` yields.
    """
    tools = naming.offered(request, orchestrates=orchestrates)
    argv = [
        *greeting_argv(program),
        "--include-partial-messages",
        "--permission-prompt-tool=stdio",
        f"--tools={','.join(tools)}",
        f"--mcp-config={servers}",
        f"--resume={session_id}" if resume else f"--session-id={session_id}",
    ]
    if request.model != DEFAULT_MODEL:
        argv.append(f"--model={request.model}")
    if request.reasoning_effort:
        argv.append(f"--effort={request.reasoning_effort}")
    return tuple(argv)


def mcp_servers(request: SessionRequest) -> dict[str, Any]:
    """Return an agent's MCP servers and PRSM's own; raise ConfigError if one has its name."""
    if naming.SERVER in request.mcp_servers:
        raise ConfigError(
            f"mcp_servers.{naming.SERVER}: PRSM's own server has this name",
            hint="Give the server another name.",
        )
    servers = {name: _server(server) for name, server in request.mcp_servers.items()}
    servers[naming.SERVER] = {"type": "sdk", "name": naming.SERVER, "alwaysLoad": True}
    return servers


def _server(server: McpServer) -> dict[str, Any]:
    if server.url:
        remote = {"type": "http", "url": server.url, "headers": dict(server.headers)}
        return {**remote, "alwaysLoad": True}
    return {
        "type": "stdio",
        "command": server.command,
        "args": list(server.args),
        "env": dict(server.env),
        "alwaysLoad": True,
    }


def cli_env(config: ClaudeConfig, environ: Mapping[str, str], home: Path) -> dict[str, str]:
    """Return what is added to the allow-listed environment of the CLI."""
    env = {
        **_FIXED,
        # Some features of the CLI depend on the release whose protocol we speak.
        "CLAUDE_AGENT_SDK_VERSION": version("claude-agent-sdk"),
        # The engine retries. One retry is left for a login that must be renewed.
        "CLAUDE_CODE_MAX_RETRIES": "0" if config.custom_server else "1",
        **(_SHARING if config.base_url else {}),
        **config.env,
        "CLAUDE_CONFIG_DIR": str(home),
    }
    if config.base_url:
        env["ANTHROPIC_BASE_URL"] = config.base_url
    return {**env, **_login(config, environ)}


def model_env(request: SessionRequest) -> dict[str, str]:
    """Return the variables of an agent's settings for which the CLI has no flags."""
    limit = request.max_response_tokens
    longest = max((each.start_seconds for each in request.mcp_servers.values()), default=0.0)
    waits = {"MCP_TIMEOUT": str(int(longest * 1000))} if longest * 1000 > _MCP_START_MS else {}
    return waits if limit is None else {**waits, "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(limit)}


def _login(config: ClaudeConfig, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the login. The user's own are given to no other server."""
    variable = "ANTHROPIC_AUTH_TOKEN" if config.bearer else "ANTHROPIC_API_KEY"
    if key := config.key(environ):
        return {variable: key}
    if any(name in config.env for name in LOGIN_VARIABLES):
        return {}  # the configuration comes before the user's environment
    if config.base_url:
        return {variable: _NO_KEY}
    if config.home:
        return {}  # the login is the one in that folder
    return {name: environ[name] for name in LOGIN_VARIABLES if environ.get(name)}
