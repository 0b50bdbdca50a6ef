"""What every test of the core shares: a bounded property-test profile and the layout report."""

from __future__ import annotations

import gc
import os
import signal
from functools import partial

import pytest
from hypothesis import HealthCheck, settings

from tests.person import empty_home  # noqa: F401 - of every live test

# Time limits per example fail on a busy machine and find no error of ours. The default run tries
# the same few examples each time, so that what fails is the change; the long runs look for new ones
# and try more of them.
_COMMON = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", _COMMON, derandomize=True, max_examples=40)
settings.register_profile("new", _COMMON)


@pytest.fixture
def report(record_property):
    """Notes a line that is printed after the run, whether tests fail or not."""
    return partial(record_property, "report")


@pytest.hookimpl(optionalhook=True)  # of a plugin that need not be there
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Have one worker more than there are cores: every second test waits for a process.

    Not beside the programs of vendors, which keep a core busy each.
    """
    beside_vendors = config.option.markexpr == "live"
    return (os.cpu_count() or 1) + (not beside_vendors)


@pytest.fixture(autouse=True)
def _umask():
    """Give back what a command that ran in this process has made private."""
    mask = os.umask(0o022)
    os.umask(mask)
    yield
    os.umask(mask)


def pytest_configure(config: pytest.Config) -> None:
    """Choose examples; make folders that only their owner can change; let children be interrupted.

    The jobs of a shell that stay in its background ignore these signals, and what is ignored stays
    so in every child. Nobody looks for garbage until the tests are found: hardly any of a million
    objects is, and the searches take as long as all else.
    """
    gc.disable()
    settings.load_profile("new" if config.option.markexpr == "long" else "same")
    os.umask(os.umask(0) | 0o022)  # as PRSM demands of its home
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse a name that holds an address: workers would not agree on which tests there are."""
    if odd := [item.nodeid for item in items if " at 0x" in item.nodeid]:
        raise pytest.UsageError(f"name these cases, they are others in each process: {odd[:3]}")


def pytest_collection_finish() -> None:
    """Let no search for garbage look at the tests: a million objects, each time."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_terminal_summary(terminalreporter):
    for outcome in ("passed", "failed"):
        for test in terminalreporter.stats.get(outcome, []):
            for name, line in test.user_properties:
                if name == "report":
                    terminalreporter.write_line(line)
