"""Fork a session: another one begins as it was, and continues on its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.domain.forking import decided, forked, names_of, prompted, switched
from prsm_core.domain.record import Record
from prsm_core.domain.steps import Step
from prsm_core.domain.writes.forks import SessionForked
from prsm_core.engine.journal.views import ConversationStore
from prsm_core.errors import StoreError
from prsm_core.kit.reading import whole_number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prsm_core.domain.ids import Ids
    from prsm_core.domain.sessions import SessionState
    from prsm_core.domain.steps import Telling
    from prsm_core.interfaces.store import Store


class ForkRequest(Record, frozen=True, kw_only=True):
    """How a fork differs; `at` is an event's number or `AGENT:TURN`, None is now."""

    at: str | None = None
    position: int | None = None  # of a commit of the session, which says it instead of `at`
    with_files: bool = False  # the files are as they were at that commit, too
    session_id: str | None = None  # of the fork; a new one if None
    prompt: str | None = None  # what its master is told besides
    models: Mapping[str, tuple[str, str]] = {}  # provider and model, by the agent's name
    name: str | None = None


async def fork_session(
    store: Store, session_id: str, request: ForkRequest, ids: Ids, now: float
) -> SessionState:
    """Commit a fork of a session and return its first state; `now` is Unix seconds.

    The session is read in one snapshot and the fork is one commit: an engine may run the session
    meanwhile, and a failure leaves nothing. Raises StoreError for a missing session, event, turn or
    agent.
    """
    owner, position = session_id, request.position
    if position is None:
        owner, position = await _point(store, session_id, request.at)
    origin = await store.state(owner, position)
    _check(origin, request)
    known = {row.change.id: row for row in await store.changes(owner)}
    known |= {row.change.id: row for row in await store.changes(session_id)}
    origin = decided(origin, known, with_files=request.with_files)
    names = names_of(origin, ids)
    if request.session_id is not None:
        names[origin.session_id] = request.session_id
    state = forked(origin, names, now)
    for agent, (provider, model) in request.models.items():
        state = switched(state, agent, provider, model)
    told: Sequence[Telling] = ()
    if request.prompt is not None:
        state, told = prompted(state, request.prompt, ids, now)
    fork = SessionForked(state=state, names=names, name=request.name, told=tuple(told))
    await store.commit(
        Step(
            # Numbered, since a fork of a fork shares the step of the first.
            step_id=f"{state.session_id}:fork:{len(state.origins)}",
            session_id=state.session_id,
            run_id=state.runs[-1].run_id,
            agent_id=None,
            at=now,
            writes=(fork,),
        )
    )
    return await store.state(state.session_id)


async def _point(store: Store, session_id: str, at: str | None) -> tuple[str, int | None]:
    """Return whose commit a fork begins after, and its position (None for the newest)."""
    if at is None:
        return session_id, None
    agent, colon, digits = at.rpartition(":")
    number = whole_number(digits)
    if number is None or bool(agent) is not bool(colon):
        raise StoreError(
            f"{at!r} is no point of a session",
            hint="give the number of an event, such as 12, or a turn of an agent, such as w1:2",
            code="bad_point",
        )
    seq = await _end_of_turn(store, session_id, agent, number) if agent else number
    return await store.find_commit(session_id, seq)


async def _end_of_turn(store: Store, session_id: str, name: str, number: int) -> int:
    agent_id = ConversationStore.resolve_agent_id(name, await store.agents(session_id))
    turn, newest = None, 0
    async for event in store.events(session_id, agent=agent_id):
        if event.type == "turn_started":
            newest = event.data["n"]
            turn = event.data["turn"] if newest == number else turn
        elif event.type == "turn_finished" and event.data["turn"] == turn:
            return event.seq or 0
    if turn is not None:
        raise StoreError(
            f"turn {number} of {name} is not over",
            hint="leave --at out, to fork it as it stands",
            code="unknown_position",
        )
    raise StoreError(
        f"{name} has no turn {number}; it has had {newest}",
        hint=f"`prsm sessions show {session_id}` tells of each agent",
        code="unknown_position",
    )


def _check(origin: SessionState, request: ForkRequest) -> None:
    if not origin.agents:
        raise StoreError(
            f"session {origin.session_id} had no agent yet at event {origin.seq}",
            hint="fork it at a later event",
            code="no_master",
        )
    known = [now.agent.name for now in origin.agents]
    for name in request.models:
        if name not in known:
            raise StoreError(
                f"no agent is called {name!r} at that point",
                hint=f"the agents are: {', '.join(known)}",
                code="unknown_agent",
            )
