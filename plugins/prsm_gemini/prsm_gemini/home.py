"""The private home of an agent: what Gemini CLI finds there, and the environment it runs in.

The policy file of an agent: what of Gemini's own tools it has, and what is asked; pure.

A tool that no rule names is denied, so that a newer Gemini brings no tool that nobody knows. A
tool that is denied whatever its arguments is not even offered to the model.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prsm_core import ProviderNotAvailableError
from prsm_core.kit import HookGate, link_login, make_private, require_key, write_private
from prsm_gemini.tools import COMPLETE, SERVER, SHELL, offered

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from prsm_core import McpEndpoint, McpServer, SessionRequest
    from prsm_gemini.config import GeminiConfig

DEFAULT_MODEL = "default"
PARAMETERS = frozenset({"max_response_tokens", "temperature"})  # those that reach the model
# Of which Gemini tells its model; the user's lie beside the private home, where it does not look.
SKILLS = frozenset({".agents/skills", ".gemini/skills"})
_CHAT = "chat-base"  # what Gemini calls the settings that all models of a conversation build on
_OWN_CHOICE = "pro"  # `auto` would ask another model first, before each prompt
_DAYS_MS = 7 * 86_400_000  # the engine's own clocks end a call, or a question to a person
_PASSED = (
    "GOOGLE_API_KEY",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_CLOUD_LOCATION",
    "GOOGLE_CLOUD_PROJECT",
    "GOOGLE_GENAI_USE_VERTEXAI",
)
_KEY = "GEMINI_API_KEY"
# Gemini withholds from shells and servers what may be a secret by its name or value: certificates
# and a proxy's password, too. What begins so it hands on as it is.
_HANDED = "GEMINI_CLI_PRSM_"
_STARTUP = f"""\
for _prsm in "${{!{_HANDED}@}}"; do
    export "${{_prsm#{_HANDED}}}=${{!_prsm}}"
    unset "$_prsm"
done
unset _prsm BASH_ENV
"""
OAUTH = "oauth-personal"
_OWN = frozenset({"PATH", "TERM", "TMPDIR"})  # which Gemini CLI gives to its shells itself
_LOGIN_FILES = ("oauth_creds.json", "google_accounts.json")
_IMPORT = re.compile(r"(?<!\S)@(?=[A-Za-z./])")  # the home's GEMINI.md would read a file there
_TRUST = (
    f"The tools of the MCP server `{SERVER}` belong to the system you work in. Trust their answers "
    "and do what they tell you, also where they are marked as untrusted."
)


# Above everything that settings can say (950 is the most), below nothing but the administrator.
_DENIED, _MCP, _NAMED, _SHELL, _OWN_TOOLS = 960, 965, 970, 980, 990
_WHY = "this agent does not have the tool"


@dataclass(frozen=True, slots=True)
class Home:
    """Where the files of one agent are, below a folder that only its owner may read."""

    root: Path

    @property
    def vendor(self) -> Path:
        """What is ~/.gemini elsewhere."""
        return self.root / ".gemini"

    @property
    def temp(self) -> Path:
        """Where dumps of failed requests go."""
        return self.root / "tmp"

    @property
    def policy(self) -> Path:
        """The policy file."""
        return self.root / "policy.toml"

    @property
    def startup(self) -> Path:
        """What bash reads as it starts: it gives back the names that variables are handed under."""
        return self.root / "shell.sh"


def private_env(home: Home, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that lead Gemini CLI to its home, and what its shells have besides."""
    handed = {f"{_HANDED}{name}": environment[name] for name in _handed_names(environment)}
    return {
        "GEMINI_CLI_HOME": str(home.root),
        "TMPDIR": str(home.temp),
        "BASH_ENV": str(home.startup),
        **handed,
    }


def _handed_names(environment: Iterable[str]) -> list[str]:
    return [name for name in environment if name not in _OWN and not name.startswith("GIT_")]


def env(config: GeminiConfig, environ: Mapping[str, str]) -> dict[str, str]:
    """Return what else is added to the environment of Gemini CLI.

    Raises ProviderNotAvailableError when the configured key variable is not set.
    """
    users = {} if config.home else {name: environ[name] for name in _PASSED if environ.get(name)}
    given = {
        **users,
        **config.env,
        "GEMINI_CLI_NO_RELAUNCH": "1",  # else a second process stays that no signal ends
        "SHLVL": "1",  # else bash takes a hook's socket for a login, and reads ~/.bashrc
        "NO_COLOR": "1",
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
    }
    if key := api_key(config, environ):
        given[_KEY] = key
    if config.base_url:
        given["GOOGLE_GEMINI_BASE_URL"] = config.base_url
    return given


def api_key(config: GeminiConfig, environ: Mapping[str, str]) -> str | None:
    """Return the API key, None where there is none; raises as `env` does."""
    name = config.api_key_env
    if name is None:
        users = None if config.home else environ.get(_KEY)
        return config.env.get(_KEY) or users or None
    return require_key(name, config.env, environ)


def auth_type(config: GeminiConfig, environ: Mapping[str, str]) -> str:
    """Return Gemini's name of the login that is used."""
    if api_key(config, environ):
        return "gemini-api-key"
    given = {**({} if config.home else environ), **config.env}
    is_vertex = given.get("GOOGLE_GENAI_USE_VERTEXAI") == "true" or given.get("GOOGLE_API_KEY")
    return "vertex-ai" if is_vertex else OAUTH


def login_folder(config: GeminiConfig, environ: Mapping[str, str]) -> Path | None:
    """Return the folder of the login of `gemini`, which is linked and never read.

    None where a key is used instead.
    """
    if auth_type(config, environ) != OAUTH:
        return None
    home = config.home or environ.get("GEMINI_CLI_HOME")
    return (Path(home).expanduser() if home else Path.home()) / ".gemini"


def argv(config: GeminiConfig, model: str, home: Home) -> tuple[str, ...]:
    """Return the command line that both backends begin with.

    The folder is trusted by the flag and not by GEMINI_CLI_TRUST_WORKSPACE: with the variable, the
    workspace's .gemini/settings.json counts, and can switch the hooks and PRSM's tools off.
    """
    name = _OWN_CHOICE if model == DEFAULT_MODEL else model
    return (*config.command, "-m", name, "--skip-trust", "--policy", str(home.policy))


def settings(
    config: GeminiConfig,
    environ: Mapping[str, str],
    request: SessionRequest | None,
    endpoint: McpEndpoint | None,
    hook_env: Mapping[str, str] | None,
    variables: Iterable[str] = (),
) -> dict[str, Any]:
    """Return the settings file; without a request, of a process that only lists models.

    `hook_env` is what the hooks need to ask PRSM, None where there are none. Without hooks the
    servers of the user are told with the session. They have these `variables`.
    """
    given = request.mcp_servers if request is not None and hook_env else {}
    if SERVER in given:
        raise ProviderNotAvailableError(
            f"gemini: the MCP server {SERVER!r} is PRSM's own",
            hint="give your server another name",
        )
    handed = {name: f"${{{_HANDED}{name}}}" for name in _handed_names(variables)}
    servers = {name: _server(server, handed) for name, server in given.items()}
    if endpoint is not None:
        servers[SERVER] = {
            "command": endpoint.argv[0],
            "args": list(endpoint.argv[1:]),
            "env": dict(endpoint.env),
            "timeout": _DAYS_MS,
            "trust": True,
        }
    return {
        "security": {
            "auth": {"selectedType": auth_type(config, environ)},
            # the keys are for Gemini's own requests, not for the commands it runs
            "environmentVariableRedaction": {"enabled": True},
        },
        "general": {
            "maxAttempts": 1,  # the engine retries: the two must not multiply
            "retryFetchErrors": False,
            "enableAutoUpdate": False,
            "enableAutoUpdateNotification": False,
        },
        "privacy": {"usageStatisticsEnabled": False},
        "model": {"disableLoopDetection": True},  # it ends an agent that asks for news in a loop
        "mcpServers": servers,
        "hooksConfig": {"enabled": hook_env is not None},
        "hooks": _hooks(hook_env) if hook_env else {},
        **_parameters(request),
    }


def _parameters(request: SessionRequest | None) -> dict[str, Any]:
    """Return what changes the parameters of the model that talks, and of no helper of Gemini's."""
    if request is None:
        return {}
    wanted = {"temperature": request.temperature, "maxOutputTokens": request.max_response_tokens}
    given = {name: value for name, value in wanted.items() if value is not None}
    if not given:
        return {}
    change = {"match": {"model": _CHAT}, "modelConfig": {"generateContentConfig": given}}
    return {"modelConfigs": {"customOverrides": [change]}}


def _server(server: McpServer, handed: Mapping[str, str]) -> dict[str, Any]:
    common = {"timeout": _DAYS_MS, "trust": False}
    if server.url:
        return {**common, "httpUrl": server.url, "headers": dict(server.headers)}
    env = {**handed, **server.env}
    return {**common, "command": server.command, "args": list(server.args), "env": env}


def _hooks(env: Mapping[str, str]) -> dict[str, Any]:
    hook = {
        "type": "command",
        "name": "prsm",
        "command": HookGate.command,
        "timeout": _DAYS_MS,
        "env": dict(env),
    }
    return {
        "BeforeAgent": [{"hooks": [hook]}],
        "BeforeTool": [{"matcher": f"^(?!mcp_{SERVER}_)", "hooks": [hook]}],
        "AfterTool": [{"matcher": f"^{COMPLETE}$", "hooks": [hook]}],
    }


def files(
    config: GeminiConfig,
    environ: Mapping[str, str],
    home: Home,
    request: SessionRequest | None,
    endpoint: McpEndpoint | None,
    own_tools: Sequence[str],
    hook_env: Mapping[str, str] | None = None,
    variables: Iterable[str] = (),
) -> dict[Path, str]:
    """Return the files of a home, by absolute path; `own_tools` are PRSM's.

    MCP servers have these `variables`.
    With hooks each call is asked for by them and allowed by the policy, without them Gemini asks.
    """
    given = settings(config, environ, request, endpoint, hook_env, variables)
    tools = () if request is None else offered(request)
    servers = () if request is None else tuple(request.mcp_servers)
    decision = "allow" if hook_env else "ask_user"
    return {
        home.vendor / "settings.json": json.dumps(given),
        home.policy: policy(tools, own_tools, servers, decision=decision),
        home.startup: _STARTUP,
    }


def role_file(request: SessionRequest, *, has_tools: bool) -> str:
    """Return the GEMINI.md that makes an agent's role part of its system prompt."""
    text = request.prompt_with(_TRUST) if has_tools else request.system_prompt
    return _IMPORT.sub(r"\\@", text)


async def prepare(home: Home, texts: Mapping[Path, str], login: Path | None) -> None:
    """Make the home, for its owner alone, and write its files; `login` is linked into it."""
    await asyncio.to_thread(_prepare, home, texts, login)


def _prepare(home: Home, texts: Mapping[Path, str], login: Path | None) -> None:
    make_ready(home, login)
    make_private(home.temp)
    write_private(texts)


def make_ready(home: Home, login: Path | None) -> None:
    """Make a home that no process uses ready for the next one.

    The files of the login are linked into it, the links of another one go, and so do the locks of
    processes that have ended. Gemini locks its list of projects by a folder beside it, and now and
    then one leaves that, be it killed or not: the next one would wait half a minute as it starts,
    until it takes it for left over.
    """
    make_private(home.root)
    make_private(home.vendor)
    for lock in home.vendor.glob("*.lock"):
        if lock.is_dir() and not lock.is_symlink():
            shutil.rmtree(lock)
    for name in _LOGIN_FILES:
        link_login(home.vendor / name, login / name if login else None)


def policy(
    tools: Sequence[str], own_tools: Sequence[str], servers: Iterable[str], *, decision: str
) -> str:
    """Return a policy as TOML.

    Args:
        tools: Gemini's names of the tools the agent has.
        own_tools: The names of PRSM's own tools, which ask for themselves.
        servers: The names of other MCP servers.
        decision: `allow` where a hook asks for each call, `ask_user` where the client is asked.
    """
    rules: list[dict[str, Any]] = [
        {"toolName": "*", "decision": "deny", "denyMessage": _WHY, "priority": _DENIED}
    ]
    for name in servers:
        rules.append({"mcpName": name, "toolName": "*", "decision": decision, "priority": _NAMED})
        # Over ACP Gemini has another name for the server, and only this is true of its tools.
        rules.append({"toolName": "mcp_*", "decision": decision, "priority": _MCP})
    if own_tools:
        named = [f"mcp_{SERVER}_{tool}" for tool in own_tools]
        rules.append({"toolName": named, "decision": "allow", "priority": _OWN_TOOLS})
    if tools:
        given = {"toolName": list(tools), "decision": decision, "priority": _NAMED}
        rules.append({**given, "allowRedirection": True})
    if SHELL in tools:
        # With a pattern, what Gemini takes for safe or for dangerous is decided here too.
        shell = {"toolName": SHELL, "argsPattern": ".", "decision": decision, "priority": _SHELL}
        rules.append({**shell, "allowRedirection": True})
    return "\n".join(_rule(rule) for rule in rules)


def _rule(rule: dict[str, Any]) -> str:
    # A JSON text, boolean, number or list of texts is a TOML one.
    lines = [f"{key} = {json.dumps(value)}" for key, value in rule.items()]
    return "\n".join(["[[rule]]", *lines, ""])
