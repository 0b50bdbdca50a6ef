"""The `jsonl` sink: a run's committed events, one envelope a line, appended to a private file.

It writes where `sinks.jsonl.path` or PRSM_JSONL says; a folder gets `<run id>.jsonl` for each run.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prsm_core.interfaces.sink import EventSink, RunInfo

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prsm_core.config.schema import JsonlSettings
    from prsm_core.domain.events import Event


class JsonlSink(EventSink):
    """Appends each batch with one write, so that lines of several runs never mix."""

    def __init__(self, run: RunInfo, settings: JsonlSettings | Mapping[str, Any]) -> None:
        path = settings.get("path") if isinstance(settings, Mapping) else settings.path
        self._path = _target(str(path), run.run_id) if path else None

    async def write(self, batch: Sequence[Event]) -> None:
        """Append the batch; raises OSError when the file cannot be written."""
        if self._path is None or not batch:
            return
        lines = "".join(json.dumps(event.to_dict()) + "\n" for event in batch)
        await asyncio.to_thread(_append, self._path, lines.encode())


def _target(path: str, run_id: str) -> Path:
    target = Path(path).expanduser()
    return target / f"{run_id}.jsonl" if path.endswith("/") or target.is_dir() else target


def _append(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "ab") as file:
        file.write(data)
