"""The command line, environment and parameters, as snapshots."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prsm_codex import command
from prsm_codex.app_server import check_key
from prsm_codex.command import check_servers, toml
from prsm_codex.config import CodexConfig, Features
from prsm_testing.doubles import session_request, tool_spec

from prsm_core.domain.agents import PermissionMode
from prsm_core.domain.images import Image
from prsm_core.domain.tools import ORCHESTRATION_TOOLS, McpEndpoint, McpServer
from prsm_core.errors import ProviderNotAvailableError
from prsm_core.kit.hook_gate import ANSWER_SECONDS

CUSTOM = CodexConfig(base_url="http://127.0.0.1:9/v1", api_key_env="THE_KEY")
HOOKED = Features()
ASKING = Features(hooked=False, no_terminals=False)
COMMON = (
    "codex",
    "app-server",
    "--disable",
    "plugins",
    "--disable",
    "unbounded_connection_retries",
    "--disable",
    "multi_agent",
    "-c",
    'shell_environment_policy.inherit="all"',
    "-c",
    "shell_environment_policy.ignore_default_excludes=true",
    "-c",
    "shell_environment_policy.include_only="
    + toml(["HOME", "LOGNAME", "PATH", "SHELL", "TMPDIR", "USER"]),
    "-c",
    "suppress_unstable_features_warning=true",
    "-c",
    "check_for_update_on_startup=false",
    "-c",
    "analytics.enabled=false",
    "-c",
    "features.apps=false",
    "-c",
    "features.goals=false",
    "-c",
    "features.image_generation=false",
    "-c",
    "features.skill_search=false",
    "-c",
    "features.tool_suggest=false",
)
QUESTIONS = ("-c", "features.default_mode_request_user_input=true")
PLANS = ("-c", "tools.update_plan.enabled=true")


def test_the_command_line_with_a_login():
    assert command.app_server_argv(CodexConfig(), ASKING) == (*COMMON, *QUESTIONS, *PLANS)


def test_the_hook_stands_on_the_command_line_and_terminals_are_off():
    argv = command.app_server_argv(CodexConfig(), HOOKED)
    assert argv[argv.index("unified_exec_tty") - 1] == "--disable"
    (setting,) = [word for word in argv if word.startswith("hooks.")]
    (group,) = tomllib.loads(setting)["hooks"]["PreToolUse"]
    assert re.search(group["matcher"], "Bash")
    assert not any(re.search(group["matcher"], name) for name in ORCHESTRATION_TOOLS)
    (hook,) = group["hooks"]
    assert hook["type"] == "command"
    assert hook["timeout"] > ANSWER_SECONDS  # Codex lets a call run whose hook is too slow
    assert "PRSM_HOOK_TOKEN" not in setting


def test_the_command_line_with_a_server_of_its_own():
    assert command.app_server_argv(CUSTOM, ASKING) == (
        *COMMON,
        "-c",
        'model_provider="prsm"',
        "-c",
        'model_providers.prsm={ name = "PRSM", base_url = "http://127.0.0.1:9/v1", '
        'wire_api = "responses", request_max_retries = 0, stream_max_retries = 0, '
        'env_key = "THE_KEY" }',
        *QUESTIONS,
        *PLANS,
    )


def test_a_key_alone_means_openais_server():
    argv = command.app_server_argv(CodexConfig(api_key_env="K"), ASKING)
    assert 'base_url = "https://api.openai.com/v1"' in argv[-5]


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x7f"))


@given(
    st.dictionaries(
        st.from_regex(r"[a-z_]+", fullmatch=True),
        TEXT | st.booleans() | st.lists(TEXT) | st.lists(st.lists(TEXT, max_size=2), max_size=2),
    )
)
def test_what_is_written_as_toml_is_read_back(values):
    assert tomllib.loads(f"x={command.toml(values)}") == {"x": values}


def test_the_key_is_in_the_environment_and_never_in_the_command_line():
    environ = {"THE_KEY": "s3cret", "OTHER_KEY": "x"}
    env = command.child_env(CUSTOM, environ, home=Path("/s/codex-home"), temp=Path("/s/tmp"))
    assert env == {"CODEX_HOME": "/s/codex-home", "TMPDIR": "/s/tmp", "THE_KEY": "s3cret"}
    assert "s3cret" not in " ".join(command.app_server_argv(CUSTOM, HOOKED))


@pytest.mark.requirement("N27")
def test_a_key_of_the_configuration_wins_over_that_of_the_surroundings():
    config = CodexConfig(api_key_env="THE_KEY", env={"THE_KEY": "of the profile"})
    for environ in ({}, {"THE_KEY": "of the user"}):
        check_key(config, environ)
        env = command.child_env(config, environ, home=Path("/s/codex-home"), temp=Path("/s/tmp"))
        assert env["THE_KEY"] == "of the profile"


def test_a_thread_starts_untrusted_read_only_and_resumable():
    params = command.thread_start(
        session_request("/w"), [tool_spec("ask_parent", text="string")], CUSTOM, ASKING
    )
    assert params == {
        "cwd": "/w",
        "approvalPolicy": "untrusted",
        "sandbox": "read-only",
        "developerInstructions": "You are w1.",
        "model": "scripted-1",
        "modelProvider": "prsm",
        "ephemeral": False,
        "experimentalRawEvents": True,
        "config": {
            "features.shell_tool": True,
            "features.view_image": True,
            "web_search": "live",
        },
        "dynamicTools": [
            {
                "type": "function",
                "name": "ask_parent",
                "description": "The tool ask_parent.",
                "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
            }
        ],
    }


def test_codex_chooses_the_model_where_none_is_wanted():
    params = command.thread_start(session_request("/w", model="default"), [], CodexConfig(), HOOKED)
    assert not {"model", "modelProvider"} & set(params)


def test_a_resume_gives_the_settings_again_and_reads_one_turn_only():
    params = command.thread_resume("t1", session_request("/w"), CUSTOM, HOOKED)
    assert params["threadId"] == "t1"
    assert params["excludeTurns"] is True
    assert params["initialTurnsPage"]["limit"] == 1
    assert params["config"] == command.thread_config(session_request("/w"), CUSTOM, HOOKED)
    assert not {"dynamicTools", "experimentalRawEvents", "ephemeral"} & set(params)


@pytest.mark.parametrize(
    ("tools", "lean", "expected"),
    [
        (frozenset(), False, (False, False, "disabled")),
        (frozenset({"Read"}), False, (True, True, "disabled")),
        (frozenset({"WebSearch"}), False, (False, False, "live")),
        (frozenset({"Read", "WebSearch"}), True, (True, False, "disabled")),
    ],
)
def test_an_agent_is_offered_no_more_than_its_tools(tools, lean, expected):
    settings = command.thread_config(
        session_request("/w", native_tools=tools), CodexConfig(lean=lean), HOOKED
    )
    names = ("features.shell_tool", "features.view_image", "web_search")
    assert tuple(settings[name] for name in names) == expected


def test_mcp_servers_are_as_the_person_has_them_and_asked_for():
    servers = {
        "docs": McpServer(
            command="docs-mcp", args=("-v",), env={"A": "b"}, required=True, start_seconds=90.0
        ),
        "web": McpServer(url="http://127.0.0.1:1/mcp", headers={"X": "y"}),
    }
    request = session_request("/w", mcp_servers=servers)
    settings = command.thread_config(request, CodexConfig(), ASKING)
    docs, web = settings["mcp_servers.docs"], settings["mcp_servers.web"]
    assert (docs["required"], web["required"]) == (True, False)
    assert (docs["startup_timeout_sec"], web["startup_timeout_sec"]) == (90.0, 60)
    assert (docs["command"], docs["args"], docs["env"]) == ("docs-mcp", ["-v"], {"A": "b"})
    assert (web["url"], web["http_headers"]) == ("http://127.0.0.1:1/mcp", {"X": "y"})
    assert "default_tools_approval_mode" not in docs
    hooked = command.thread_config(request, CodexConfig(), HOOKED)
    assert hooked["mcp_servers.docs"]["default_tools_approval_mode"] == "approve"


def test_with_the_hook_nothing_can_ask_to_leave_the_sandbox():
    params = command.thread_start(session_request("/w"), [], CUSTOM, HOOKED)
    policy = params["approvalPolicy"]["granular"]
    assert policy == {"mcp_elicitations": True, "rules": True, "sandbox_approval": False}


@pytest.mark.parametrize(
    ("changes", "sandbox"),
    [
        ({}, "workspaceWrite"),
        ({"mode": PermissionMode.PLAN}, "readOnly"),
        ({"native_tools": frozenset({"Read", "Bash"})}, "readOnly"),
    ],
)
def test_only_an_agent_that_may_edit_gets_a_writable_sandbox(changes, sandbox):
    request = session_request("/w", **changes)
    params = command.turn_start("t1", "hi", request, "m1", CUSTOM, Features())
    assert params["sandboxPolicy"] == {"type": sandbox, "networkAccess": False}
    asked = command.turn_start("t1", "hi", request, "m1", CUSTOM, Features(hooked=False))
    outside = {"workspaceWrite": "dangerFullAccess"}.get(sandbox, sandbox)
    assert asked["sandboxPolicy"]["type"] == outside
    assert params["input"] == [{"type": "text", "text": "hi"}]


def test_a_turn_that_goes_on_has_no_input():
    config = CodexConfig(network=True)
    request = session_request("/w")
    params = command.turn_start("t1", None, request, "m1", config, Features(), effort="low")
    assert params["sandboxPolicy"]["networkAccess"] is True
    assert params["input"] == []
    assert params["effort"] == "low"


def test_images_come_behind_the_text_that_cites_them():
    image = Image(mark="![a](x)", name="a", media_type="image/png", path="/state/images/a.png")
    params = command.turn_start(
        "t1", "see ![a](x)", session_request("/w"), "m1", CUSTOM, Features(), [image]
    )
    assert params["input"] == [
        {"type": "text", "text": "see ![a](x)"},
        {"type": "localImage", "path": "/state/images/a.png"},
    ]


@pytest.mark.parametrize(
    ("backend", "name", "why"),
    [("exec", "prsm", "is PRSM's own"), ("app-server", "a.b", "has a dot in its name")],
)
def test_a_server_whose_name_codex_cannot_take_is_refused(backend, name, why):
    request = session_request("/w", mcp_servers={"fine": McpServer(command="x")})
    check_servers(request, CodexConfig(backend=backend))
    request = session_request("/w", mcp_servers={name: McpServer(command="x")})
    with pytest.raises(ProviderNotAvailableError, match=why):
        check_servers(request, CodexConfig(backend=backend))


@pytest.mark.requirement("E74")
def test_the_command_line_of_one_turn():
    endpoint = McpEndpoint(argv=("py", "proxy"), env={"PRSM_TOKEN": "s3cret"})
    request = session_request("/w", model="m1")
    argv = command.exec_argv(CUSTOM, request, HOOKED, endpoint, effort="low")
    assert argv[:2] == ("codex", "exec")
    assert argv[-1] == "-"
    assert {"--json", "--ephemeral", "--skip-git-repo-check"} <= set(argv)
    assert argv[argv.index("-C") + 1] == "/w"
    assert argv[argv.index("-s") + 1] == "workspace-write"
    assert argv[argv.index("-m") + 1] == "m1"
    settings = tomllib.loads("\n".join(argv[n + 1] for n, w in enumerate(argv) if w == "-c"))
    assert settings["developer_instructions"] == "You are w1."
    assert settings["model_reasoning_effort"] == "low"
    assert settings["sandbox_workspace_write"] == {"network_access": False}
    server = settings["mcp_servers"]["prsm"]
    assert (server["command"], server["args"]) == ("py", ["proxy"])
    assert server["env_vars"] == ["PRSM_TOKEN"]
    assert server["required"] is True
    assert server["default_tools_approval_mode"] == "approve"
    assert "s3cret" not in " ".join(argv)


def test_one_turn_of_an_agent_without_orchestration_tools_has_no_server():
    argv = command.exec_argv(CUSTOM, session_request("/w", model="default"), HOOKED, None)
    assert "mcp_servers" not in " ".join(argv)
    assert "-m" not in argv


@pytest.mark.requirement("U19", "U30")
def test_shells_and_servers_have_variables_by_name_and_no_value_is_on_the_command_line():
    server = McpServer(command="docs-mcp", env={"JAVA_HOME": "/own"})
    request = session_request("/w", mcp_servers={"docs": server})
    names = ("HTTPS_PROXY", "JAVA_HOME")
    argv = command.app_server_argv(CUSTOM, HOOKED, names)
    (setting,) = [word for word in argv if "include_only" in word]
    told = tomllib.loads(f"names{setting[setting.index('=') :]}")
    assert {"HTTPS_PROXY", "JAVA_HOME", "PATH"} <= set(told["names"])
    settings = command.thread_config(request, CUSTOM, HOOKED, names)
    assert settings["mcp_servers.docs"]["env_vars"] == ["HTTPS_PROXY"]
