"""The executor passes the contract of executors."""

from __future__ import annotations

from prsm_sandbox.plugin import prsm_executors
from prsm_testing import ExecutorContract


class TestSandboxExecutor(ExecutorContract):
    spec = next(iter(prsm_executors()))
