"""The stream of one agent, told from the events of its session: pure.

The events of a session are for whoever shows all of it. A stream is for whoever has one agent speak
in a chat or a pipe. The text of a message comes in the pieces in which its provider told it, but
for a last word that may be the beginning of a secret: it comes with the next piece. All of them
together are the message: what a slow reader has lost comes with its last piece, and so does the
whole message of a provider that tells no pieces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prsm_core.domain.agents import AgentState
from prsm_core.kit.stream_events import (
    AgentPhase,
    Reasoning,
    StreamEnd,
    StreamError,
    StreamEvent,
    StreamStart,
    Token,
    ToolStatus,
)
from prsm_core.kit.text import first_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from prsm_core.domain.events import Event

    Told = Iterator[StreamEvent | AgentPhase]

SUMMARY = 200  # characters of what a call has given
_KINDS = {"thinking_delta": "thinking", "text_delta": "text"}


class StreamFold:
    """Tells the stream of one agent from the events of its session.

    Of a run's master nobody knows the name before it is spawned: `agent` is None until then.
    """

    def __init__(self, agent: str | None, run: str | None) -> None:
        """Know whose stream it is: an agent's id, or None for the master of a run to come."""
        self.agent = agent
        self.end: StreamEnd | StreamError | None = None  # the final one
        self.is_compacting = False
        self._run = run
        self._turn: str | None = None  # that runs
        self._aside: str | None = None  # the turn in which a conversation was summarised
        self._message = 1
        self._said = {"text": "", "thinking": ""}  # what was told of that message
        self._lost: set[str] = set()  # the texts of it of which a piece is missing
        self._is_partial = False
        self._over: Mapping[str, Any] | None = None  # a turn whose end is not told yet
        self._state: Mapping[str, Any] | None = None  # that the agent has ended in
        self._tools: dict[str, str] = {}  # of the calls that run
        self._phase = ""

    @property
    def is_streaming(self) -> bool:
        """Whether a turn runs."""
        return self._turn is not None

    def join(self, view: Mapping[str, Any], node: Mapping[str, Any]) -> Sequence[Any]:
        """Return what tells where a picture found the agent: in a turn, or in none."""
        for turn in view["turns"]:
            if turn["agent"] == self.agent:
                self._tools = {call["call"]: call["tool"] for call in node["open_tools"]}
                told = tuple(self._begin(view["session"], turn["turn"], turn["n"], None))
                self._message = min(
                    [each["message"] for each in turn["unwritten"]], default=turn["message"]
                )
                return told
        return ()

    def read(self, event: Event) -> Told:
        """Tell what an event of the session means for the stream."""
        if self.end is not None:
            return
        if event.type == "run_finished" and self._run in {None, event.run}:
            is_cut_off = event.data["status"] in {"interrupted", "killed"}
            yield from self._settle(final=True, reason="aborted" if is_cut_off else None)
        elif self.agent is None:
            if _is_master(event, self._run):
                self.agent = event.agent
        elif event.agent == self.agent and (tell := _TELLING.get(event.type)) is not None:
            yield from tell(self, event)

    def close(self, error: str) -> Told:
        """Tell that no more events come."""
        if self.end is None:
            self._over, self._state = None, {"to": AgentState.FAILED, "reason": error}
            yield from self._settle(final=True)

    def _enter(self, phase: str, at: float | None) -> Told:
        if phase != self._phase:
            self._phase = phase
            yield AgentPhase(phase=phase, at=at)

    def _turn_started(self, event: Event) -> Told:
        if self.is_compacting:
            self._aside = event.data["turn"]
            return
        yield from self._settle(final=False)
        yield from self._begin(event.session, event.data["turn"], event.data["n"], event.ts)

    def _begin(self, session: str, turn: str, number: int, at: float | None) -> Told:
        self._turn, self._message, self._is_partial = turn, 1, False
        self._next_message(1)
        yield from self._enter("start", at)
        agent = self.agent or ""
        yield StreamStart(session=session, run=self._run, agent=agent, turn=turn, n=number)

    def _next_message(self, number: int) -> None:
        self._message = number
        self._said = dict.fromkeys(self._said, "")
        self._lost.clear()

    def _piece(self, event: Event) -> Told:
        data, kind = event.data, _KINDS[event.type]
        said = self._said[kind]
        if (data["turn"], data["message"]) != (self._turn, self._message) or kind in self._lost:
            return
        if data["at"] > len(said):
            self._lost.add(kind)  # the rest comes with the whole message, in its order
        elif new := data["text"][len(said) - data["at"] :]:
            yield from self._say(kind, new, event.ts)

    def _say(self, kind: str, text: str, at: float) -> Told:
        self._said[kind] += text
        self._is_partial = True
        yield from self._enter("streaming", at)
        told = Token if kind == "text" else Reasoning
        yield told(text=text, message=self._message)

    def _message_completed(self, event: Event) -> Told:
        data = event.data
        if data["role"] != "assistant" or data["turn"] != self._turn:
            return
        if data["message"] < self._message:  # of a turn that was joined later
            return
        if data["message"] > self._message:
            self._next_message(data["message"])
        for kind, said in list(self._said.items())[::-1]:
            whole = data.get(kind) or ""
            if len(whole) > len(said) and (kind in self._lost or whole.startswith(said)):
                yield from self._say(kind, whole[len(said) :], event.ts)
        self._next_message(data["message"] + 1)

    def _tool_started(self, event: Event) -> Told:
        call, tool = event.data["call"], event.data["tool"]
        self._tools[call] = tool
        yield from self._enter("tool_use", event.ts)
        yield ToolStatus(call=call, tool=tool, status="started")

    def _tool_finished(self, event: Event) -> Told:
        data = event.data
        status = data["status"] if data["status"] in {"completed", "unknown"} else "failed"
        told = data.get("error") or data.get("result")
        yield ToolStatus(
            call=data["call"],
            tool=self._tools.pop(data["call"], ""),
            status=status,
            summary=first_line(str(told), SUMMARY) if told else None,
        )

    def _turn_finished(self, event: Event) -> Told:
        if event.data["turn"] == self._aside:
            return
        self._turn, self._over = None, event.data
        self._tools.clear()
        yield from self._enter("end", event.ts)
        if self._state is not None:
            yield from self._settle(final=True)

    def _state_changed(self, event: Event) -> Told:
        if not AgentState(event.data["to"]).is_terminal:
            yield from self._settle(final=False)
            return
        self._state = event.data
        if self._turn is None:  # else the end of the turn comes behind it
            yield from self._settle(final=True)

    def _retried(self, _event: Event) -> Told:
        yield from self._settle(final=False)

    def _compaction_started(self, event: Event) -> Told:
        yield from self._settle(final=False)
        self.is_compacting = True
        yield from self._enter("compaction_start", event.ts)

    def _compaction_finished(self, event: Event) -> Told:
        self.is_compacting = False
        yield from self._enter("compaction_end", event.ts)

    def _settle(self, *, final: bool, reason: str | None = None) -> Told:
        """Tell how a turn has ended, once it is known whether the agent has ended with it."""
        if self._over is None and not final:
            return
        over, self._over = self._over or {"turn": self._turn}, None
        state = self._state or {}
        failed = state.get("reason") if state.get("to") == AgentState.FAILED else None
        error = (over.get("error") or {}).get("message") or failed
        reason = over.get("stop_reason") or reason
        if final and state.get("to") == AgentState.KILLED:
            reason = "aborted"
        told: StreamEnd | StreamError
        if error:
            told = StreamError(
                turn=over["turn"], error=error, partial=self._is_partial, final=final
            )
        else:
            told = StreamEnd(turn=over["turn"], stop_reason=reason, final=final)
        self._is_partial = False
        if final:
            self.end, self._turn, self.is_compacting = told, None, False
        yield told


_TELLING: Mapping[str, Callable[[StreamFold, Event], Told]] = {
    "turn_started": StreamFold._turn_started,
    "text_delta": StreamFold._piece,
    "thinking_delta": StreamFold._piece,
    "message_completed": StreamFold._message_completed,
    "tool_call_started": StreamFold._tool_started,
    "tool_call_finished": StreamFold._tool_finished,
    "turn_finished": StreamFold._turn_finished,
    "agent_state_changed": StreamFold._state_changed,
    "retry_scheduled": StreamFold._retried,
    "compaction_started": StreamFold._compaction_started,
    "compaction_finished": StreamFold._compaction_finished,
}


def _is_master(event: Event, run: str | None) -> bool:
    """Return whether an event tells of the master of a run that has just been spawned."""
    return event.type == "agent_spawned" and event.run == run and event.data["parent"] is None
