"""Sections of the configuration that make further providers of an installed one."""

from __future__ import annotations

import pytest

from prsm_core.config import Settings
from prsm_core.engine.processes.launcher import ProcessLauncher
from prsm_core.engine.providers.registry import ProviderRegistry, configured_specs
from prsm_core.errors import ConfigError, ProviderNotAvailableError
from prsm_core.interfaces.provider import Provider, ProviderSpec, ProviderStatus
from prsm_core.kit.background import Background
from prsm_core.kit.clocks import SystemClock
from prsm_core.plugins.absent import Absent


class Plain(Provider):
    """A provider that only remembers what it was built with."""

    def __init__(self, settings, services):
        if settings.get("colour") == "bad":
            raise ConfigError("providers.plain.colour: that is no colour")
        self.settings = settings
        self.services = services

    def open_session(self, request, host):
        raise NotImplementedError

    async def probe(self):
        return ProviderStatus(available=True)


SPECS = {"plain": ProviderSpec(name="plain", summary="", factory=Plain, selectable=False)}


@pytest.fixture
async def registry_of(tmp_path):
    """Builds a registry from sections of `providers`."""
    failures = []
    clock = SystemClock()
    async with (
        ProcessLauncher(clock) as launcher,
        Background(lambda name, error: failures.append((name, error))) as background,
    ):
        yield lambda providers, specs=SPECS, **options: ProviderRegistry(
            specs,
            Settings.of({"providers": providers}),
            launcher=launcher,
            background=background,
            clock=clock,
            state_dir=tmp_path / "state",
            **options,
        )
    assert failures == []


async def test_a_section_with_a_kind_is_a_provider_of_its_own(registry_of):
    registry = registry_of({"mine": {"kind": "plain", "colour": "red"}, "other": {"kind": "plain"}})
    assert registry.names == {"plain", "mine", "other"}
    mine, other = await registry.get("mine"), await registry.get("other")
    assert (mine.inner.settings, other.inner.settings) == ({"colour": "red"}, {})
    assert [p.inner.services.state_dir.name for p in (mine, other)] == ["mine", "other"]


async def test_it_may_be_chosen_where_its_kind_itself_is_not(registry_of):
    assert await registry_of({"mine": {"kind": "plain"}}).choose(None) == "mine"
    with pytest.raises(ProviderNotAvailableError, match="no provider is installed"):
        await registry_of({}).choose(None)


async def test_a_kind_that_nobody_has_is_told_when_the_provider_is_used(registry_of):
    registry = registry_of({"mine": {"kind": "plane"}})
    with pytest.raises(ProviderNotAvailableError, match="of the kind 'plane'") as told:
        await registry.get("mine")
    assert told.value.hint == "installed: plain"


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("codex", "installed: plain; prsm install codex"),
        ("codx", "installed: plain; did you mean codex?"),
        ("nothing-like-it", "installed: plain"),
    ],
)
async def test_only_a_package_of_this_project_is_one_to_install(registry_of, name, advice):
    with pytest.raises(ProviderNotAvailableError) as told:
        await registry_of({}).get(name)
    assert told.value.hint == advice


async def test_where_plugins_are_switched_off_nobody_is_told_to_install_one(registry_of):
    off = "plugins are switched off: leave out --no-plugins"
    with pytest.raises(ProviderNotAvailableError, match="'codex' is not loaded") as told:
        await registry_of({}, absent=Absent(switched_off=True)).get("codex")
    assert told.value.hint == f"loaded: plain; {off}"
    with pytest.raises(ProviderNotAvailableError, match="no provider is loaded") as told:
        await registry_of({}, absent=Absent(switched_off=True)).choose(None)
    assert str(told.value.hint).startswith(off)


async def test_an_error_in_such_a_section_names_the_section(registry_of):
    registry = registry_of({"mine": {"kind": "plain", "colour": "bad"}})
    with pytest.raises(ConfigError, match=r"^providers\.mine\.colour: that is no colour$"):
        await registry.get("mine")


def test_a_name_that_no_provider_can_have_is_an_error_of_the_configuration():
    settings = Settings.of({"providers": {"My Agent": {"kind": "plain"}}})
    with pytest.raises(ConfigError, match=r"providers\.My Agent: .* is not a name"):
        configured_specs(SPECS, settings)
