"""ReplayApp: AppHandle over a log. It shows what was; nothing can be done in it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NoReturn

from prsm_core.domain.events import ends_run
from prsm_core.domain.usage import Spent
from prsm_core.engine.door.history import read_history
from prsm_core.engine.door.offers import session_rows
from prsm_core.engine.door.played import Played
from prsm_core.engine.door.view import build_view, request_rows
from prsm_core.engine.journal.views import ConversationStore, build_tree
from prsm_core.errors import ConfigError, PrsmError
from prsm_core.interfaces.frontend import RunOptions, RunResult
from prsm_core.kit.arguments import takes_checked
from prsm_core.kit.clocks import first_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from pathlib import Path

    from prsm_core.domain.agents import PermissionMode
    from prsm_core.domain.events import Event
    from prsm_core.domain.permissions import Answer
    from prsm_core.domain.sessions import RunNow
    from prsm_core.interfaces.clock import Clock
    from prsm_core.interfaces.frontend import RunHandle
    from prsm_core.interfaces.store import AgentRow, SessionInfo, Store

NO_END = (1 << 63) - 1


class ReplayEndedError(PrsmError):
    """The log that is played ends before the run does."""


class ReplayRun:
    """RunHandle of a run that was."""

    def __init__(self, app: ReplayApp, run_id: str, session: str, since: int) -> None:
        self.run_id = run_id
        self.session = session
        self.since = since
        self._app = app

    async def result(self) -> RunResult:
        """Wait until the run's end was played; its exit code is that of a replay, 0.

        Raises ReplayEndedError where the log ends before.
        """
        told = await self._app.end_of(self.run_id)
        spent = Spent.from_dict({**(told.get("usage") or {}), **told})
        return RunResult(
            status=told["status"],
            summary=told.get("summary") or "",
            exit_code=0,
            error=told.get("error"),
            usage=spent.usage,
            evidence=told.get("evidence"),
            spent=spent,
        )


@takes_checked
class ReplayApp:
    """AppHandle over the log of a session, event by event."""

    def __init__(
        self,
        store: Store,
        info: SessionInfo,
        agents: Sequence[AgentRow],
        *,
        clock: Clock,
        to: int | None = None,
        speed: float | None = None,
        stays: bool = False,
        state_dir: Path | None = None,
    ) -> None:
        """Begin before the first event.

        Args:
            store: The ledger, which is only read.
            info: The session.
            agents: Its agents as the ledger has them now.
            clock: By which the time between two events is waited for.
            to: The number of the last event that is played; None: all are.
            speed: How much faster than it was; None: as fast as it goes.
            stays: Whether the reader of the events waits at their end, rather than ending.
            state_dir: Where the locks of all sessions lie.
        """
        self.options = RunOptions(task=None, workspace=info.workspace, session=info.session_id)
        self._store = store
        self._info = info
        self._played = Played(agents)
        self._clock = clock
        self._to = NO_END if to is None else to
        self._speed = speed
        self._stays = stays
        self._state_dir = state_dir
        self._run: RunNow | None = None  # that is yet to be started
        self._shown: str | None = None
        self._since = 0  # its end comes after this event
        self._stopped = asyncio.Event()
        self._is_over = False  # nothing more comes
        self._moved = asyncio.Event()  # a run has ended, or the log
        self._ends: dict[str, Mapping[str, Any]] = {}  # by run

    @property
    def seq(self) -> int:
        """The number of the newest event that was played."""
        return self._played.seq

    @property
    def is_stopped(self) -> bool:
        """Whether nothing more is played."""
        return self._stopped.is_set()

    def has(self, run_id: str) -> bool:
        """Return whether a run begins in what is played, as far as that is known."""
        is_whole = self.seq >= min(self._to, self._info.last_seq)
        return not is_whole or run_id in self._played.runs

    def stop(self) -> None:
        """Play nothing more."""
        self._stopped.set()

    def turn_to(self, run: RunNow) -> None:
        """Let the next run that is started be this one."""
        self._run, self._shown = run, run.run_id
        self._is_over = False
        self.options = RunOptions(
            task=run.task or "-", workspace=run.workspace, session=self._info.session_id
        )

    async def end_of(self, run_id: str) -> Mapping[str, Any]:
        """Return what the end of a run tells once it was played."""
        while run_id not in self._ends:
            if self._is_over:
                raise ReplayEndedError(f"the log ends at event {self.seq}, before its run")
            self._moved.clear()
            await self._moved.wait()
        return self._ends[run_id]

    async def events(self, after: int = 0) -> AsyncIterator[Event]:
        """Yield the events after `after`, each in its time; see AppHandle."""
        if after > min(self._info.last_seq, self._to):
            raise ConfigError(f"event {after} was not told yet", code="no_such_event")
        before: float | None = None
        async for event in self._store.events(self._info.session_id, after):
            if (event.seq or 0) > self._to:
                break
            if self._speed is not None and self._is_shown(event):
                if before is not None and event.ts > before:
                    gap = (event.ts - before) / self._speed
                    await first_of(self._clock, gap, self._stopped.wait)
                before = event.ts
            if self._stopped.is_set():
                break
            await self._play(event)
            yield event
        self._is_over = True
        self._moved.set()
        if self._stays:
            await self._stopped.wait()

    def _is_shown(self, event: Event) -> bool:
        """Return whether an event is of the run that is shown: others' time is not waited for."""
        return self._stays or event.run == self._shown

    async def _play(self, event: Event) -> None:
        """Note an event, and those before it that nobody has read."""
        played, seq = self._played, event.seq or 0
        if seq > played.seq + 1:
            async for earlier in self._store.events(self._info.session_id, played.seq):
                if (earlier.seq or 0) >= seq:
                    break
                played.take(earlier)
        if seq == played.seq + 1:
            played.take(event)
        if event.run is not None and ends_run(event, event.run, self._since):
            self._ends[event.run] = event.data
            self._moved.set()

    async def start_run(self, task: str, **overrides: Any) -> RunHandle:
        """Return the run that is replayed, once; raises PrsmError for any other."""
        run, self._run = self._run, None
        if run is None or overrides:
            self._refuse()
        self._since = await self._resumed_at(run)
        return ReplayRun(self, run.run_id, self._info.session_id, self._since)

    async def _resumed_at(self, run: RunNow) -> int:
        """Return the number of the last event played that goes on with a run; 0 if none does."""
        at = 0
        if run.epoch > 1:  # most runs have one process
            async for event in self._store.events(self._info.session_id):
                if (event.seq or 0) > self._to:
                    break
                if event.type == "run_resumed" and event.run == run.run_id:
                    at = event.seq or 0
        return at

    async def continue_run(self, task: str, images: Sequence[str] = ()) -> RunHandle:
        """Raise PrsmError: this is a replay."""
        self._refuse()

    async def interrupt_run(self) -> bool:
        """Raise PrsmError: this is a replay."""
        self._refuse()

    async def set_mode(self, mode: PermissionMode) -> None:
        """Raise PrsmError: this is a replay."""
        self._refuse()

    async def set_model(self, agent: str, model: str) -> str:
        """Raise PrsmError: this is a replay."""
        self._refuse()

    async def prompt_agent(
        self, agent: str, text: str, delivery: str = "queue", images: Sequence[str] = ()
    ) -> str:
        """Raise PrsmError: this is a replay."""
        self._refuse()

    async def kill(self, agent: str) -> Sequence[str]:
        """Raise PrsmError: this is a replay."""
        self._refuse()

    async def restart(self, agent: str, prompt: str) -> None:
        """Raise PrsmError: this is a replay."""
        self._refuse()

    async def resolve_permission(self, request: str, verdict: str, *, via: str = "") -> bool:
        """Raise PrsmError: this is a replay."""
        self._refuse()

    async def answer(self, request: str, answer: Answer, *, via: str = "") -> bool:
        """Raise PrsmError: this is a replay."""
        self._refuse()

    async def outcome(self, request: str) -> Mapping[str, Any] | None:
        """Return how a request had ended by now, given the beginning of its id."""
        outcomes = self._played.outcomes
        found = [id_ for id_ in outcomes if request and id_.startswith(request)]
        return outcomes[found[0]] if len(found) == 1 else None

    async def requests(self) -> Sequence[Mapping[str, Any]]:
        """Return what waited for an answer then, oldest first."""
        return request_rows(self._played.requests.values(), self._played.names, _as_it_is)

    async def attend(self) -> None:
        """Do nothing: nobody waits for the person who watches."""

    async def view(self) -> Mapping[str, Any]:
        """Return the session as of the newest event that was played; see AppHandle."""
        return build_view(
            self._info.session_id,
            self._played.picture(),
            self._played,
            self._played.at,
            unwritten=(),
            redact=_as_it_is,
            mode=self.options.mode.value,
            budget=await self.budget(),
        )

    async def tree(self) -> Mapping[str, Any]:
        """Return the tree as of the newest event that was played."""
        picture = self._played.picture()
        run = None if picture.run is None else picture.run.run_id
        return build_tree(
            self._info.session_id,
            run,
            picture.agents,
            self._played.at,
            requests=picture.requests,
            unwritten=(),
        )

    async def history(
        self, agent: str, detail: str = "full", *, before: int | None = None, limit: int = 200
    ) -> Sequence[Mapping[str, Any]]:
        """Return a page of an agent's conversation, as far as it was played."""
        agent_id = ConversationStore.resolve_agent_id(agent, self._played.picture().agents)
        end = self.seq + 1
        before = end if before is None else min(before, end)
        session = self._info.session_id
        return await read_history(
            self._store, session, agent_id, detail, before=before, limit=limit
        )

    async def sessions(self) -> Sequence[Mapping[str, Any]]:
        """Return the sessions of the ledger, newest first, as they are now."""
        found = await self._store.sessions()
        return await asyncio.to_thread(session_rows, found, self._state_dir)

    async def providers(self) -> Sequence[Mapping[str, Any]]:
        """Raise PrsmError: this is a replay."""
        self._refuse()

    async def models(self) -> Sequence[Mapping[str, Any]]:
        """Raise PrsmError: this is a replay."""
        self._refuse()

    async def policy(self) -> Mapping[str, Any]:
        """Raise PrsmError: this is a replay."""
        self._refuse()

    async def budget(self) -> Mapping[str, Any]:
        """Return what had been used; what was reserved, no event tells."""
        spent = self._played.spent
        used = {
            "tokens": spent.usage.known_total,
            "usd": spent.cost_usd,
            "turns": self._played.turns,
            "spawns": len(self._played.names),
        }
        run = {kind: {"used": value, "reserved": 0} for kind, value in used.items()}
        return {"run": run, "spent": spent.text}

    async def complete(self, text: str) -> Sequence[Mapping[str, Any]]:
        """Return nothing: there is nobody to say it to."""
        return ()

    async def fork(self, at: int | None = None) -> str:
        """Raise PrsmError: this is a replay."""
        self._refuse()

    async def changes(self) -> Sequence[Mapping[str, Any]]:
        """Raise PrsmError: this is a replay."""
        self._refuse()

    async def accept(
        self, changes: Sequence[str] = (), *, agent: str | None = None, call: str | None = None
    ) -> Sequence[Mapping[str, Any]]:
        """Raise PrsmError: this is a replay."""
        self._refuse()

    async def reject(
        self,
        changes: Sequence[str] = (),
        *,
        agent: str | None = None,
        call: str | None = None,
        possible: bool = False,
    ) -> Sequence[Mapping[str, Any]]:
        """Raise PrsmError: this is a replay."""
        self._refuse()

    async def undo(
        self,
        what: str = "prompt",
        wanted: str | None = None,
        *,
        files: bool = True,
        conversation: bool = True,
        mine: bool = False,
        possible: bool = False,
    ) -> Mapping[str, Any]:
        """Raise PrsmError: this is a replay."""
        self._refuse()

    async def commit_changes(
        self,
        changes: Sequence[str] = (),
        *,
        agent: str | None = None,
        by: str = "agent",
        message: str | None = None,
        dry_run: bool = False,
    ) -> Mapping[str, Any]:
        """Raise PrsmError: this is a replay."""
        self._refuse()

    async def show_change(self, change: str) -> Mapping[str, Any]:
        """Raise PrsmError: this is a replay."""
        self._refuse()

    async def restore_snapshot(self, snapshot: str, *, dry_run: bool = False) -> Mapping[str, Any]:
        """Raise PrsmError: this is a replay."""
        self._refuse()

    async def take_snapshot(self, description: str = "") -> Mapping[str, Any]:
        """Raise PrsmError: this is a replay."""
        self._refuse()

    async def snapshots(self) -> Sequence[Mapping[str, Any]]:
        """Raise PrsmError: this is a replay."""
        self._refuse()

    async def worktrees(self) -> Sequence[Mapping[str, Any]]:
        """Raise PrsmError: this is a replay."""
        self._refuse()

    def hold_files(self) -> AsyncIterator[Sequence[str]]:
        """Raise PrsmError: this is a replay."""
        self._refuse()

    async def rationale(self, path: str, line: int | None = None) -> Mapping[str, Any]:
        """Raise PrsmError: this is a replay."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        session = self._info.session_id
        raise PrsmError(
            f"this is a replay of session {session}: nothing can be done in it",
            hint=f"`prsm resume {session}` goes on with it, `prsm run` begins another",
            code="replay",
        )


def _as_it_is(value: Any) -> Any:
    return value  # the log holds no secrets
