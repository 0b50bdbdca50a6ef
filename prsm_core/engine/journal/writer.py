"""Writes steps and facts to the store: without secrets, and nothing more once that has failed.

It knows no order: the journal says what comes before what. That a write is being made is known to
who must not read the ledger meanwhile, and to who waits for its end.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from msgspec.structs import replace

from prsm_core.engine.guarded.failing import Soundness, is_unfit
from prsm_core.engine.journal.redaction import without_secrets
from prsm_core.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prsm_core.domain.events import Event
    from prsm_core.domain.steps import Committed, Step
    from prsm_core.engine.journal.spoken import Writing
    from prsm_core.interfaces.store import Store
    from prsm_core.permissions import Redactor

    OnEvents = Callable[[tuple[Event, ...]], None]
    OnBroken = Callable[[StoreError], None]

_log = logging.getLogger("prsm.engine")


class LedgerWriter:
    """Owns the store's writes, and whether the ledger is still sound.

    Args:
        store: Where steps and facts go.
        redactor: Takes the secrets out of them.
        writing: Is told which writes are being made.
        on_events: Is given facts that are committed, once they are durable.
        on_broken: Is told, once, why the ledger cannot be written any more.
    """

    def __init__(
        self,
        store: Store,
        redactor: Redactor,
        writing: Writing,
        *,
        on_events: OnEvents,
        on_broken: OnBroken,
    ) -> None:
        self._store = store
        self._redactor = redactor
        self._writing = writing
        self._on_events = on_events
        self.soundness = Soundness(on_broken)

    async def commit(self, step: Step) -> Committed:
        """Write a step; who asked for it tells its events. Raises what the store raises."""
        writes = without_secrets(step.writes, self._redactor)
        if writes is not step.writes:
            step = replace(step, writes=writes)
        self.soundness.check()
        number = self._writing.begin()
        try:
            return await self._store.commit(step)
        except Exception as error:
            self.soundness.failed(error)
            raise
        finally:
            self._writing.end(number)

    async def append(self, facts: Sequence[Event]) -> Sequence[int | None]:
        """Write facts without secrets; return the number of each, None of those that are unfit."""
        number = self._writing.begin()  # of all, also when they are written one by one
        try:
            return await self._append_all(facts)
        except StoreError as error:
            if not is_unfit(error) or len(facts) == 1:
                raise
            return [await self._append_alone(fact) for fact in facts]
        finally:
            self._writing.end(number)

    async def _append_all(self, facts: Sequence[Event]) -> Sequence[int | None]:
        self.soundness.check()
        try:
            events = await self._store.append(facts)
        except Exception as error:
            self.soundness.failed(error)
            raise
        self._on_events(events)
        return [event.seq for event in events]

    async def _append_alone(self, fact: Event) -> int | None:
        try:
            return (await self._append_all([fact]))[0]
        except StoreError as error:
            if not is_unfit(error):
                raise
            _log.warning("an event %s cannot be written", fact.type, exc_info=error)
            return None
