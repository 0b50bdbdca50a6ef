"""What each field of an event holds, where it is told: a copy may be anybody's.

Fields of one name hold the same in each event, but for those in `_OTHERS`. Any of them may be
lacking; which ones an event must have is told apart.
"""

from __future__ import annotations

from functools import cache
from types import GenericAlias
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from prsm_core.domain.events import EVENT_FIELDS
from prsm_core.domain.record import Record
from prsm_core.domain.structs import find_fault
from prsm_core.domain.usage import Spent

if TYPE_CHECKING:
    from collections.abc import Mapping

LAST_SECOND = 253_402_214_400  # the last day that a calendar has
_LARGEST = 2**63 - 1  # what a column of the ledger holds
_Texts = list[str]
_Flag = bool | int  # as SQLite has them, too
_Whole = Annotated[int, Meta(ge=-_LARGEST, le=_LARGEST)]
_Number = Annotated[float, Meta(gt=-_LARGEST, lt=_LARGEST)]
_Time = Annotated[float, Meta(ge=0, lt=LAST_SECOND)]
_Counts = dict[str, _Whole | None]


def _object(**kinds: Any) -> Any:
    """Return what takes objects whose values of these names are of their kinds, or null."""
    return msgspec.defstruct("Told", [(name, kind | None, None) for name, kind in kinds.items()])


def _objects(**kinds: Any) -> Any:
    return GenericAlias(list, _object(**kinds))


_Files = _objects(path=str, why=str)
_Error = _object(kind=str, message=str)


class _Edit(Record, frozen=True):
    added: _Whole
    removed: _Whole | None = None
    lines: _Texts | None = None
    more: _Whole | None = None


_KINDS: Mapping[str, Any] = {
    **dict.fromkeys(("act", "action", "branch", "by", "call", "change", "check"), str),
    "command": str,
    **dict.fromkeys(("commit", "continues", "correlation_id", "cwd", "description"), str),
    **dict.fromkeys(
        ("error", "evidence", "folder", "from", "gate", "head", "how", "id", "kind"), str
    ),
    **dict.fromkeys(("level", "mid", "mode", "model", "name", "origin", "parent", "path"), str),
    **dict.fromkeys(
        ("plugin", "problem", "prompt", "provider", "question", "reason", "request"), str
    ),
    **dict.fromkeys(("reasoning_effort", "result", "role", "scope", "sink", "snapshot"), str),
    **dict.fromkeys(("status", "stop_reason", "summary", "task", "text", "thinking", "to"), str),
    **dict.fromkeys(("tool", "tree", "trigger", "turn", "verdict", "via", "victim"), str),
    **dict.fromkeys(("waiting_on", "why", "workspace", "worktree"), str),
    **dict.fromkeys(("evidence_by", "evidence_gaps", "files", "options", "parts"), _Texts),
    **dict.fromkeys(("agents", "beside", "calls", "paths", "region", "unquiet"), _Texts),
    **dict.fromkeys(("added", "at", "attempt", "bytes_skipped", "count", "depth"), _Whole),
    **dict.fromkeys(("epoch", "exit_code", "incarnation", "kept", "message", "n"), _Whole),
    **dict.fromkeys(("removed", "response", "tokens", "tokens_after", "tokens_before"), _Whole),
    **dict.fromkeys(("tries_left", "window"), _Whole),
    **dict.fromkeys(("cost_usd", "delay_s", "duration_s", "limit", "pauses_s"), _Number),
    **dict.fromkeys(("percent", "reserved", "used"), _Number),
    **dict.fromkeys(("again", "multiple", "once", "orchestration", "required", "whole"), _Flag),
    **dict.fromkeys(("conflicts", "left_out", "outside"), _Files),
    **dict.fromkeys(("context", "unknown_turns", "usage"), _Counts),
    **dict.fromkeys(("arguments", "data"), dict[str, Any]),
    **dict.fromkeys(("expires_at", "until"), _Time),
    **dict.fromkeys(("labels", "provenance"), dict[str, str]),
    "rules": dict[str, list[str | _Texts]],
    "waits": _objects(agent=str, name=str, on=str, targets=_Texts),
    "answer": _object(choices=_Texts, text=str),
    "changes": _objects(change=str, path=str, state=str, why=str),
    "entries": _objects(text=str, status=str),
    "problems": _objects(kind=str, agent=str, text=str),
}
_OTHERS: Mapping[tuple[str, str], Any] = {
    ("turn_finished", "error"): _Error,
    **dict.fromkeys((("retry_scheduled", "error"), ("compaction_finished", "error")), str | _Error),
    ("permission_requested", "change"): _Edit,
    ("budget_warned", "provenance"): str,
    ("budget_exceeded", "provenance"): str,
}
_SPENT = frozenset({"run_finished", "turn_finished"})  # what tells what was used


@cache
def told(event: str) -> type[msgspec.Struct]:
    """Return the struct of what an event of this type holds."""
    kinds = {name: _OTHERS.get((event, name), _KINDS[name]) for name in EVENT_FIELDS[event]}
    shape = [(name, kind | None, None) for name, kind in kinds.items()]
    return msgspec.defstruct(event, shape, frozen=True, forbid_unknown_fields=True)


def find_odd(event: str, data: Mapping[str, Any]) -> str | None:
    """Return what of an event is something else than whoever reads it takes, and why."""
    fault = find_fault(told(event), data)
    if fault is not None:
        return ": ".join(filter(None, fault))
    if event in _SPENT:
        try:
            Spent.from_dict({**(data.get("usage") or {}), **data})
        except ValueError as error:  # nobody knows where a number is from
            return f"provenance: {error}"
    return None
