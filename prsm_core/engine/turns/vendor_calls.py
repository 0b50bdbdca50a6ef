"""Track the vendor's own calls of one turn, its plan and its live texts.

What is allowed counts as a call, whether or not the vendor ever reports it. The broker learns the
result of each call, to see repeats.

A permission and the events of its call come by different ways, in any order, and ids may differ or
be missing. So they are matched by id if both have one, else by tool and command or paths. Each
permission belongs to one call. Of several alike the newest is meant: an older unreported one has
ended unseen.
"""

from __future__ import annotations

from os.path import normpath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from prsm_core.domain.permissions import PermissionRequest
from prsm_core.domain.tools import EDIT_TOOLS
from prsm_core.domain.turns import (
    CUT_MARK,
    RESULT_LIMIT,
    AssistantMessage,
    StepEnded,
    TextDelta,
    ThinkingDelta,
    ToolCallFinished,
    ToolCallStarted,
    ToolOutput,
    TurnEnded,
    cut_result,
)
from prsm_core.engine.turns.fold import unused_id
from prsm_core.permissions import outcome_of
from prsm_core.permissions.results import DENIED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from prsm_core.domain.turns import PlanUpdated, ProviderEvent
    from prsm_core.engine.journal.feed import LiveText
    from prsm_core.engine.journal.unit import Journal
    from prsm_core.engine.turns.fold import TurnFold
    from prsm_core.engine.turns.parts import TurnParts
    from prsm_core.engine.turns.ports import Life
    from prsm_core.engine.turns.stuck import StuckWatch
    from prsm_core.permissions import Outcome

    CallEvent = ToolCallStarted | ToolCallFinished | ToolOutput


_KINDS: dict[type, str] = {TextDelta: "text_delta", ThinkingDelta: "thinking_delta"}
_STOPS = frozenset({AssistantMessage, ToolCallStarted, StepEnded, TurnEnded})


class LiveTexts(Struct, eq=False):
    """Owns the texts of the model's current message, by kind.

    What may be the beginning of a secret is held back until the text continues, or something
    visible comes beside it.
    """

    _journal: Journal
    _agent_id: str
    _fold: TurnFold
    _texts: dict[type, LiveText] = {}
    _outputs: dict[str, LiveText] = {}  # of calls that run
    _newest: type | None = None  # the kind of the last piece
    _number: int = 1  # of the message in its turn

    def __post_init__(self) -> None:
        self._number = self._fold.said + 1

    def heed(self, event: ProviderEvent) -> None:
        """Publish a piece of text, and end the texts that are complete."""
        kind = type(event)
        if isinstance(event, (TextDelta, ThinkingDelta)):
            if kind is not self._newest:
                self._begin(kind)
            self._texts[kind].feed(event.text)
        elif kind in _STOPS:
            self.end()
            if kind is AssistantMessage:
                self._texts = {}
                self._number = self._fold.said + 1
        elif isinstance(event, ToolOutput):
            self._output(event)
        elif isinstance(event, ToolCallFinished):
            output = self._outputs.pop(event.call_id, None)
            if output is not None:
                output.end()

    def _output(self, event: ToolOutput) -> None:
        call = event.call_id
        if call not in self._outputs:
            self._outputs[call] = self._journal.live_text(
                "tool_output_delta", self._agent_id, call=call, limit=RESULT_LIMIT
            )
        self._outputs[call].feed(event.text)

    def _begin(self, kind: type) -> None:
        self.end()
        self._newest = kind
        if kind not in self._texts:
            turn, number = self._fold.turn_id, self._number
            self._texts[kind] = self._journal.live_text(
                _KINDS[kind], self._agent_id, turn=turn, message=number
            )

    def end(self) -> None:
        """Publish what is held back."""
        if self._newest is not None:
            self._texts[self._newest].end()
            self._newest = None

    def end_all(self) -> None:
        """Publish what is held back of all texts: the turn is over."""
        self.end()
        for output in self._outputs.values():
            output.end()
        self._outputs = {}


NOT_ALLOWED = "it was asked about and not allowed: it did not run"
PLAN_LIMIT = 100  # entries that are told
ENTRY_LIMIT = 1000  # characters of each

_PATH_KEYS = ("paths", "file_path", "path", "absolute_path", "notebook_path", "dir_path")


class _Call(Struct):
    request: PermissionRequest
    is_asked: bool = False
    asked_as: str | None = None  # the id that its permission gave
    told_as: str | None = None  # the id by which the vendor tells of it
    since: int | None = None  # where the broker's record of results was; None: not begun yet

    @property
    def is_doubtful(self) -> bool:
        return self.is_asked and self.told_as not in {None, self.asked_as}


class AllowedCalls(Struct, eq=False):
    """Owns the open calls of one turn by their ledger ids."""

    open: dict[str, _Call] = field(default_factory=dict)
    # Asked about, and not allowed so far.
    _refused: list[PermissionRequest] = field(default_factory=list)

    def is_told(self, vendor_id: str) -> bool:
        """Return whether the vendor has reported an open call by this id."""
        return any(call.told_as == vendor_id for call in self.open.values())

    def id_of(self, vendor_id: str) -> str | None:
        """Return the open call that the vendor means, or None."""
        told = (one for one, call in self.open.items() if call.told_as == vendor_id)
        return next(told, None) or self._untold(vendor_id)

    def ask(self, request: PermissionRequest) -> None:
        """Note that a permission is asked for; its call may not run until it is given."""
        self._refused.append(request)

    def is_refused(self, call_id: str) -> bool:
        """Return whether an open call was asked about and not allowed."""
        call = self.open.get(call_id)
        if call is None or call.is_asked:
            return False
        return any(
            one.call_id == call.told_as or _are_alike(call.request, one) for one in self._refused
        )

    def find_asked(self, request: PermissionRequest) -> str | None:
        """Return the open call that a permission is given for, or None."""
        self._refused = [one for one in self._refused if one is not request]
        wanted = request.call_id
        call_id = None
        if wanted is not None:
            call_id = self._newest(
                lambda call: wanted == (call.asked_as if call.is_asked else call.told_as)
            )
        call_id = call_id or self._newest(
            lambda call: not call.is_asked and _are_alike(call.request, request)
        )
        if call_id is not None:
            self.open[call_id].is_asked, self.open[call_id].asked_as = True, wanted
        return call_id

    def find_told(self, vendor_id: str, told: PermissionRequest) -> str | None:
        """Return the allowed call that the vendor reports now, or None."""
        call_id = self._untold(vendor_id) or self._newest(
            lambda call: call.told_as is None and _are_alike(call.request, told)
        )
        if call_id is not None:
            self.open[call_id].told_as = vendor_id
        return call_id

    def end(self, call_id: str) -> _Call | None:
        """End a call and return it; a permission counted for one like it goes back to that."""
        call = self.open.pop(call_id, None)
        if call is None or call.is_asked or self._take_refusal(call, by_id=True):
            return call
        other = self._newest(lambda one: one.is_doubtful and _are_alike(one.request, call.request))
        if other is not None:
            self.open[other].is_asked, self.open[other].asked_as = False, None
        else:
            self._take_refusal(call, by_id=False)
        return call

    def _take_refusal(self, call: _Call, *, by_id: bool) -> bool:
        for one in reversed(self._refused):
            is_its = one.call_id == call.told_as if by_id else _are_alike(one, call.request)
            if is_its:
                self._refused.remove(one)
                return True
        return False

    def _untold(self, vendor_id: str) -> str | None:
        return self._newest(lambda call: call.told_as is None and call.asked_as == vendor_id)

    def _newest(self, is_meant: Callable[[_Call], bool]) -> str | None:
        return next((one for one, call in reversed(self.open.items()) if is_meant(call)), None)


class VendorCalls(Struct, eq=False):
    """Reports the calls of one turn to the ledger, the broker and the quiet moment."""

    _life: Life
    _fold: TurnFold
    _stuck: StuckWatch
    _parts: TurnParts
    _calls: AllowedCalls = field(default_factory=AllowedCalls)
    _plan: list[dict[str, str]] = field(default_factory=list)

    def asks(self, request: PermissionRequest) -> PermissionRequest:
        """Note a permission that is asked for; return it for `allowed`."""
        cwd = normpath(Path(self._life.record.descriptor.cwd, request.cwd))
        placed = replace(request, cwd=cwd)
        self._calls.ask(placed)
        return placed

    def settle(self) -> None:
        """End the calls of an ended turn that were asked about and not allowed."""
        for call in self._fold.open_calls():
            if self._calls.is_refused(call.id):
                ended = ToolCallFinished(call.id, "denied", error=NOT_ALLOWED)
                self._fold.end_call(ended)
                data = {"call": call.id, "status": "denied", "error": NOT_ALLOWED}
                self._parts.journal.note("tool_call_finished", self._life.record.agent_id, **data)

    async def allowed(self, request: PermissionRequest) -> None:
        """Begin an allowed call unless reported already; return once the ledger has it."""
        descriptor = self._life.record.descriptor
        call_id = self._calls.find_asked(request)
        if call_id is None:
            call_id = self._unused_id(request.call_id)
            self._calls.open[call_id] = _Call(request, is_asked=True, asked_as=request.call_id)
            self._fold.allow(call_id, request.tool, _with_folder(request, descriptor.cwd))
            await self._begin(call_id)
        if request.call_id not in {None, call_id}:  # the gate knows it by that, too
            quiet = self._parts.quiet
            quiet.ended(quiet.of(descriptor, request))
        await self._parts.steps.land(descriptor.agent_id)

    def known(self, event: CallEvent) -> CallEvent | None:
        """Return an event of a call under its ledger id; None if it contradicts earlier ones."""
        if not isinstance(event, ToolCallStarted):
            call_id = self._calls.id_of(event.call_id)
        elif self._calls.is_told(event.call_id):
            return None
        else:
            request = self._request(event)
            call_id = self._calls.find_told(event.call_id, request)
            if call_id is None:
                call_id = self._unused_id(event.call_id)
                self._calls.open[call_id] = _Call(request, told_as=event.call_id)
        if call_id is None or call_id == event.call_id:
            return None if call_id is None else event
        return replace(event, call_id=call_id)

    async def started(self, event: ToolCallStarted) -> None:
        """Note a call that has begun, unless it was allowed before."""
        if self._calls.open[event.call_id].since is None:
            await self._begin(event.call_id)

    async def _begin(self, call_id: str) -> None:
        begun, parts = self._calls.open[call_id], self._parts
        begun.since = parts.broker.mark()
        if await parts.broker.may_write(begun.request, parts.standing.context(self._life)):
            parts.quiet.began(parts.quiet.of(self._life.record.descriptor, begun.request, call_id))
        call = self._fold.calls[call_id]
        await parts.journal.fact(
            "tool_call_started",
            self._life.record.agent_id,
            call=call_id,
            tool=call.tool_name,
            arguments=dict(call.params),
            orchestration=False,
            response=self._fold.responses,
        )

    def _unused_id(self, wanted: str | None) -> str:
        if not wanted:
            return self._parts.new_id()
        return unused_id(wanted, self._fold.calls.__contains__)

    async def ended(self, event: ToolCallFinished) -> None:
        """Note the end of a call; the fold has it already."""
        ended, parts = self._calls.end(event.call_id), self._parts
        if (call := self._fold.calls.get(event.call_id)) is not None:
            self._stuck.ended(call, denied=event.status == "denied")
        if ended is not None and ended.since is not None:
            agent = self._life.record.descriptor
            parts.quiet.ended(parts.quiet.of(agent, ended.request, event.call_id))
            if not self._life.is_over:  # what comes after the agent's own end counts no more
                context = parts.standing.context(self._life)
                parts.broker.ended(ended.request, context, _outcome(event), ended.since)
        await parts.journal.fact(
            "tool_call_finished",
            self._life.record.agent_id,
            call=event.call_id,
            status=event.status,
            result=None if event.result is None else cut_result(event.result),
            error=event.error,
            duration_s=self._fold.call_seconds(event.call_id),
            exit_code=event.exit_code,
        )

    async def planned(self, event: PlanUpdated) -> None:
        """Publish the model's plan, cut, if it has changed."""
        plan = [
            {"text": entry.text[:ENTRY_LIMIT], "status": entry.status}
            for entry in event.entries[:PLAN_LIMIT]
        ]
        if (more := len(event.entries) - len(plan)) > 0:
            plan.append({"text": f"… {more} more", "status": "pending"})
        if plan != self._plan:
            self._plan = plan
            agent = self._life.record.agent_id
            await self._parts.journal.fact("plan_updated", agent, entries=plan)

    def _request(self, event: ToolCallStarted) -> PermissionRequest:
        descriptor, paths = self._life.record.descriptor, event.arguments.get("paths")
        return PermissionRequest(
            agent_id=descriptor.agent_id,
            tool=event.tool,
            arguments=event.arguments,
            cwd=_text(event.arguments, "cwd") or descriptor.cwd,
            command=_text(event.arguments, "command") if event.tool == "Bash" else None,
            paths=tuple(map(str, paths)) if isinstance(paths, (list, tuple)) else (),
        )


def _with_folder(request: PermissionRequest, cwd: str) -> dict[str, Any]:
    runs_elsewhere = request.command is not None and request.cwd != normpath(cwd)
    return {**({"cwd": request.cwd} if runs_elsewhere else {}), **request.arguments}


def _outcome(event: ToolCallFinished) -> Outcome | None:
    if event.status == "denied":
        return DENIED
    if event.result is None or not event.is_whole or event.result.endswith(CUT_MARK):
        return None
    succeeded = event.status == "completed"
    return outcome_of(succeeded=succeeded, texts=(event.result,), error=event.error)


def _text(arguments: Mapping[str, Any], name: str) -> str | None:
    value = arguments.get(name)
    return value if isinstance(value, str) else None


def _are_alike(one: PermissionRequest, other: PermissionRequest) -> bool:
    tools = {one.tool, other.tool}
    if len(tools) > 1 and not tools <= EDIT_TOOLS:
        return False
    if one.command is not None and other.command is not None:
        return one.command.strip() == other.command.strip()
    if one.command is not None or other.command is not None:
        return False
    paths, others = set(_asked_paths(one)), set(_asked_paths(other))
    if paths and others:
        return not paths.isdisjoint(others)
    return dict(one.arguments) == dict(other.arguments)


def _asked_paths(request: PermissionRequest) -> Iterator[str]:
    told = [request.arguments.get(key) for key in _PATH_KEYS]
    for value in (request.paths, *told):
        for path in [value] if isinstance(value, str) else value or ():
            if isinstance(path, str):
                yield normpath(Path(request.cwd, path))
