"""Of what an engine has one of, the configuration names which."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from prsm_core.errors import ConfigError, PluginError
from prsm_core.hookspecs import hookimpl
from prsm_core.interfaces.files import WorkspaceFilesSpec
from prsm_core.plugins import PluginManager
from prsm_core.plugins.needed import chosen

SETTING = "workspace.files"


def name_of(plugins, named):
    spec = chosen(plugins, WorkspaceFilesSpec, named, SETTING)
    return None if spec is None else spec.name


@pytest.fixture
def plugins(monkeypatch):
    """Return a function that loads plugins which bring one keeper of files each, by its name."""

    def load(*names):
        for name in names:
            module = ModuleType(f"keeper_{name}")
            vars(module)["prsm_workspace_files"] = _hook(name)
            monkeypatch.setitem(sys.modules, module.__name__, module)
        pairs = [(name, f"keeper_{name}") for name in names]
        return PluginManager.load(environ={}, builtins=pairs, entry_points=[])

    return load


def _hook(name):
    @hookimpl
    def prsm_workspace_files():
        if name == "broken":
            yield WorkspaceFilesSpec(name=name, summary="A keeper.", factory="nowhere:keep")
        yield WorkspaceFilesSpec(name=name, summary="A keeper.", factory="nowhere:keep")

    return prsm_workspace_files


def test_the_only_one_is_used(plugins):
    assert name_of(plugins("one"), None) == "one"


def test_of_several_the_one_that_is_named(plugins):
    loaded = plugins("one", "two")
    assert name_of(loaded, "two") == "two"
    with pytest.raises(ConfigError, match="one, two: more than one") as refused:
        chosen(loaded, WorkspaceFilesSpec, None, SETTING)
    assert SETTING in str(refused.value.hint)


def test_none_is_none_and_a_name_of_none_is_an_error(plugins):
    assert name_of(plugins(), None) is None
    with pytest.raises(PluginError, match="keeper of files"):
        chosen(plugins("one"), WorkspaceFilesSpec, "two", SETTING)


def test_one_that_is_lost_with_its_plugin_is_no_silence(plugins):
    """A run that would record nothing, though its person has installed what records."""
    with pytest.raises(PluginError, match=r"plugin broken .* is broken: .* registered twice"):
        chosen(plugins("broken"), WorkspaceFilesSpec, None, SETTING)
