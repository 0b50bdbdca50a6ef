"""ReplayApp: AppHandle over a log. It shows what was; nothing can be done in it.

A session as far as its log was played: a picture of it is made from its events alone.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NoReturn

from msgspec.structs import replace

from prsm_core import door
from prsm_core.domain.agents import AgentResult, AgentState, PermissionMode
from prsm_core.domain.events import ends_run
from prsm_core.domain.steps import HumanRequest
from prsm_core.domain.usage import Provenance, Spent, TokenUsage
from prsm_core.engine.door.history import read_history
from prsm_core.engine.door.looking import (
    Group,
    LedgerApp,
    ReadOnlyChanges,
    ReadOnlyRequests,
    as_it_is,
)
from prsm_core.engine.door.view import build_view, request_rows, tell_budget
from prsm_core.engine.journal.views import ConversationStore, build_tree
from prsm_core.errors import ConfigError, PrsmError
from prsm_core.interfaces.app_handle import Agents, Changes, Requests, Runs, Snapshots
from prsm_core.interfaces.frontend import RunOptions, RunResult
from prsm_core.interfaces.store import AgentRow, Picture, SessionLog
from prsm_core.kit.arguments import takes_checked
from prsm_core.kit.clocks import first_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from prsm_core.domain.events import Event
    from prsm_core.domain.sessions import RunNow
    from prsm_core.interfaces.clock import Clock
    from prsm_core.interfaces.frontend import RunHandle
    from prsm_core.interfaces.store import OpenTurn, SessionInfo, Store

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


class _Runs(Group["ReplayApp"], Runs):
    async def start(self, task: str, **overrides: Any) -> RunHandle:
        """Return the run that is replayed, once; raises PrsmError for any other."""
        run, self._app.run = self._app.run, None
        if run is None or overrides:
            self._app.refuse()
        self._app.since = await self._app.resumed_at(run)
        return ReplayRun(self._app, run.run_id, self._session, self._app.since)

    async def budget(self) -> door.BudgetReport:
        """Return what had been used; what was reserved, no event tells."""
        spent = self._app.played.spent
        used = {
            "tokens": spent.usage.known_total,
            "usd": spent.cost_usd,
            "turns": self._app.played.turns,
            "spawns": len(self._app.played.names),
        }
        run = {kind: {"used": value, "reserved": 0} for kind, value in used.items()}
        return tell_budget(run, spent)


class _Agents(Group["ReplayApp"], Agents):
    async def tree(self) -> door.AgentTree:
        """Return the tree as of the newest event that was played."""
        picture = self._app.played.picture()
        run = None if picture.run is None else picture.run.id
        return build_tree(
            self._session,
            run,
            picture.agents,
            self._app.played.at,
            requests=picture.requests,
            unwritten=(),
        )

    async def history(
        self, agent: str, detail: str = "full", *, before: int | None = None, limit: int = 200
    ) -> Sequence[door.HistoryEntry]:
        """Return a page of an agent's conversation, as far as it was played."""
        agent_id = ConversationStore.resolve_agent_id(agent, self._app.played.picture().agents)
        end = self._app.seq + 1
        before = end if before is None else min(before, end)
        return await read_history(
            self._store, self._session, agent_id, detail, before=before, limit=limit
        )


class _Requests(ReadOnlyRequests["ReplayApp"]):
    async def outcome(self, request: str) -> door.RequestOutcome | None:
        """Return how a request had ended by now, given the beginning of its id."""
        return self.ended(self._app.played.outcomes, request)

    async def open(self) -> Sequence[door.OpenRequest]:
        """Return what waited for an answer then, oldest first."""
        return request_rows(self._app.played.requests.values(), self._app.played.names, as_it_is)


class _Snapshots(Group["ReplayApp"], Snapshots):
    """Snapshots of files, of which a log tells nothing."""


@takes_checked
class ReplayApp(LedgerApp):
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
        options = RunOptions(task=None, workspace=info.workspace, session=info.session_id)
        super().__init__(store, info, options, state_dir)
        self.runs: Runs = self.group(_Runs)
        self.agents: Agents = self.group(_Agents)
        self.requests: Requests = self.group(_Requests)
        self.changes: Changes = self.group(ReadOnlyChanges)
        self.snapshots: Snapshots = self.group(_Snapshots)
        self.played = Played(agents)
        self._clock = clock
        self._to = NO_END if to is None else to
        self._speed = speed
        self._stays = stays
        self.run: RunNow | None = None  # that is yet to be started
        self._shown: str | None = None
        self.since = 0  # its end comes after this event
        self._stopped = asyncio.Event()
        self._is_over = False  # nothing more comes
        self._moved = asyncio.Event()  # a run has ended, or the log
        self._ends: dict[str, Mapping[str, Any]] = {}  # by run

    @property
    def seq(self) -> int:
        """The number of the newest event that was played."""
        return self.played.seq

    @property
    def is_stopped(self) -> bool:
        """Whether nothing more is played."""
        return self._stopped.is_set()

    def has(self, run_id: str) -> bool:
        """Return whether a run begins in what is played, as far as that is known."""
        is_whole = self.seq >= min(self._to, self.info.last_seq)
        return not is_whole or run_id in self.played.runs

    def stop(self) -> None:
        """Play nothing more."""
        self._stopped.set()

    def turn_to(self, run: RunNow) -> None:
        """Let the next run that is started be this one."""
        self.run, self._shown = run, run.run_id
        self._is_over = False
        self.options = RunOptions(
            task=run.task or "-", workspace=run.workspace, session=self.info.session_id
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
        if after > min(self.info.last_seq, self._to):
            raise ConfigError(f"event {after} was not told yet", code="no_such_event")
        before: float | None = None
        async for event in self.store.events(self.info.session_id, after):
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
        played, seq = self.played, event.seq or 0
        if seq > played.seq + 1:
            async for earlier in self.store.events(self.info.session_id, played.seq):
                if (earlier.seq or 0) >= seq:
                    break
                played.take(earlier)
        if seq == played.seq + 1:
            played.take(event)
        if event.run is not None and ends_run(event, event.run, self.since):
            self._ends[event.run] = event.data
            self._moved.set()

    async def resumed_at(self, run: RunNow) -> int:
        """Return the number of the last event played that goes on with a run; 0 if none does."""
        at = 0
        if run.epoch > 1:  # most runs have one process
            async for event in self.store.events(self.info.session_id):
                if (event.seq or 0) > self._to:
                    break
                if event.type == "run_resumed" and event.run == run.run_id:
                    at = event.seq or 0
        return at

    async def view(self) -> door.View:
        """Return the session as of the newest event that was played; see AppHandle."""
        return build_view(
            self.info.session_id,
            self.played.picture(),
            self.played,
            self.played.at,
            unwritten=(),
            redact=as_it_is,
            mode=self.options.mode.value,
            budget=await self.runs.budget(),
        )

    def refuse(self) -> NoReturn:
        """Raise PrsmError: nothing can be done in a replay."""
        session = self.info.session_id
        raise PrsmError(
            f"this is a replay of session {session}: nothing can be done in it",
            hint=f"`prsm resume {session}` goes on with it, `prsm run` begins another",
            code="replay",
        )


_COUNTS = TokenUsage.__struct_fields__
_KINDS = {"permission_requested": "permission", "question_asked": "question"}
# What is not told of an agent that has just been spawned.
_UNTOLD: Mapping[str, Any] = {
    **dict.fromkeys(("waiting_on", "result", "resume_token", "head_turn_id")),
    **dict.fromkeys(("started_at", "ended_at", "last_tool", "last_event_at")),
    "next_turn": 1,
}


class Played:
    """The newest event that was played, and what all up to it tell.

    What no event tells, such as what an agent may do, is as the ledger has it now.
    """

    def __init__(self, rows: Iterable[AgentRow]) -> None:
        self.at = 0.0
        self.runs: set[str] = set()  # that have begun
        self.requests: dict[str, HumanRequest] = {}
        self.outcomes: dict[str, Mapping[str, Any]] = {}
        self._log = SessionLog()
        self._known = {row.descriptor.agent_id: row.descriptor for row in rows}
        self._agents: dict[str, AgentRow] = {}
        self._said: dict[str, int] = {}  # messages of the model, in each agent's newest turn
        self._takers: Mapping[str, Callable[[Event], None]] = {
            "run_started": lambda event: self.runs.add(event.run or ""),
            "agent_spawned": self._spawned,
            "agent_labels_changed": self._redescribed,
            "agent_model_changed": self._redescribed,
            "agent_mode_changed": self._switched_mode,
            "agent_state_changed": self._changed,
            "agent_held": lambda event: self._set(event, waiting_on=event.data["waiting_on"]),
            "turn_started": self._turn_started,
            "turn_finished": self._turn_finished,
            "message_completed": self._message,
            "tool_call_started": lambda event: self._set(event, last_tool=event.data["tool"]),
            "permission_requested": self._asked,
            "question_asked": self._asked,
            "permission_resolved": self._answered,
            "question_answered": self._answered,
        }

    def take(self, event: Event) -> None:
        """Play the next event."""
        self.at = event.ts
        self._log.add(event)
        taker = self._takers.get(event.type)
        if taker is not None:
            taker(event)
        self._set(event, last_event_at=event.ts)

    @property
    def seq(self) -> int:
        """The number of the newest event."""
        return self._log.seq

    @property
    def spent(self) -> Spent:
        """What all turns that have ended used."""
        return sum((row.spent for row in self._agents.values()), Spent())

    @property
    def turns(self) -> int:
        """How many turns were begun."""
        return sum(row.next_turn - 1 for row in self._agents.values())

    @property
    def names(self) -> Mapping[str, str]:
        """The agents so far, by id."""
        return {id_: row.descriptor.name for id_, row in self._agents.items()}

    def picture(self) -> Picture:
        """Return the session as of the newest event."""
        live = [id_ for id_, row in self._agents.items() if not row.descriptor.state.is_terminal]
        return Picture(
            seq=self.seq,
            run=self._log.run,
            agents=list(self._agents.values()),
            requests=list(self.requests.values()),
            unread=(),  # no event has their texts
            turns=self._log.open_turns(live),
            contexts=self._log.contexts,
        )

    def since(self, turn: OpenTurn, seq: int, redact: Callable[[Any], Any]) -> door.RunningTurn:
        """Return a turn with what it has said beyond its events, nothing; see Speaking."""
        return door.RunningTurn(
            agent=turn.agent_id,
            turn=turn.turn_id,
            n=turn.number,
            message=self._said[turn.agent_id] + 1,
            text="",
            thinking="",
            at=0,
        )

    def _set(self, event: Event, **fields: Any) -> None:
        """Change the row of an event's agent, if it has one."""
        if (row := self._agents.get(event.agent or "")) is not None:
            self._agents[event.agent or ""] = replace(row, **fields)

    def _spawned(self, event: Event) -> None:
        known = self._known.get(event.agent or "")
        if known is not None:
            told = {name: event.data[name] for name in ("provider", "model", "prompt")}
            told["labels"] = event.data.get("labels") or {}
            told["mode"] = PermissionMode(event.data["mode"])
            born = replace(known, **told, state=AgentState.PENDING, incarnation=1)
            self._agents[known.agent_id] = AgentRow(descriptor=born, **_UNTOLD)

    def _redescribed(self, event: Event) -> None:
        if (row := self._agents.get(event.agent or "")) is not None:
            self._set(event, descriptor=replace(row.descriptor, **event.data))

    def _switched_mode(self, event: Event) -> None:
        if (row := self._agents.get(event.agent or "")) is not None:
            mode = PermissionMode(event.data["mode"])
            self._set(event, descriptor=replace(row.descriptor, mode=mode))

    def _changed(self, event: Event) -> None:
        row, data = self._agents.get(event.agent or ""), event.data
        if row is None:
            return
        state, result = AgentState(data["to"]), None
        if state.is_terminal:
            result = AgentResult(
                agent_id=event.agent or "",
                success=state is AgentState.COMPLETED,
                summary="",
                evidence=data.get("evidence") or "claimed",
                evidence_gaps=tuple(data.get("evidence_gaps") or ()),
                evidence_by=tuple(data.get("evidence_by") or ()),
            )
        self._set(
            event,
            descriptor=replace(row.descriptor, state=state),
            waiting_on=data.get("waiting_on"),
            result=result,
            ended_at=event.ts if state.is_terminal else None,
        )

    def _turn_started(self, event: Event) -> None:
        if (row := self._agents.get(event.agent or "")) is not None:
            self._said[event.agent or ""] = 0
            self._set(event, next_turn=row.next_turn + 1, started_at=row.started_at or event.ts)

    def _message(self, event: Event) -> None:
        if event.agent in self._said and event.data["role"] == "assistant":
            self._said[event.agent] += 1

    def _turn_finished(self, event: Event) -> None:
        row, data = self._agents.get(event.agent or ""), event.data
        if row is None:
            return
        told, sources = data.get("usage") or {}, data.get("provenance") or {}
        spent = row.spent + Spent.of_turn(
            TokenUsage(**{name: told.get(name) for name in _COUNTS}),
            data.get("cost_usd"),
            *(Provenance(sources.get(name, "unknown")) for name in ("tokens", "cost")),
        )
        self._set(event, head_turn_id=data["turn"], spent=spent)

    def _asked(self, event: Event) -> None:
        id_ = event.data["request"]
        self.requests[id_] = HumanRequest(
            request_id=id_,
            agent_id=event.agent or "",
            kind=_KINDS[event.type],
            payload=event.data,
            opened_at=event.ts,
        )

    def _answered(self, event: Event) -> None:
        self.requests.pop(event.data["request"], None)
        self.outcomes[event.data["request"]] = event.data
