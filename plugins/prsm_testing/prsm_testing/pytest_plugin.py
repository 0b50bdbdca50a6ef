"""Pytest markers and fixtures that PRSM and its plugins share.

Pytest loads this module in every run of every project beside prsm-testing, before coverage starts:
it imports nothing of the core at the top.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prsm_core.domain.events import Event
    from prsm_core.plugins import PluginManager
    from prsm_testing.app_double import ScriptedApp

_stderr = 2  # the descriptor of what is not captured

MARKERS = (
    "requirement(*ids): the rows of the requirements this test proves",
    "live: runs a real CLI against a loopback model server",
)


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers, so that --strict-markers accepts them."""
    global _stderr
    _stderr = os.dup(2)
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)


def pytest_unconfigure() -> None:
    """Let the process end, whatever the tests of a contract have left running."""
    if bound := sys.modules.get("prsm_testing.bound"):
        bound.see_out()


def write_error(text: str) -> None:
    """Write what must be seen although tests are captured."""
    os.write(_stderr, text.encode())


@pytest.fixture
def prsm_plugins() -> PluginManager:
    """The plugins that are installed here, loaded as `prsm` loads them."""
    from prsm_core.builtin import BUILTINS
    from prsm_core.plugins import PluginManager

    return PluginManager.load(environ=os.environ, builtins=BUILTINS)


@pytest.fixture
def prsm_events() -> Sequence[Event]:
    """A run as its events: every type of the contract, with all its fields."""
    from prsm_testing.samples import sample_events

    return sample_events()


@pytest.fixture
def prsm_app() -> ScriptedApp:
    """The application that a frontend drives; its run is what the test says."""
    from prsm_testing.app_double import ScriptedApp

    return ScriptedApp()
