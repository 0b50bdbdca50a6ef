"""Names of tools, and what labels begin with, are one plugin's alone."""

from __future__ import annotations

import pytest

from prsm_core import ToolContribution
from tests.plugins.test_manager import error_of, states

TOOLS = """
@hookimpl
def prsm_tools():
    for name in NAMES:
        yield ToolContribution(
            name=name, summary="", description="", arguments=Struct, roles=frozenset({"master"}),
            handler="a:b", when="a:b", labels=PREFIX,
        )
"""


def tools(*names, prefix=""):
    return f"NAMES, PREFIX = {names!r}, {prefix!r}\n{TOOLS}"


def test_a_tool_of_prsm_is_no_plugins_to_add_and_the_error_names_both(site):
    site.add("bad", tools("fine", "spawn_child"))
    site.add("good", tools("fine"))
    manager = site.load()
    assert states(manager) == {"bad": "broken", "good": "active"}
    error = error_of(manager, "bad")
    assert "tool 'spawn_child' is registered by prsm-core" in error
    assert "prsm-bad 1.0" in error
    assert list(manager.collect(ToolContribution)) == ["fine"]


def test_two_plugins_with_one_tool_are_quarantined_both(site):
    site.add("one", tools("look"))
    site.add("two", tools("look"))
    manager = site.load()
    assert states(manager) == {"one": "broken", "two": "broken"}
    assert error_of(manager, "one") == (
        "tool 'look' is registered by prsm-one 1.0 and prsm-two 1.0"
    )


@pytest.mark.requirement("A1")
def test_what_labels_begin_with_is_one_plugins_alone(site):
    """Tools of one plugin share it; neither another one's tool nor another program may."""
    site.add("one", tools("look", "move", prefix="own"))
    site.add("two", tools("walk", prefix="free"))
    manager = site.load()
    assert states(manager) == {"one": "active", "two": "active"}
    site.add("three", tools("run", prefix="own"))
    manager = site.load()
    assert states(manager) == {"one": "broken", "two": "active", "three": "broken"}
    assert "label prefix 'own' is registered by prsm-one 1.0" in error_of(manager, "three")


def test_a_tool_sets_no_label_of_another_ones_program(site):
    program = """
@hookimpl
def prsm_providers():
    yield ProviderSpec(name="own", summary="", factory="json:loads", program=True)
"""
    site.add("one", program)
    site.add("two", tools("walk", prefix="own"))
    assert states(site.load()) == {"one": "broken", "two": "broken"}
