"""A session as it is shown: it begins as a view and takes every event after that.

What was used is never added up here. The tree of the session tells it, running turns included, and
`is_spent_old` says when to ask for it again.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec import to_builtins

from prsm_core import Spent
from prsm_core.kit import call_text, escape_exact, first_line, format_duration
from prsm_tui.model.agents import ENDED, Agent, agent_of_node, take_counted
from prsm_tui.model.blocks import Asked, Changed, Ending, Note, Plan, call_of, child_of
from prsm_tui.model.board import Boards
from prsm_tui.model.requests import PERMISSION, QUESTION, Request, request_of
from prsm_tui.model.review import UNSURE, Review
from prsm_tui.model.shelf import Shelf
from prsm_tui.model.spoken import shown
from prsm_tui.model.transcript import Transcript
from prsm_tui.model.words import STATES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from prsm_core import Event
    from prsm_core.door import (
        AgentTree,
        HistoryEntry,
        RunningTurn,
        SessionSummary,
        UnwrittenMessage,
        View,
    )

_DELTAS = {"text_delta": "text", "thinking_delta": "thinking"}
_MESSAGES = {
    "question": ("asks", "is asked by"),
    "answer": ("answers", "is answered by"),
    "expert_request": ("consults", "is consulted by"),
    "expert_response": ("advises", "is advised by"),
    "peer": ("writes to", "is written to by"),
}


def _delta(_: Session, agent: Agent, event: Event) -> None:
    """Take a piece of text; a late one changes nothing."""
    agent.transcript.say(_DELTAS[event.type], event.data)


def _output(_: Session, agent: Agent, event: Event) -> None:
    agent.transcript.write(event.data)


def _message(_: Session, agent: Agent, event: Event) -> None:
    agent.transcript.commit(event.seq, event.ts, event.data)
    if event.data.get("role") != "assistant":
        agent.prompts = max(0, agent.prompts - 1)


def _call_started(_: Session, agent: Agent, event: Event) -> None:
    call = call_of(event.seq, event.ts, event.data)
    agent.transcript.begin(call)
    agent.tools[call.call] = call.tool, event.ts


def _call_finished(_: Session, agent: Agent, event: Event) -> None:
    data = event.data
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


def _planned(session: Session, event: Event) -> None:
    entries = [
        (
            escape_exact(str(entry.get("status") or "")),
            first_line(str(entry.get("text") or ""), 400),
        )
        for entry in event.data.get("entries") or ()
        if isinstance(entry, dict)
    ]
    session.transcript_of(event.agent).put(Plan(seq=event.seq, at=event.ts, entries=tuple(entries)))


def _routed(session: Session, event: Event) -> None:
    """Tell both sides of a question between agents, and of its answer."""
    data = event.data
    words = _MESSAGES.get(str(data.get("kind")))
    source, target = (session.agents.get(data.get(side) or "") for side in ("from", "to"))
    if data.get("kind") == "user_prompt" and target is not None:
        target.prompts += 1
    if words is None or source is None or target is None:
        return
    _note(source, event, "info", f"{words[0]} {target.name}")
    _note(target, event, "info", f"{words[1]} {source.name}")


def _file_changed(session: Session, event: Event) -> None:
    data = event.data
    session.transcript_of(event.agent).put(
        Changed(
            seq=event.seq,
            at=event.ts,
            path=escape_exact(str(data.get("path") or "")),
            kind=escape_exact(str(data.get("kind") or "")),
            added=data.get("added"),
            removed=data.get("removed"),
            others=tuple(map(session.name_of, data.get("beside") or ())),
            is_unsure=data.get("how") in UNSURE,
        )
    )


def _told(session: Session, event: Event) -> None:
    """Note what is worth telling and has no block of its own."""
    level, text = _NOTES[event.type](session, event.data)
    if text:
        note = Note(seq=event.seq, at=event.ts, level=level, text=text)
        session.transcript_of(event.agent).put(note)


def _notice(_: Session, data: Any) -> tuple[str, str]:
    level = str(data.get("level") or "info")
    return level if level in {"info", "warning", "error"} else "info", shown(data.get("text"))


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


def _compacted(_: Session, data: Any) -> tuple[str, str]:
    if data.get("error"):
        return "error", shown(f"it could not be summarised: {_message_of(data['error'])}")
    before, after = data.get("tokens_before"), data.get("tokens_after")
    return "info", shown(f"it goes on from a summary: {before} tokens are {after} now")


def _noted(level: str, text: str) -> Callable[[Session, Any], tuple[str, str]]:
    """Return what tells of an event by a text with the names of its fields."""
    return lambda _, data: (level, shown(text.format_map(defaultdict(lambda: None, data))))


_BUDGET = _noted("warning", "of the budget of {kind} are used: {used} of {limit}")
_NOTES: Mapping[str, Callable[[Session, Any], tuple[str, str]]] = {
    "notice": _notice,
    "check_denied": _noted("warning", "the check {check} forbids {tool}: {reason}"),
    "changes_decided": _decided,
    "snapshot_taken": _snapshot,
    "deadlock_detected": _deadlock,
    "budget_warned": _BUDGET,
    "budget_exceeded": _BUDGET,
    "compaction_started": _noted("info", "the conversation is summarised at {tokens} tokens"),
    "compaction_finished": _compacted,
    "sink_dropped": _noted("warning", "sink {sink} lost {count} events"),
    "plugin_quarantined": _noted("warning", "plugin {plugin} is not used: {error}"),
}


def _message_of(error: object) -> object:
    return error.get("message") if isinstance(error, dict) else error


def _spawned(session: Session, event: Event) -> None:
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


def _other_model(session: Session, agent: Agent, event: Event) -> None:
    data = event.data
    session.stirs += 1
    agent.provider, agent.model = _exact(data.get("provider")), _exact(data.get("model"))
    agent.next_model = ""


def _other_mode(session: Session, agent: Agent, event: Event) -> None:
    session.stirs += 1
    agent.mode = _exact(event.data.get("mode"))


def _held(session: Session, agent: Agent, event: Event) -> None:
    session.stirs += 1
    agent.waiting_on, agent.retry_at = _exact(event.data.get("waiting_on")), None


def _changed(session: Session, agent: Agent, event: Event) -> None:
    """Take over a state; at its end an agent says nothing more."""
    data = event.data
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


def _turn_started(_: Session, agent: Agent, event: Event) -> None:
    agent.started_at = agent.started_at or event.ts
    agent.retry_at = None
    agent.tools.clear()


def _turn_finished(session: Session, agent: Agent, event: Event) -> None:
    """What a turn used is known: what the tree says of that is old."""
    data = event.data
    agent.context = data.get("context")
    agent.tools.clear()
    agent.transcript.close(str(data.get("turn") or ""))
    session.is_spent_old = True
    if data.get("error"):
        _note(agent, event, "error", f"the turn failed: {shown(_message_of(data['error']))}")


def _progress(_: Session, agent: Agent, event: Event) -> None:
    data = event.data
    share = f"{data['percent']}% " if data.get("percent") is not None else ""
    agent.progress = escape_exact(share) + first_line(str(data.get("status") or ""))


def _retrying(_: Session, agent: Agent, event: Event) -> None:
    data = event.data
    delay = float(data.get("delay_s") or 0.0)
    agent.retry_at = event.ts + delay
    why = _message_of(data.get("error"))
    text = f"tries again in {format_duration(delay)}: {first_line(str(why or ''), 400)}"
    _note(agent, event, "warning", text)


def _note(agent: Agent, event: Event, level: str, text: str) -> None:
    agent.transcript.put(Note(seq=event.seq, at=event.ts, level=level, text=text))


def _exact(value: object) -> str:
    return "" if value is None else escape_exact(str(value))


SILENCE_SECONDS = 30.0  # without any event
MOST_CALLED = 60  # characters of a task that stand for a name
_LOOKED_AT = 1_000  # … in which they are looked for
_KINDS = {"permission_requested": PERMISSION, "question_asked": QUESTION}
# What is read again once one of these was told.
_COUNTED = frozenset({"file_changed", "changes_decided", "worktree_merged", "snapshot_taken"})
_NOBODY = {
    "headless": "nobody is there to ask",
    "timeout": "nobody answered in time",
    "unattended": "nobody was attached",
}


@dataclass(slots=True, kw_only=True)
class Run:
    """The newest run; times in Unix seconds."""

    id: str
    task: str
    status: str = "running"
    started_at: float | None = None
    finished_at: float | None = None
    summary: str = field(default="", compare=False)

    @property
    def is_open(self) -> bool:
        """Whether it goes on."""
        return self.status == "running"


class Session:
    """Owns what is shown of a session."""

    def __init__(self, id_: str = "", since: int = 0) -> None:
        self.id = id_
        self.seq = since  # of the newest event that is in it
        self.mode = ""
        self.name = ""  # that a person or a model gave it
        self.run: Run | None = None
        self.agents: dict[str, Agent] = {}
        self.requests: dict[str, Request] = {}  # those that are open, the oldest first
        self.spent = Spent()
        self.is_spent_old = False
        self.review, self.shelf, self.boards = Review(), Shelf(), Boards()
        self.asked_model = ""  # for runs that begin here, by the command line
        self.images: tuple[str, ...] = ()  # paths of those that what is said next is shown with
        self.next_model = ""  # of the master that the first task begins with
        self.told_at: dict[str, int] = {}  # the newest event of some types, by the type
        self.heard = 0  # counts events, live ones too
        self.stirs = 0  # counts what changes the state of an agent, or whom it waits for
        self._roots: list[Agent] = []
        self.transcript = Transcript(has_pages=False)  # of what is no agent's

    @classmethod
    def of_view(cls, view: View, now: float = 0.0) -> Session:
        """Return a session as AppHandle.view tells it; `now` in Unix seconds."""
        session = cls(view.session, view.seq)
        session.mode = escape_exact(view.mode)
        run = view.run
        if run is not None:
            session.run = Run(
                id=run.id,
                task=shown(run.task),
                status=escape_exact(run.status),
                started_at=run.started_at,
                finished_at=run.finished_at,
                summary=shown(run.summary),
            )
        for node in view.tree.walk():
            session.add(agent_of_node(node, session.seq + 1 if session.seq else 0, now))
        for told in view.requests:
            session._ask(request_of(told.kind, told.agent, told.opened_at, to_builtins(told)))
        for turn in view.turns:
            session._take_turn(turn)
        session.spent = view.tree.spent.as_spent
        if run is not None and session.run is not None and not session.run.is_open:
            session._end(_ending_of(session.run, session.seq, run.error), session.run.id)
        return session

    @property
    def called(self) -> str:
        """What the session is called: by its name, else by the first words of its task."""
        task = "" if self.run is None else self.run.task[:_LOOKED_AT]
        return self.name or first_line(task, MOST_CALLED)

    def take_name(self, rows: Iterable[SessionSummary]) -> bool:
        """Take its name from the sessions, as Sessions.list tells them; return if it is new.

        No event tells of a name: another process may give one.
        """
        before = self.name
        for row in rows:
            if row.session == self.id:
                self.name = escape_exact(row.name or "")
        return self.name != before

    def add(self, agent: Agent) -> None:
        """Add an agent behind all others, and below its parent."""
        self.agents[agent.id] = agent
        self.stirs += 1
        parent = self.agents.get(agent.parent or "")
        if parent is not None:
            parent.children.append(agent.id)
        else:
            self._roots.append(agent)

    def apply(self, event: Event) -> None:
        """Take an event; one of a type that is not known changes nothing."""
        if event.seq is not None:
            if event.seq <= self.seq:
                return
            self.seq = event.seq
            if event.type in _COUNTED:
                self.told_at[event.type] = event.seq
        self.heard += 1
        agent = self.agents.get(event.agent or "")
        if agent is not None:
            agent.heard_at = event.ts
            if (of_agent := _OF_AGENTS.get(event.type)) is not None:
                of_agent(self, agent, event)
        if (taker := _TAKERS.get(event.type)) is not None:
            taker(self, event)

    def newest(self, *kinds: str) -> int:
        """Return the number of the newest event of some types that came after the view; 0: none."""
        return max((self.told_at.get(kind, 0) for kind in kinds), default=0)

    def take_tree(self, tree: AgentTree) -> None:
        """Take over what was used, as Agents.tree tells it."""
        for node in tree.walk():
            agent = self.agents.get(node.id)
            if agent is not None:
                take_counted(agent, node)
        self.spent = tree.spent.as_spent
        self.is_spent_old = False

    def take_page(self, agent: str, entries: Sequence[HistoryEntry]) -> None:
        """Put a page of an agent's history in front of its transcript."""
        transcript = self.agents[agent].transcript
        transcript.prepend(entries)
        for request in self.requests.values():
            if request.agent == agent:
                self._mark(request, "waits")

    def note(self, level: str, text: str, at: float) -> None:
        """Note something that no event tells of."""
        self.transcript.put(Note(level=level, text=shown(text), at=at))

    def said_to(self, agent: Agent, text: str, when: str) -> None:
        """Note at an agent what a person has said to it; it is told again once it was read."""
        agent.transcript.put(Note(text=f"you: {shown(text)}\n({when})"))

    def rows(self) -> Iterator[Agent]:
        """Yield the agents, each behind its parent, siblings in the order of their spawning."""
        stack = self._roots[::-1]
        while stack:
            agent = stack.pop()
            yield agent
            stack.extend(self.agents[child] for child in reversed(agent.children))

    def master(self) -> Agent | None:
        """Return the newest agent that nobody has spawned."""
        return self._roots[-1] if self._roots else None

    def path_of(self, agent: str) -> Sequence[str]:
        """Return the names of an agent's ancestors and its own, the master's first."""
        names: list[str] = []
        at = self.agents.get(agent)
        while at is not None:
            names.append(at.name)
            at = self.agents.get(at.parent or "")
        return names[::-1] or [escape_exact(agent[:8])]

    def below(self, agent: str) -> Iterator[Agent]:
        """Yield the agents below one."""
        stack = list(self.agents[agent].children)
        while stack:
            child = self.agents[stack.pop()]
            yield child
            stack.extend(child.children)

    def what_follows(self, *, owns: bool) -> str:
        """Return what leaving does; `owns`: the session's runs end with this process."""
        if self.run is None or not self.run.is_open:
            return "no run is open"
        if not owns:
            return "the run goes on, since another process has it"
        return f"the run stops here as interrupted; `prsm resume {self.id}` goes on with it"

    def asks(self, agent: str) -> bool:
        """Return whether an agent waits for a person."""
        return any(request.agent == agent for request in self.requests.values())

    def name_of(self, agent: object) -> str:
        """Return an agent's name, or the beginning of its id; no agent is a person."""
        if agent is None:
            return "somebody outside"
        known = self.agents.get(str(agent))
        return known.name if known is not None else escape_exact(str(agent)[:8])

    def transcript_of(self, agent: str | None) -> Transcript:
        """Return the transcript of an agent, else of what is no agent's."""
        known = self.agents.get(agent or "")
        return self.transcript if known is None else known.transcript

    def _take_turn(self, turn: RunningTurn) -> None:
        agent = self.agents.get(turn.agent)
        if agent is None:
            return
        messages: tuple[UnwrittenMessage | RunningTurn, ...] = (*turn.unwritten, turn)
        for message in messages:
            for kind, said in (("thinking", message.thinking), ("text", message.text)):
                if said:
                    piece = {"turn": turn.turn, "message": message.message}
                    agent.transcript.say(kind, {**piece, "at": 0, "text": said})

    def _end(self, ending: Ending, run: str | None) -> None:
        """Say how a run ended, at the session and at the agents that it began with."""
        self.transcript.put(ending)
        for agent in self._roots:
            if agent.run == run:
                agent.transcript.put(ending)

    def _ask(self, request: Request) -> None:
        self.requests[request.id] = request
        self.stirs += 1
        self._mark(request, "waits")

    def _mark(self, request: Request, status: str) -> None:
        """Say at the call that a request is about that it waits, or goes on."""
        agent = self.agents.get(request.agent)
        call = None if agent is None else agent.transcript.find_call(request.call or "")
        if call is not None:
            call.status = status
            call.change()


class Silence:
    """Knows since when a session is silent that should not be; what is too long is told once."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._heard = -1
        self._since = 0.0
        self.is_long = False  # and told

    def news(self, now: float) -> str:
        """Return what is to be told of a silence that has become too long; blank: nothing.

        No event is missed while no run is open, or while somebody is asked.
        """
        session, run = self._session, self._session.run
        if session.heard != self._heard or session.requests or run is None or not run.is_open:
            self._heard, self._since, self.is_long = session.heard, now, False
        silent = now - self._since
        if silent < SILENCE_SECONDS or self.is_long:
            return ""
        self.is_long = True
        return f"nothing was heard from the agents for {format_duration(silent)}"


def _run_started(session: Session, event: Event) -> None:
    session.id = session.id or event.session
    session.run = Run(id=event.run or "", task=shown(event.data.get("task")), started_at=event.ts)
    task = f"a run begins: {session.run.task}"
    session.transcript.put(Note(seq=event.seq, at=event.ts, text=task))


def _run_resumed(session: Session, event: Event) -> None:
    if session.run is not None:
        session.run.status, session.run.finished_at = "running", None
    session.transcript.put(Note(seq=event.seq, at=event.ts, text="the run goes on"))


def _run_finished(session: Session, event: Event) -> None:
    data = event.data
    status = escape_exact(str(data.get("status")))
    if session.run is not None and session.run.id == event.run:
        session.run.status, session.run.finished_at = status, event.ts
        session.run.summary = shown(data.get("summary"))
    told = Spent.from_dict({**(data.get("usage") or {}), **data})
    ending = Ending(
        seq=event.seq,
        at=event.ts,
        status=status + (f" ({data['evidence']})" if data.get("evidence") else ""),
        summary=shown(data.get("summary")),
        error=shown(data.get("error")),
        details=f"in {format_duration(data.get('duration_s'))}, {told.text}",
    )
    session.is_spent_old = True
    session._end(ending, event.run)


def _ending_of(run: Run, seq: int, error: str | None) -> Ending:
    """Return the end of a run that was over by event `seq`, before anybody looked."""
    details = ""
    if run.started_at is not None and run.finished_at is not None:
        details = f"in {format_duration(run.finished_at - run.started_at)}"
    return Ending(
        seq=seq,
        at=run.finished_at or 0.0,
        status=run.status,
        summary=run.summary,
        error=shown(error),
        details=details,
    )


def _asked(session: Session, event: Event) -> None:
    request = request_of(_KINDS[event.type], event.agent, event.ts, event.data)
    session._ask(request)
    verb = "asks to use" if request.kind == PERMISSION else "asks you"
    block = Asked(seq=event.seq, at=event.ts, request=request.id, text=f"{verb} {request.head}")
    session.transcript_of(event.agent).put(block)


def _answered(session: Session, event: Event) -> None:
    data = event.data
    request = session.requests.pop(str(data.get("request")), None)
    session.stirs += 1
    if request is not None:
        session._mark(request, "runs")
    transcript = session.transcript_of(event.agent)
    for block in reversed(transcript.blocks):
        if isinstance(block, Asked) and block.request == data.get("request"):
            block.outcome = _outcome(data)
            block.change()
            return
    what = "a request ended" if request is None else f"asked {request.head}"
    transcript.put(Note(seq=event.seq, at=event.ts, text=f"{what}: {_outcome(data)}"))


def _outcome(data: Mapping[str, Any]) -> str:
    by = escape_exact(str(data.get("by") or "?"))
    who = f"{by}, {escape_exact(str(data['via']))}" if data.get("via") else by
    if data.get("verdict") is not None:
        return f"{escape_exact(str(data['verdict']))} (by {who})"
    answer = data.get("answer")
    if not isinstance(answer, dict):
        return _NOBODY.get(by, f"closed (by {who})")
    said = [*map(str, answer.get("choices") or ()), *filter(None, [answer.get("text")])]
    return f"{shown(', '.join(said)) or 'an empty text'} (by {who})"


_TAKERS: Mapping[str, Callable[[Session, Event], None]] = {
    "run_started": _run_started,
    "run_resumed": _run_resumed,
    "run_finished": _run_finished,
    "agent_spawned": _spawned,
    "plan_updated": _planned,
    "message_routed": _routed,
    "file_changed": _file_changed,
    "permission_requested": _asked,
    "question_asked": _asked,
    "permission_resolved": _answered,
    "question_answered": _answered,
    **dict.fromkeys(_NOTES, _told),
}
# … and those that only an agent there is can take: late ones change nothing.
_OF_AGENTS: Mapping[str, Callable[[Session, Agent, Event], None]] = {
    "agent_state_changed": _changed,
    "agent_held": _held,
    "agent_model_changed": _other_model,
    "agent_mode_changed": _other_mode,
    "turn_started": _turn_started,
    "turn_finished": _turn_finished,
    "progress_reported": _progress,
    "retry_scheduled": _retrying,
    "text_delta": _delta,
    "thinking_delta": _delta,
    "tool_output_delta": _output,
    "message_completed": _message,
    "tool_call_started": _call_started,
    "tool_call_finished": _call_finished,
}
