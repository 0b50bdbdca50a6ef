"""A plugin whose agents do what a test has put into `behaviours`, by the agent's name."""

from __future__ import annotations

from prsm_core import ProviderSpec, hookimpl
from tests.engine.harness import ScriptedProvider

behaviours: dict = {}
failures: list[Exception] = []  # of behaviours


def build(settings, services):
    return ScriptedProvider(services=services, behaviours=behaviours, failures=failures)


@hookimpl
def prsm_providers():
    yield ProviderSpec(name="script", summary="scripted agents", factory=build)
