"""What events say of an agent as a whole: that it is there, its state, what it waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.kit import escape_exact, first_line, format_duration
from prsm_tui.model.agents import ENDED, Agent
from prsm_tui.model.blocks import Note
from prsm_tui.model.spoken import shown
from prsm_tui.model.words import STATES

if TYPE_CHECKING:
    from prsm_core import Event
    from prsm_tui.model.session import Session


def spawned(session: Session, event: Event) -> None:
    """Add an agent, or begin the next life of one that had ended."""
    data, id_ = event.data, event.agent or ""
    agent = session.agents.get(id_)
    if agent is None:
        agent = Agent(id=id_, name=_exact(data.get("name")), parent=data.get("parent"))
        agent.depth = int(data.get("depth") or 0)
        session.add(agent)
    session.stirs += 1
    agent.run = event.run
    agent.role, agent.mode = _exact(data.get("role")), _exact(data.get("mode"))
    agent.provider, agent.model = _exact(data.get("provider")), _exact(data.get("model"))
    agent.task = first_line(str(data.get("prompt") or ""), 400)
    agent.state, agent.waiting_on, agent.evidence, agent.gaps = "pending", "", "", ()
    agent.started_at = agent.ended_at = None
    parent = session.agents.get(agent.parent or "")
    call = None if parent is None else parent.transcript.find_call(str(data.get("call")))
    if call is not None:
        call.child = id_
        call.change()


def other_model(session: Session, event: Event) -> None:
    """Take over the model that an agent goes on with."""
    agent, data = session.agents.get(event.agent or ""), event.data
    if agent is not None:
        session.stirs += 1
        agent.provider, agent.model = _exact(data.get("provider")), _exact(data.get("model"))
        agent.next_model = ""


def held(session: Session, event: Event) -> None:
    """Take over what holds an agent: a login or a limit, or nothing any more."""
    agent = session.agents.get(event.agent or "")
    if agent is not None:
        session.stirs += 1
        agent.waiting_on, agent.retry_at = _exact(event.data.get("waiting_on")), None


def changed(session: Session, event: Event) -> None:
    """Take over a state; at its end an agent says nothing more."""
    agent, data = session.agents.get(event.agent or ""), event.data
    if agent is None:
        return
    session.stirs += 1
    agent.state = _exact(data.get("to"))
    agent.waiting_on = _exact(data.get("waiting_on"))
    agent.evidence = _exact(data.get("evidence"))
    agent.gaps = tuple(map(shown, data.get("evidence_gaps") or ()))
    agent.retry_at = None
    if agent.state not in ENDED:
        agent.ended_at = None
        return
    agent.ended_at = event.ts
    agent.tools.clear()
    agent.prompts = 0
    agent.transcript.close()
    word = STATES[agent.state][1]
    reason = first_line(str(data.get("reason") or ""), 400)
    told = f"{word} ({agent.evidence})" if agent.evidence else word
    level = "info" if agent.state == "completed" else "error"
    lines = [f"{told}: {reason}" if reason else told]
    lines += [f"not confirmed: {gap}" for gap in agent.gaps]
    lines += [f"confirmed: {shown(gap)}" for gap in data.get("evidence_by") or ()]
    _note(agent, event, level, "\n".join(lines))


def turn_started(session: Session, event: Event) -> None:
    """An agent works from its first turn on."""
    agent = session.agents.get(event.agent or "")
    if agent is not None:
        agent.started_at = agent.started_at or event.ts
        agent.retry_at = None
        agent.tools.clear()


def turn_finished(session: Session, event: Event) -> None:
    """What a turn used is known: what the tree says of that is old."""
    agent, data = session.agents.get(event.agent or ""), event.data
    if agent is None:
        return
    agent.context = data.get("context")
    agent.tools.clear()
    agent.transcript.close(str(data.get("turn") or ""))
    session.is_spent_old = True
    error = data.get("error")
    if error:
        said = error.get("message") if isinstance(error, dict) else error
        _note(agent, event, "error", f"the turn failed: {shown(said)}")


def progress(session: Session, event: Event) -> None:
    """Keep how far an agent says it is."""
    agent, data = session.agents.get(event.agent or ""), event.data
    if agent is not None:
        share = f"{data['percent']}% " if data.get("percent") is not None else ""
        agent.progress = escape_exact(share) + first_line(str(data.get("status") or ""))


def retrying(session: Session, event: Event) -> None:
    """A turn is tried again after a pause."""
    agent, data = session.agents.get(event.agent or ""), event.data
    if agent is None:
        return
    delay = float(data.get("delay_s") or 0.0)
    agent.retry_at = event.ts + delay
    error = data.get("error")
    why = error.get("message") if isinstance(error, dict) else error
    text = f"tries again in {format_duration(delay)}: {first_line(str(why or ''), 400)}"
    _note(agent, event, "warning", text)


def _note(agent: Agent, event: Event, level: str, text: str) -> None:
    agent.transcript.put(Note(seq=event.seq, at=event.ts, level=level, text=text))


def _exact(value: object) -> str:
    return "" if value is None else escape_exact(str(value))
