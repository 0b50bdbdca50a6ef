"""A run's time limit: over all engines that have worked on it, and none of the time between them.

An engine has worked from when it began to the last thing that it wrote. What it did after that
nobody knows, and it is not counted.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

from prsm_core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from prsm_core.domain.events import Event
    from prsm_core.domain.sessions import RunNow, SessionState
    from prsm_core.interfaces.store import Store

LIMIT = "timeout_s"  # of a run's options: seconds
_SPENT = "spent_s"  # by the engines before the newest
_BEGAN = "resumed_at"  # when the newest began, Unix seconds


async def time_spent(store: Store, state: SessionState) -> float:
    """Return the seconds of its limit that the session's newest run has spent; no engine lives."""
    run = state.runs[-1]
    began = float(run.options.get(_BEGAN, run.started_at))
    seq = state.seq
    if state.origins and began < state.created_at:  # that engine worked before this was forked
        seq = state.origins[-1].seq
    last = await _told_at(store, state.session_id, seq)
    return float(run.options.get(_SPENT, 0.0)) + max(0.0, last - began)


def time_left(run: RunNow, spent: float) -> float | None:
    """Return the seconds that are left of a run's own limit, None where it has none.

    Raises ConfigError (code `no_time_left`) where there are none.
    """
    limit = run.options.get(LIMIT)
    if limit is None:
        return None
    if spent >= limit:
        raise ConfigError(
            f"the run's time limit of {limit:g} s is used up",
            hint="give it more: prsm resume SESSION --timeout SECONDS",
            code="no_time_left",
        )
    return float(limit - spent)


async def limit_of(
    store: Store, state: SessionState, given: float | None, now: float
) -> tuple[float | None, float, Mapping[str, Any]]:
    """Return the limit of a run that goes on, what of it is spent, and the options that keep this.

    A limit that is `given` counts from `now`, Unix seconds. Raises ConfigError as `time_left` does.
    """
    run = state.runs[-1]
    limit, spent = given, 0.0
    if limit is None:
        limit, spent = run.options.get(LIMIT), await time_spent(store, state)
        time_left(run, spent)
    return limit, spent, {_SPENT: spent, _BEGAN: now}


async def _told_at(store: Store, session: str, seq: int) -> float:
    """Return when an event was told, 0 where there is none of this number."""
    events = cast("AsyncGenerator[Event, None]", store.events(session, after=seq - 1))
    async with aclosing(events):
        async for event in events:
            return event.ts
    return 0.0
