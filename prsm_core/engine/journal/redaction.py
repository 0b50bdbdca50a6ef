"""Redaction: writes without the secrets in their texts, as the ledger gets them.

What an agent said stays as it is in memory, for the one model that owns it and for the program it
told to run; whatever is written down passes here, once, before rows and events are made of it.
Most of it holds no secret: all its text is looked at in one go, and its fields only if that tells
of something.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import is_dataclass
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from prsm_core.domain.agents import AgentDescriptor, AgentResult
from prsm_core.domain.changes import Decision, FileChange
from prsm_core.domain.messages import RoutedMessage
from prsm_core.domain.notes import Ending, Notes
from prsm_core.domain.snapshots import SessionSnapshot
from prsm_core.domain.steps import HumanRequest, Write
from prsm_core.domain.tools import McpServer
from prsm_core.domain.turns import (
    AgentError,
    AgentMessage,
    AgentToolCall,
    CompactionResult,
    TurnResult,
)
from prsm_core.domain.writes import Told
from prsm_core.engine.guarded.failing import keepable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from prsm_core.permissions import Redactor

W = TypeVar("W", bound=Write)
_log = logging.getLogger("prsm.engine")

_TEXTLESS = frozenset({type(None), bool, int, float})
_MOST = 1_000_000  # values of one step

# The fields that hold what somebody wrote; all others are ids, names, numbers and states.
WRITTEN: Mapping[type, tuple[str, ...]] = {
    AgentDescriptor: (*("prompt", "system_prompt", "mcp_servers", "provider", "model", "labels"),),
    AgentError: ("message",),
    AgentMessage: ("content", "thinking"),
    AgentResult: ("summary", "artifacts", "error", "evidence_gaps", "evidence_by"),
    AgentToolCall: ("tool_name", "params", "result", "error"),
    Ending: ("reason", "kind"),
    Notes: ("progress", "ending"),
    CompactionResult: ("summary",),
    Decision: ("path", "why"),
    FileChange: ("path", "root", "folder", "note"),
    HumanRequest: ("payload",),
    McpServer: ("args", "env", "url", "headers"),
    RoutedMessage: ("payload",),
    SessionSnapshot: ("description", "branch", "unquiet"),
    TurnResult: ("messages", "tool_calls", "error", "compaction", "permissions_used"),
}


def without_secrets(writes: Sequence[W], redactor: Redactor) -> tuple[W, ...]:
    """Return writes with every text in them redacted; those without a secret as they are."""
    if not may_hold_secret(writes, redactor):
        return tuple(writes)  # the very tuple, if it is one
    return tuple([_clean_write(write, redactor.value) for write in writes])


def may_hold_secret(writes: Sequence[Write], redactor: Redactor) -> bool:
    """Return whether any text of the writes may have to be redacted: never wrong about "no".

    What cannot be looked at may hold anything.
    """
    try:
        texts = _texts(writes, redactor.clean)
        return bool(texts) and redactor.finds(texts)
    except Exception as error:  # noqa: BLE001 - field by field it is told which one it was
        _log.warning("what is written could not be searched for secrets", exc_info=error)
        return True


def _texts(writes: Sequence[Write], clean: set[str]) -> list[str]:
    """Return every text in writes, however deep it is, but for those that are known to be clean.

    Every value of every step comes by: those that JSON is made of are told by their type, and what
    they hold is looked at in its turn, unless it is empty.
    """
    texts: list[str] = []
    given = [_FIELDS[type(write)](write) for write in writes if write.texts]
    values = [*chain.from_iterable(given)]
    for value in values:  # it grows on the way
        kind: Any = type(value)
        if kind is str:
            if value not in clean:
                texts.append(value)
            continue
        if kind in _TEXTLESS:
            continue
        if kind is dict:
            if not clean.issuperset(value):  # its keys
                values += value
            values += filter(None, value.values())
        elif kind is tuple or kind is list:
            values += filter(None, value)
        elif kind in WRITTEN:
            values += filter(None, _FIELDS[kind](value))
        else:
            values += _looked_at(value)
        if len(values) > _MOST:
            raise ValueError("it holds too much, or itself")
    return texts


def _looked_at(value: Any) -> Iterable[Any]:
    """Return what a value holds that is of no kind that JSON is made of."""
    if isinstance(value, str):
        return (str.__str__(value),)
    if isinstance(value, Mapping):
        return (*value, *value.values())
    if isinstance(value, list | tuple):
        return value
    if is_dataclass(value):
        raise TypeError(f"nobody has said which fields of a {type(value).__name__} hold text")
    return ()


class _Fields(dict[Any, "Callable[[Any], tuple[Any, ...]]"]):
    """What gets the fields of a write or a record that hold what somebody wrote, by its kind."""

    def __missing__(self, kind: type) -> Callable[[Any], tuple[Any, ...]]:
        names = kind.texts if issubclass(kind, Write) else WRITTEN[kind]
        get = attrgetter(*names)  # of one field it returns what that holds
        self[kind] = get if len(names) > 1 else lambda one: (get(one),)
        return self[kind]


_FIELDS = _Fields()


def _clean_write(write: W, redact: Callable[[Any], Any]) -> W:
    if isinstance(write, Told):
        return replace(write, data={name: _kept(one, redact) for name, one in write.data.items()})
    clean: W = _clean_record(write, write.texts, redact)
    return clean


def _kept(value: Any, redact: Callable[[Any], Any]) -> Any:
    """Return a value without its secrets; one out of which they cannot be taken is not kept."""
    try:
        return redact(value)
    except Exception as error:  # noqa: BLE001 - whatever it is, the event tells what it lacks
        _log.warning("a field of an event was left out", exc_info=error)
        return keepable(value, redact)


def _clean(value: Any, redact: Callable[[Any], Any]) -> Any:
    if not value or isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {redact(key): _clean(item, redact) for key, item in value.items()}
    if isinstance(value, list | tuple):
        items = [_clean(item, redact) for item in value]
        return items if isinstance(value, list) else tuple(items)
    if is_dataclass(value) and not isinstance(value, type):
        return _clean_record(value, WRITTEN[type(value)], redact)
    return value


def _clean_record(record: Any, names: Sequence[str], redact: Callable[[Any], Any]) -> Any:
    changed = {}
    for name in names:
        value = getattr(record, name)
        if value:
            clean = _clean(value, redact)
            if clean != value:
                changed[name] = clean
    return replace(record, **changed) if changed else record
