"""What the tests of the package share with those of the core."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from hypothesis import settings

from tests.conftest import _umask, report

if TYPE_CHECKING:
    import pytest

__all__ = ["_umask", "report"]


def pytest_configure(config: pytest.Config) -> None:
    """Try the examples that the tests of the core try; let children be interrupted, as there."""
    settings.load_profile("new" if config.option.markexpr == "long" else "same")
    signal.signal(signal.SIGINT, signal.default_int_handler)
