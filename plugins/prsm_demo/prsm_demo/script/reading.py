"""Reads the steps of a scenario; a mistake is told with its place and the nearest word."""

from __future__ import annotations

import difflib
from functools import partial
from typing import TYPE_CHECKING, Any

from prsm_core import ConfigError, ErrorKind
from prsm_demo.script.steps import FOREVER, Call, Failure, HttpError, Step, StreamError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    Convert = Callable[[str, Any], Any]

DEFAULT_USAGE = {
    "input_tokens": 100,
    "cached_input_tokens": 0,
    "output_tokens": 10,
    "reasoning_tokens": 0,
}
_CALL_KEYS = ("call", "shell", "patch", "edit", "ask_user")
_SHARED = frozenset({"say", "think", "call", "shell", "error", "hang", "usage", "expect", "delay"})
MODEL_KEYS = _SHARED | {"patch", "stream_error", "incomplete", "cut"}
SCRIPT_KEYS = _SHARED | {"edit", "ask_user", "fail", "crash", "on_denied", "on_error"}


def check_keys(data: object, known: Iterable[str], where: str) -> None:
    """Raise ConfigError unless `data` is a mapping that holds known keys only."""
    if not isinstance(data, dict):
        raise ConfigError(f"{where}: a mapping is needed, not {data!r}")
    names = tuple(known)
    for key in data:
        _check_word(str(key), names, f"{where}: unknown key {key!r}")


def required(data: Mapping[str, Any], key: str, where: str) -> str:
    """Return a text that must be there and say something; raise ConfigError else."""
    value = data.get(key)
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{where}: `{key}` is missing")
    return value


def read_step(where: str, data: Mapping[str, Any], keys: Collection[str]) -> Step:
    """Return the step that `data` describes by some of `keys`; raise ConfigError for others."""
    check_keys(data, keys, where)
    values = {key: _CONVERT[key](where, value) for key, value in data.items()}
    calls = [call for key in _CALL_KEYS for call in values.pop(key, ())]
    return Step(calls=tuple(calls), **values)


def _check_word(word: str, known: Iterable[str], problem: str) -> None:
    names = sorted(known)
    if word not in names:
        near = difflib.get_close_matches(word, names, n=1)
        hint = f"Did you mean `{near[0]}`?" if near else f"Known: {', '.join(names)}."
        raise ConfigError(problem, hint=hint)


def listed(value: Any) -> list[Any]:
    """Return a list as it is, anything else as the only item of one."""
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _text(where: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"{where}: {value!r} is no text", hint="put it in quotes")
    return value


def _texts(where: str, value: Any) -> tuple[str, ...]:
    return tuple(_text(where, item) for item in listed(value))


def _flag(where: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"{where}: {value!r} is neither true nor false")
    return value


def _count(where: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ConfigError(f"{where}: {value!r} is no number from 0 on")
    return value


def _seconds(where: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
        raise ConfigError(f"{where}: {value!r} is no number of seconds")
    return float(value)


def _hang(where: str, value: Any) -> float:
    return FOREVER if value is True else _seconds(where, value)


def _times(where: str, value: Any) -> float:
    return FOREVER if value == "always" else _count(where, value)


def _kind(where: str, value: Any) -> ErrorKind:
    _check_word(str(value), ErrorKind, f"{where}: unknown kind {value!r}")
    return ErrorKind(value)


def _reaction(where: str, value: Any) -> str:
    _check_word(str(value), ("continue", "fail"), f"{where}: {value!r} is no reaction")
    return str(value)


def _arguments(where: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{where}: a mapping is needed, not {value!r}")
    return value


def _fields(where: str, value: Any, known: Mapping[str, Convert]) -> dict[str, Any]:
    """Return the fields of a mapping, each read by its own converter."""
    check_keys(value, known, where)
    return {key: known[key](f"{where} {key}", field) for key, field in value.items()}


_NATIVE: Mapping[str, Mapping[str, Convert]] = {  # the first argument may be given alone
    "shell": {"cmd": _text},
    "patch": {"patch": _text},
    "edit": {"path": _text, "old": _text, "new": _text, "content": _text},
    "ask_user": {"question": _text, "options": _texts, "multiple": _flag},
}
_TOOL: Mapping[str, Convert] = {
    "tool": _text,
    "arguments": _arguments,
    "id": _text,
    "namespace": _text,
}


def _tool_calls(where: str, value: Any) -> list[Call]:
    calls = [_fields(f"{where} call", given, _TOOL) for given in listed(value)]
    for call in calls:
        required(call, "tool", f"{where} call")
    return [Call(**call) for call in calls]


def _native_calls(kind: str, where: str, value: Any) -> list[Call]:
    known, place = _NATIVE[kind], f"{where} {kind}"
    argument = next(iter(known))
    calls = []
    for given in listed(value):
        data = dict(given) if isinstance(given, dict) else {argument: given}
        required(data, argument, place)
        data = _fields(place, data, {**known, "id": _text})
        call_id = data.pop("id", None)
        calls.append(Call(kind=kind, arguments=data, id=call_id))
    return calls


def _edits(where: str, value: Any) -> list[Call]:
    calls = _native_calls("edit", where, value)
    for call in calls:
        if call.arguments.keys() - {"path"} not in ({"content"}, {"old", "new"}):
            raise ConfigError(f"{where} edit: either `content` or `old` and `new` are needed")
    return calls


_ERROR: Mapping[str, Convert] = {
    "status": _count,
    "code": _text,
    "message": _text,
    "times": _times,
    "retry_after": _seconds,
}
_FAILURE: Mapping[str, Convert] = {
    "message": _text,
    "kind": _kind,
    "retryable": _flag,
    "retry_after_s": _seconds,
    "times": _times,
}


def _failure(where: str, value: Any) -> Failure:
    data = value if isinstance(value, dict) else {"message": value}
    return Failure(**_fields(f"{where} fail", data, _FAILURE))


def _usage(where: str, value: Any) -> dict[str, int]:
    given = _fields(f"{where} usage", value, dict.fromkeys(DEFAULT_USAGE, _count))
    return {**DEFAULT_USAGE, **given}


_CONVERT: Mapping[str, Convert] = {
    "say": _text,
    "think": _text,
    "call": _tool_calls,
    "shell": partial(_native_calls, "shell"),
    "patch": partial(_native_calls, "patch"),
    "edit": _edits,
    "ask_user": partial(_native_calls, "ask_user"),
    "error": lambda where, value: HttpError(**_fields(f"{where} error", value, _ERROR)),
    "fail": _failure,
    "stream_error": lambda where, value: StreamError(
        **_fields(f"{where} stream_error", value, {"code": _text, "message": _text})
    ),
    "incomplete": lambda where, value: (
        "max_output_tokens" if value is True else _text(where, value)
    ),
    "cut": _flag,
    "crash": _text,
    "hang": _hang,
    "delay": _seconds,
    "usage": _usage,
    "expect": _texts,
    "on_denied": _reaction,
    "on_error": _reaction,
}
