"""What events say of what an agent says and does: they become blocks of its transcript."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prsm_core.kit import call_text, escape_exact, first_line
from prsm_tui.model.blocks import Changed, Note, Plan
from prsm_tui.model.calls import call_of, child_of
from prsm_tui.model.review import UNSURE
from prsm_tui.model.spoken import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prsm_core import Event
    from prsm_tui.model.agents import Agent
    from prsm_tui.model.session import Session

_DELTAS = {"text_delta": "text", "thinking_delta": "thinking"}
_MESSAGES = {
    "question": ("asks", "is asked by"),
    "answer": ("answers", "is answered by"),
    "expert_request": ("consults", "is consulted by"),
    "expert_response": ("advises", "is advised by"),
    "peer": ("writes to", "is written to by"),
}


def delta(session: Session, event: Event) -> None:
    """Take a piece of text; a late one changes nothing."""
    agent = session.agents.get(event.agent or "")
    if agent is not None:
        agent.transcript.say(_DELTAS[event.type], event.data)


def output(session: Session, event: Event) -> None:
    """Take a piece of what a call writes."""
    agent = session.agents.get(event.agent or "")
    if agent is not None:
        agent.transcript.write(event.data)


def message(session: Session, event: Event) -> None:
    """A message is whole."""
    agent = session.agents.get(event.agent or "")
    if agent is not None:
        agent.transcript.commit(event.seq, event.ts, event.data)
        if event.data.get("role") != "assistant":
            agent.prompts = max(0, agent.prompts - 1)


def call_started(session: Session, event: Event) -> None:
    """A tool is called."""
    agent = session.agents.get(event.agent or "")
    if agent is not None:
        call = call_of(event.seq, event.ts, event.data)
        agent.transcript.begin(call)
        agent.tools[call.call] = call.tool, event.ts


def call_finished(session: Session, event: Event) -> None:
    """A call has ended."""
    agent, data = session.agents.get(event.agent or ""), event.data
    if agent is None:
        return
    name = str(data.get("call"))
    agent.tools.pop(name, None)
    told = {
        "seq": event.seq,
        "at": event.ts,
        "status": data.get("status"),
        "result": call_text(data.get("result"), data.get("error")),
        "duration_s": data.get("duration_s"),
        "exit_code": data.get("exit_code"),
    }
    call = agent.transcript.end(name, **told)
    if call.tool == "wait_for_message":
        agent.prompts = max(0, agent.prompts - call.result.count('"type":"user_prompt"'))
    if call.tool == "spawn_child" and call.child is None:
        call.child = child_of(call.result)


def planned(session: Session, event: Event) -> None:
    """An agent's whole plan."""
    entries = [
        (
            escape_exact(str(entry.get("status") or "")),
            first_line(str(entry.get("text") or ""), 400),
        )
        for entry in event.data.get("entries") or ()
        if isinstance(entry, dict)
    ]
    session.transcript_of(event).put(Plan(seq=event.seq, at=event.ts, entries=tuple(entries)))


def routed(session: Session, event: Event) -> None:
    """Tell both sides of a question between agents, and of its answer."""
    data = event.data
    words = _MESSAGES.get(str(data.get("kind")))
    source, target = (session.agents.get(data.get(side) or "") for side in ("from", "to"))
    if data.get("kind") == "user_prompt" and target is not None:
        target.prompts += 1
    if words is None or source is None or target is None:
        return
    _note(source, event, f"{words[0]} {target.name}")
    _note(target, event, f"{words[1]} {source.name}")


def file_changed(session: Session, event: Event) -> None:
    """A file is another."""
    data = event.data
    names = [session.name_of(agent) for agent in data.get("beside") or ()]
    session.transcript_of(event).put(
        Changed(
            seq=event.seq,
            at=event.ts,
            path=escape_exact(str(data.get("path") or "")),
            kind=escape_exact(str(data.get("kind") or "")),
            added=data.get("added"),
            removed=data.get("removed"),
            others=tuple(names),
            is_unsure=data.get("how") in UNSURE,
        )
    )


def told(session: Session, event: Event) -> None:
    """Note what is worth telling and has no block of its own."""
    level, text = _TOLD[event.type](session, event.data)
    if text:
        note = Note(seq=event.seq, at=event.ts, level=level, text=text)
        session.transcript_of(event).put(note)


def _notice(_: Session, data: Any) -> tuple[str, str]:
    level = str(data.get("level") or "info")
    return level if level in {"info", "warning", "error"} else "info", shown(data.get("text"))


def _denied(_: Session, data: Any) -> tuple[str, str]:
    what = f"the check {data.get('check')} forbids {data.get('tool')}: {data.get('reason')}"
    return "warning", shown(what)


def _decided(_: Session, data: Any) -> tuple[str, str]:
    lines = [
        f"{one.get('path')} is {one.get('state')}" + (f": {one['why']}" if one.get("why") else "")
        for one in data.get("changes") or ()
        if isinstance(one, dict)
    ]
    return "info", shown("\n".join(lines))


def _snapshot(_: Session, data: Any) -> tuple[str, str]:
    writers = "; ".join(map(str, data.get("unquiet") or ()))
    return "warning", shown(f"a snapshot was taken while an agent wrote: {writers}") * bool(writers)


def _deadlock(session: Session, data: Any) -> tuple[str, str]:
    names = ", ".join(session.name_of(agent) for agent in data.get("agents") or ())
    victim = data.get("victim")
    act = f": {escape_exact(str(data.get('action')))} {session.name_of(victim)}" if victim else ""
    return "warning", f"deadlock between {names}{act}"


def _budget(_: Session, data: Any) -> tuple[str, str]:
    share = f"{data.get('used')} of {data.get('limit')}"
    return "warning", shown(f"of the budget of {data.get('kind')} are used: {share}")


def _compacting(_: Session, data: Any) -> tuple[str, str]:
    return "info", shown(f"the conversation is summarised at {data.get('tokens')} tokens")


def _compacted(_: Session, data: Any) -> tuple[str, str]:
    error = data.get("error")
    if error:
        said = error.get("message") if isinstance(error, dict) else error
        return "error", shown(f"it could not be summarised: {said}")
    before, after = data.get("tokens_before"), data.get("tokens_after")
    return "info", shown(f"it goes on from a summary: {before} tokens are {after} now")


def _sink(_: Session, data: Any) -> tuple[str, str]:
    return "warning", shown(f"sink {data.get('sink')} lost {data.get('count')} events")


def _plugin(_: Session, data: Any) -> tuple[str, str]:
    return "warning", shown(f"plugin {data.get('plugin')} is not used: {data.get('error')}")


_TOLD = {
    "notice": _notice,
    "check_denied": _denied,
    "changes_decided": _decided,
    "snapshot_taken": _snapshot,
    "deadlock_detected": _deadlock,
    "budget_warned": _budget,
    "budget_exceeded": _budget,
    "compaction_started": _compacting,
    "compaction_finished": _compacted,
    "sink_dropped": _sink,
    "plugin_quarantined": _plugin,
}
TOLD: Sequence[str] = tuple(_TOLD)


def _note(agent: Agent, event: Event, text: str) -> None:
    agent.transcript.put(Note(seq=event.seq, at=event.ts, text=text))
