"""Turns events into lines for a console: pure, but for remembering names and open calls."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from prsm_core.files import UNSURE
from prsm_core.kit import escape_exact, escape_prose, first_line, format_duration
from prsm_core.terminal import find_change, hanging, request_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from prsm_core import Event

_STATES = {
    "waiting_for_parent": "waits for its parent",
    "waiting_for_child": "waits for its children",
    "waiting_for_expert": "waits for an expert",
    "completed": "completed",
    "failed": "failed",
    "killed": "was killed",
}
_MESSAGES = {
    "question": "asks",
    "answer": "answers",
    "expert_request": "consults",
    "expert_response": "advises",
    "user_prompt": "prompts",
    "peer": "writes to",
}
_TELLING = ("command", "file_path", "path", "pattern", "query", "url", "prompt", "question")
_NO_PERSON = {  # by what a question has ended that nobody has answered
    "headless": "nobody is there to ask",
    "timeout": "nobody answered in time",
    "unattended": "nobody was attached",
}
_SIGNS = {"completed": "x", "in_progress": ">"}  # of entries of a plan
_LONG = 300  # characters of an error in one line


class Ink:
    """Bold and dim, where the terminal has them and the user wants them."""

    def __init__(self, enabled: bool) -> None:
        self._enabled = enabled

    def bold(self, text: str) -> str:
        """Return text in bold."""
        return f"\x1b[1m{text}\x1b[0m" if self._enabled else text

    def dim(self, text: str) -> str:
        """Return text in a fainter tone."""
        return f"\x1b[2m{text}\x1b[0m" if self._enabled else text


class Renderer:
    """Knows the agents by name and the open calls and requests by their subject."""

    def __init__(self, ink: Ink) -> None:
        self._ink = ink
        self._names: dict[str, str] = {}
        self._calls: dict[tuple[str | None, str], str] = {}
        self._requests: dict[str, str] = {}
        self._makers: Mapping[str, Callable[[Event, _Fields], Sequence[str]]] = {
            "agent_spawned": self._spawned,
            "agent_state_changed": self._state,
            "turn_finished": self._turn_finished,
            "message_completed": self._message,
            "tool_call_started": self._call,
            "tool_call_finished": self._call_finished,
            "plan_updated": self._planned,
            "message_routed": self._routed,
            "permission_requested": self._permission,
            "permission_resolved": self._resolved,
            "check_denied": self._check_denied,
            "question_asked": self._question,
            "question_answered": self._answered,
            "progress_reported": self._progress,
            "file_changed": self._file,
            "snapshot_taken": self._snapshot,
            "worktree_merged": self._merged,
            "changes_decided": self._decided,
            "deadlock_detected": self._deadlock,
            "budget_warned": self._budget,
            "budget_exceeded": self._budget,
            "retry_scheduled": self._retry,
            "compaction_started": self._compaction,
            "compaction_finished": self._compacted,
            "notice": self._notice,
            "sink_dropped": self._sink,
            "plugin_quarantined": self._plugin,
        }

    def learn(self, event: Event) -> None:
        """Remember an agent's name, also one of an earlier run of the session."""
        if event.type == "agent_spawned" and event.agent:
            self._names[event.agent] = escape_exact(str(event.data.get("name")))

    def lines(self, event: Event) -> Sequence[str]:
        """Return what to print for an event of this run, maybe nothing."""
        self.learn(event)
        maker = self._makers.get(event.type)
        return maker(event, _Fields(event.data)) if maker else ()

    def name(self, agent: str | None) -> str:
        """Return the agent's name, or the beginning of its id; no agent is the user."""
        if agent is None:
            return "user"
        return self._ink.bold(self._names.get(agent) or escape_exact(agent[:8]))

    def _spawned(self, event: Event, data: _Fields) -> Sequence[str]:
        model = f"{data.exact('role')}, {data.exact('provider')}/{data.exact('model')}"
        by = f" for {self.name(data.raw('parent'))}" if data.raw("parent") else ""
        return (f"{self.name(event.agent)} ({model}) starts{by}: {data.line('prompt')}",)

    def _state(self, event: Event, data: _Fields) -> Sequence[str]:
        state = data.exact("to")
        if state not in _STATES:
            return ()
        reason = data.line("reason")
        evidence = f" ({data.exact('evidence')})" if data.raw("evidence") else ""
        line = f"{self.name(event.agent)} {_STATES[state]}{evidence}"
        line += f": {reason}" if reason else ""
        gaps = [f"  not confirmed: {first_line(gap)}" for gap in data.texts("evidence_gaps")]
        gaps += [f"  confirmed: {first_line(act)}" for act in data.texts("evidence_by")]
        return (line if state in {"failed", "killed"} else self._ink.dim(line), *gaps)

    def _turn_finished(self, event: Event, data: _Fields) -> Sequence[str]:
        error = data.raw("error")
        if not error:
            return ()
        return (f"{self.name(event.agent)}: the turn failed: {first_line(_said(error), _LONG)}",)

    def _message(self, event: Event, data: _Fields) -> Sequence[str]:
        text = data.prose("text").strip("\n")
        if data.raw("role") != "assistant" or not text.strip():
            return ()
        return hanging(f"{self.name(event.agent)}: ", text, bar="  ")

    def _call(self, event: Event, data: _Fields) -> Sequence[str]:
        tool = data.exact("tool")
        self._calls[event.agent, data.exact("call")] = tool
        arguments = data.raw("arguments") or {}
        change = find_change(tool, arguments)
        size = "" if change is None else f" ({change.counts})"
        line = f"{self.name(event.agent)} > {tool}{_subject(arguments)}{size}"
        return (self._ink.dim(line),)

    def _call_finished(self, event: Event, data: _Fields) -> Sequence[str]:
        tool = self._calls.pop((event.agent, data.exact("call")), "a tool")
        if data.raw("status") == "completed":
            return ()
        text = _plain(str(data.raw("error") or "")) or str(data.raw("result") or "")
        why, took = first_line(text, _LONG), data.raw("duration_s")
        after = f" after {format_duration(took)}" if took else ""
        return (f"{self.name(event.agent)} > {tool} {data.exact('status')}{after}: {why}",)

    def _planned(self, event: Event, data: _Fields) -> Sequence[str]:
        entries = data.all("entries")
        signs = [_SIGNS.get(entry.exact("status"), " ") for entry in entries]
        head = f"{self.name(event.agent)} plans ({signs.count('x')} of {len(signs)} done)"
        texts = [entry.line("text") for entry in entries]
        lines = [f"  [{sign}] {text}" for sign, text in zip(signs, texts, strict=True)]
        return [self._ink.dim(line) for line in (head, *lines)]

    def _routed(self, event: Event, data: _Fields) -> Sequence[str]:
        verb = _MESSAGES.get(data.exact("kind"))
        if verb is None:
            return ()
        return (f"{self.name(data.raw('from'))} {verb} {self.name(data.raw('to'))}",)

    def _permission(self, event: Event, data: _Fields) -> Sequence[str]:
        self._requests[data.exact("request")] = f"{data.exact('tool')} of {self.name(event.agent)}"
        return request_lines(event.type, self.name(event.agent), event.data)

    def _resolved(self, event: Event, data: _Fields) -> Sequence[str]:
        unknown = f"a request of {self.name(event.agent)}"
        subject = self._requests.pop(data.exact("request"), unknown)
        return (f"{subject}: {data.exact('verdict')} (by {data.answerer()})",)

    def _check_denied(self, event: Event, data: _Fields) -> Sequence[str]:
        who, tool = self.name(event.agent), data.exact("tool")
        head = f"the check {data.exact('check')} forbids {who} {tool}: "
        return hanging(head, data.prose("reason"))

    def _question(self, event: Event, data: _Fields) -> Sequence[str]:
        return request_lines(event.type, self.name(event.agent), event.data)

    def _answered(self, event: Event, data: _Fields) -> Sequence[str]:
        subject = f"the question of {self.name(event.agent)}"
        by = data.answerer()
        if by in _NO_PERSON:
            return (f"{subject} has no answer: {_NO_PERSON[by]}",)
        answer = data.raw("answer")
        if not isinstance(answer, dict):
            return (f"{subject} is closed (by {by})",)
        said = ", ".join(
            [*map(str, answer.get("choices", ())), *filter(None, [answer.get("text")])]
        )
        who = "--on-ask allow" if by == "on_ask" else by  # it stands in for a person
        return (f"{subject} is answered with {first_line(said) or 'an empty text'} (by {who})",)

    def _progress(self, event: Event, data: _Fields) -> Sequence[str]:
        share = f"{data.exact('percent')}% " if data.raw("percent") is not None else ""
        return (self._ink.dim(f"{self.name(event.agent)}: {share}{data.line('status')}"),)

    def _file(self, event: Event, data: _Fields) -> Sequence[str]:
        size = f"+{data.raw('added') or 0} -{data.raw('removed') or 0}"
        agents = data.texts("agents") or ([event.agent] if event.agent else [])
        mark = "?" if data.raw("how") in UNSURE else ""
        who = " or ".join(f"{self.name(one)}{mark}" for one in agents) or "somebody outside"
        line = f"{who} {data.exact('kind')} {data.exact('path')} ({size})"
        beside = data.texts("beside")
        if not beside:
            return (line,)
        others = ", ".join(self.name(agent) if agent else "somebody outside" for agent in beside)
        return line, f"  conflict: {others} changed it, too"

    def _merged(self, event: Event, data: _Fields) -> Sequence[str]:
        """Tell what became of an agent's worktree; the files that are merged tell of themselves."""
        result, who = data.raw("result"), self.name(event.agent)
        if result == "nothing":
            return ()
        undo = f"; undo it: prsm undo {data.exact('act')}" if data.raw("act") else ""
        if result == "merged":
            return (f"the worktree of {who} is merged{undo}",)
        why = f": {data.line('why')}" if data.raw("why") else ""
        branch = f", on the branch {data.exact('branch')}" if data.raw("branch") else ""
        how = f"merged in part{undo}, the rest is" if result == "partial" else "not merged"
        lines = [f"the worktree of {who} is {how}{branch}{why}"]
        for name, head in (("conflicts", "conflict"), ("outside", "not merged")):
            lines += [
                f"  {head}: {one.exact('path')}: {one.exact('why')}" for one in data.all(name)
            ]
        return lines

    def _decided(self, _: Event, data: _Fields) -> Sequence[str]:
        return [
            f"{one.exact('path')}: change {one.exact('change')} is {one.exact('state')}"
            + (f": {one.exact('why')}" if one.raw("why") else "")
            for one in data.all("changes")
        ]

    def _snapshot(self, event: Event, data: _Fields) -> Sequence[str]:
        """Tell only of one that agents may have disturbed: there is one before each prompt."""
        writers = data.raw("unquiet") or ()
        if not writers:
            return ()
        who = "; ".join(escape_exact(str(one)) for one in writers)
        return (f"snapshot {data.exact('snapshot')} was taken while an agent wrote: {who}",)

    def _deadlock(self, event: Event, data: _Fields) -> Sequence[str]:
        agents = ", ".join(self.name(agent) for agent in data.raw("agents") or ())
        victim = data.raw("victim")
        act = f": {data.exact('action')} {self.name(victim)}" if victim else ""
        return (f"deadlock between {agents}{act}",)

    def _budget(self, event: Event, data: _Fields) -> Sequence[str]:
        state = "used up" if event.type == "budget_exceeded" else "nearly used up"
        share = f"{data.exact('used')} of {data.exact('limit')}"
        return (f"the budget of {data.exact('kind')} is {state}: {share}",)

    def _retry(self, event: Event, data: _Fields) -> Sequence[str]:
        delay, attempt = format_duration(data.raw("delay_s")), data.exact("attempt")
        error = data.raw("error")
        kind = error.get("kind") if isinstance(error, dict) else None
        words = str(kind or "").replace("_", " ")
        why = first_line(": ".join(filter(None, (words, _said(error)))), _LONG)
        left, pauses = data.raw("tries_left"), format_duration(data.raw("pauses_s"))
        ends = "" if left is None else f"; gives up after {left} more, {pauses} of pauses at most"
        return (
            f"{self.name(event.agent)} tries again in {delay} (attempt {attempt}{ends}): {why}",
        )

    def _compaction(self, event: Event, data: _Fields) -> Sequence[str]:
        why = "is too long" if data.raw("trigger") == "overflow_recovery" else "fills its context"
        size = f"{_count(data.raw('tokens'))} tokens"
        line = f"{self.name(event.agent)}: the conversation {why} ({size}) and is summarised"
        return (self._ink.dim(line),)

    def _compacted(self, event: Event, data: _Fields) -> Sequence[str]:
        error = data.raw("error")
        if error:
            return (f"{self.name(event.agent)}: {first_line(_said(error), _LONG)}",)
        before, after = (_count(data.raw(f"tokens_{when}")) for when in ("before", "after"))
        line = f"{self.name(event.agent)} goes on from a summary: {before} tokens are {after} now"
        return (self._ink.dim(line),)

    def _notice(self, event: Event, data: _Fields) -> Sequence[str]:
        who = f"{self.name(event.agent)}: " if event.agent else ""
        return hanging(f"{data.exact('level')}: {who}", data.prose("text"))

    def _sink(self, event: Event, data: _Fields) -> Sequence[str]:
        return (f"warning: sink {data.exact('sink')} lost {data.exact('count')} events",)

    def _plugin(self, event: Event, data: _Fields) -> Sequence[str]:
        why = data.line("error", _LONG)
        return (f"warning: plugin {data.exact('plugin')} is not used: {why}",)


class _Fields:
    """Fields of an event as harmless text; what is missing is empty."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.raw = data.get

    def all(self, name: str) -> Sequence[_Fields]:
        """Return the objects of a list."""
        value = self.raw(name)
        objects = value if isinstance(value, list) else []
        return [_Fields(each) for each in objects if isinstance(each, dict)]

    def texts(self, name: str) -> Sequence[str]:
        """Return the texts of a list."""
        value = self.raw(name)
        return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []

    def exact(self, name: str) -> str:
        value = self.raw(name)
        return "" if value is None else escape_exact(str(value))

    def prose(self, name: str) -> str:
        return escape_prose(str(self.raw(name) or ""))

    def answerer(self) -> str:
        via = self.exact("via")
        return f"{self.exact('by')}, {via}" if via else self.exact("by")

    def line(self, name: str, limit: int = 100) -> str:
        return first_line(str(self.raw(name) or ""), limit)


def _plain(error: str) -> str:
    """Return what went wrong, in words: a tool of ours tells its error as JSON."""
    try:
        told = json.loads(error)["error"]
        return "; ".join(filter(None, (str(told["message"]), told.get("hint"))))
    except (ValueError, LookupError, TypeError, AttributeError):
        return error


def _count(number: object) -> str:
    return f"{number:,}" if isinstance(number, int) else "?"


def _said(error: object) -> str:
    text = error.get("message") if isinstance(error, dict) else error
    return str(text or "")


def _subject(arguments: Mapping[str, Any]) -> str:
    """Return ": …" for the argument that says best what a call is about."""
    texts = {key: value for key, value in arguments.items() if isinstance(value, str) and value}
    paths = arguments.get("paths")
    listed = ", ".join(map(str, paths)) if isinstance(paths, list) else ""
    telling = (*(texts.get(key) for key in _TELLING), listed, *texts.values())
    subject = next(filter(None, telling), None)
    return f": {first_line(subject)}" if subject else ""
