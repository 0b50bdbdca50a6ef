"""A plugin that does not answer is cut off and quarantined; those that answer notice nothing."""

import sys
import threading

import pytest

from prsm_core import ConfigError, PluginError, ProviderSpec
from tests.site_folder import provider

# Blocks until the test lets it go, so that no thread outlives its test.
BLOCK = "import sys\nsys.modules['released'].wait(30)\n"
BLOCKING = {
    "at import": BLOCK,
    "in a hook": "@hookimpl\ndef prsm_providers():\n    "
    + BLOCK.replace("\n", "\n    ")
    + "return []",
    "within a generator": provider("mine") + "    " + BLOCK.replace("\n", "\n    "),
}
SOON = {"PRSM_PLUGIN_TIMEOUT": "1"}


@pytest.fixture(autouse=True)
def release(monkeypatch):
    """Let the plugins that block go on, and wait for the end of their threads."""
    event = threading.Event()
    monkeypatch.setitem(sys.modules, "released", event)
    before = threading.enumerate()

    def release():
        event.set()
        for thread in set(threading.enumerate()) - set(before):
            thread.join(10)

    yield release
    release()


@pytest.mark.requirement("C6", "F12")
@pytest.mark.parametrize("where", BLOCKING)
def test_a_plugin_that_blocks(where, site):
    site.add("stuck", BLOCKING[where])
    site.add("good", provider("good"))
    manager = site.load(SOON)
    good, stuck = manager.records
    assert (stuck.state, stuck.error) == ("slow", "did not answer within 1 s")
    assert good.state == "active"
    assert list(manager.collect(ProviderSpec)) == ["good"]
    with pytest.raises(PluginError, match=r"stuck \(prsm-stuck 1\.0\) is slow: did not answer"):
        manager.get(ProviderSpec, "stuck")


def test_asking_for_what_a_blocked_plugin_had_contributed_raises_its_own_error(site):
    site.add("stuck", BLOCKING["within a generator"])
    manager = site.load(SOON)
    with pytest.raises(PluginError, match=r"provider 'mine': plugin stuck .* did not answer"):
        manager.get(ProviderSpec, "mine")


def test_what_a_plugin_answers_too_late_changes_nothing(site, release):
    site.add("stuck", BLOCKING["in a hook"].replace("return []", "return [1]"))
    manager = site.load(SOON)
    release()
    assert manager.records[0].error == "did not answer within 1 s"
    assert manager.collect(ProviderSpec) == {}


def test_a_built_in_plugin_is_loaded_where_it_is_wanted_and_others_beside(site):
    code = provider("{}") + "\nimport threading\nTHREAD = threading.current_thread()"
    core = site.builtin("core", code.format("core-provider"))
    other = site.add("other", code.format("other-provider"))
    manager = site.load(builtins=[core])
    assert [record.state for record in manager.records] == ["active", "active"]
    assert sys.modules[core[1]].THREAD is threading.current_thread()
    assert sys.modules[other].THREAD.daemon


@pytest.mark.parametrize("text", ["", "soon", "0", "-1", "nan", "inf", "1e9"])
def test_a_deadline_that_is_no_number_of_seconds_is_refused(text, site):
    with pytest.raises(ConfigError, match=f"PRSM_PLUGIN_TIMEOUT is {text!r}"):
        site.load({"PRSM_PLUGIN_TIMEOUT": text})
