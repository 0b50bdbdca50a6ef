"""The built-ins are registered by the same hooks as everybody else's."""

from prsm_core.interfaces.frontend import Frontend, FrontendSpec, RunOptions
from prsm_core.interfaces.provider import ProviderSpec
from prsm_core.interfaces.sink import EventSink, EventSinkSpec, RunInfo
from prsm_core.plugins import PluginManager


def load():
    return PluginManager.load(
        environ={}, builtins=[("builtin", "prsm_core.builtin.plugin")], entry_points=[]
    )


def test_the_built_in_plugin_is_active_and_contributes_a_frontend_and_a_sink():
    plugins = load()
    assert {record.name: record.state for record in plugins.records}["builtin"] == "active"
    frontends = plugins.collect(FrontendSpec)
    assert {name: spec.interactive for name, spec in frontends.items()} == {"json": False}
    assert list(plugins.collect(EventSinkSpec)) == ["jsonl"]


def test_the_script_provider_is_there_for_those_who_name_it():
    plugins = PluginManager.load(environ={}, builtins=[], enabled=False)
    [script] = plugins.collect(ProviderSpec).values()
    assert (script.name, script.selectable) == ("script", False)
    assert callable(plugins.implementation(script))


def test_every_factory_builds_what_it_promises():
    plugins = load()
    for frontend in plugins.collect(FrontendSpec).values():
        assert isinstance(plugins.implementation(frontend)({}), Frontend)
    run = RunInfo(run_id="R", session="S", task="t", workspace=RunOptions().workspace)
    for sink in plugins.collect(EventSinkSpec).values():
        assert isinstance(plugins.implementation(sink)(run, {}), EventSink)
