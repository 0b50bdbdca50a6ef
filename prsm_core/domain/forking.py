"""A fork: a session that begins as another one was after one of its commits.

Events and closed turns are shared. What was open is the fork's own, under new ids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from prsm_core.domain.agents import AgentState
from prsm_core.domain.changes import COMMITTED
from prsm_core.domain.messages import MessageType, RoutedMessage
from prsm_core.domain.notes import NO_NOTES
from prsm_core.domain.renaming import renamed
from prsm_core.domain.sessions import Origin, RunNow
from prsm_core.domain.steps import Telling

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from prsm_core.domain.changes import ChangeRow
    from prsm_core.domain.ids import Ids
    from prsm_core.domain.sessions import AgentNow, SessionState

_OPEN = frozenset({"running", "interrupted"})


def names_of(state: SessionState, ids: Ids) -> dict[str, str]:
    """Return new ids for what a fork of a session has for itself, by the ids of the session."""
    names = {state.session_id: ids.ulid()}
    names |= {run.run_id: ids.ulid() for run in state.runs}
    for now in state.agents:
        names[now.agent.agent_id] = ids.agent()
        if now.open_turn is not None:
            names[now.open_turn.turn_id] = ids.ulid()
    names |= {message.message_id: ids.ulid() for message in letters_of(state)}
    return names | {request.request_id: ids.request() for request in state.requests}


def letters_of(state: SessionState) -> Iterator[RoutedMessage]:
    """Yield the messages that matter still: unread ones and open questions, once each."""
    asked = [question.message for question in state.questions]
    for message in state.unread:
        if message in asked:
            place = asked.index(message)
            yield from asked[:place]
            del asked[: place + 1]
        yield message
    yield from asked


def forked(state: SessionState, names: Mapping[str, str], at: float) -> SessionState:
    """Return what a fork of a session begins with; `at` is now, in Unix seconds.

    No vendor's thread is its own: two sessions would go on with one. What ran is interrupted. What
    was read is no message of the fork's.
    """
    own = renamed(state, names)
    here = Origin(session_id=state.session_id, position=state.position, seq=state.seq)
    return replace(
        own,
        created_at=at,
        seq=state.seq + 1,  # it tells that it is a fork
        runs=tuple(_cut_off(run) for run in own.runs),
        agents=tuple(map(_without_past, own.agents)),
        origins=(*state.origins, here),
        aliases={**{old: names.get(new, new) for old, new in state.aliases.items()}, **names},
    )


def decided(state: SessionState, now: Mapping[str, ChangeRow], *, with_files: bool) -> SessionState:
    """Return a session with its changes of files as they are `now`, by id.

    If the files went back as well (`with_files`), only commits stay as they are now.
    """

    def fitting(row: ChangeRow) -> ChangeRow:
        later = now.get(row.change.id, row)
        return row if with_files and later.state != COMMITTED else later

    return replace(state, changes=tuple(map(fitting, state.changes)))


def _without_past(now: AgentNow) -> AgentNow:
    turn = now.open_turn
    if turn is not None:
        turn = replace(turn, calls=tuple(replace(one, consumed=()) for one in turn.calls))
    return replace(now, resume_token=None, open_turn=turn)


def _cut_off(run: RunNow) -> RunNow:
    status = "interrupted" if run.status in _OPEN else run.status
    return replace(run, status=status, engine=None)


def switched(state: SessionState, name: str, provider: str, model: str) -> SessionState:
    """Return a fork in which the agent of a name goes on with another model."""
    agents = [_on(now, provider, model) if now.agent.name == name else now for now in state.agents]
    return replace(state, agents=tuple(agents))


def _on(now: AgentNow, provider: str, model: str) -> AgentNow:
    agent = replace(now.agent, provider=provider, model=model)
    return replace(now, agent=agent, notes=replace(now.notes, failures=0, tried=()))


def prompted(
    state: SessionState, text: str, ids: Ids, at: float
) -> tuple[SessionState, Sequence[Telling]]:
    """Return a fork whose master is told something more, and the events of that.

    A master that had ended lives again in a new run.
    """
    master = next(now for now in reversed(state.agents) if now.agent.parent_id is None)
    if master.agent.state.is_terminal:
        return _revived(state, master, text, ids, at)
    message = RoutedMessage(
        message_id=ids.ulid(),
        type=MessageType.USER_PROMPT,
        source=None,
        target=master.agent.agent_id,
        payload={"text": text},
        incarnation=master.agent.incarnation,
        created_at=at,
    )
    told = {
        "mid": message.message_id,
        "kind": str(message.type),
        "from": None,
        "to": message.target,
        "correlation_id": None,
    }
    telling = Telling("message_routed", told, None, at)
    return replace(state, unread=(*state.unread, message)), (telling,)


def _revived(
    state: SessionState, master: AgentNow, text: str, ids: Ids, at: float
) -> tuple[SessionState, Sequence[Telling]]:
    agent, last = master.agent, state.runs[-1]
    anew = replace(agent, prompt=text, incarnation=agent.incarnation + 1, state=AgentState.STARTING)
    known = replace(NO_NOTES, reports=master.notes.reports, heard=master.notes.heard, began_at=at)
    lives = replace(master, agent=anew, result=None, waiting_on=None, ended_at=None, notes=known)
    run = RunNow(
        run_id=ids.ulid(),
        task=text,
        workspace=last.workspace,
        status="interrupted",
        epoch=1,
        started_at=at,
        options=last.options,
    )
    agents = [lives if now is master else now for now in state.agents]
    change = {
        "from": str(agent.state),
        "to": str(anew.state),
        "reason": "restarted",
        "waiting_on": None,
    }
    told = (
        Telling("run_started", {"task": text, "workspace": last.workspace}, None, at),
        Telling("agent_state_changed", change, agent.agent_id, at),
    )
    begun = tuple(replace(now, turns=0, spent=None) for now in agents)
    return replace(state, runs=(*state.runs, run), agents=begun), told
