"""The engine's run: opened, led to its master's end, and closed by one `run_finished`, its last.

Three may end it: its master, whoever interrupts it, and a ledger that breaks. Who comes first is
heeded. Its end is written by one of them alone, under a lock, however many of them ask for it; all
are given the same outcome. A run whose ledger broke, or that another engine goes on with, stays
open there.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from prsm_core.domain.writes import RunFinished
from prsm_core.engine.account import Account
from prsm_core.engine.outcome import INTERRUPTED, held_outcome, outcome_of
from prsm_core.errors import ConfigError
from prsm_core.kit.clocks import first_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from prsm_core.domain.agents import AgentDescriptor
    from prsm_core.domain.sessions import RunNow
    from prsm_core.domain.steps import Write
    from prsm_core.domain.turns import AbortSignal
    from prsm_core.engine.agents.ends import AgentEnds
    from prsm_core.engine.agents.steps import AgentSteps
    from prsm_core.engine.config import EngineConfig
    from prsm_core.engine.journal.sinks import RunSinks
    from prsm_core.engine.journal.unit import Journal
    from prsm_core.engine.outcome import RunAbort
    from prsm_core.engine.spending.budgets import BudgetLedger
    from prsm_core.engine.state import AgentRecord
    from prsm_core.engine.workspace_files import ChangeWatch
    from prsm_core.interfaces.frontend import RunResult
    from prsm_core.kit.clocks import Parting


class _Ends(Struct, eq=False):
    """What is waited for of a run; each is done once."""

    outcome: asyncio.Future[RunResult]  # its end is written, or about to be
    interrupted: asyncio.Future[None]  # somebody wants it to end
    left: asyncio.Future[None]  # nobody leads it any more
    held: asyncio.Future[str]  # its agents are held, and why: it is to be gone on with later


class CurrentRun:
    """Owns whether a run is open, what ends it, and its outcome.

    Args:
        config: What the engine is made of.
        journal: Where a run begins and ends.
        steps: Builds the acts of a run itself.
        agents: Ends the agents of a run that ends.
        budgets: What a run may spend; begun with it.
        changes: Watches the files while a run is open; None: nobody does.
        abort: Heeds the signal of whoever started the run.
        sinks: Are opened with a run and closed behind its end.
        prepare: Makes ready what a run must not begin without.
        leave: Lets go of what was only begun beside the run: it ends.
        settle: Has done what belongs to a run, before its end is written.
        suspend: Leaves all agents as they are in the ledger, and stops their programs.
        parting: Says how long what ends is waited for, once the time limit is over.
    """

    def __init__(
        self,
        config: EngineConfig,
        journal: Journal,
        *,
        steps: AgentSteps,
        agents: AgentEnds,
        budgets: BudgetLedger,
        changes: ChangeWatch | None,
        abort: RunAbort,
        sinks: RunSinks,
        prepare: Callable[[], Awaitable[object]],
        leave: Callable[[], None],
        settle: Callable[[], Awaitable[None]],
        suspend: Callable[[], Awaitable[None]],
        parting: Parting,
    ) -> None:
        self._config = config
        self._journal = journal
        self._steps = steps
        self._agents = agents
        self._budgets = budgets
        self._changes = changes
        self._abort = abort
        self._sinks = sinks
        self._prepare = prepare
        self._leave = leave
        self._settle = settle
        self._suspend = suspend
        self._parting = parting
        self._finishing = asyncio.Lock()  # held while an end is written
        self._started: float | None = None  # monotonic, of the open run
        self._ends: _Ends | None = None  # of the newest run
        self.account = Account()  # of the newest run
        self._broken: asyncio.Future[None] | None = None  # done: the ledger cannot be written

    @property
    def is_open(self) -> bool:
        """Whether there is a run whose end is not about to be written."""
        return self._started is not None

    @property
    def is_broken(self) -> bool:
        """Whether the ledger cannot be written any more."""
        return self._broken is not None and self._broken.done()

    def enter(self) -> None:
        """Begin to heed what breaks the ledger."""
        self._broken = asyncio.get_running_loop().create_future()

    def break_off(self, error: Exception) -> None:
        """End the open run: the ledger cannot be written, and its agents stay as they are."""
        broken = self._broken
        if broken is not None and not broken.done():
            broken.set_exception(error)
            broken.exception()  # whoever waits for the run has it: else nobody need be told

    def check_idle(self) -> None:
        """Raise ConfigError while a run is open."""
        if self._started is not None:
            raise ConfigError("this session runs a task already", hint="wait for its end")
        if self._ends is not None and self._ends.held.done():
            raise ConfigError(
                "the run before was left where a login or a limit holds it",
                hint=f"go on with it: prsm resume {self._journal.session_id}",
                code="held",
            )

    async def write(self, *writes: Write, then: Callable[[], None] | None = None) -> None:
        """Commit an act of the run itself."""
        await self._journal.commit(self._steps.build_of_run(*writes), then)

    async def open(
        self,
        begin: Callable[[], Awaitable[AgentRecord]],
        task: str,
        signal: AbortSignal | None,
        again: RunNow | None = None,
        goes_on: Sequence[AgentDescriptor] = (),
    ) -> AgentRecord:
        """Begin a run, or go on with one, and return its master; `goes_on` are agents of before.

        Where that cannot be written nothing is left behind that must be finished.
        """
        if (config := self._config).settings.sandbox.mode == "require":
            await self._prepare()
        async with self._finishing:  # the run before is over first, and its sinks are closed
            self.check_idle()
            self._abort.take(signal)
            self._parting.stay()
            self._started = config.clock.now()
        future = asyncio.get_running_loop().create_future
        ends = self._ends = _Ends(future(), future(), future(), future())
        try:
            if again is None:
                self._journal.begin_run(config.ids.ulid())
            else:
                self._journal.begin_run(again.run_id, again.epoch + 1)
            budgets = config.settings.budgets
            self._budgets.begin(budgets.to_budget(), let_turns_finish=budgets.let_turns_finish)
            await self._begin_account(again)
            broken = self._sinks.open(task, config.workspace, config.clock, goes_on)
            master = await begin()
            if self._changes is not None:
                self._changes.begin(is_resumed=again is not None)
        except Exception:  # one that is cancelled meanwhile may be in the ledger, and is finished
            self._started = None
            if again is None:
                self._mend()
            await self._sinks.aclose()
            raise
        except BaseException:
            ends.left.set_result(None)  # nobody drives it: `interrupt` ends it
            raise
        for text in broken:  # told now, since run_started comes first
            self._journal.note("notice", level="warning", text=text)
        return master

    async def lead(
        self,
        master: AgentRecord,
        on_start: Callable[[str], None] | None,
        limit: float | None,
        spent: float = 0.0,
    ) -> RunResult:
        """Wait for the master's end, kill it at the time limit, and close the run.

        `on_start` gets the run's id first; `limit` and what is `spent` of it are seconds.
        """
        ends = self._ends
        if ends is None:
            raise RuntimeError("no run was started")
        with self._abort.leading(ends.interrupted, ends.left):
            if on_start is not None:
                on_start(self._journal.run_id)
            left = None if limit is None else limit - spent
            clock = self._config.clock
            if not await first_of(clock, left, lambda: self._until_over(master, ends)):
                why = f"the run's time limit of {limit:g} s is over"
                self._parting.begin()
                self._agents.stop_below(master)
                await self._agents.kill_tree(master, why)
            elif ends.interrupted.done():
                await self._agents.kill_tree(master, INTERRUPTED.error or "")
            elif ends.held.done() and not ends.outcome.done():
                await self._suspend()
                return await self._finish(ends, held_outcome(ends.held.result()))
            return await self._close(master, ends)

    async def interrupt(self) -> bool:
        """End the open run as interrupted, by killing its agents.

        Returns once `run_finished` is committed; False when no run was open, or its end was being
        written already. A run that comes to its own end meanwhile keeps that. Raises what broke
        the ledger, if that was broken.
        """
        broken, ends = self._broken, self._ends
        if self._started is None or broken is None or ends is None:
            async with self._finishing:  # held until that end is written
                return False
        if not ends.interrupted.done():
            ends.interrupted.set_result(None)
        awaited: set[asyncio.Future[Any]] = {broken, ends.outcome, ends.left}
        await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
        if broken.done():
            broken.result()
        if not ends.outcome.done():  # whoever drove it has given up before its end
            await self._journal.flush()  # what it began is there, or comes before what follows
            await self._agents.end_masters(INTERRUPTED.error or "")
        await self._finish(ends, INTERRUPTED)
        return True

    def end_held(self, why: str) -> None:
        """End the open run where its agents are held: it is interrupted, and can be resumed."""
        ends = self._ends
        if self._started is not None and ends is not None and not ends.held.done():
            ends.held.set_result(why)

    async def leave(self, status: str) -> None:
        """Write the end of a run that is open still, unless its ledger is broken."""
        if self._started is not None and self._ends is not None and not self.is_broken:
            why = f"the run was {status}"
            await self._finish(self._ends, replace(INTERRUPTED, status=status, error=why))

    async def _until_over(self, master: AgentRecord, ends: _Ends) -> None:
        """Wait until the master's end is committed, the run interrupted, or the engine broken."""
        if self._broken is None:
            raise RuntimeError("the engine was not entered")
        awaited: set[asyncio.Future[Any]] = {
            master.ended(),
            self._broken,
            ends.outcome,
            ends.interrupted,
            ends.held,
        }
        await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)

    async def _close(self, master: AgentRecord, ends: _Ends) -> RunResult:
        if self._broken is not None and self._broken.done():
            self._broken.result()
        if ends.outcome.done():  # it was interrupted meanwhile
            return await self._finish(ends, INTERRUPTED)
        await self._agents.end_below(master, "the run has ended")
        if self._changes is not None:
            await self._changes.flush()
        await self._journal.flush()
        asked, is_left = ends.interrupted.done(), self._journal.is_suspended
        end = outcome_of(master, self.account, interrupted=asked, is_left=is_left)
        return await self._finish(ends, end)

    async def _begin_account(self, again: RunNow | None) -> None:
        """Begin to know what speaks against the run; of one that goes on, from its beginning."""
        self.account = Account()
        if again is not None:
            store, session = self._config.store, self._journal.session_id
            async for event in store.events(session):
                if event.run == again.run_id:
                    self.account.hear((event,))

    async def _finish(self, ends: _Ends, end: RunResult) -> RunResult:
        """Write run_finished, once and last, and close the run's sinks; the outcome tells which.

        A run that is finished already keeps its outcome, which is returned: the next one may have
        begun meanwhile, and goes on.
        """
        outcome = ends.outcome
        async with self._finishing:
            if not outcome.done():
                self._leave()
                await self._look_last()
                await self._sinks.settle()
                redact = self._journal.redact
                said = replace(end, summary=redact(end.summary), error=redact(end.error))
                await self._write_end(outcome, said)
            if ends is self._ends:
                await self._sinks.aclose()
            return outcome.result()

    async def _look_last(self) -> None:
        """Find what has changed in the files until now, as far as there is time for it."""
        if self._changes is None:
            return
        seconds, clock = self._parting.rest(), self._config.clock
        if not await first_of(clock, seconds, self._changes.finish):
            text = "the last look at the files was left: the run's time is over"
            self._journal.note("notice", level="warning", text=text)

    async def _write_end(self, outcome: asyncio.Future[RunResult], end: RunResult) -> None:
        await self._settle()
        self._journal.end_run()
        await self._journal.flush()
        spent = self._budgets.spent
        began, self._started = self._started or 0.0, None  # from here on it will be written
        outcome.set_result(replace(end, usage=spent.usage, spent=spent))
        used = {
            "duration_s": round(self._config.clock.now() - began, 3),
            "usage": spent.counts,
            "cost_usd": spent.cost_usd,
            "provenance": spent.provenance,
            "evidence": end.evidence,
            "unknown_turns": spent.unknown_turns,
        }
        finished = RunFinished(
            status=end.status,
            summary=end.summary,
            error=end.error,
            exit_code=end.exit_code,
            problems=[asdict(one) for one in end.problems],
            used=used,
        )
        await self.write(finished)

    def _mend(self) -> None:
        """Let a further run try to write, where one has not even begun."""
        self.enter()
        self._journal.soundness.mend()
