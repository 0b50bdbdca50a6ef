"""The console passes what every frontend must pass, and registers as every plugin does."""

import pytest
from prsm_console.console import ConsoleFrontend
from prsm_testing.frontend_contract import FrontendContract

from prsm_core import FrontendSpec
from prsm_core.plugins import PluginManager

pytestmark = pytest.mark.requirement("F12")


class TestConsoleFrontend(FrontendContract):
    interactive = True

    def build(self, settings):
        return ConsoleFrontend(settings)

    async def choose(self, terminal, option):
        await terminal.shows("[d]eny: ")
        terminal.type(f"{option}\n")

    async def reply(self, terminal, choice):
        await terminal.shows("number or text: ")
        terminal.type(f"{choice}\n")


def test_the_plugin_contributes_the_console_and_its_factory_builds_it():
    plugins = PluginManager.load(
        environ={}, builtins=[("console", "prsm_console.plugin")], entry_points=[]
    )
    [spec] = plugins.collect(FrontendSpec).values()
    assert (spec.name, spec.interactive) == ("console", True)
    assert isinstance(plugins.implementation(spec)({}), ConsoleFrontend)
