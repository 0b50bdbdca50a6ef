"""An abort signal: how whoever starts a run, from code of their own, ends it.

Before the run is in the ledger a signal that is set keeps it from starting; from then on it ends
the run as `interrupt_run` does. Where no signal is given nothing waits for one.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from prsm_core.errors import RunAbortedError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator

    from prsm_core.domain.turns import AbortSignal
    from prsm_core.kit.background import Background


class RunAbort:
    """Owns the signal of the open run, None where it has none, and has it heeded."""

    def __init__(self, background: Background) -> None:
        self._background = background
        self.signal: AbortSignal | None = None

    def take(self, signal: AbortSignal | None) -> None:
        """Heed the signal of the run that begins now. Raises RunAbortedError where it is set."""
        check_wanted(signal)
        self.signal = signal

    @contextmanager
    def leading(
        self, asked: asyncio.Future[None] | None, left: asyncio.Future[None] | None
    ) -> Iterator[None]:
        """Lead the open run to its end; who is interrupted or fails has `left` it.

        Once the signal is set it is `asked` for the run's end.
        """
        watch = None
        if self.signal is not None and asked is not None:
            watch = self._background.start(_ask(self.signal, asked), name="the abort signal")
        try:
            yield
        finally:
            if watch is not None:
                watch.cancel()
            self.signal = None
            if left is not None:
                left.set_result(None)


def check_wanted(signal: AbortSignal | None) -> None:
    """Raise RunAbortedError if a run's signal is set, of which nothing is written yet."""
    if signal is not None and signal.is_set():
        raise RunAbortedError(
            "the run was aborted before it began", hint="start it with a signal that is not set"
        )


async def _ask(signal: AbortSignal, asked: asyncio.Future[None]) -> None:
    await signal.wait()
    if not asked.done():  # a person may have asked, too
        asked.set_result(None)
