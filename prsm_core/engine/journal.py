"""The journal: numbers steps, carries events into them, and tells readers what was committed.

What a provider merely says is a fact: it is written within 20 ms, and always before or inside
the next step of the agent that said it.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from prsm_core.domain.events import Event
from prsm_core.domain.projection import event_of
from prsm_core.domain.writes import Told
from prsm_core.engine.failing import is_unfit
from prsm_core.engine.secrecy import without_secrets
from prsm_core.errors import FencedError, StoreError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator, Sequence

    from prsm_core.domain.steps import Committed, Step
    from prsm_core.interfaces.clock import Clock
    from prsm_core.interfaces.store import Store
    from prsm_core.kit.background import Background
    from prsm_core.permissions import Redactor
    from prsm_core.permissions.redaction import StreamRedactor

    OnEvents = Callable[[tuple[Event, ...]], None]

_log = logging.getLogger("prsm.engine")

FLUSH_SECONDS = 0.02
FACT_LIMIT = 1000  # buffered facts; a provider that says more waits for the store


class LiveText:
    """One agent's text while it comes: told without its secrets, wherever it is cut."""

    def __init__(self, stream: StreamRedactor, tell: Callable[[str], None]) -> None:
        self._stream = stream
        self._tell = tell

    def feed(self, piece: str) -> None:
        """Tell what can be told by now."""
        self._tell_some(self._stream.feed(piece))

    def end(self) -> None:
        """Tell the rest: the text goes on no further."""
        self._tell_some(self._stream.flush())

    def _tell_some(self, text: str) -> None:
        if text:
            self._tell(text)


class Journal:
    """Owns the facts that are not yet written, and the only path to the store."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        background: Background,
        *,
        session_id: str,
        on_events: OnEvents,
        redactor: Redactor,
    ) -> None:
        self._store = store
        self._clock = clock
        self._background = background
        self._on_events = on_events
        self.redactor = redactor
        self.session_id = session_id
        self.run_id = ""
        self._facts: dict[str | None, list[Told]] = {}
        self._count = 0
        self._flushing: asyncio.Task[None] | None = None
        self._steps = 0
        self._is_over = False  # run_finished is about to be written, or is

    @property
    def redact(self) -> Callable[[Any], Any]:
        """Takes the secrets out of JSON values."""
        return self.redactor.value

    def begin_run(self, run_id: str) -> None:
        """Make everything from now on part of this run."""
        self.run_id = run_id
        self._steps = 0
        self._is_over = False

    def end_run(self) -> None:
        """Take no fact and no agent's step any more: `run_finished` follows, and is the last."""
        self._is_over = True

    def run_step_id(self) -> str:
        """Return a new step id for an act of the run itself."""
        self._steps += 1
        return f"{self.run_id}:1:{self._steps}"

    def live_text(self, kind: str, agent: str) -> LiveText:
        """Return what takes the pieces of a text that is told, but never stored."""
        return LiveText(self.redactor.stream(), partial(self._tell, kind, agent))

    def _tell(self, kind: str, agent: str, text: str) -> None:
        event = Event(  # the text has been redacted as a stream
            type=kind,
            session=self.session_id,
            run=self.run_id,
            ts=self._clock.time(),
            agent=agent,
            data={"text": text},
        )
        self._on_events((event,))

    async def fact(self, kind: str, agent: str | None = None, **data: Any) -> None:
        """Note an event that no step causes; waits only when too many are unwritten."""
        self.note(kind, agent, **data)
        if self._count >= FACT_LIMIT:
            await self.flush()

    def note(self, kind: str, agent: str | None = None, /, **data: Any) -> None:
        """Note an event that no step causes, without waiting (for what is rare)."""
        if self._is_over:
            _log.info("%s came after the end of the run", kind)
            return
        fact = Told(kind=kind, data=data, at=self._clock.time())
        self._facts.setdefault(agent, []).append(fact)
        self._count += 1
        if self._flushing is None:
            self._flushing = self._background.start(self._flush_soon(), name="journal flush")

    async def flush(self) -> None:
        """Write every fact noted so far."""
        noted = [(agent, facts) for agent, facts in self._facts.items() if facts]
        self._facts.clear()
        self._count = 0
        if noted:
            events = [event for agent, facts in noted for event in self._events(agent, facts)]
            events.sort(key=lambda event: event.ts)
            await self._background.finish(self._append(events))

    def _events(self, agent: str | None, facts: Sequence[Told]) -> Iterator[Event]:
        for fact in without_secrets(facts, self.redactor):
            telling = fact.telling(agent, self._clock.time())
            yield event_of(telling, self.session_id, self.run_id)

    async def commit(self, step: Step, then: Callable[[], None] | None = None) -> Committed:
        """Commit a step, preceded by its agent's facts, and run `then` once it is durable.

        The step is committed, and `then` has run, even if the caller is cancelled meanwhile.
        Raises FencedError for an agent's step when the run is over.
        """
        if self._is_over and step.agent_id is not None:
            raise FencedError(f"step {step.step_id} comes after the end of the run")
        facts = self._facts.pop(step.agent_id, ())
        self._count -= len(facts)
        writes = without_secrets((*facts, *step.writes), self.redactor)
        step = replace(step, writes=writes)
        return await self._background.finish(self._commit(step, then))

    async def _commit(self, step: Step, then: Callable[[], None] | None) -> Committed:
        committed = await self._store.commit(step)
        if then is not None:
            then()
        self._on_events(committed.events)
        return committed

    async def _append(self, facts: list[Event]) -> None:
        try:
            self._on_events(await self._store.append(facts))
        except StoreError as error:
            if not is_unfit(error) or len(facts) == 1:
                raise
            for fact in facts:  # all but the one that cannot be written
                await self._append_alone(fact)

    async def _append_alone(self, fact: Event) -> None:
        try:
            await self._append([fact])
        except StoreError as error:
            if not is_unfit(error):
                raise
            _log.warning("an event %s cannot be written", fact.type, exc_info=error)

    async def _flush_soon(self) -> None:
        try:
            await self._clock.sleep(FLUSH_SECONDS)
        finally:
            self._flushing = None
        await self.flush()
