"""Scenarios: what a scripted model says, step by step, whatever the wire format.

A scenario is a mapping (or a YAML file) of lanes; a lane is the script of one agent::

    lanes:
      master:
        steps:
          - think: I need help.
            call: {id: spawn, tool: spawn_child, arguments: {prompt: "[[lane:w1]] count"}}
          - call: {tool: check_child_status, arguments: {child_id: "${spawn.child_id}"}}
          - say: All done.
      w1:
        steps:
          - shell: wc -l *.txt
          - call: {tool: task_complete, arguments: {summary: 3 lines}}

`lanes` may also be a list of such mappings with a `name`. A lane's `marker` is `[[lane:NAME]]`
unless given; the lane of a request is that of the **first** marker in its user messages, in
order of time (an agent keeps the lane of its first prompt, also after a rebuild), and only
without one the first marker in its system texts. A lane with the marker "" takes the rest.

One step answers one model request. It holds any of

`say` `think`           text and thinking, streamed in pieces
`call` `shell` `patch`  tool calls, one or a list each: {tool, arguments, id, namespace}, a command
                        line, or the text of a patch
`error`                 an HTTP error {status, code, message, times}; `times` requests get it
                        ("always": every further one), then the step's own answer if it has one
`stream_error`          a stream that fails with {code, message}
`incomplete`            a stream that ends early, with this reason (true: max_output_tokens)
`cut`                   true: the connection ends in the middle of the stream
`hang`                  seconds of silence in the middle of the stream; true: for ever
`delay`                 seconds between two pieces of the stream
`usage`                 {input_tokens, cached_input_tokens, output_tokens, reasoning_tokens}
`expect`                texts that the request must hold; otherwise it is answered with a 400

Arguments, and the texts of `say` and `shell`, may hold templates: `${spawn.children.0.agent_id}`
is a value of the latest output of the call with the id `spawn` (or, without one, of the tool of
that name); `${/regex/}` is the first group of its last match in the request, an int if it is
one. A text that is nothing but a template keeps the value's type.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prsm_core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

FOREVER = float("inf")
DEFAULT_USAGE = {
    "input_tokens": 100,
    "cached_input_tokens": 0,
    "output_tokens": 10,
    "reasoning_tokens": 0,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A tool call; `kind` is tool, shell or patch, and the wire names the last two."""

    tool: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    id: str | None = None
    namespace: str | None = None
    kind: str = "tool"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpError:
    """An HTTP error for the next `times` requests of a lane."""

    status: int = 500
    code: str | None = None
    message: str = "scripted error"
    times: float = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamError:
    """A failure told inside a stream that began well."""

    code: str = "server_error"
    message: str = "scripted stream error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The answer to one model request."""

    say: str | None = None
    think: str | None = None
    calls: tuple[Call, ...] = ()
    error: HttpError | None = None
    stream_error: StreamError | None = None
    incomplete: str | None = None
    cut: bool = False
    hang: float = 0.0  # seconds; FOREVER = until the client goes
    delay: float = 0.0  # seconds between pieces
    usage: Mapping[str, int] = field(default_factory=lambda: dict(DEFAULT_USAGE))
    expect: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """The script of one agent, found by its marker."""

    name: str
    marker: str
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """The scripts of all agents of a run."""

    lanes: tuple[Lane, ...]

    @classmethod
    def from_mapping(cls, data: Mapping[str, Any]) -> Scenario:
        """Build a scenario; raise ConfigError that names the place and the nearest key."""
        _check_keys(data, ("lanes",), "scenario")
        lanes = data.get("lanes", {})
        if not isinstance(lanes, dict):
            lanes = {_required(lane, "name", f"lanes[{n}]"): lane for n, lane in enumerate(lanes)}
        return cls(lanes=tuple(_lane(name, lane) for name, lane in lanes.items()))

    @classmethod
    def load(cls, path: str | Path) -> Scenario:
        """Read a scenario from a YAML file."""
        import yaml  # scenarios given as mappings do without

        try:
            data = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        except (OSError, yaml.YAMLError) as error:
            raise ConfigError(f"{path}: {error}", hint="A scenario is a YAML file.") from error
        if not isinstance(data, dict):
            raise ConfigError(f"{path}: a scenario is a mapping with `lanes`")
        return cls.from_mapping(data)


def _check_keys(data: object, known: Iterable[str], where: str) -> None:
    if not isinstance(data, dict):
        raise ConfigError(f"{where}: a mapping is needed, not {data!r}")
    names = sorted(known)
    for key in data:
        if key not in names:
            near = difflib.get_close_matches(str(key), names, n=1)
            hint = f"Did you mean `{near[0]}`?" if near else f"Known: {', '.join(names)}."
            raise ConfigError(f"{where}: unknown key {key!r}", hint=hint)


def _required(data: Mapping[str, Any], key: str, where: str) -> str:
    value = data.get(key)
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{where}: `{key}` is missing")
    return value


def _lane(name: str, data: Mapping[str, Any]) -> Lane:
    _check_keys(data, ("name", "marker", "steps"), f"lane {name}")
    steps = (_step(f"lane {name} step {n}", step) for n, step in enumerate(data.get("steps", ())))
    return Lane(name=name, marker=data.get("marker", f"[[lane:{name}]]"), steps=tuple(steps))


def _step(where: str, data: Mapping[str, Any]) -> Step:
    _check_keys(data, _STEP_KEYS, where)
    values = {key: _CONVERT.get(key, _plain)(where, value) for key, value in data.items()}
    calls = [call for key in _CALL_KEYS for call in values.pop(key, ())]
    return Step(calls=tuple(calls), **values)


def _plain(_: str, value: Any) -> Any:
    return value


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _tool_calls(where: str, value: Any) -> list[Call]:
    calls = []
    for call in _listed(value):
        _check_keys(call, ("tool", "arguments", "id", "namespace"), f"{where} call")
        _required(call, "tool", f"{where} call")
        calls.append(Call(**call))
    return calls


def _native_calls(kind: str, argument: str) -> Callable[[str, Any], list[Call]]:
    def convert(where: str, value: Any) -> list[Call]:
        calls = []
        for entry in _listed(value):
            data = entry if isinstance(entry, dict) else {argument: entry}
            _check_keys(data, (argument, "id"), f"{where} {kind}")
            text = _required(data, argument, f"{where} {kind}")
            calls.append(Call(kind=kind, arguments={argument: text}, id=data.get("id")))
        return calls

    return convert


def _error(where: str, value: Any) -> HttpError:
    _check_keys(value, (f.name for f in fields(HttpError)), f"{where} error")
    times = value.get("times", 1)
    return HttpError(**{**value, "times": FOREVER if times == "always" else times})


def _stream_error(where: str, value: Any) -> StreamError:
    _check_keys(value, (f.name for f in fields(StreamError)), f"{where} stream_error")
    return StreamError(**value)


def _usage(where: str, value: Any) -> dict[str, int]:
    _check_keys(value, DEFAULT_USAGE, f"{where} usage")
    return {**DEFAULT_USAGE, **value}


_CALL_KEYS = ("call", "shell", "patch")
_STEP_KEYS = {f.name for f in fields(Step)} - {"calls"} | set(_CALL_KEYS)
_CONVERT: dict[str, Callable[[str, Any], Any]] = {
    "call": _tool_calls,
    "shell": _native_calls("shell", "cmd"),
    "patch": _native_calls("patch", "patch"),
    "error": _error,
    "stream_error": _stream_error,
    "incomplete": lambda _, value: "max_output_tokens" if value is True else value,
    "hang": lambda _, value: FOREVER if value is True else float(value),
    "usage": _usage,
    "expect": lambda _, value: tuple(_listed(value)),
}
