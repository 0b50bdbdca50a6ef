"""What the distribution contributes, and what its section may say."""

from __future__ import annotations

import subprocess
import sys

import pytest
from prsm_regions.config import MAX_AGENTS, RegionsConfig, Richness
from prsm_regions.plugin import prsm_providers

from prsm_core.errors import ConfigError


def test_the_plugin_contributes_the_provider_and_imports_nothing_heavy():
    (spec,) = prsm_providers()
    assert (spec.name, spec.selectable) == ("regions", False)
    code = "import sys, prsm_regions.plugin; sys.exit('prsm_regions.provider' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_settings_have_defaults():
    config = RegionsConfig.from_settings({})
    assert (config.max_agents, config.retries, config.effort) == (MAX_AGENTS, 2, Richness.MEDIUM)


@pytest.mark.requirement("R6")
@pytest.mark.parametrize("wrong", [6, 0, True, "5", 2.0])
def test_no_setting_raises_the_number_of_agents(wrong):
    with pytest.raises(ConfigError, match=r"providers\.regions\.max_agents.*1 to 5"):
        RegionsConfig.from_settings({"max_agents": wrong})


@pytest.mark.parametrize("settings", [{"effort": "huge"}, {"efort": "low"}, {"retries": 3}])
def test_a_wrong_setting_is_an_error_that_names_it(settings):
    with pytest.raises(ConfigError, match=rf"{next(iter(settings))}"):
        RegionsConfig.from_settings(settings)
