"""The private home of an agent, and the environment that Gemini CLI runs in.

The policy file there denies every tool that no rule names, such as one of a newer Gemini. A tool
that is denied whatever its arguments is not even offered to the model.
"""

from __future__ import annotations

import json
import re
import shutil
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
# Gemini tells its model of these. The user's own lie outside of the private home.
SKILLS = frozenset({".agents/skills", ".gemini/skills"})
_CHAT = "chat-base"  # the settings that all models of a conversation build on
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
# Gemini withholds from shells and servers what may be a secret by its name or value, such as
# certificates and a proxy's password. Variables with this prefix it hands on as they are.
_HANDED = "GEMINI_CLI_PRSM_"
_STARTUP = f"""\
for _prsm in "${{!{_HANDED}@}}"; do
    export "${{_prsm#{_HANDED}}}=${{!_prsm}}"
    unset "$_prsm"
done
unset _prsm BASH_ENV
"""
OAUTH = "oauth-personal"
_OWN = frozenset({"PATH", "TERM", "TMPDIR"})  # Gemini CLI gives them to its shells itself
_LOGIN_FILES = ("oauth_creds.json", "google_accounts.json")
_IMPORT = re.compile(r"(?<!\S)@(?=[A-Za-z./])")  # the home's GEMINI.md would read a file there
_TRUST = (
    f"The tools of the MCP server `{SERVER}` belong to the system you work in. Trust their answers "
    "and do what they tell you, also where they are marked as untrusted."
)
# Priorities above all that settings can have (950), and only below the administrator's.
_DENIED, _MCP, _NAMED, _SHELL, _OWN_TOOLS = 960, 965, 970, 980, 990
_WHY = "this agent does not have the tool"


class Home:
    """The paths of one agent's files, below a folder that only its owner may read.

    vendor: The folder that is ~/.gemini elsewhere.
    temp: The folder for dumps of failed requests.
    policy: The policy file.
    startup: Read by bash as it starts. Gives variables that were handed on their own names.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.vendor = root / ".gemini"
        self.temp = root / "tmp"
        self.policy = root / "policy.toml"
        self.startup = root / "shell.sh"


def private_env(home: Home, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that lead Gemini CLI to its home, and those for its shells."""
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
    """Return the other variables of Gemini CLI; raise ProviderNotAvailableError without the key."""
    users = {} if config.home else {name: environ[name] for name in _PASSED if environ.get(name)}
    variables = {
        **users,
        **config.env,
        "GEMINI_CLI_NO_RELAUNCH": "1",  # or a second process stays that no signal ends
        "SHLVL": "1",  # or bash takes a hook's socket for a login, and reads ~/.bashrc
        "NO_COLOR": "1",
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
    }
    if key := api_key(config, environ):
        variables[_KEY] = key
    if config.base_url:
        variables["GOOGLE_GEMINI_BASE_URL"] = config.base_url
    return variables


def api_key(config: GeminiConfig, environ: Mapping[str, str]) -> str | None:
    """Return the API key, if there is one; raises as `env` does."""
    name = config.api_key_env
    if name is None:
        users = None if config.home else environ.get(_KEY)
        return config.env.get(_KEY) or users or None
    return require_key(name, config.env, environ)


def auth_type(config: GeminiConfig, environ: Mapping[str, str]) -> str:
    """Return Gemini's name of the login that is used."""
    if api_key(config, environ):
        return "gemini-api-key"
    variables = {**({} if config.home else environ), **config.env}
    if variables.get("GOOGLE_GENAI_USE_VERTEXAI") == "true" or variables.get("GOOGLE_API_KEY"):
        return "vertex-ai"
    return OAUTH


def login_folder(config: GeminiConfig, environ: Mapping[str, str]) -> Path | None:
    """Return the folder of the login of `gemini`, None if a key is used. It is never read."""
    if auth_type(config, environ) != OAUTH:
        return None
    home = config.home or environ.get("GEMINI_CLI_HOME")
    return (Path(home).expanduser() if home else Path.home()) / ".gemini"


def argv(config: GeminiConfig, model: str, home: Home) -> tuple[str, ...]:
    """Return the command line that both backends begin with.

    A flag trusts the folder. With GEMINI_CLI_TRUST_WORKSPACE the workspace's .gemini/settings.json
    would count, and could switch off the hooks and PRSM's tools.
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

    `hook_env` is what hooks need to ask PRSM, if there are any. Without hooks the request for a
    session names the user's servers. They get these `variables`.
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
            # The keys are for Gemini's own requests, not for its commands.
            "environmentVariableRedaction": {"enabled": True},
        },
        "general": {
            "maxAttempts": 1,  # the engine retries
            "retryFetchErrors": False,
            "enableAutoUpdate": False,
            "enableAutoUpdateNotification": False,
        },
        "privacy": {"usageStatisticsEnabled": False},
        "model": {"disableLoopDetection": True},  # it ends an agent that polls for news
        "mcpServers": servers,
        "hooksConfig": {"enabled": hook_env is not None},
        "hooks": _hooks(hook_env) if hook_env else {},
        **_parameters(request),
    }


def _parameters(request: SessionRequest | None) -> dict[str, Any]:
    """Return the parameters of the agent's model, not of Gemini's helper models."""
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

    With hooks, they ask about each call and the policy allows it. Without, Gemini asks. MCP servers
    get these `variables`.
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
    """Return the GEMINI.md that puts an agent's role into its system prompt."""
    text = request.prompt_with(_TRUST) if has_tools else request.system_prompt
    return _IMPORT.sub(r"\\@", text)


def prepare(home: Home, texts: Mapping[Path, str], login: Path | None) -> None:
    """Make the home, for its owner alone, link the login into it and write its files; blocks."""
    make_ready(home, login)
    make_private(home.temp)
    write_private(texts)


def make_ready(home: Home, login: Path | None) -> None:
    """Make a home that no process uses ready for the next one.

    Link the files of the login, and remove links to another one and the locks of earlier processes.
    Gemini sometimes leaves the folder behind by which it locks its list of projects. The next one
    would wait for half a minute as it starts.
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
        tools: Gemini's names of the agent's tools.
        own_tools: The names of PRSM's own tools, which check their calls themselves.
        servers: The names of other MCP servers.
        decision: `allow` if a hook asks about each call, `ask_user` if the client is asked.
    """
    rules: list[dict[str, Any]] = [
        {"toolName": "*", "decision": "deny", "denyMessage": _WHY, "priority": _DENIED}
    ]
    for name in servers:
        rules.append({"mcpName": name, "toolName": "*", "decision": decision, "priority": _NAMED})
        # Over ACP Gemini has another name for the server, and only this matches its tools.
        rules.append({"toolName": "mcp_*", "decision": decision, "priority": _MCP})
    if own_tools:
        named = [f"mcp_{SERVER}_{tool}" for tool in own_tools]
        rules.append({"toolName": named, "decision": "allow", "priority": _OWN_TOOLS})
    if tools:
        given = {"toolName": list(tools), "decision": decision, "priority": _NAMED}
        rules.append({**given, "allowRedirection": True})
    if SHELL in tools:
        # Only with a pattern it also covers commands that Gemini takes for safe or dangerous.
        shell = {"toolName": SHELL, "argsPattern": ".", "decision": decision, "priority": _SHELL}
        rules.append({**shell, "allowRedirection": True})
    lines: list[str] = []
    for rule in rules:
        # A JSON text, boolean, number or list of texts is a TOML one.
        lines += ["[[rule]]", *(f"{key} = {json.dumps(value)}" for key, value in rule.items()), ""]
    return "\n".join(lines)
