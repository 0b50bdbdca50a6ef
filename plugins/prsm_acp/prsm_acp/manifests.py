"""The agents PRSM knows, by name."""

from __future__ import annotations

import difflib
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from prsm_acp.manifest import (
    NPM,
    SERVER,
    Manifest,
    McpPlace,
    ModelChoice,
    Quirks,
    SettingsFile,
    UsageFrom,
)
from prsm_core import ConfigError, PermissionMode
from prsm_core.kit import as_object, token_count

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from prsm_core import McpServer

    Json = dict[str, Any]

LONG_WAIT_MS = 86_400_000  # a call that waits for another agent may take a day
_GEMINI = {"input_tokens": "input", "output_tokens": "output"}


def qwen(own: McpServer | None, others: Collection[str]) -> Json:
    """Return Qwen Code's settings of the system, which win over the user's and the workspace's."""
    settings: Json = {
        "$version": 4,
        "general": {"enableAutoUpdate": False},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "disableAllHooks": True,  # one of them may give leave in our place
        "permissions": {
            "ask": ["Bash", "Read", "Edit", "WebFetch", "Monitor"],
            # Without the search every tool is offered at once, PRSM's too.
            # An agent of its own would not be PRSM's child.
            "deny": ["tool_search", "agent"],
        },
        "mcp": {"allowed": [SERVER, *others]},
    }
    if own is not None:
        settings["mcpServers"] = {SERVER: {**_started(own), "trust": True}}
    return settings


def opencode(own: McpServer | None, others: Collection[str]) -> Json:
    """Return what OpenCode reads in addition to the user's own configuration."""
    return {
        "$schema": "https://opencode.ai/config.json",
        "autoupdate": False,
        "share": "disabled",
        "agent": {"title": {"disable": True}},  # a request of its own, to a model nobody named
        "experimental": {
            "mcp_timeout": LONG_WAIT_MS,  # else it gives up a call after a minute
            "continue_loop_on_deny": True,  # else a refused call ends the turn
        },
    }


def copilot(own: McpServer | None, others: Collection[str]) -> Json:
    """Return Copilot's servers besides the user's own. Over ACP it takes none that it starts."""
    servers = {SERVER: {"type": "local", "tools": ["*"], **_started(own)}} if own else {}
    return {"mcpServers": servers}


def _started(own: McpServer) -> Json:
    return {
        "command": own.command,
        "args": list(own.args),
        "env": dict(own.env),
        "timeout": LONG_WAIT_MS,
    }


def read_gemini(home: Path, session_id: str) -> Mapping[str, int]:
    """Return a session's tokens by Gemini's files, where each response may stand several times."""
    if not session_id.replace("-", "").isalnum():
        return {}
    lines: list[bytes] = []
    for path in home.glob(f".gemini/tmp/*/chats/session-*-{session_id[:8]}.jsonl"):
        with suppress(OSError):
            lines += path.read_bytes().splitlines()
    used: dict[str, Mapping[str, Any]] = {}
    for line in lines:
        with suppress(ValueError, RecursionError):  # it may be half written
            message = as_object(json.loads(line))
            if tokens := as_object(message.get("tokens")):
                used[str(message.get("id"))] = tokens
    return {
        name: sum(token_count(tokens.get(key)) or 0 for tokens in used.values())
        for name, key in _GEMINI.items()
        if used
    }


def _always(mode: str) -> dict[PermissionMode, str]:
    """Return one mode for all: one that asks, so that PRSM decides."""
    return dict.fromkeys(PermissionMode, mode)


GEMINI = Manifest(
    name="gemini",
    command=("gemini", "--acp"),
    install=f"{NPM}@google/gemini-cli",
    login="set GEMINI_API_KEY, or run `gemini` once and log in",
    passes=("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION"),
    variables={
        "GEMINI_CLI_NO_RELAUNCH": "1",  # else a wrapper stays that no signal ends
        "GEMINI_CLI_TRUST_WORKSPACE": "true",  # else it starts no server of a session
    },
    key_variable="GEMINI_API_KEY",
    url_variable="GOOGLE_GEMINI_BASE_URL",
    home_variable="GEMINI_CLI_HOME",
    modes=_always("default"),
    model=ModelChoice.ARGUMENT,
    model_argument="-m",
    usage=UsageFrom.QUOTA,
    kept_tokens=read_gemini,
    asks_edits=True,
    skills=frozenset({".agents/skills", ".gemini/skills"}),
    user_skills=frozenset({"~/.agents/skills", "~/.gemini/skills"}),
    gaps=(
        "commands that it takes for safe run without being asked for",
        "files outside the working folder are read without being asked for",
        "the workspace's own .gemini/settings.json holds; the provider gemini shuts it out",
    ),
    tested="0.61",
    quirks=Quirks(
        noise=("[MODE_UPDATE]",),
        thought_noise="****\n",
        named_ids=True,
        missing_is_empty=True,
        always_option="proceed_always_server",
        reusable_after_cancel=False,  # the history lacks the answer of the call, or the whole turn
        cuts_calls_s=600,
    ),
)
CLAUDE = Manifest(
    name="claude-agent-acp",
    command=("claude-agent-acp",),
    install=f"{NPM}@agentclientprotocol/claude-agent-acp",
    login="run `claude` once and log in, or set ANTHROPIC_API_KEY",
    passes=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
    variables={
        "MCP_TOOL_TIMEOUT": str(LONG_WAIT_MS),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_DISABLE_TERMINAL_TITLE": "1",  # a model request of its own
    },
    key_variable="ANTHROPIC_API_KEY",
    url_variable="ANTHROPIC_BASE_URL",
    home_variable="CLAUDE_CONFIG_DIR",
    modes=_always("default"),
    gaps=("reading inside the workspace is not asked for",),
    tested="0.49",
)
CODEX = Manifest(
    name="codex-acp",
    command=("codex-acp",),
    install=f"{NPM}@agentclientprotocol/codex-acp",
    login="run `codex login`, or set OPENAI_API_KEY",
    passes=("OPENAI_API_KEY", "CODEX_API_KEY", "CODEX_HOME"),
    key_variable="OPENAI_API_KEY",
    home_variable="CODEX_HOME",
    modes=_always("read-only"),
    gaps=("commands inside its own read-only sandbox run without being asked for",),
    tested="2.6",
)
QWEN = Manifest(
    name="qwen",
    command=("qwen", "--acp"),
    install=f"{NPM}@qwen-code/qwen-code",
    login="run `qwen` once and log in, or set OPENAI_API_KEY, OPENAI_BASE_URL and OPENAI_MODEL",
    passes=(
        *("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL", "DASHSCOPE_API_KEY"),
        *("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "ANTHROPIC_MODEL"),
        *("GEMINI_API_KEY", "GEMINI_MODEL"),
    ),
    variables={"QWEN_CODE_NO_RELAUNCH": "1"},  # else a second process, with twice the memory
    settings=SettingsFile(variable="QWEN_CODE_SYSTEM_SETTINGS_PATH", content=qwen),
    key_variable="OPENAI_API_KEY",
    url_variable="OPENAI_BASE_URL",
    key_arguments=("--auth-type", "openai"),
    home_variable="QWEN_HOME",
    modes=_always("default"),
    model=ModelChoice.ARGUMENT,  # session/set_model would change the user's own settings
    model_argument="-m",
    mcp=McpPlace.LAUNCH,
    usage=UsageFrom.CHUNKS,
    gaps=(
        "the calls of one response run one after the other",
        "tools of other MCP servers are asked for without their names",
        "models, addresses and variables that the workspace's own .qwen folder or .env names hold",
        "the settings of the machine, /etc/qwen-code/settings.json, are not read",
        "it tries again by itself when its vendor is busy, for a minute or more",
    ),
    tested="0.15",
    quirks=Quirks(
        free_titles=True,
        missing_is_empty=True,
        reusable_after_cancel=False,
        model_ids=r"(?:\$runtime\|[^|]*\|)?(?P<name>.+)\((?P<login>[\w-]+)\)",
    ),
)
OPENCODE = Manifest(
    name="opencode",
    command=("opencode", "acp"),
    install=f"{NPM}opencode-ai",
    login="run `opencode auth login`",
    passes=("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY"),
    variables={
        # An agent of its own would not be PRSM's child, and nobody would answer its questions.
        "OPENCODE_PERMISSION": '{"*": "ask", "task": "deny", "doom_loop": "allow"}',
        "OPENCODE_DISABLE_PROJECT_CONFIG": "1",  # the workspace's own could allow everything
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        "npm_config_offline": "true",  # else it installs a package into its folder of settings
    },
    settings=SettingsFile(variable="OPENCODE_CONFIG", content=opencode),
    secret_variable="OPENCODE_SERVER_PASSWORD",  # noqa: S106 - a name; it listens on a port
    needs_model=True,  # its own choice is a hosted model that nobody asked for
    gaps=(
        "a shell line of nothing but cd and redirections runs without being asked for",
        "what the user's own configuration says of one of its agents wins over the questions",
        "a command that it runs can reach its server, whose password stands in the environment",
        "it tries again by itself when its vendor is busy, for a minute or more",
        "it wants ripgrep, and fetches it where there is none",
        "its vendor's errors are understood by their words alone",
        "the tokens of the last response of a turn are told, not of all",
    ),
    tested="1.18",
)
GOOSE = Manifest(
    name="goose",
    command=("goose", "acp"),
    install="see https://block.github.io/goose",
    login="run `goose configure`",
    passes=("GOOSE_PROVIDER", "GOOSE_MODEL", "ANTHROPIC_API_KEY", "OPENAI_API_KEY"),
    variables={"GOOSE_MODE": "approve"},
    model=ModelChoice.NONE,
)
COPILOT = Manifest(
    name="copilot",
    command=(
        *("copilot", "--acp", "--no-auto-update", "--no-remote", "--disable-builtin-mcps"),
        *("--disable-client-telemetry", "--disallow-temp-dir", "--no-ask-user"),
        "--excluded-tools=task",  # an agent of its own would not be PRSM's child
        "--allow-tool=prsm",
    ),
    install=f"{NPM}@github/copilot",
    login="run `copilot` once and type /login, or set COPILOT_PROVIDER_BASE_URL and COPILOT_MODEL",
    passes=(
        *("GH_TOKEN", "GITHUB_TOKEN", "COPILOT_GITHUB_TOKEN", "COPILOT_MODEL", "COPILOT_OFFLINE"),
        *("COPILOT_PROVIDER_BASE_URL", "COPILOT_PROVIDER_TYPE", "COPILOT_PROVIDER_API_KEY"),
        *("COPILOT_PROVIDER_WIRE_API", "COPILOT_PROVIDER_BEARER_TOKEN"),
    ),
    settings=SettingsFile(arguments=("--additional-mcp-config", "@{path}"), content=copilot),
    key_variable="COPILOT_PROVIDER_API_KEY",
    url_variable="COPILOT_PROVIDER_BASE_URL",
    home_variable="COPILOT_HOME",
    model=ModelChoice.ARGUMENT,
    mcp=McpPlace.LAUNCH,
    usage=UsageFrom.SESSION,
    gaps=(
        "reading inside the workspace and the temporary folder is not asked for",
        "a refused call ends the turn, and the model is not told",
        "hooks and settings of the user and of a trusted workspace hold",
        "it tries again by itself when its vendor is busy, for a minute or more",
        "only a model of one's own was tried, not GitHub's",
    ),
    tested="1.0",
    quirks=Quirks(
        noise=("Warning: ", "Info: "),
        failures=("Error: ",),
        free_titles=True,
    ),
)

MANIFESTS = {
    manifest.name: manifest for manifest in (GEMINI, CLAUDE, CODEX, QWEN, OPENCODE, GOOSE, COPILOT)
}


def find_manifest(name: str) -> Manifest:
    """Return a built-in manifest; raise ConfigError, naming the nearest, if there is none."""
    if name in MANIFESTS:
        return MANIFESTS[name]
    near = difflib.get_close_matches(name, MANIFESTS, n=1)
    known = f"known: {', '.join(MANIFESTS)}"
    raise ConfigError(
        f"there is no ACP agent {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""),
        hint=f"{known}; or set `providers.NAME.command` for an agent of your own",
    )
