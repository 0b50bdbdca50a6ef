"""Finding Codex, its version, its key and its home; no real Codex is needed."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from prsm_codex import CodexConfig, CodexProvider
from prsm_codex.app_server import prepare_home
from prsm_codex.plugin import prsm_providers
from prsm_codex.provider import build
from prsm_testing.doubles import RecordingHost, open_services, session_request
from prsm_testing.fake_clock import FakeClock

from plugins.prsm_codex.tests.puppet import open_fake
from plugins.prsm_codex.tests.test_contract import FAKE
from prsm_core.domain.models import ModelInfo
from prsm_core.errors import ConfigError, ProviderNotAvailableError

CUSTOM = {"base_url": "http://127.0.0.1:1/v1"}


@pytest.fixture
def program(tmp_path):
    """Writes a program that stands in for codex."""

    def write(script):
        path = tmp_path / "codex"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return str(path)

    return write


def served(services):
    return [process for process in services.processes if process.name == "codex"]


async def probed(tmp_path, settings, clock=None):
    async with open_services(tmp_path, clock=clock) as services:
        return await build({**CUSTOM, **settings}, services).probe()


async def test_a_tested_version_is_available(tmp_path, program):
    status = await probed(tmp_path, {"command": program("echo codex-cli 0.169.0")})
    assert (status.available, status.version, status.tested) == (True, "0.169.0", ">=0.160,<0.175")
    assert status.reason is None
    assert status.logged_in is None
    assert any("web search" in gap for gap in status.gaps)
    assert not any("outside Codex's sandbox" in gap for gap in status.gaps)


async def test_a_newer_version_is_used_and_said_to_be_untested(tmp_path, program):
    status = await probed(tmp_path, {"command": program("echo codex-cli 1.2.3")})
    assert status.available
    assert status.reason == "version 1.2.3 was not tested"


async def test_an_old_version_is_refused_with_the_cure(tmp_path, program):
    status = await probed(tmp_path, {"command": program("echo codex-cli 0.159.9")})
    assert not status.available
    assert "0.159.9 is too old" in status.reason
    assert "npm install -g @openai/codex" in status.hint


async def test_a_missing_program_is_named_with_the_cure(tmp_path):
    status = await probed(tmp_path, {"command": str(tmp_path / "no-codex")})
    assert not status.available
    assert "no-codex" in status.reason
    assert "npm install -g @openai/codex" in status.hint


async def test_a_program_that_cannot_run_is_unavailable(tmp_path):
    path = tmp_path / "codex"
    path.write_text("not a program")
    status = await probed(tmp_path, {"command": str(path)})
    assert not status.available


@pytest.mark.parametrize(
    ("script", "clock"),
    [("echo noise; exit 7", None), ("exec sleep 60", FakeClock()), ("yes", FakeClock())],
)
async def test_a_program_that_tells_no_version_is_usable_but_unknown(
    tmp_path, program, script, clock
):
    status = await probed(tmp_path, {"command": program(script)}, clock)
    assert status.available
    assert status.version is None
    assert status.reason == "`codex --version` told no version within 5 s"


async def test_an_agent_of_an_old_codex_is_refused_with_the_same_text(tmp_path, program):
    settings = {**CUSTOM, "command": program("echo codex-cli 0.12.0")}
    async with open_services(tmp_path) as services:
        provider = build(settings, services)
        with pytest.raises(ProviderNotAvailableError, match=r"0\.12\.0 is too old"):
            await provider.open_session(session_request(tmp_path), RecordingHost()).__aenter__()


async def test_a_program_that_is_no_app_server_is_refused_with_its_stderr(tmp_path, program):
    script = 'case "$*" in *--version) echo codex-cli 0.169.0;; *) echo no such >&2; exit 2;; esac'
    async with open_services(tmp_path) as services:
        provider = build({**CUSTOM, "command": program(script)}, services)
        with pytest.raises(ProviderNotAvailableError, match="no such"):
            await provider.open_session(session_request(tmp_path), RecordingHost()).__aenter__()
        await provider.aclose()


async def test_a_missing_key_is_named(tmp_path, program, monkeypatch):
    monkeypatch.delenv("THE_KEY", raising=False)
    settings = {"command": program("echo codex-cli 0.169.0"), "api_key_env": "THE_KEY"}
    status = await probed(tmp_path, settings)
    assert (status.available, status.logged_in) == (False, False)
    assert "THE_KEY" in str(status.reason)
    async with open_services(tmp_path) as services:
        provider = build(settings, services)
        with pytest.raises(ProviderNotAvailableError, match="THE_KEY"):
            await provider.open_session(session_request(tmp_path), RecordingHost()).__aenter__()


async def test_without_a_login_codex_is_not_available(tmp_path, program, monkeypatch):
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "nobody"))
    settings = {"command": program("echo codex-cli 0.169.0")}
    async with open_services(tmp_path) as services:
        status = await build(settings, services).probe()
    assert (status.available, status.logged_in) == (False, False)
    assert "codex login" in str(status.hint)


def test_the_users_login_is_linked_only_where_it_is_used(tmp_path, monkeypatch):
    login = tmp_path / "user" / "auth.json"
    login.parent.mkdir()
    login.write_text("{}")
    monkeypatch.setenv("CODEX_HOME", str(login.parent))
    state = tmp_path / "state"
    link = prepare_home(state, CodexConfig()) / "auth.json"
    assert link.readlink() == login
    assert link.parent.stat().st_mode & 0o777 == 0o700
    linked = link.lstat()
    prepare_home(state, CodexConfig())
    assert link.lstat().st_mtime_ns == linked.st_mtime_ns  # not even for a moment away
    prepare_home(state, CodexConfig(api_key_env="K"))
    assert not link.is_symlink()


@pytest.mark.requirement("N27")
def test_a_login_in_a_folder_of_its_own_is_used_instead_of_the_users(tmp_path, monkeypatch):
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "nobody"))
    login = tmp_path / "other" / "auth.json"
    login.parent.mkdir()
    login.write_text("{}")
    config = CodexConfig.from_settings({"home": str(login.parent)})
    assert (prepare_home(tmp_path / "state", config) / "auth.json").readlink() == login


def test_a_login_made_in_the_private_home_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "nobody"))
    own = prepare_home(tmp_path, CodexConfig()) / "auth.json"
    own.write_text("{}")
    prepare_home(tmp_path, CodexConfig())
    assert own.read_text() == "{}"


async def test_models_come_from_the_configuration_or_page_by_page_from_codex(tmp_path):
    async with open_services(tmp_path) as services:
        provider = build({**CUSTOM, "models": ["m1"]}, services)
        assert [model.model_id for model in await provider.list_models()] == ["m1"]
    efforts = [{"reasoningEffort": "low"}, {"reasoningEffort": "high"}]
    entry = {"id": "x", "model": "m", "displayName": "M", "supportedReasoningEfforts": efforts}
    listed: dict[str, Any] = {"model/list": {"data": [entry]}}
    async with open_fake(tmp_path, **listed) as (_, services):
        provider = CodexProvider(CodexConfig(enforcement="approval"), services)
        (model,) = await provider.list_models()
        await provider.aclose()
    assert (model.model_id, model.display_name) == ("m", "M")
    assert model.reasoning_efforts == ("low", "high")


async def test_what_is_prepared_is_what_the_first_session_uses(tmp_path):
    async with open_services(tmp_path / "s") as services:
        provider = build({"command": FAKE, **CUSTOM}, services)
        await provider.prepare()
        before = served(services)
        async with provider.open_session(session_request(tmp_path), RecordingHost()):
            assert served(services) == before
        await provider.aclose()
        assert len(before) == 1
        assert not services.live


async def test_why_it_could_not_be_prepared_is_told_to_one_session(tmp_path, program):
    script = 'case "$*" in *--version) echo codex-cli 0.169.0;; *) echo no such >&2; exit 2;; esac'
    async with open_services(tmp_path) as services:
        provider = build({**CUSTOM, "command": program(script)}, services)
        with pytest.raises(ProviderNotAvailableError, match="no such"):
            await provider.prepare()
        started = len(services.processes)
        for again in (0, 1):  # a later session looks once more: it may have been mended
            with pytest.raises(ProviderNotAvailableError, match="no such"):
                await provider.open_session(session_request(tmp_path), RecordingHost()).__aenter__()
            assert len(services.processes) == started + again
        await provider.aclose()


@pytest.mark.parametrize("settings", [{"backend": "exec", **CUSTOM}, {}])
async def test_nothing_is_prepared_for_a_process_a_turn_nor_without_a_login(
    tmp_path, monkeypatch, settings
):
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "nobody"))
    async with open_services(tmp_path / "s") as services:
        provider = build({"command": FAKE, **settings}, services)
        await provider.prepare()
        assert not services.processes
        await provider.aclose()


async def test_wrong_settings_are_an_error_at_once(tmp_path):
    async with open_services(tmp_path) as services:
        with pytest.raises(ConfigError, match="unknown key 'comand'"):
            build({"comand": "codex"}, services)


def test_the_plugin_contributes_the_provider_and_imports_nothing_heavy():
    (spec,) = prsm_providers()
    assert spec.name == "codex"
    code = "import sys, prsm_codex.plugin; sys.exit('asyncio' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


async def test_it_knows_its_configured_models_without_asking(tmp_path):
    async with open_services(tmp_path) as services:
        provider = build({"models": {"m": {"context_window": 1000}}}, services)
        assert provider.known_models == (ModelInfo(model_id="m", context_window=1000),)
