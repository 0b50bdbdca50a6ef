"""A fork: what a session begins with that goes on from another one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict, astuple

from prsm_core.domain.forking import letters_of
from prsm_core.domain.notes import NO_NOTES
from prsm_core.domain.rows import Form, Insert, Now, Of, Place, Several, Update
from prsm_core.domain.steps import Telling, Write
from prsm_core.domain.writes.agents import AgentSpawned
from prsm_core.domain.writes.calls import EffectNoted, running_row
from prsm_core.domain.writes.changes import change_row, snapshot_row
from prsm_core.domain.writes.messages import MessageSent
from prsm_core.domain.writes.requests import RequestOpened
from prsm_core.domain.writes.turns import spent_columns
from prsm_core.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from prsm_core.domain.rows import Ledger, Row
    from prsm_core.domain.sessions import AgentNow, RunNow, SessionState, TurnState
    from prsm_core.domain.steps import Step

# What a turn began with; only the ledger has it.
_BEGINNING = (
    *("turn_type", "model", "provider", "role", "toolset_name", "tools_available"),
    *("permissions_granted", "source_event_id", "workspace_path", "began"),
)
_FORKS = Form("forks", ("session_id", "origin_id", "position", "seq"))
_ALIASES = Form("aliases", ("session_id", "old_id", "new_id"))


class SessionForked(Write, frozen=True, kw_only=True):
    """A session that begins as another was; turns and events of its `origins` are shared."""

    is_of_run = True
    is_fork = True

    state: SessionState  # of the fork
    names: Mapping[str, str]  # its ids, by those of the session that it goes on from
    name: str | None = None  # that a person gave it
    told: tuple[Telling, ...] = ()  # of what is other in it than in its origin

    @property
    def seq(self) -> int:
        """The number of the newest event that is shared."""
        return self.state.origins[-1].seq

    def guard(self, step: Step, ledger: Ledger) -> None:
        origin = self.state.origins[-1].session_id
        if ledger.look("meta", {"session_id": origin}, "session_id") is None:
            raise StoreError(
                f"there is no session {origin} any more: it was deleted meanwhile",
                hint="`prsm sessions` lists those there are",
                code="unknown_session",
            )

    def rows(self, step: Step) -> Iterator[Row]:
        state = self.state
        session = {
            "session_id": state.session_id,
            "task": state.task,
            "workspace": state.workspace,
            "created_at": state.created_at,
            "name": self.name,
        }
        yield Insert("meta", session, computed={"came": Now()})
        own = state.session_id
        yield Several(_FORKS, [(own, *astuple(origin)) for origin in state.origins])
        yield Several(_ALIASES, [(own, *names) for names in state.aliases.items()])
        was = {new: old for old, new in self.names.items()}
        for run in state.runs:
            yield _run(run, own, was)
        for now in state.agents:
            yield from _agent(now, step)
        for now in state.agents:
            if now.open_turn is not None:
                yield from _turn(now.open_turn, now.agent.agent_id, was, step)
        yield from _letters(state, step)
        for request in state.requests:
            yield from RequestOpened(request=request).rows(step)
        for grant in state.grants:
            yield Insert("grants", {"session_id": own, **grant})
        for snapshot in state.snapshots:
            yield snapshot_row(own, snapshot)
        for change in state.changes:
            yield change_row(own, change)

    def events(self, step: Step) -> Iterable[Telling]:
        origin = self.state.origins[-1]
        data = {"origin": origin.session_id, "at": origin.seq}
        return (Telling("session_forked", data, None, step.at), *self.told)


def _run(run: RunNow, session_id: str, was: Mapping[str, str]) -> Insert:
    row = {"session_id": session_id, **asdict(run)}
    del row["engine"]
    old = was.get(run.run_id)  # turns of its that are shared began after it
    began = None if old is None else {"began": Of("runs", {"run_id": old}, "began")}
    return Insert("runs", row, computed=began)


def _agent(now: AgentNow, step: Step) -> Iterator[Row]:
    agent, spec, session = AgentSpawned(agent=now.agent).rows(step)
    if not isinstance(agent, Insert) or not isinstance(session, Insert):
        raise TypeError("an agent begins as three rows")
    agent.row["waiting_on"] = now.waiting_on
    agent.row["result"] = None if now.result is None else now.result.to_dict()
    agent.row["resume_token"] = now.resume_token
    agent.row["notes"] = None if now.notes == NO_NOTES else now.notes.to_dict()
    agent.row["next_turn"] = now.next_turn
    agent.row["ended_at"] = now.ended_at
    session.row["thread_id"] = now.head_turn_id
    yield from (agent, spec, session)


def _turn(turn: TurnState, agent_id: str, was: Mapping[str, str], step: Step) -> Iterator[Row]:
    row: dict[str, Any] = {
        "id": turn.turn_id,
        "parent_turn_id": turn.parent_turn_id,
        "status": "running",
        "started_at": turn.started_at,
        "agent_id": agent_id,
        "turn_no": turn.number,
    }
    if turn.spent is not None:
        row |= spent_columns(turn.spent)
    old = {"id": was[turn.turn_id]}
    yield Insert("turns", row, computed={name: Of("turns", old, name) for name in _BEGINNING})
    yield Place(turn.turn_id, turn.parent_turn_id)
    for one in turn.calls:
        if one.call.orchestration:
            yield Insert("tool_calls", running_row(turn.turn_id, one.call))
        for effect in one.effects:
            yield from EffectNoted(effect=effect).rows(step)


def _letters(state: SessionState, step: Step) -> Iterator[Row]:
    unread = {message.message_id for message in state.unread}
    for message in letters_of(state):
        yield from MessageSent(message=message).rows(step)
        if message.message_id not in unread:
            own = {"message_id": message.message_id}
            yield Update("inbox", own, {"consumed_by": step.step_id})
