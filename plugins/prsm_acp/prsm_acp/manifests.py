"""The agents PRSM knows, by name."""

from __future__ import annotations

import difflib

from prsm_acp.manifest import NPM, Manifest, ModelChoice, Quirks, UsageFrom
from prsm_core.domain.agents import PermissionMode
from prsm_core.errors import ConfigError

_LONG_WAIT = "86400000"  # ms; a call that waits for another agent may take a day


def _always(mode: str) -> dict[PermissionMode, str]:
    """Return one mode for all: the one that asks, so that PRSM decides."""
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
        "MCP_TOOL_TIMEOUT": _LONG_WAIT,
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
    login="run `qwen` once and log in, or set OPENAI_API_KEY and OPENAI_BASE_URL",
    passes=("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL", "DASHSCOPE_API_KEY"),
    key_variable="OPENAI_API_KEY",
    url_variable="OPENAI_BASE_URL",
    modes=_always("default"),
    model=ModelChoice.MODELS,
    gaps=("commands that it takes for safe run without being asked for",),
    quirks=Quirks(
        always_option="proceed_always_server", reusable_after_cancel=False, cuts_calls_s=600
    ),
)
OPENCODE = Manifest(
    name="opencode",
    command=("opencode", "acp"),
    install=f"{NPM}opencode-ai",
    login="run `opencode auth login`",
    passes=("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY"),
    needs_model=True,  # its own choice is a hosted model that nobody asked for
    gaps=("its own permission settings decide what it asks for",),
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
    command=("copilot", "--acp"),
    install=f"{NPM}@github/copilot",
    login="run `copilot` once and type /login",
    passes=("GH_TOKEN", "GITHUB_TOKEN", "COPILOT_GITHUB_TOKEN"),
    model=ModelChoice.ARGUMENT,
)

MANIFESTS = {
    manifest.name: manifest for manifest in (GEMINI, CLAUDE, CODEX, QWEN, OPENCODE, GOOSE, COPILOT)
}


def find_manifest(name: str) -> Manifest:
    """Return a built-in manifest; raise ConfigError, naming the nearest, when there is none."""
    if name in MANIFESTS:
        return MANIFESTS[name]
    near = difflib.get_close_matches(name, MANIFESTS, n=1)
    known = f"known: {', '.join(MANIFESTS)}"
    raise ConfigError(
        f"there is no ACP agent {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""),
        hint=f"{known}; or set `providers.NAME.command` for an agent of your own",
    )
