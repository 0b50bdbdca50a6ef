"""What a hub has others do: the command line can all of it, and gives it to the hub."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from prsm_core.interfaces.frontend import RunOptions


class Errands(Protocol):
    """Each raises PrsmError for what cannot be done, and then nothing is."""

    async def start(self, options: RunOptions) -> Mapping[str, Any]:
        """Begin a run in a process of its own; see Hub.start."""
        ...

    async def delete(self, ledger: Path, session: str) -> None:
        """Delete a session of a ledger; see Hub.delete."""
        ...

    async def export(self, ledger: Path, session: str, output: Path, form: str) -> Path:
        """Write a session of a ledger to a file, and return that; see Hub.export."""
        ...
