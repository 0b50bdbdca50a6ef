"""What this distribution contributes: the executor that shuts in commands and programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core import hookimpl
from prsm_core.executors import ExecutorSpec

if TYPE_CHECKING:
    from collections.abc import Iterable


@hookimpl
def prsm_executors() -> Iterable[ExecutorSpec]:
    """Contribute `sandbox`: bubblewrap for commands, boxes for programs."""
    yield ExecutorSpec(
        name="sandbox",
        summary="Commands under bubblewrap, programs in boxes by runc, podman or bubblewrap.",
        factory="prsm_sandbox.sandbox:SandboxExecutor",
    )
