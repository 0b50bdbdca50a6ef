"""The provider's settings, the built-in manifests, and what a process is started with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from prsm_acp import manifests
from prsm_acp.config import AcpConfig
from prsm_acp.manifest import McpPlace
from prsm_acp.manifests import MANIFESTS, find_manifest
from prsm_acp.plugin import prsm_providers
from prsm_acp.provider import AcpProvider, build, manifest_of
from prsm_testing.doubles import RecordingHost, open_services, session_request

from plugins.prsm_acp.tests.fake_manifest import build_fake
from prsm_core.domain.agents import PermissionMode
from prsm_core.domain.models import ModelInfo
from prsm_core.domain.tools import McpServer
from prsm_core.errors import ConfigError, ModelNotAvailableError, ProviderNotAvailableError


def test_every_key_is_understood():
    config = AcpConfig.from_settings(
        {
            "kind": "acp",
            "agent": "opencode",
            "command": "my-agent --acp",
            "base_url": "http://x",
            "api_key_env": "K",
            "env": {"A": 1},
            "home": "/logins/one",
            "pass_env": ["B"],
            "models": {"m1": {"context_window": 1000}, "m2": None},
            "auth_method": "key",
            "mode": "ask",
            "profiles": [{"name": "p"}],
        },
        section="mine",
    )
    assert config == AcpConfig(
        section="mine",
        agent="opencode",
        command=("my-agent", "--acp"),
        base_url="http://x",
        api_key_env="K",
        env={"A": "1"},
        home="/logins/one",
        pass_env=("B",),
        models=(ModelInfo(model_id="m1", context_window=1000), ModelInfo(model_id="m2")),
        auth_method="key",
        mode="ask",
    )


def test_an_unknown_key_is_an_error_that_names_the_nearest():
    with pytest.raises(ConfigError, match=r"providers\.mine: unknown key 'comand'") as caught:
        AcpConfig.from_settings({"comand": "x"}, section="mine")
    assert caught.value.hint == "Did you mean `command`?"


@pytest.mark.parametrize(
    "settings",
    [
        {"command": []},
        {"command": 7},
        {"agent": ""},
        {"env": ["A"]},
        {"pass_env": [1]},
        {"models": 3},
        {"models": {"m": {"size": 1}}},
        {"mode": 1},
    ],
)
def test_a_value_of_the_wrong_kind_is_an_error_that_names_its_key(settings):
    with pytest.raises(ConfigError, match=rf"providers\.acp\.{next(iter(settings))}"):
        AcpConfig.from_settings(settings)


@pytest.mark.parametrize("name", MANIFESTS)
def test_each_known_agent_is_found_by_its_name(name):
    manifest = find_manifest(name)
    assert manifest.name == name
    assert manifest.install
    assert manifest.login
    assert manifest.mcp is not McpPlace.NONE


def test_an_agent_never_gets_a_mode_in_which_it_asks_less():
    """PRSM decides: BYPASS is the broker's business, whose deny rules hold in it, too."""
    for manifest in MANIFESTS.values():
        assert not {"yolo", "bypassPermissions", "agent-full-access"} & {*manifest.modes.values()}
        assert set(manifest.modes) in (set(), set(PermissionMode))


def test_qwen_asks_for_all_but_prsms_own_tools_and_is_given_no_server_but_those_named():
    own = McpServer(command="proxy", args=("-S",), env={"TOKEN": "t"})
    told = manifests.qwen(own, ("docs",))
    assert told["mcpServers"]["prsm"]["trust"]
    assert told["mcpServers"]["prsm"]["timeout"] == manifests.LONG_WAIT_MS
    assert told["mcp"] == {"allowed": ["prsm", "docs"]}
    assert {"Bash", "Read", "Edit"} <= set(told["permissions"]["ask"])
    assert told["disableAllHooks"]
    assert "mcpServers" not in manifests.qwen(None, ())


def test_an_unknown_agent_is_an_error_that_names_the_nearest():
    with pytest.raises(ConfigError, match="no ACP agent 'opncode'; did you mean 'opencode'"):
        find_manifest("opncode")


def test_an_agent_of_ones_own_needs_nothing_but_its_command():
    manifest = manifest_of(AcpConfig(command=("/opt/bin/my-agent", "--acp")))
    assert (manifest.name, manifest.command) == ("my-agent", ("/opt/bin/my-agent", "--acp"))
    with pytest.raises(ConfigError, match="does not say which agent"):
        manifest_of(AcpConfig())


def test_the_distribution_contributes_one_provider_that_must_be_named():
    (spec,) = prsm_providers()
    assert (spec.name, spec.selectable) == ("acp", False)


@pytest.fixture
async def services(tmp_path):
    async with open_services(tmp_path / "state") as services:
        yield services


def launched(services, settings, **changes):
    config = AcpConfig.from_settings(settings)
    provider = AcpProvider(config, manifest_of(config), services)
    return provider.launch(session_request("/w", **changes), Path("/home"), None)


async def test_a_process_gets_its_agents_variables_and_the_model_as_an_argument(
    services, monkeypatch
):
    monkeypatch.setenv("MY_KEY", "secret")
    monkeypatch.setenv("OPENAI_API_KEY", "another vendor's")
    settings = {
        "agent": "gemini",
        "api_key_env": "MY_KEY",
        "base_url": "http://x",
        "env": {"A": "1"},
        "home": "/logins/one",
    }
    launch = launched(services, settings, model="gemini-2.5-pro")
    assert launch.argv == ("gemini", "--acp", "-m", "gemini-2.5-pro")
    assert launch.cwd == "/w"
    assert launch.env == {
        "GEMINI_API_KEY": "secret",
        "GOOGLE_GEMINI_BASE_URL": "http://x",
        "GEMINI_CLI_HOME": "/logins/one",
        "GEMINI_CLI_NO_RELAUNCH": "1",
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
        "A": "1",
    }
    assert launched(services, settings, model="default").argv == ("gemini", "--acp")


async def test_a_settings_file_is_written_and_named_and_a_password_made(services, monkeypatch):
    monkeypatch.setenv("MY_KEY", "k")
    given = {"agent": "qwen", "base_url": "http://x", "api_key_env": "MY_KEY"}
    launch = launched(services, given, model="m")
    assert launch.argv == ("qwen", "--acp", "--auth-type", "openai", "-m", "m")
    ((path, text),) = launch.files.items()
    assert launch.env["QWEN_CODE_SYSTEM_SETTINGS_PATH"] == str(path)
    assert json.loads(text)["mcp"]["allowed"] == ["prsm"]
    first, second = (launched(services, {"agent": "opencode"}, model="a/m") for _ in range(2))
    passwords = {one.env["OPENCODE_SERVER_PASSWORD"] for one in (first, second)}
    assert len(passwords) == 2
    kept = launched(services, {"agent": "opencode", "env": {"OPENCODE_CONFIG": "/mine"}}, model="m")
    assert kept.env["OPENCODE_CONFIG"] == "/mine"


async def test_a_key_in_the_sections_own_env_is_a_key(services, monkeypatch):
    monkeypatch.delenv("MY_KEY", raising=False)
    given = {"agent": "gemini", "api_key_env": "MY_KEY", "env": {"MY_KEY": "s3cret"}}
    launch = launched(services, given)
    assert launch.env["GEMINI_API_KEY"] == "s3cret"


async def test_a_key_that_is_not_set_is_told(services, monkeypatch):
    monkeypatch.delenv("MY_KEY", raising=False)
    with pytest.raises(ProviderNotAvailableError, match="MY_KEY is not set"):
        launched(services, {"agent": "gemini", "api_key_env": "MY_KEY"})


async def test_an_address_that_an_agent_has_no_variable_for_is_an_error(services):
    with pytest.raises(ConfigError, match="goose takes no base_url"):
        launched(services, {"agent": "goose", "base_url": "http://x"})


async def test_variables_that_a_user_passes_on_are_those_that_are_set(services, monkeypatch):
    monkeypatch.setenv("MINE", "1")
    monkeypatch.delenv("ABSENT", raising=False)
    env = launched(services, {"command": ["x"], "pass_env": ["MINE", "ABSENT"]}).env
    assert env == {"MINE": "1"}


async def test_an_agent_that_would_choose_a_model_by_itself_is_not_started_without_one(services):
    provider = build({"agent": "opencode"}, services)
    with pytest.raises(ModelNotAvailableError, match="must be told its model"):
        async with provider.open_session(session_request("/w", model="default"), RecordingHost()):
            pass
    assert services.processes == []


async def test_models_are_listed_by_the_agent_unless_they_are_configured(services):
    provider = build_fake({}, services)
    assert [m.model_id for m in await provider.list_models()] == ["scripted-1", "scripted-2"]
    assert services.live == []
    configured = build_fake({"models": ["one"]}, services)
    assert await configured.list_models() == (ModelInfo(model_id="one"),)


@pytest.mark.requirement("F5")
async def test_what_cannot_be_enforced_is_said_before_a_run(services):
    status = await build_fake({}, services).probe()
    assert (status.available, status.version, status.reason) == (True, "1.0.0", None)
    assert any("asks leave for" in gap for gap in status.gaps)
    assert build_fake({}, services).capabilities.enforcement == "approval"
