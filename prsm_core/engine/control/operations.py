"""What a control server can be asked for: the operations of AppHandle, and their arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, get_args

import msgspec
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import asdict

from prsm_core.domain.agents import PermissionMode
from prsm_core.domain.permissions import Answer
from prsm_core.domain.record import Record
from prsm_core.domain.structs import find_fault
from prsm_core.domain.tools import McpServer
from prsm_core.engine.control.wire import STARTABLE, bad_request

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from msgspec import Struct

    from prsm_core.interfaces.frontend import AppHandle, RunHandle, RunResult

_KEPT_RUNS = 16  # whose results can be asked for


_Maybe = str | None
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


_VIA = str | UnsetType
_CHANGES: Mapping[str, Any] = {"changes": list[str], "agent": _Maybe, "call": _Maybe}
_UNDO = _takes(
    what=str, wanted=_Maybe, files=bool, conversation=bool, possible=bool, mine=bool | UnsetType
)
_COMMIT = _takes(changes=list[str], agent=_Maybe, by=str, message=_Maybe, dry_run=bool)
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


class Runs:
    """Owns the runs that peers have started, so that they can ask for the results."""

    def __init__(self) -> None:
        self._runs: dict[str, RunHandle] = {}

    @property
    def operations(self) -> Mapping[str, Operation]:
        """The operations that begin runs and tell how these end."""
        return {
            "start_run": Operation(self._start, _START_RUN, acts=True),
            "continue_run": Operation(self._continue, _takes(_Shown, task=str), acts=True),
            "result": Operation(self._result, _takes(run=str)),
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
        return self._keep(await app.start_run(args["task"], **overrides))

    async def _continue(self, app: AppHandle, args: Mapping[str, Any]) -> dict[str, str]:
        return self._keep(await app.continue_run(args["task"], *_images(args)))

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
    yield _told(await run.result())


def _told(result: RunResult) -> dict[str, Any]:
    return {
        "status": result.status,
        "summary": result.summary,
        "exit_code": result.exit_code,
        "error": result.error,
        "evidence": result.evidence,
        "usage": result.usage.to_dict(),
        "spent": result.spent.to_dict(),
        "problems": [asdict(one) for one in result.problems],
    }


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


async def _subscribe(app: AppHandle, args: Mapping[str, Any]) -> AsyncIterator[Any]:
    return _told_events(app, args["after"])


async def _told_events(app: AppHandle, after: int) -> AsyncIterator[Any]:
    events = app.events(after=after)
    try:
        async for event in events:
            yield {
                "seq": event.seq,
                "ts": event.ts,
                "session": event.session,
                "run": event.run,
                "agent": event.agent,
                "type": event.type,
                "data": event.data,
            }
    finally:
        if (close := getattr(events, "aclose", None)) is not None:
            await close()


async def _hold_files(app: AppHandle, _: Mapping[str, Any]) -> AsyncIterator[Any]:
    return app.hold_files()


async def _set_mode(app: AppHandle, args: Mapping[str, Any]) -> None:
    await app.set_mode(args["mode"])


async def _kill(app: AppHandle, args: Mapping[str, Any]) -> list[str]:
    return list(await app.kill(args["agent"]))


async def _prompt(app: AppHandle, args: Mapping[str, Any]) -> str:
    return await app.prompt_agent(args["agent"], args["text"], args["delivery"], *_images(args))


def _images(args: Mapping[str, Any]) -> tuple[tuple[str, ...], ...]:
    """Return the images as the last argument, if there are some."""
    return (tuple(args["images"]),) if args.get("images") else ()


async def _restart(app: AppHandle, args: Mapping[str, Any]) -> None:
    await app.restart(args["agent"], args["prompt"])


async def _resolve(app: AppHandle, args: Mapping[str, Any]) -> bool:
    return await app.resolve_permission(args["request"], args["verdict"], via=args.get("via", ""))


async def _answer(app: AppHandle, args: Mapping[str, Any]) -> bool:
    answer = Answer(choices=tuple(args["choices"]), text=args["text"])
    return await app.answer(args["request"], answer, via=args.get("via", ""))


async def _history(app: AppHandle, args: Mapping[str, Any]) -> list[Any]:
    page = {"before": args["before"], "limit": args["limit"]}
    return list(await app.history(args["agent"], args["detail"], **page))


def _plain(name: str) -> Callable[[AppHandle, Mapping[str, Any]], Awaitable[Any]]:
    """Return what calls the method of this name with the arguments as they are."""

    async def run(app: AppHandle, args: Mapping[str, Any]) -> Any:
        value = await getattr(app, name)(**args)
        return list(value) if isinstance(value, (tuple, list)) else value

    return run


OPERATIONS: Mapping[str, Operation] = {
    "kill": Operation(_kill, _takes(agent=str), acts=True),
    "prompt": Operation(_prompt, _takes(_Shown, agent=str, text=str, delivery=str), acts=True),
    "restart": Operation(_restart, _takes(agent=str, prompt=str), acts=True),
    "resolve_permission": Operation(
        _resolve, _takes(request=str, verdict=str, via=_VIA), acts=True
    ),
    "answer": Operation(
        _answer, _takes(request=str, choices=list[str], text=_Maybe, via=_VIA), acts=True
    ),
    "outcome": Operation(_plain("outcome"), _takes(request=str), looks=True),
    "tree": Operation(_plain("tree"), looks=True),
    "requests": Operation(_plain("requests"), looks=True),
    "attend": Operation(_plain("attend")),
    "options": Operation(_options),
    "subscribe": Operation(_subscribe, _takes(after=int)),
    "interrupt_run": Operation(_plain("interrupt_run"), acts=True),
    "set_mode": Operation(_set_mode, _takes(mode=str), acts=True),
    "set_model": Operation(_plain("set_model"), _takes(agent=str, model=str), acts=True),
    "view": Operation(_plain("view")),
    "history": Operation(_history, _takes(agent=str, detail=str, before=int | None, limit=int)),
    "sessions": Operation(_plain("sessions")),
    "providers": Operation(_plain("providers")),
    "models": Operation(_plain("models")),
    "policy": Operation(_plain("policy")),
    "budget": Operation(_plain("budget")),
    "complete": Operation(_plain("complete"), _takes(text=str)),
    "fork": Operation(_plain("fork"), _takes(at=int | None), acts=True),
    "changes": Operation(_plain("changes")),
    "show_change": Operation(_plain("show_change"), _takes(change=str)),
    "accept": Operation(_plain("accept"), _takes(**_CHANGES), acts=True),
    "reject": Operation(_plain("reject"), _takes(**_CHANGES, possible=bool), acts=True),
    "undo": Operation(_plain("undo"), _UNDO, acts=True),
    "take_snapshot": Operation(_plain("take_snapshot"), _takes(description=str), acts=True),
    "restore_snapshot": Operation(
        _plain("restore_snapshot"), _takes(snapshot=str, dry_run=bool), acts=True
    ),
    "commit_changes": Operation(_plain("commit_changes"), _COMMIT, acts=True),
    "snapshots": Operation(_plain("snapshots")),
    "worktrees": Operation(_plain("worktrees")),
    "hold_files": Operation(_hold_files, acts=True),
    "rationale": Operation(_plain("rationale"), _takes(path=str, line=int | None)),
}
