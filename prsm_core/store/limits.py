"""The numbers that bound the store's queue, groups, waits and log."""

from __future__ import annotations

from prsm_core.domain.record import Record


class StoreLimits(Record, frozen=True, kw_only=True):
    """Bounds of an open store; the defaults suit every run."""

    max_pending: int = 1024  # queued steps; submitters beyond it wait
    max_group: int = 256  # steps of one transaction: bounds how long the lock is held
    checkpoint_rows: int = 2000  # changed rows between checkpoints, about 5 MB of log
    at_once_s: float = 0.001  # that a step may take for which the event loop waits
    lock_timeout_s: float = 30.0
    poll_s: float = 0.05  # how late a follower sees the commit of another process
