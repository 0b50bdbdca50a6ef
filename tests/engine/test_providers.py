"""The provider registry: built from the configuration, each provider once."""

from __future__ import annotations

import pytest

from prsm_core.config import load_settings, resolve_paths
from prsm_core.domain.models import ModelInfo
from prsm_core.engine.processes.launcher import ProcessLauncher
from prsm_core.engine.providers.registry import ProviderRegistry
from prsm_core.errors import ProviderNotAvailableError
from prsm_core.interfaces.provider import (
    Provider,
    ProviderCapabilities,
    ProviderSpec,
    ProviderStatus,
)
from prsm_core.kit.background import Background
from prsm_core.kit.clocks import SystemClock

CONFIG = """
providers:
  second: {base_url: "http://127.0.0.1:1/v1", models: [small]}
model_registry:
  said: {max_context: 3}
"""


class Plain(Provider):
    """A provider that only remembers what it was built with."""

    def __init__(self, settings, services):
        self.settings = settings
        self.services = services

    def open_session(self, request, host):
        raise NotImplementedError

    async def probe(self):
        return ProviderStatus(available="base_url" in self.settings, reason="no address")


@pytest.fixture
async def registry(tmp_path):
    """A registry over two installed providers; a YAML file configures the second."""
    environ = {"PRSM_HOME": str(tmp_path / "home")}
    paths = resolve_paths(tmp_path, environ)
    paths.user_config.parent.mkdir(parents=True)
    paths.user_config.write_text(CONFIG)
    settings = load_settings(paths=paths, environ=environ, trusted=False).settings
    specs = {
        name: ProviderSpec(name=name, summary="", factory=Plain) for name in ("first", "second")
    }
    clock, failures = SystemClock(), []
    async with (
        ProcessLauncher(clock) as launcher,
        Background(lambda name, error: failures.append((name, error))) as background,
    ):
        yield ProviderRegistry(
            specs,
            settings,
            launcher=launcher,
            background=background,
            clock=clock,
            state_dir=tmp_path / "state",
        )
    assert failures == []


@pytest.mark.requirement("E86")
async def test_a_provider_is_built_once_with_its_section_of_the_yaml(registry):
    assert registry.names == {"first", "second"}
    second = await registry.get("second")
    assert await registry.get("second") is second
    assert second.inner.settings == {"base_url": "http://127.0.0.1:1/v1", "models": ["small"]}
    assert (await registry.get("first")).inner.settings == {}
    assert second.inner.services.state_dir.stat().st_mode & 0o777 == 0o700


async def test_the_first_provider_that_can_be_used_is_chosen(registry):
    assert await registry.choose(None) == "second"
    with pytest.raises(ProviderNotAvailableError, match="first cannot be used: no address"):
        await registry.choose("first")


async def test_a_provider_that_is_not_installed_is_named_with_those_that_are(registry):
    with pytest.raises(ProviderNotAvailableError, match="'third' is not installed") as told:
        await registry.get("third")
    assert "first, second" in str(told.value.hint)


async def test_a_provider_that_cannot_lead_is_passed_over_and_refused_as_a_master_by_name(registry):
    second = await registry.get("second")
    second.inner.capabilities = ProviderCapabilities(supports_master=False)
    with pytest.raises(ProviderNotAvailableError, match="second cannot lead a run"):
        await registry.choose("second")
    (await registry.get("first")).inner.settings = {"base_url": "http://127.0.0.1:2/v1"}
    assert await registry.choose(None) == "first"
    assert await registry.choose("second", leads=False) == "second", "its children may be"


async def test_the_window_of_a_model_is_as_the_settings_say_else_as_its_provider_knows(registry):
    assert registry.context_window("second", "small") is None, "it was not built yet"
    second = await registry.get("second")
    second.inner.known_models = (
        ModelInfo(model_id="small", context_window=1000),
        ModelInfo(model_id="said", context_window=2000),
        ModelInfo(model_id="bare"),
    )
    models = ("small", "said", "bare", "nobody's")
    assert [registry.context_window("second", model) for model in models] == [1000, 3, None, None]
    assert registry.context_window("first", "small") is None
