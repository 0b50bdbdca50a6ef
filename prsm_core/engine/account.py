"""What the events of a run say against its result, and the exit code that follows.

The engine hears each event as it is committed, and those of earlier engines when a run is resumed.
So a run answers alike for what happened before and after a crash.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from prsm_core.domain.account import COMPLETED, REFUSED, UNFINISHED, Problem
from prsm_core.domain.permissions import ALLOWING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from prsm_core.domain.events import Event

UNATTENDED = frozenset({"headless", "unattended"})  # by whom a request ends that nobody could see
_IN_PLACE = frozenset({"merged", "nothing"})  # of a worktree: nothing of it is left to merge
_MOST = 50  # problems that are told


class Account(Struct):
    """Knows what one run has to answer for."""

    refused: dict[str, Problem] = field(default_factory=dict)  # for lack of a person, by request
    was_allowed: bool = False  # some request was
    has_changed: bool = False  # an agent changed a file
    _asked: dict[str, tuple[str | None, str]] = field(default_factory=dict)
    _gates: dict[tuple[str, str], Problem] = field(default_factory=dict)  # red, by name and folder
    _advice: dict[tuple[str, str], Problem] = field(default_factory=dict)  # … not required
    _apart: dict[str | None, Problem] = field(default_factory=dict)
    _failed: dict[str | None, Problem] = field(default_factory=dict)
    _gaps: dict[str | None, tuple[Problem, ...]] = field(default_factory=dict)

    def hear(self, events: Iterable[Event]) -> None:
        """Take committed events."""
        for event in events:
            take = _TAKES.get(event.type)
            if take is not None:
                take(self, event, event.data)

    @property
    def is_unfinished(self) -> bool:
        """Whether a required gate is red, or work is not merged."""
        return bool(self._gates or self._apart)

    @property
    def could_do_nothing(self) -> bool:
        """Whether requests were refused for lack of a person, none allowed, and no file changed.

        A question that nobody answered refuses nothing.
        """
        is_refused = any(one.kind == "refused" for one in self.refused.values())
        return is_refused and not (self.was_allowed or self.has_changed)

    def code_of_completed(self) -> int:
        """Return the exit code of a run that has completed."""
        if self.is_unfinished:
            return UNFINISHED
        return REFUSED if self.could_do_nothing else COMPLETED

    def problems(self) -> tuple[Problem, ...]:
        """Return what speaks against the result, the gravest first."""
        gaps = (gap for gaps in self._gaps.values() for gap in gaps)
        known = (self._gates, self._apart, self._failed)
        all_ = (*(one for some in known for one in some.values()), *gaps)
        return (*all_, *self._advice.values(), *self.refused.values())[:_MOST]

    def _gate(self, event: Event, data: Mapping[str, Any]) -> None:
        place = (data["gate"], data["folder"])
        for known in (self._gates, self._advice):
            cleared = [
                key for key in known if key == place or (data["whole"] and key[0] == place[0])
            ]
            if data["problem"] is None:
                for key in cleared:
                    del known[key]
        if data["problem"] is not None:
            text = f"gate {data['gate']} {data['problem']}"
            kind = "gate" if data["required"] else "advice"
            red = self._gates if data["required"] else self._advice
            red[place] = Problem(kind=kind, agent=event.agent, text=text)

    def _merged(self, event: Event, data: Mapping[str, Any]) -> None:
        self._apart.pop(event.agent, None)
        self.has_changed = self.has_changed or bool(data.get("files"))
        if data["result"] not in _IN_PLACE:
            text = f"{data['result']}: {data.get('branch') or data.get('worktree')}"
            self._apart[event.agent] = Problem(kind="unmerged", agent=event.agent, text=text)

    def _moved(self, event: Event, data: Mapping[str, Any]) -> None:
        self._failed.pop(event.agent, None)
        self._gaps.pop(event.agent, None)
        if data["to"] == "failed":
            text = data.get("reason") or ""
            self._failed[event.agent] = Problem(kind="failed", agent=event.agent, text=text)
        elif data["to"] == "completed":
            gaps = [gap for gap in data.get("evidence_gaps") or () if not gap.startswith("gate ")]
            self._gaps[event.agent] = tuple(
                Problem(kind="unconfirmed", agent=event.agent, text=gap) for gap in gaps
            )

    def _changed(self, _: Event, data: Mapping[str, Any]) -> None:
        self.has_changed = self.has_changed or bool(data.get("agents"))

    def _requested(self, event: Event, data: Mapping[str, Any]) -> None:
        what = data.get("command") or ", ".join(data.get("paths") or ())
        text = data.get("question") or f"{data.get('tool')}: {what or data.get('reason') or ''}"
        self._asked[data["request"]] = event.agent, text

    def _resolved(self, event: Event, data: Mapping[str, Any]) -> None:
        request = data["request"]
        agent, text = self._asked.pop(request, (event.agent, "a request"))
        if data.get("by") in UNATTENDED:
            kind = "refused" if event.type == "permission_resolved" else "unanswered"
            self.refused[request] = Problem(kind=kind, agent=agent, text=text)
        elif data.get("verdict") in ALLOWING:
            self.was_allowed = True


_TAKES = {
    "gate_finished": Account._gate,
    "worktree_merged": Account._merged,
    "agent_state_changed": Account._moved,
    "file_changed": Account._changed,
    "permission_requested": Account._requested,
    "question_asked": Account._requested,
    "permission_resolved": Account._resolved,
    "question_answered": Account._resolved,
}
