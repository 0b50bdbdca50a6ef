"""Pytest markers that PRSM and its plugins share.

Pytest loads this module in every run of every project beside prsm-core, before coverage starts:
it imports nothing of the core at the top.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

MARKERS = (
    "requirement(*ids): the rows of the requirements this test proves",
    "live: runs a real CLI against a loopback model server",
)


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers, so that --strict-markers accepts them."""
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
