"""What each field of an event holds, where it is told: a copy may be anybody's.

Fields of one name hold the same in each event, but for those in `_OTHERS`. Any of them may be
lacking; which ones an event must have is told apart.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from prsm_core.domain.events import EVENT_FIELDS, LIVE_TYPES
from prsm_core.domain.usage import Spent

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Kind = Callable[[Any], bool]

_LARGEST = 2**63  # below it: what a column of the ledger holds
LAST_SECOND = 253_402_214_400  # the last day that a calendar has


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _flag(value: Any) -> bool:
    return isinstance(value, int)  # as SQLite has them, too


def _whole(value: Any) -> bool:
    return isinstance(value, int) and -_LARGEST <= value < _LARGEST


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and abs(value) < _LARGEST


def _time(value: Any) -> bool:
    return isinstance(value, int | float) and 0 <= value < LAST_SECOND


def _object(value: Any) -> bool:
    return isinstance(value, dict)


def _list_of(kind: Kind) -> Kind:
    return lambda value: isinstance(value, list) and all(map(kind, value))


def _object_of(kind: Kind, *, maybe: bool = False) -> Kind:
    """Return what takes objects whose values are of a kind, or perhaps None."""

    def fits(value: Any) -> bool:
        return _object(value) and all(
            (maybe and one is None) or kind(one) for one in value.values()
        )

    return fits


def _object_with(**kinds: Kind) -> Kind:
    """Return what takes objects whose values of these names are of their kinds, or None."""

    def fits(value: Any) -> bool:
        return _object(value) and all(
            value.get(name) is None or kind(value[name]) for name, kind in kinds.items()
        )

    return fits


_TEXTS = _list_of(_text)
_COUNTS = _object_of(_whole, maybe=True)
_FILES = _list_of(_object_with(path=_text, why=_text))
_KINDS: Mapping[str, Kind] = {
    **dict.fromkeys(("act", "action", "branch", "by", "call", "change", "check"), _text),
    "command": _text,
    **dict.fromkeys(("commit", "continues", "correlation_id", "cwd", "description"), _text),
    **dict.fromkeys(
        ("error", "evidence", "folder", "from", "gate", "head", "how", "id", "kind"), _text
    ),
    **dict.fromkeys(("level", "mid", "mode", "model", "name", "origin", "parent", "path"), _text),
    **dict.fromkeys(
        ("plugin", "problem", "prompt", "provider", "question", "reason", "request"), _text
    ),
    **dict.fromkeys(("reasoning_effort", "result", "role", "scope", "sink", "snapshot"), _text),
    **dict.fromkeys(("status", "stop_reason", "summary", "task", "text", "thinking", "to"), _text),
    **dict.fromkeys(("tool", "tree", "trigger", "turn", "verdict", "via", "victim"), _text),
    **dict.fromkeys(("waiting_on", "why", "workspace", "worktree"), _text),
    **dict.fromkeys(("evidence_by", "evidence_gaps", "files", "options", "parts"), _TEXTS),
    **dict.fromkeys(("agents", "beside", "calls", "paths", "region", "unquiet"), _TEXTS),
    **dict.fromkeys(("added", "at", "attempt", "bytes_skipped", "count", "depth"), _whole),
    **dict.fromkeys(("epoch", "exit_code", "incarnation", "kept", "message", "n"), _whole),
    **dict.fromkeys(("removed", "response", "tokens", "tokens_after", "tokens_before"), _whole),
    **dict.fromkeys(("tries_left", "window"), _whole),
    **dict.fromkeys(("cost_usd", "delay_s", "duration_s", "limit", "pauses_s"), _number),
    **dict.fromkeys(("percent", "reserved", "used"), _number),
    **dict.fromkeys(("again", "multiple", "once", "orchestration", "required", "whole"), _flag),
    **dict.fromkeys(("conflicts", "left_out", "outside"), _FILES),
    **dict.fromkeys(("context", "unknown_turns", "usage"), _COUNTS),
    **dict.fromkeys(("arguments", "data"), _object),
    **dict.fromkeys(("expires_at", "until"), _time),
    "labels": _object_of(_text),
    "provenance": _object_of(_text),
    "rules": _object_of(_list_of(lambda rule: _text(rule) or _TEXTS(rule))),
    "waits": _list_of(_object_with(agent=_text, name=_text, on=_text, targets=_TEXTS)),
    "answer": _object_with(choices=_TEXTS, text=_text),
    "changes": _list_of(_object_with(change=_text, path=_text, state=_text, why=_text)),
    "entries": _list_of(_object_with(text=_text, status=_text)),
    "problems": _list_of(_object_with(kind=_text, agent=_text, text=_text)),
}
_EDIT = _object_with(added=_whole, removed=_whole, lines=_TEXTS, more=_whole)
_ERROR = _object_with(kind=_text, message=_text)
_OTHERS: Mapping[tuple[str, str], Kind] = {
    ("turn_finished", "error"): _ERROR,
    **dict.fromkeys(
        (("retry_scheduled", "error"), ("compaction_finished", "error")),
        lambda told: _text(told) or _ERROR(told),
    ),
    ("permission_requested", "change"): lambda told: _EDIT(told) and told.get("added") is not None,
    ("budget_warned", "provenance"): _text,
    ("budget_exceeded", "provenance"): _text,
}
_SPENT = frozenset({"run_finished", "turn_finished"})  # what tells what was used
KINDS: Mapping[str, Mapping[str, Kind]] = {
    event: {name: _OTHERS.get((event, name), _KINDS[name]) for name in names}
    for event, names in EVENT_FIELDS.items()
    if event not in LIVE_TYPES
}


def odd_values(event: str, data: Mapping[str, Any]) -> list[str]:
    """Return the fields of an event that hold something else than whoever reads it takes."""
    kinds = KINDS[event]
    odd = [
        name
        for name, value in data.items()
        if name not in kinds or (value is not None and not kinds[name](value))
    ]
    if not odd and event in _SPENT:
        try:
            Spent.from_dict({**(data.get("usage") or {}), **data})
        except ValueError:  # nobody knows where a number is from
            odd.append("provenance")
    return odd
