"""What a control server can be asked for: the operations of AppHandle, and their arguments."""

from __future__ import annotations

from inspect import signature
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, get_args

import msgspec
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import asdict

from prsm_core.domain.agents import PermissionMode
from prsm_core.domain.record import Record
from prsm_core.domain.structs import find_fault
from prsm_core.domain.tools import McpServer
from prsm_core.engine.control.wire import STARTABLE, bad_request, hints_of
from prsm_core.interfaces.app_handle import METHODS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from msgspec import Struct

    from prsm_core.interfaces.frontend import AppHandle, RunHandle

_KEPT_RUNS = 16  # whose results can be asked for


_Limit = Annotated[float, Meta(ge=0, le=1e9)]  # neither infinite nor a number that is none
_Filled = Annotated[str, Meta(pattern=r"\S")]


class _Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class _Server(_Arguments, frozen=True):
    command: _Filled | None = None
    args: list[str] | None = None
    env: dict[str, str] | None = None
    url: _Filled | None = None
    headers: dict[str, str] | None = None
    required: bool | None = None
    start_seconds: Annotated[float, Meta(gt=0, le=1e9)] | None = None

    def __post_init__(self) -> None:
        if (self.command is None) == (self.url is None):
            raise ValueError("a server has a command or a url")

    def made(self) -> McpServer:
        told = {name: value for name, value in asdict(self).items() if value is not None}
        return McpServer(**{**told, "args": tuple(self.args or ())})


class _Shown(_Arguments, frozen=True):
    images: list[str] | UnsetType = UNSET

    def __post_init__(self) -> None:
        from prsm_core.workspace.images import names_no_file  # few prompts have any

        if self.images and not all(map(names_no_file, self.images)):
            raise ValueError("`images` are marks or `data:` URLs: no path of yours is read here")


def _takes(base: type[_Arguments] = _Arguments, /, **fields: Any) -> type[Struct]:
    """Return a struct of arguments; one that may be UNSET may be left out."""
    shape = [
        (name, kind, UNSET) if UnsetType in get_args(kind) else (name, kind)
        for name, kind in fields.items()
    ]
    return msgspec.defstruct(
        "Arguments", shape, bases=(base,), frozen=True, kw_only=True, forbid_unknown_fields=True
    )


_START_RUN = _takes(
    _Shown,
    task=str,
    **dict.fromkeys(("provider", "model", "mode", "effort"), str | UnsetType),
    timeout_s=_Limit | UnsetType,
    mcp_servers=dict[Annotated[str, Meta(min_length=1)], _Server] | UnsetType,
    labels=dict[str, str] | UnsetType,
)


class Operation(Record, frozen=True):
    """What a request may ask for, and its arguments.

    One that `looks` changes nothing and tells nothing that agents may not know; all others are
    for people. One that `acts` is refused once the session is being closed. Where `run` gives an
    iterator, each of its values is sent when it comes.
    """

    run: Callable[[AppHandle, Mapping[str, Any]], Awaitable[Any]]
    args: type[Struct] = _Arguments
    looks: bool = False
    acts: bool = False

    def check(self, name: str, args: Mapping[str, Any]) -> None:
        """Raise ControlError for arguments that do not fit."""
        fault = find_fault(self.args, args)
        if fault is not None:
            raise bad_request(": ".join(filter(None, (name, *fault))))


class StartedRuns:
    """Owns the runs that peers have started, so that they can ask for the results."""

    def __init__(self) -> None:
        self._runs: dict[str, RunHandle] = {}

    @property
    def operations(self) -> Mapping[str, Operation]:
        """The operations that begin runs and tell how these end."""
        return {
            "runs.start": Operation(self._start, _START_RUN, acts=True),
            "runs.follow_up": Operation(self._follow_up, _takes(_Shown, task=str), acts=True),
            "runs.result": Operation(self._result, _takes(run=str)),
        }

    async def _start(self, app: AppHandle, args: Mapping[str, Any]) -> dict[str, str]:
        overrides = {name: args[name] for name in STARTABLE if name in args}
        if "mode" in overrides:
            overrides["mode"] = _mode(overrides["mode"])
        if "mcp_servers" in overrides:
            servers = overrides["mcp_servers"].items()
            overrides["mcp_servers"] = {
                name: msgspec.convert(told, _Server).made() for name, told in servers
            }
        if "images" in overrides:
            overrides["images"] = tuple(overrides["images"])
        return self._keep(await app.runs.start(args["task"], **overrides))

    async def _follow_up(self, app: AppHandle, args: Mapping[str, Any]) -> dict[str, str]:
        images = (tuple(args["images"]),) if args.get("images") else ()
        return self._keep(await app.runs.follow_up(args["task"], *images))

    def _keep(self, run: RunHandle) -> dict[str, str]:
        self._runs[run.run_id] = run
        while len(self._runs) > _KEPT_RUNS:
            del self._runs[next(iter(self._runs))]
        return {"run": run.run_id, "session": run.session}

    async def _result(self, _: AppHandle, args: Mapping[str, Any]) -> AsyncIterator[Any]:
        run = self._runs.get(args["run"])
        if run is None:
            raise bad_request(f"no run {args['run']!r} was started over this socket")
        return _result_of(run)


async def _result_of(run: RunHandle) -> AsyncIterator[Any]:
    yield await run.result()


def _mode(text: str) -> str:
    """Return the mode of that name; one that there is not is refused by the application."""
    return PermissionMode(text) if text in set(PermissionMode) else text


async def _options(app: AppHandle, _: Mapping[str, Any]) -> dict[str, Any]:
    options = app.options
    return {
        "workspace": options.workspace,
        "provider": options.provider,
        "model": options.model,
        "mode": options.mode.value,
        "on_ask": options.on_ask,
        "timeout_s": options.timeout_s,
        "unattended_s": options.unattended_s,
        "effort": options.effort,
    }


async def _events(app: AppHandle, args: Mapping[str, Any]) -> AsyncIterator[Any]:
    return _told_events(app, args["after"])


async def _told_events(app: AppHandle, after: int) -> AsyncIterator[Any]:
    events = app.events(after=after)
    try:
        async for event in events:
            yield event
    finally:
        if (close := getattr(events, "aclose", None)) is not None:
            await close()


async def _hold_files(app: AppHandle, _: Mapping[str, Any]) -> AsyncIterator[Any]:
    return app.changes.hold_files()


def derived(name: str) -> Operation:
    """Return the operation that calls a method of AppHandle, with arguments as it declares them."""
    method, may = METHODS[name]
    hints = hints_of(name)
    parameters = list(signature(method).parameters.values())[1:]
    shape = [
        (each.name, hints[each.name])
        if each.default is each.empty
        else (each.name, hints[each.name], each.default)
        for each in parameters
    ]
    base = _Shown if "images" in hints else _Arguments
    args = msgspec.defstruct("Arguments", shape, bases=(base,), frozen=True, kw_only=True)
    reach = attrgetter(name)

    async def run(app: AppHandle, given: Mapping[str, Any]) -> Any:
        return await reach(app)(**asdict(msgspec.convert(given, args)))

    return Operation(run, args, looks=may == "looks", acts=may == "acts")


OPERATIONS: Mapping[str, Operation] = {
    **{name: derived(name) for name in METHODS},
    "options": Operation(_options),
    "events": Operation(_events, _takes(after=int)),
    "changes.hold_files": Operation(_hold_files, acts=True),
}
