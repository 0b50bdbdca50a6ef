"""What Gemini CLI finds in the home of an agent, and what it is started with."""

from __future__ import annotations

import json
import stat
import tomllib

import pytest
from msgspec.structs import replace
from prsm_gemini import home as homes
from prsm_gemini.config import GeminiConfig
from prsm_gemini.home import Home
from prsm_testing.doubles import session_request

from prsm_core.domain.agents import PermissionMode
from prsm_core.domain.tools import McpEndpoint, McpServer
from prsm_core.errors import ProviderNotAvailableError

CONFIG = GeminiConfig(api_key_env="KEY")
ENVIRON = {"KEY": "k-123"}
ENDPOINT = McpEndpoint(argv=("py", "-I", "proxy.py"), env={"PRSM_TOKEN": "t"})
LOG = McpServer(command="log", args=("-v",), env={"A": "1"})
WEB = McpServer(url="http://127.0.0.1:9/mcp", headers={"H": "v"})


HOOK_ENV = {"PRSM_HOOK_TOKEN": "t"}


def files(tmp_path, *, hooks=True, own=("note",), endpoint=ENDPOINT, **changes):
    request = session_request(tmp_path, **changes)
    home = Home(tmp_path / "home")
    hook_env = HOOK_ENV if hooks else None
    return homes.files(CONFIG, ENVIRON, home, request, endpoint, own, hook_env)


def settings(tmp_path, **changes):
    return json.loads(files(tmp_path, **changes)[tmp_path / "home/.gemini/settings.json"])


def rules(tmp_path, **changes):
    return tomllib.loads(files(tmp_path, **changes)[tmp_path / "home/policy.toml"])["rule"]


def decision(found, tool, server=None):
    """What a policy says of a tool: the rule with the highest priority that names it."""
    for rule in sorted(found, key=lambda rule: -rule["priority"]):
        names = rule["toolName"]
        names = names if isinstance(names, list) else [names]
        if "mcpName" in rule and rule["mcpName"] != server:
            continue
        if tool in names or "*" in names or ("mcp_*" in names and server):
            return rule["decision"]
    return None


def test_the_key_is_in_no_file_and_no_argument(tmp_path):
    home = Home(tmp_path)
    assert "k-123" not in str(files(tmp_path))
    assert "k-123" not in str(homes.argv(CONFIG, "m", home))
    assert homes.env(CONFIG, ENVIRON)["GEMINI_API_KEY"] == "k-123"


def test_prsms_tools_may_take_days_and_ask_nobody(tmp_path):
    server = settings(tmp_path)["mcpServers"]["prsm"]
    assert server == {
        "command": "py",
        "args": ["-I", "proxy.py"],
        "env": {"PRSM_TOKEN": "t"},
        "timeout": 604_800_000,
        "trust": True,
    }
    assert decision(rules(tmp_path), "mcp_prsm_note", "prsm") == "allow"


@pytest.mark.requirement("N3")
def test_temperature_and_length_of_the_request_are_those_of_the_models_that_talk(tmp_path):
    assert "modelConfigs" not in settings(tmp_path)
    given = settings(tmp_path, temperature=0.0, max_response_tokens=4321)["modelConfigs"]
    [change] = given["customOverrides"]
    assert change == {
        "match": {"model": "chat-base"},
        "modelConfig": {"generateContentConfig": {"temperature": 0.0, "maxOutputTokens": 4321}},
    }


def test_vendor_retries_loops_and_updates_are_off(tmp_path):
    given = settings(tmp_path)
    assert given["general"]["maxAttempts"] == 1
    assert given["general"]["enableAutoUpdate"] is False
    assert given["model"]["disableLoopDetection"] is True


def test_servers_of_the_user_are_in_the_file_where_the_session_cannot_tell_them(tmp_path):
    servers = {"log": LOG, "web": WEB}
    given = settings(tmp_path, mcp_servers=servers)["mcpServers"]
    assert given["log"]["args"] == ["-v"]
    assert given["log"]["trust"] is False
    assert given["web"]["httpUrl"] == "http://127.0.0.1:9/mcp"
    assert set(settings(tmp_path, hooks=False, mcp_servers=servers)["mcpServers"]) == {"prsm"}


@pytest.mark.requirement("F5")
@pytest.mark.parametrize(("hooks", "expected"), [(True, "allow"), (False, "ask_user")])
def test_what_the_agent_has_is_asked_and_all_else_denied(tmp_path, hooks, expected):
    tools = frozenset({"Read", "Bash"})
    found = rules(tmp_path, hooks=hooks, native_tools=tools, mcp_servers={"log": LOG})
    assert decision(found, "read_file") == expected
    assert decision(found, "run_shell_command") == expected
    assert decision(found, "mcp_log_write", "log") == expected
    assert decision(found, "mcp_log_write", "mcp_log") == expected  # its name over ACP
    for name in ("write_file", "web_fetch", "invoke_agent", "ask_user", "tool_of_tomorrow"):
        assert decision(found, name) == "deny"


@pytest.mark.requirement("F5")
def test_commands_that_gemini_takes_for_safe_are_asked_too(tmp_path):
    (shell,) = [rule for rule in rules(tmp_path, hooks=False) if "argsPattern" in rule]
    assert shell["toolName"] == "run_shell_command"
    assert shell["decision"] == "ask_user"


def test_an_agent_that_plans_has_no_tool_that_edits(tmp_path):
    found = rules(tmp_path, mode=PermissionMode.PLAN)
    assert decision(found, "read_file") == "allow"
    assert decision(found, "write_file") == decision(found, "replace") == "deny"


def test_an_agent_without_tools_is_denied_everything(tmp_path):
    found = rules(tmp_path, native_tools=frozenset(), own=(), endpoint=None)
    assert [rule["decision"] for rule in found] == ["deny"]


@pytest.mark.requirement("F5")
def test_the_workspace_is_never_trusted_by_the_variable_that_lets_its_settings_count(tmp_path):
    assert "--skip-trust" in homes.argv(CONFIG, "m", Home(tmp_path))
    assert "GEMINI_CLI_TRUST_WORKSPACE" not in homes.env(CONFIG, ENVIRON)


def test_the_model_is_always_named(tmp_path):
    home = Home(tmp_path)
    assert homes.argv(CONFIG, "gemini-2.5-pro", home)[:3] == ("gemini", "-m", "gemini-2.5-pro")
    assert homes.argv(CONFIG, "default", home)[:3] == ("gemini", "-m", "pro")


@pytest.mark.parametrize(
    ("config", "environ", "expected"),
    [
        (CONFIG, ENVIRON, "gemini-api-key"),
        (GeminiConfig(), {"GEMINI_API_KEY": "k"}, "gemini-api-key"),
        (GeminiConfig(env={"GEMINI_API_KEY": "k"}), {}, "gemini-api-key"),
        (GeminiConfig(), {"GOOGLE_API_KEY": "k"}, "vertex-ai"),
        (GeminiConfig(), {"GOOGLE_GENAI_USE_VERTEXAI": "true"}, "vertex-ai"),
        (GeminiConfig(), {}, "oauth-personal"),
    ],
)
def test_the_login_follows_what_is_set(config, environ, expected):
    assert homes.auth_type(config, environ) == expected


@pytest.mark.requirement("N27")
def test_a_login_in_a_folder_of_its_own_is_used_instead_of_the_users_key(tmp_path):
    config = GeminiConfig(home=str(tmp_path))
    environ = {"GEMINI_API_KEY": "k", "GOOGLE_API_KEY": "g", "GEMINI_CLI_HOME": "/elsewhere"}
    assert homes.login_folder(config, environ) == tmp_path / ".gemini"
    assert not {"GEMINI_API_KEY", "GOOGLE_API_KEY"} & homes.env(config, environ).keys()
    own_key = GeminiConfig(home=str(tmp_path), env={"GEMINI_API_KEY": "mine"})
    assert homes.login_folder(own_key, environ) is None


def test_a_server_of_the_user_does_not_take_the_place_of_prsms_own(tmp_path):
    with pytest.raises(ProviderNotAvailableError, match="is PRSM's own"):
        files(tmp_path, mcp_servers={"prsm": LOG})


def test_a_key_variable_that_is_not_set_is_told(tmp_path):
    with pytest.raises(ProviderNotAvailableError, match="KEY is not set") as caught:
        homes.env(CONFIG, {})
    assert "KEY" in (caught.value.hint or "")


def test_a_role_names_no_file_that_gemini_would_read(tmp_path):
    request = replace(session_request(tmp_path), system_prompt="Ask @team, a@b.c or @ 5.\n@./x")
    text = homes.role_file(request, has_tools=True)
    assert text.startswith("Ask \\@team, a@b.c or @ 5.\n\\@./x\n\n")
    assert "`prsm`" in text


async def test_a_home_is_private_and_the_users_login_is_linked_not_copied(tmp_path):
    login = tmp_path / "user"
    login.mkdir()
    (login / "oauth_creds.json").write_text("{}")
    home = Home(tmp_path / "home")
    homes.prepare(home, {home.policy: "x"}, login)
    assert stat.S_IMODE(home.root.stat().st_mode) == 0o700
    assert stat.S_IMODE(home.policy.stat().st_mode) == 0o600
    link = home.vendor / "oauth_creds.json"
    assert link.readlink() == login / "oauth_creds.json"
    homes.prepare(home, {home.policy: "y"}, None)
    assert home.policy.read_text() == "y"
    assert not link.is_symlink()


async def test_a_home_that_is_ready_has_no_lock_of_a_process_before_and_all_else(tmp_path):
    home = Home(tmp_path / "home")
    left = home.vendor / "projects.json.lock"
    kept = [home.vendor / name for name in ("notes.lock", "linked.lock", "tmp/inner.lock")]
    left.mkdir(parents=True)
    kept[0].write_text("a file")
    kept[1].symlink_to(tmp_path)
    kept[2].mkdir(parents=True)
    homes.prepare(home, {}, None)
    assert not left.exists()
    assert [path.exists() for path in kept] == [True] * 3
    assert tmp_path.is_dir()
