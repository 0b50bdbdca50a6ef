"""The provider: which backend, what can be known without an agent, and what an ACP agent gets."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import tomllib
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from prsm_gemini import provider
from prsm_gemini.acp import GeminiAcp
from prsm_gemini.config import Backend, GeminiConfig
from prsm_gemini.provider import build, is_headless
from prsm_testing.doubles import RecordingHost, open_services, session_request, until
from prsm_testing.misbehaving_team import RushClock

from plugins.prsm_gemini.tests.test_contract import FAKE
from prsm_core.domain.models import ModelInfo
from prsm_core.domain.tools import McpEndpoint
from prsm_core.errors import ProviderNotAvailableError

KEY = {"api_key_env": "LOOPBACK_KEY"}
UNKNOWN = "11111111-1111-4111-8111-111111111111"


@asynccontextmanager
async def opened(tmp_path, **settings):
    async with open_services(tmp_path / "state") as services:
        provider = build({"command": FAKE, **settings}, services)
        yield provider
        await provider.aclose()


@pytest.fixture
def _nobody(tmp_path, monkeypatch):
    """A user who has never logged in."""
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    for name in ("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.requirement("F5")
async def test_each_backend_promises_what_it_can(tmp_path):
    async with opened(tmp_path, backend="headless") as headless, opened(tmp_path) as acp:
        promised = [(p.capabilities.enforcement, p.capabilities.resume) for p in (headless, acp)]
        gaps = [(await p.probe()).gaps for p in (headless, acp)]
    assert promised == [("pre_tool", "native"), ("approval", "rebuild")]
    assert all(gaps)
    assert gaps[0] != gaps[1]


def test_auto_is_acp_where_its_library_is(monkeypatch):
    auto = GeminiConfig(backend=Backend.AUTO)
    assert not is_headless(auto)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert is_headless(auto)
    assert not is_headless(GeminiConfig())


@pytest.mark.usefixtures("_nobody")
async def test_a_login_is_looked_for_and_never_read(tmp_path):
    async with opened(tmp_path) as provider:
        status = await provider.probe()
        assert (status.available, status.logged_in) == (False, False)
        assert "GEMINI_API_KEY" in status.hint
        login = tmp_path / ".gemini" / "oauth_creds.json"
        login.parent.mkdir()
        login.write_text("secret")
        login.chmod(0)
        status = await provider.probe()
    assert (status.available, status.logged_in) == (True, True)
    assert status.version == "0.61.0"
    assert "secret" not in str(status)


async def test_a_key_counts_as_a_login_and_is_in_no_answer(tmp_path):
    async with opened(tmp_path, **KEY) as provider:
        status = await provider.probe()
    assert (status.available, status.logged_in, status.reason) == (True, True, None)
    assert "secret-loopback-key" not in str(status)


async def test_a_key_variable_that_is_not_set_is_told_with_a_cure(tmp_path):
    async with opened(tmp_path, api_key_env="NO_SUCH_KEY", backend="headless") as provider:
        status = await provider.probe()
        with pytest.raises(ProviderNotAvailableError, match="NO_SUCH_KEY is not set"):
            async with provider.open_session(session_request(tmp_path), RecordingHost()):
                pass
    assert not status.available
    assert "NO_SUCH_KEY" in status.hint


@pytest.mark.parametrize(
    ("version", "tested"), [("0.61.3", True), ("0.62.0", False), (None, False)]
)
def test_a_version_is_tested_or_not(version, tested):
    assert provider.VERSIONS.is_tested(version) is tested


def test_a_version_that_is_too_old_is_refused():
    with pytest.raises(ProviderNotAvailableError, match="too old"):
        provider.VERSIONS.checked("0.60.9\n")


async def test_configured_models_are_offered(tmp_path):
    async with opened(tmp_path, models=["m"]) as provider:
        assert await provider.list_models() == (ModelInfo(model_id="m"),)
        assert provider.known_models == (ModelInfo(model_id="m"),)


async def test_a_program_that_does_not_tell_its_version_is_said_to(tmp_path):
    program = tmp_path / "mute.py"
    program.write_text("")
    async with opened(tmp_path, command=[FAKE[0], str(program)], **KEY) as provider:
        status = await provider.probe()
    assert (status.available, status.version) == (True, None)
    assert status.reason == "`gemini --version` told no version within 5 s"


def bundled(folder, source):
    """Return a program that lies where Gemini's does, beside a module that names a model."""
    bundle = folder / "gemini-cli" / "bundle"
    bundle.mkdir(parents=True)
    bundle.with_name("package.json").write_text("{}")
    module = '// packages/core/src/config/models.ts\nvar M = "gemini-2.5-pro";\n'
    bundle.joinpath("chunk-A.js").write_text(module)
    program = bundle / "gemini.py"
    program.write_text(f"{source}\n")
    return program


@pytest.mark.requirement("E93")
async def test_without_an_answer_over_acp_the_models_are_those_of_the_program(tmp_path):
    """The small program speaks no ACP; its own folder holds no models either."""
    program = bundled(tmp_path, "raise SystemExit(1)")
    async with opened(tmp_path, command=[FAKE[0], str(program)], **KEY) as provider:
        assert await provider.list_models() == (ModelInfo(model_id="gemini-2.5-pro"),)
    async with opened(tmp_path, **KEY) as provider:
        assert await provider.list_models() == ()


@pytest.mark.requirement("E93")
async def test_a_program_that_says_nothing_over_acp_is_not_waited_for_to_list_its_models(tmp_path):
    begun, clock = tmp_path / "begun", RushClock()
    program = bundled(tmp_path, f"import signal\nopen({str(begun)!r}, 'w')\nsignal.pause()")
    async with open_services(tmp_path / "state", clock=clock) as services:
        provider = build({"command": [FAKE[0], str(program)], **KEY}, services)
        async with asyncio.TaskGroup() as group:
            listing = group.create_task(provider.list_models())
            await until(begun.exists)
            clock.rush(100)
        assert listing.result() == (ModelInfo(model_id="gemini-2.5-pro"),)
        assert services.live == []
        await provider.aclose()


async def test_a_session_that_is_not_on_disk_any_more_is_told_as_such(tmp_path):
    async with opened(tmp_path, backend="headless", **KEY) as provider:
        request = session_request(tmp_path, resume_token=UNKNOWN)
        with pytest.raises(ProviderNotAvailableError) as caught:
            async with provider.open_session(request, RecordingHost()):
                pass
    assert caught.value.code == "resume_failed"


@pytest.mark.usefixtures("_nobody")
async def test_an_agent_over_acp_finds_the_users_login_in_its_home(tmp_path):
    login = tmp_path / ".gemini" / "oauth_creds.json"
    login.parent.mkdir()
    login.write_text("{}")
    home = tmp_path / "home"
    link = home / ".gemini" / login.name
    async with open_services(tmp_path / "state") as services:
        GeminiAcp(GeminiConfig(), services).launch(session_request(tmp_path), home, None)
        assert link.readlink() == login
        assert home.stat().st_mode & 0o777 == 0o700
        GeminiAcp(GeminiConfig.from_settings(KEY), services).launch(
            session_request(tmp_path), home, None
        )
    assert not link.is_symlink()


async def test_an_agent_over_acp_has_a_home_that_knows_prsms_tools(tmp_path):
    endpoint = McpEndpoint(argv=("py", "proxy.py"), env={"PRSM_TOKEN": "t"})
    request = session_request(tmp_path, model="gemini-2.5-pro")
    async with open_services(tmp_path / "state") as services:
        acp = GeminiAcp(GeminiConfig(api_key_env="LOOPBACK_KEY"), services)
        with acp.knowing(request.agent_id, ["note"]):
            launch = acp.launch(request, tmp_path / "home", endpoint)
        listing = acp.launch(None, tmp_path / "home", None)
    home = tmp_path / "home"
    assert launch.argv[-1] == "--acp"
    assert {"-m", "gemini-2.5-pro", "--skip-trust"} <= set(launch.argv)
    assert launch.env["GEMINI_CLI_HOME"] == str(home)
    assert "GEMINI_CLI_TRUST_WORKSPACE" not in launch.env
    settings = json.loads(launch.files[home / ".gemini" / "settings.json"])
    assert settings["mcpServers"]["prsm"]["timeout"] == 604_800_000
    assert settings["hooksConfig"] == {"enabled": False}
    allowed = [
        rule["toolName"]
        for rule in tomllib.loads(launch.files[home / "policy.toml"])["rule"]
        if rule["decision"] == "allow"
    ]
    assert allowed == [["mcp_prsm_note"]]
    assert "prsm" not in json.loads(listing.files[home / ".gemini" / "settings.json"])["mcpServers"]
