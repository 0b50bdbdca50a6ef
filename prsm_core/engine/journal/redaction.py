"""Remove secrets from writes before the ledger gets them.

In memory, what an agent said stays as it is for its model and the program it told to run. Whatever
is written passes here once, before rows and events are made of it. Most of it holds no secret: all
its text is searched in one go, and single fields only after a hit.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from inspect import get_annotations
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from prsm_core.domain.agents import AgentDescriptor, AgentResult
from prsm_core.domain.changes import Decision, FileChange
from prsm_core.domain.messages import RoutedMessage
from prsm_core.domain.notes import Ending, Notes
from prsm_core.domain.record import Record
from prsm_core.domain.sessions import SessionSnapshot
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
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from prsm_core.permissions import Redactor

    Collect = Callable[[Any, set[str], list[str], list[Any]], None]

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
# An id of the record that what was written tells again, as the result of an agent does whose it is.
# It stands beside it as it is, so that there is nothing to hide.
_TOLD_AGAIN: Mapping[type, str] = {RoutedMessage: "source"}
# An id that its reader tells again, as whoever answers a question: it is looked at with the rest of
# its step, for less than by itself when it comes back.
_COMES_BACK: Mapping[type, tuple[str, ...]] = {RoutedMessage: ("correlation_id",)}
# Fields of an event that stands for itself which hold ids that the engine made, in each event.
_IDS = frozenset({"turn", "id"})
_RECORDS = {record.__name__: record for record in WRITTEN}


def without_secrets(writes: Sequence[W], redactor: Redactor) -> tuple[W, ...]:
    """Return writes with all texts redacted; writes without a secret are returned as they are."""
    if not may_hold_secret(writes, redactor):
        return tuple(writes)  # the very tuple, if it is one
    return tuple([_clean_write(write, redactor.value) for write in writes])


def may_hold_secret(writes: Sequence[Write], redactor: Redactor) -> bool:
    """Return whether any text may have to be redacted; "no" is certain."""
    try:
        texts: list[str] = []
        rest: list[Any] = []
        clean = redactor.clean
        for write in writes:
            _COLLECT[type(write)](write, clean, texts, rest)
        if rest:
            _search(rest, clean, texts)
        return bool(texts) and redactor.finds(texts)
    except Exception as error:  # noqa: BLE001 - field by field it is told which one it was
        _log.warning("what is written could not be searched for secrets", exc_info=error)
        return True


def _search(values: list[Any], clean: set[str], texts: list[str]) -> None:
    """Add every text in nested JSON values that is not known to be clean."""
    for value in values:  # it grows on the way
        if not value:
            continue
        kind: Any = type(value)
        if kind is str:
            if value not in clean:
                texts.append(value)
            continue
        if kind is dict:
            if not clean.issuperset(value):  # its keys
                values += value
            values += value.values()
        elif kind is tuple or kind is list:
            values += value
        elif kind not in _TEXTLESS:
            values += _held(value, clean)
        if len(values) > _MOST:
            raise ValueError("it holds too much, or itself")


def _held(value: Any, clean: set[str]) -> Iterable[Any]:
    if type(value) in WRITTEN:
        texts: list[str] = []
        rest: list[Any] = []
        _COLLECT[type(value)](value, clean, texts, rest)
        return (*texts, *rest)
    if isinstance(value, str):
        return (str.__str__(value),)
    if isinstance(value, Mapping):
        return (*value, *value.values())
    if isinstance(value, list | tuple):
        return value
    if isinstance(value, Record):
        raise TypeError(f"nobody has said which fields of a {type(value).__name__} hold text")
    return ()


class _Collectors(dict[type, "Collect"]):
    """The collectors of values to search, by kind of write or record.

    They skip texts known to be clean. Each is compiled with the first of its kind, as dataclasses
    compile their methods, since every step comes by here.
    """

    def __missing__(self, kind: type) -> Collect:
        made: dict[str, Any] = {**_RECORDS}
        lines = ["def collect(one, clean, texts, rest):", *_lines(kind, "one"), "return"]
        exec("\n ".join(lines), made)  # noqa: S102 - the names are those of our fields
        collect: Collect = made["collect"]
        self[kind] = collect
        return collect


_ANY = (
    "if type(held) is str:",
    " if held not in clean: texts.append(held)",
    "elif held: rest.append(held)",
)
_JSON = (
    "if type(held) is dict:",
    " if not clean.issuperset(held): rest += held",
    " for held in held.values():",
    *(f"  {line}" for line in _ANY),
    "elif held: rest.append(held)",
)
_CLEAN = "held not in clean"


def _lines(kind: type, place: str) -> Iterator[str]:
    """Yield the code that looks at the fields that somebody wrote.

    A field that always holds a record is looked into. Only a real `str` can be known to be clean: a
    value of another type may equal what it is not.
    """
    hints = {name: hint for base in kind.__mro__ for name, hint in get_annotations(base).items()}
    told = _TOLD_AGAIN.get(kind)
    clean = _CLEAN if told is None else f"{_CLEAN} and held != {place}.{told}"
    texts = kind.texts if issubclass(kind, Write) else WRITTEN[kind]
    for name in (*texts, *_COMES_BACK.get(kind, ())):
        hint = hints[name]
        if hint in _RECORDS:
            yield f"{name} = {place}.{name}"
            yield from _lines(_RECORDS[hint], name)
            continue
        yield f"held = {place}.{name}"
        record = _RECORDS.get(hint.removeprefix("tuple[").removesuffix(", ...]"))
        if record is not None:
            yield from _each(record, f"{name}_one")
        else:
            lines = _JSON if hint.startswith("Mapping") else _ANY
            yield from (line.replace(_CLEAN, clean) for line in lines)


def _each(record: type, one: str) -> Iterator[str]:
    yield "if type(held) is tuple:"
    yield f" for {one} in held:"
    yield f"  if type({one}) is {record.__name__}:"
    yield from (f"   {line}" for line in _lines(record, one))
    yield f"  else: rest.append({one})"
    yield "elif held: rest.append(held)"


def _told(write: Told, clean: set[str], texts: list[str], rest: list[Any]) -> None:
    for name, held in write.data.items():
        if type(held) is str:
            if held not in clean and name not in _IDS:
                texts.append(held)
        elif held and name not in _IDS:
            rest.append(held)


_COLLECT = _Collectors({Told: _told})


def _clean_write(write: W, redact: Callable[[Any], Any]) -> W:
    if isinstance(write, Told):
        return replace(write, data={name: _kept(one, redact) for name, one in write.data.items()})
    clean: W = _clean_record(write, write.texts, redact)
    return clean


def _kept(value: Any, redact: Callable[[Any], Any]) -> Any:
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
    if isinstance(value, Record):
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
