"""Refuses arguments of a wrong kind at the doors that anybody may call: handles and hubs.

A door's methods say by their annotations what they take, and that is looked at before anything of
them is done. So what is odd is one error with a cure, and not whatever it would come to further in.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import wraps
from inspect import CO_VARKEYWORDS, iscoroutinefunction, unwrap
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from prsm_core.domain.agents import PermissionMode
from prsm_core.domain.permissions import Answer
from prsm_core.domain.tools import McpServer
from prsm_core.errors import ConfigError
from prsm_core.interfaces.runs import RunOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    Kind = tuple[str, Callable[[Any], bool]]

T = TypeVar("T")


def check_limit(seconds: float | None) -> None:
    """Raise ConfigError for what is no time limit of a run."""
    if seconds is not None and not (_is_number(seconds) and 0 < seconds < math.inf):
        raise ConfigError(
            f"{seconds!r} is no time limit", hint="give seconds, more than 0, or None for no limit"
        )


def known_mode(mode: str) -> PermissionMode:
    """Return the mode of that name; raises ConfigError where there is none."""
    try:
        return PermissionMode(mode)
    except ValueError as error:
        known = ", ".join(PermissionMode)
        raise ConfigError(f"there is no mode {mode!r}", hint=f"use one of {known}") from error


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_texts(value: object) -> bool:
    return isinstance(value, Sequence) and not _is_text(value) and all(map(_is_text, value))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_texts_by_name(value: object) -> bool:
    return isinstance(value, Mapping) and all(map(_is_text, (*value, *value.values())))


def _is_servers(value: object) -> bool:
    return (
        isinstance(value, Mapping)
        and all(map(_is_text, value))
        and all(isinstance(one, McpServer) for one in value.values())
    )


def _is_comments(value: object) -> bool:
    # Few processes are given any.
    from prsm_core.door import Comment

    if not isinstance(value, Sequence) or not all(isinstance(one, Comment) for one in value):
        return False
    try:
        msgspec.convert(msgspec.to_builtins(value), list[Comment])
    except (msgspec.ValidationError, TypeError):
        return False
    return True


def _is_answer(value: object) -> bool:
    return (
        isinstance(value, Answer)
        and _is_texts(value.choices)
        and (value.text is None or _is_text(value.text))
    )


def _is_signal(value: object) -> bool:
    return callable(getattr(value, "is_set", None)) and callable(getattr(value, "wait", None))


# By how an annotation is written; what is none of them is not looked at.
_KINDS: Mapping[str, Kind] = {
    "str": ("a text", _is_text),
    "int": ("a whole number", _is_whole),
    "float": ("a number", _is_number),
    "bool": ("True or False", lambda value: isinstance(value, bool)),
    "Sequence[str]": ("a list of texts", _is_texts),
    "tuple[str, ...]": ("a list of texts", _is_texts),
    "Sequence[Comment]": ("a list of Comments", _is_comments),
    "PermissionMode": ("the name of a mode", _is_text),
    "Answer": ("an Answer of texts", _is_answer),
    "RunOptions": ("RunOptions", lambda value: isinstance(value, RunOptions)),
    "Mapping[str, str]": ("texts by name", _is_texts_by_name),
    "Mapping[str, McpServer]": ("McpServers by name", _is_servers),
    "AbortSignal": ("an AbortSignal", _is_signal),
}
_MAYBE = " | None"
_OPTIONS: Mapping[str, str] = RunOptions.__annotations__


def takes_checked(door: type[T]) -> type[T]:
    """Have the public methods of a door refuse arguments that are not of their annotated kinds.

    Each raises ConfigError (code `bad_argument`) then. What a method takes beside its own
    arguments are fields of RunOptions, and the fields of one that it is given are looked at, too.
    """
    for name, method in tuple(vars(door).items()):
        if not name.startswith("_") and callable(method):
            setattr(door, name, _checked(name, method))
    return door


def _checked(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    code = unwrap(method).__code__
    told = method.__annotations__
    names = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]
    has_options = bool(code.co_flags & CO_VARKEYWORDS) and "overrides" in told

    def check(args: tuple[Any, ...], more: Mapping[str, Any]) -> None:
        for argument, value in (*zip(names, args, strict=False), *more.items()):
            if argument in names:
                _check(f"{name}: `{argument}`", told.get(argument, ""), value)
            elif has_options:
                _check_option(name, argument, value)

    @wraps(method)
    async def run(self: Any, *args: Any, **more: Any) -> Any:
        check(args, more)
        return await method(self, *args, **more)

    @wraps(method)
    def begin(self: Any, *args: Any, **more: Any) -> Any:
        check(args, more)
        return method(self, *args, **more)

    return run if iscoroutinefunction(method) else begin


def _check(what: str, annotation: str, value: Any) -> None:
    if value is None and annotation.endswith(_MAYBE):
        return
    kind = _KINDS.get(annotation.removesuffix(_MAYBE))
    if kind is None:
        return
    name, fits = kind
    if not fits(value):
        raise ConfigError(
            f"{what} is of type {type(value).__name__}", hint=f"give {name}", code="bad_argument"
        )
    if isinstance(value, RunOptions):
        for option, told in _OPTIONS.items():
            _check(f"{what}.{option}", told, getattr(value, option))


def _check_option(name: str, option: str, value: Any) -> None:
    if option not in _OPTIONS:
        known = ", ".join(sorted(_OPTIONS))
        raise ConfigError(
            f"{name}: there is no option `{option}`",
            hint=f"use one of {known}",
            code="bad_argument",
        )
    _check(f"{name}: `{option}`", _OPTIONS[option], value)
