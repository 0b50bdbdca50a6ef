"""The package brings one policy, and counts as built in."""

from __future__ import annotations

import pytest

from prsm_core.builtin import BUILTINS
from prsm_core.plugins import PluginManager, PluginState
from prsm_core.policies import CommandPolicySpec


@pytest.mark.requirement("C6")
@pytest.mark.parametrize("environ", [{}, {"PRSM_PLUGINS": ""}])
@pytest.mark.parametrize("enabled", [True, False])
def test_the_policy_is_there_whatever_leaves_plugins_out(environ, enabled):
    manager = PluginManager.load(environ=environ, builtins=BUILTINS, enabled=enabled)
    assert "bash" in manager.collect(CommandPolicySpec)
    [record] = [record for record in manager.records if record.name == "policy"]
    assert record.state is PluginState.ACTIVE
