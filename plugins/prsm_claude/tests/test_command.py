"""What the CLI is started with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from prsm_claude.command import cli_argv, cli_env, mcp_config, mcp_servers, model_env
from prsm_claude.config import ClaudeConfig
from prsm_testing.doubles import session_request

from prsm_core.domain.tools import McpServer
from prsm_core.errors import ConfigError

SECRETS = {"THE_KEY": "k1", "ANTHROPIC_API_KEY": "k2", "OPENAI_API_KEY": "k3"}


def argv(tmp_path, *, resume=False, **changes):
    request = session_request("/work", **changes)
    with mcp_config(tmp_path, request, "id-1") as servers:
        return cli_argv(("claude", "--x"), request, servers, session_id="id-1", resume=resume)


def options(found):
    return dict(word.removeprefix("--").partition("=")[::2] for word in found)


def test_an_agent_is_given_its_own_tools_and_nothing_of_the_project(tmp_path):
    found = argv(tmp_path, native_tools=frozenset({"Read"}), model="default")
    assert found[:2] == ("claude", "--x")
    given = options(found)
    assert given["tools"] == "Read,AskUserQuestion"
    assert given["setting-sources"] == ""
    assert "strict-mcp-config" in given
    assert "disable-slash-commands" in given
    assert given["session-id"] == "id-1"
    assert not {"model", "effort", "resume"} & set(given)


def test_model_effort_and_conversation_are_those_of_the_request(tmp_path):
    found = argv(tmp_path, resume=True, model="opus", reasoning_effort="high")
    given = options(found)
    assert (given["model"], given["effort"], given["resume"]) == ("opus", "high", "id-1")
    assert "session-id" not in given


def test_what_is_secret_is_in_a_private_file_as_long_as_the_cli_starts(tmp_path):
    server = McpServer(command="serve", env={"TOKEN": "s3cr3t"})
    request = session_request("/work", mcp_servers={"a": server})
    with mcp_config(tmp_path, request, "id-1") as servers:
        assert "s3cr3t" in Path(servers).read_text()
        assert Path(servers).stat().st_mode & 0o777 == 0o600
        found = cli_argv(("claude",), request, servers, session_id="i", resume=False)
        assert "s3cr3t" not in " ".join(found)
    assert list(tmp_path.iterdir()) == []


def test_what_an_agent_is_told_of_its_role_is_on_no_command_line(tmp_path):
    assert not [word for word in argv(tmp_path, system_prompt="role" * 50_000) if "role" in word]


def test_a_file_that_a_killed_engine_left_behind_is_written_anew(tmp_path):
    (tmp_path / "start-id-1.json").write_text("of another time, " * 100)
    request = session_request("/work", mcp_servers={"a": McpServer(command="serve")})
    with mcp_config(tmp_path, request, "id-1") as servers:
        assert json.loads(Path(servers).read_text()) == {"mcpServers": mcp_servers(request)}
    assert list(tmp_path.iterdir()) == []


def test_without_servers_of_the_user_there_is_no_file(tmp_path):
    ours = mcp_servers(session_request("/work"))
    assert json.loads(options(argv(tmp_path))["mcp-config"]) == {"mcpServers": ours}


def test_mcp_servers_are_those_of_the_agent_and_our_own():
    servers = {
        "local": McpServer(command="serve", args=("-v",), env={"A": "1"}),
        "remote": McpServer(url="https://x/mcp", headers={"H": "v"}),
    }
    found = mcp_servers(session_request("/work", mcp_servers=servers))
    assert found == {
        "local": {
            "type": "stdio",
            "command": "serve",
            "args": ["-v"],
            "env": {"A": "1"},
            "alwaysLoad": True,
        },
        "remote": {
            "type": "http",
            "url": "https://x/mcp",
            "headers": {"H": "v"},
            "alwaysLoad": True,
        },
        "prsm": {"type": "sdk", "name": "prsm", "alwaysLoad": True},
    }
    json.dumps(found)


def test_no_other_server_may_have_our_name():
    request = session_request("/work", mcp_servers={"prsm": McpServer(command="x")})
    with pytest.raises(ConfigError, match="prsm"):
        mcp_servers(request)


@pytest.mark.parametrize(
    ("settings", "login"),
    [
        ({}, {"ANTHROPIC_API_KEY": "k2"}),
        ({"api_key_env": "THE_KEY"}, {"ANTHROPIC_API_KEY": "k1"}),
        ({"api_key_env": "THE_KEY", "bearer": True}, {"ANTHROPIC_AUTH_TOKEN": "k1"}),
        ({"base_url": "http://x"}, {"ANTHROPIC_API_KEY": "none"}),
        (
            {"base_url": "http://x", "env": {"ANTHROPIC_AUTH_TOKEN": "t"}},
            {"ANTHROPIC_AUTH_TOKEN": "t"},
        ),
        # what a profile of the configuration sets goes before what the user has
        ({"env": {"ANTHROPIC_AUTH_TOKEN": "t"}}, {"ANTHROPIC_AUTH_TOKEN": "t"}),
        ({"api_key_env": "THE_KEY", "env": {"THE_KEY": "other"}}, {"ANTHROPIC_API_KEY": "other"}),
        ({"home": "/home/me/work"}, {}),
    ],
)
def test_the_login_is_the_configured_one_and_the_users_own_goes_to_no_other_server(
    tmp_path, settings, login
):
    env = cli_env(ClaudeConfig.from_settings(settings), SECRETS, tmp_path)
    names = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
    assert {name: env[name] for name in names if name in env} == login
    assert "k3" not in env.values()


def test_the_engines_retries_are_the_only_ones_where_a_server_is_configured(tmp_path):
    def retries(**settings):
        env = cli_env(ClaudeConfig.from_settings(settings), SECRETS, tmp_path)
        return env["CLAUDE_CODE_MAX_RETRIES"]

    assert retries(base_url="http://x") == "0"
    assert retries() == "1"
    assert retries(env={"CLAUDE_CODE_MAX_RETRIES": 4}) == "4"


def test_on_a_server_of_ones_own_prompts_begin_with_nothing_that_differs(tmp_path):
    def header(**settings):
        env = cli_env(ClaudeConfig.from_settings(settings), SECRETS, tmp_path)
        return env.get("CLAUDE_CODE_ATTRIBUTION_HEADER")

    assert header(base_url="http://x") == "0"
    assert header() is None
    assert header(base_url="http://x", env={"CLAUDE_CODE_ATTRIBUTION_HEADER": 1}) == "1"


def test_the_length_of_an_answer_is_limited_where_the_request_says_so(tmp_path):
    assert model_env(session_request(tmp_path)) == {}
    limited = model_env(session_request(tmp_path, max_response_tokens=4321, temperature=0.5))
    assert limited == {"CLAUDE_CODE_MAX_OUTPUT_TOKENS": "4321"}


def test_the_home_is_ours_whatever_the_configuration_says(tmp_path):
    env = cli_env(ClaudeConfig(env={"CLAUDE_CONFIG_DIR": "/theirs"}), {}, tmp_path)
    assert env["CLAUDE_CONFIG_DIR"] == str(tmp_path)
