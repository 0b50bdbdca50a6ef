"""Finding Claude, its version, its key and its models; no real Claude is needed."""

from __future__ import annotations

import asyncio
import shlex
import subprocess
import sys

import pytest
from prsm_claude import provider
from prsm_claude.config import ClaudeConfig
from prsm_claude.plugin import prsm_providers
from prsm_claude.provider import build
from prsm_testing.doubles import RecordingHost, open_services, session_request, until
from prsm_testing.fake_clock import FakeClock
from prsm_testing.misbehaving_team import RushClock

from plugins.prsm_claude.tests.conftest import FAKE
from prsm_core.errors import ConfigError, ProviderNotAvailableError

CUSTOM = {"base_url": "http://127.0.0.1:1"}


@pytest.fixture
def program(tmp_path):
    """Writes a program that stands in for claude."""

    def write(script):
        path = tmp_path / "claude"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return str(path)

    return write


async def probed(tmp_path, settings, clock=None):
    async with open_services(tmp_path, clock=clock) as services:
        return await build({**CUSTOM, **settings}, services).probe()


async def refusal(tmp_path, settings):
    """Return why no session can be opened."""
    async with open_services(tmp_path) as services:
        opened = build(settings, services).open_session(session_request(tmp_path), RecordingHost())
        with pytest.raises(ProviderNotAvailableError) as caught:
            await opened.__aenter__()
    return caught.value.message


async def test_a_tested_version_is_available(tmp_path, program):
    status = await probed(tmp_path, {"command": program("echo '2.1.330 (Claude Code)'")})
    assert (status.available, status.version, status.tested) == (
        True,
        "2.1.330",
        str(provider.VERSIONS),
    )
    assert status.reason is None
    assert status.logged_in is None
    assert any("sandbox" in gap for gap in status.gaps)
    assert any("API key" in gap for gap in status.gaps)


@pytest.mark.parametrize("version", ["2.1.300", "3.0.0"])
async def test_another_version_is_used_and_said_to_be_untested(tmp_path, program, version):
    status = await probed(tmp_path, {"command": program(f"echo {version}")})
    assert status.available
    assert status.reason == f"version {version} was not tested"


async def test_an_old_version_is_refused_with_the_cure(tmp_path, program):
    settings = {**CUSTOM, "command": program("echo 2.1.247")}
    status = await probed(tmp_path, settings)
    assert not status.available
    assert "2.1.247 is too old" in str(status.reason)
    assert "claude-agent-sdk" in str(status.hint)
    assert await refusal(tmp_path, settings) == status.reason


async def test_a_missing_program_is_named_with_the_cure(tmp_path):
    status = await probed(tmp_path, {"command": str(tmp_path / "no-claude")})
    assert not status.available
    assert "no-claude" in str(status.reason)
    assert "claude-agent-sdk" in str(status.hint)


@pytest.mark.parametrize(
    ("script", "clock"),
    [("echo noise; exit 7", None), ("exec sleep 60", FakeClock()), ("yes", FakeClock())],
)
async def test_a_program_that_tells_no_version_is_usable_but_unknown(
    tmp_path, program, script, clock
):
    status = await probed(tmp_path, {"command": program(script)}, clock)
    assert (status.available, status.version) == (True, None)
    assert status.reason == "`claude --version` told no version within 5 s"


async def test_a_program_that_is_no_claude_is_refused_with_its_stderr(tmp_path, program):
    script = 'case "$*" in *--version) echo 2.1.330;; *) echo no such >&2; exit 2;; esac'
    why = await refusal(tmp_path, {**CUSTOM, "command": program(script)})
    assert why == "claude did not start: exit code 2: no such"


async def test_a_missing_key_is_named(tmp_path, program, monkeypatch):
    monkeypatch.delenv("THE_KEY", raising=False)
    settings = {"command": program("echo 2.1.330"), "api_key_env": "THE_KEY"}
    status = await probed(tmp_path, settings)
    assert (status.available, status.logged_in) == (False, False)
    assert "THE_KEY" in str(status.reason)
    assert "THE_KEY" in await refusal(tmp_path, settings)


async def test_without_a_login_claude_is_not_available(tmp_path, program, monkeypatch):
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "nobody"))
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    async with open_services(tmp_path) as services:
        status = await build({"command": program("echo 2.1.330")}, services).probe()
    assert (status.available, status.logged_in) == (False, False)
    assert "log in" in str(status.hint)


async def test_who_has_no_claude_on_the_path_is_told_which_one_to_log_in_with(
    tmp_path, program, monkeypatch
):
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "nobody"))
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    there = program("echo 2.1.330")
    async with open_services(tmp_path) as services:
        status = await build({"command": there}, services).probe()
    path = there if isinstance(there, str) else shlex.join(there)
    assert status.hint == f"Run `{path}` and log in, or set `api_key_env`."


def test_without_a_command_the_cli_of_the_sdk_is_run():
    (path,) = provider.program(ClaudeConfig())
    assert path == "claude" or path.endswith("/claude_agent_sdk/_bundled/claude")
    assert provider.program(ClaudeConfig(command=("mine", "-x"))) == ("mine", "-x")


async def test_models_come_from_the_configuration_or_from_the_greeting(tmp_path, monkeypatch):
    monkeypatch.setenv("THE_KEY", "k")
    async with open_services(tmp_path) as services:
        provider = build({**CUSTOM, "models": ["m1"]}, services)
        assert [model.model_id for model in await provider.list_models()] == ["m1"]
        provider = build({"command": FAKE, "api_key_env": "THE_KEY"}, services)
        (model,) = await provider.list_models()
        assert services.live == []
    assert (model.model_id, model.reasoning_efforts) == ("default", ("low", "high"))


NAMES_MODELS = """#!/bin/sh
# {names}
[ "$1" = --version ] && echo "2.1.330 (Claude Code)" && exit
echo "cannot find its licence" >&2
exit 1
"""


@pytest.mark.requirement("E94")
async def test_the_names_in_a_program_that_does_not_greet_are_listed(tmp_path):
    program = tmp_path / "claude"
    program.write_text(NAMES_MODELS.format(names="claude-opus-5-5"))
    program.chmod(0o755)
    async with open_services(tmp_path / "state") as services:
        (model,) = await build({"command": str(program)}, services).list_models()
    assert model.model_id == "claude-opus-5-5"


async def test_why_no_models_are_listed_is_told(tmp_path):
    program = tmp_path / "claude"
    program.write_text(NAMES_MODELS.format(names="none"))
    program.chmod(0o755)
    async with open_services(tmp_path / "state") as services:
        provider = build({"command": str(program)}, services)
        with pytest.raises(ProviderNotAvailableError, match="cannot find its licence"):
            await provider.list_models()


async def test_a_program_that_never_greets_lists_no_models_and_is_not_waited_for(tmp_path):
    begun, clock = tmp_path / "begun", RushClock()
    program = tmp_path / "claude"
    silent = NAMES_MODELS.format(names="none").replace("exit 1", f"touch {begun}; exec sleep 100")
    program.write_text(silent)
    program.chmod(0o755)
    async with open_services(tmp_path / "state", clock=clock) as services:
        provider = build({"command": str(program)}, services)
        async with asyncio.TaskGroup() as group:
            listing = group.create_task(why_not_listed(provider))
            await until(begun.exists)
            clock.rush(100)
        assert "did not greet within 12 s" in listing.result()
        assert services.live == []


async def why_not_listed(provider):
    """Return why a provider lists no models."""
    with pytest.raises(ProviderNotAvailableError) as caught:
        await provider.list_models()
    return caught.value.message


async def test_wrong_settings_are_an_error_at_once(tmp_path):
    async with open_services(tmp_path) as services:
        with pytest.raises(ConfigError, match="unknown key 'comand'"):
            build({"comand": "claude"}, services)


def test_the_plugin_contributes_the_provider_and_imports_nothing_heavy():
    (spec,) = prsm_providers()
    assert spec.name == "claude"
    code = (
        "import sys, prsm_claude.plugin; "
        "sys.exit(any(m in sys.modules for m in ('asyncio', 'mcp', 'claude_agent_sdk')))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
