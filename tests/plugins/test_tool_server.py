"""The package that brings a server of tools: used where it is, named where it is not."""

from __future__ import annotations

import sys

import pytest

from prsm_core.distributions import TOOL_SERVERS
from prsm_core.errors import PluginError, ProviderNotAvailableError
from prsm_core.plugins.tool_server import tool_server
from tests.site_folder import Site


@pytest.fixture
def site(tmp_path, monkeypatch):
    """What is installed is in this folder alone."""
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    return Site(tmp_path)


def bring(site, name, code="def opens(path, clock): ..."):
    module = site.add(name, code)
    [info] = site.folder.glob(f"prsm_{name}-*.dist-info")
    (info / "entry_points.txt").write_text(f"[{TOOL_SERVERS}]\nmcp = {module}:opens\n")
    return module


def test_where_no_package_brings_one_it_says_which_does(site):
    with pytest.raises(ProviderNotAvailableError, match="the package prsm-mcp") as caught:
        tool_server()
    assert caught.value.hint == "prsm install mcp"


def test_the_one_that_is_installed_is_used(site):
    module = bring(site, "one")
    assert tool_server() is sys.modules[module].opens


def test_of_two_neither_is_used_and_both_are_named(site):
    bring(site, "one")
    bring(site, "two")
    with pytest.raises(PluginError, match="prsm-one and prsm-two both bring"):
        tool_server()


def test_one_that_cannot_be_loaded_names_its_package(site):
    bring(site, "one", "raise OSError('broken')")
    with pytest.raises(PluginError, match="prsm-one cannot be loaded: OSError: broken") as caught:
        tool_server()
    assert caught.value.hint == "reinstall prsm-one"
