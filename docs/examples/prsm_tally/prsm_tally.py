"""An event sink: counts the events of a run by type, into the file that PRSM_TALLY names."""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prsm_core import EventSink, EventSinkSpec, hookimpl

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from prsm_core import Event, RunInfo


class Tally(EventSink):
    """Keeps the counts in memory and writes them when the run is over."""

    def __init__(self, run: RunInfo, settings: Mapping[str, Any]) -> None:
        self._path = os.environ.get("PRSM_TALLY")
        self._run = run
        self._counts: Counter[str] = Counter()

    async def write(self, batch: Sequence[Event]) -> None:
        """Count a batch."""
        self._counts.update(event.type for event in batch)

    async def aclose(self) -> None:
        """Write the counts; a file that cannot be written is an error that the engine tells."""
        if self._path is not None:
            counts = {"run": self._run.run_id, "events": dict(sorted(self._counts.items()))}
            write = Path(self._path).write_text  # in a thread: a disk may take its time
            await asyncio.to_thread(write, json.dumps(counts) + "\n", encoding="utf-8")


@hookimpl
def prsm_event_sinks() -> Iterable[EventSinkSpec]:
    """Contribute `tally`."""
    yield EventSinkSpec(name="tally", summary="Counts events by type.", factory="prsm_tally:Tally")
