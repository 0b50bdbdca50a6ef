"""What a control server can be asked for: the operations of AppHandle, and their arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import field
from msgspec.structs import asdict

from prsm_core.domain.agents import PermissionMode
from prsm_core.domain.permissions import Answer
from prsm_core.domain.record import Record
from prsm_core.domain.tools import McpServer
from prsm_core.engine.control.wire import STARTABLE, bad_request

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from prsm_core.interfaces.frontend import AppHandle, RunHandle, RunResult

_KEPT_RUNS = 16  # whose results can be asked for


def _is_text(value: object) -> bool:
    if not isinstance(value, str):
        return False
    try:
        value.encode()  # JSON can spell lone surrogates, which no ledger takes
    except UnicodeEncodeError:
        return False
    return True


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(_is_text(item) for item in value)


def _is_images(value: object) -> bool:
    from prsm_core.workspace.images import names_no_file  # few prompts have any

    return isinstance(value, list) and all(_is_text(one) and names_no_file(one) for one in value)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)  # which ones: see AppHandle


def _is_seconds(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_labels(value: object) -> bool:
    return isinstance(value, dict) and all(map(_is_text, (*value, *value.values())))


def _is_servers(value: object) -> bool:
    return isinstance(value, dict) and all(value) and all(map(_is_server, value.values()))


def _is_server(value: object) -> bool:
    """Return whether this is an MCP server: of one kind, and whatever starts it is texts."""
    if not isinstance(value, dict) or not value.keys() <= _OF_SERVER.keys():
        return False
    known = {name: told for name, told in value.items() if told is not None}
    kinds = known.keys() & {"command", "url"}
    return len(kinds) == 1 and all(_OF_SERVER[name](told) for name, told in known.items())


_OF_SERVER: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("command", "url"), lambda value: _is_text(value) and bool(value.strip())),
    "args": _is_texts,
    **dict.fromkeys(("env", "headers"), _is_labels),
    "required": lambda value: isinstance(value, bool),
    "start_seconds": lambda value: isinstance(value, int | float) and value > 0,
}


_TEXT = ("a text", _is_text)
_TEXTS = ("a list of texts", _is_texts)
_MAYBE_TEXT = ("a text or null", lambda value: value is None or _is_text(value))
_WHOLE = ("a whole number", _is_whole)
_MAYBE_WHOLE = ("a whole number or null", lambda value: value is None or _is_whole(value))
_TRUTH = ("true or false", lambda value: isinstance(value, bool))
_IMAGES = ("a list of marks or `data:` URLs: no path of yours is read here", _is_images)
_CHANGES = {"changes": _TEXTS, "agent": _MAYBE_TEXT, "call": _MAYBE_TEXT}
_UNDO = {
    "what": _TEXT,
    "wanted": _MAYBE_TEXT,
    "files": _TRUTH,
    "conversation": _TRUTH,
    "mine": _TRUTH,
    "possible": _TRUTH,
}
_COMMITTING = {
    "changes": _TEXTS,
    "agent": _MAYBE_TEXT,
    "by": _TEXT,
    "message": _MAYBE_TEXT,
    "dry_run": _TRUTH,
}
_VIA, _SHOWN, _MINE = frozenset({"via"}), frozenset({"images"}), frozenset({"mine"})
_OVERRIDES: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(("provider", "model", "mode", "effort"), _TEXT),
    "timeout_s": ("seconds", _is_seconds),
    "mcp_servers": ("servers by name, each with a command or a url", _is_servers),
    "images": _IMAGES,
    "labels": ("texts by name", _is_labels),
}


class Operation(Record, frozen=True):
    """What a request may ask for, and the arguments it must have, but for those in `optional`.

    One that `looks` changes nothing and tells nothing that agents may not know; all others are
    for people. One that `acts` is refused once the session is being closed. Where `run` gives an
    iterator, each of its values is sent when it comes.
    """

    run: Callable[[AppHandle, Mapping[str, Any]], Awaitable[Any]]
    args: Mapping[str, tuple[str, Callable[[Any], bool]]] = field(default_factory=dict)
    optional: frozenset[str] = frozenset()
    looks: bool = False
    acts: bool = False

    def check(self, name: str, args: Mapping[str, Any]) -> None:
        """Raise ControlError for arguments that do not fit."""
        for key, (what, fits) in self.args.items():
            is_left_out = key in self.optional and key not in args
            if not is_left_out and (key not in args or not fits(args[key])):
                raise bad_request(f"{name}: `{key}` must be {what}")
        if extra := sorted(set(args) - set(self.args)):
            raise bad_request(f"{name}: unknown arguments: {', '.join(map(ascii, extra))}")


class Runs:
    """Owns the runs that peers have started, so that they can ask for the results."""

    def __init__(self) -> None:
        self._runs: dict[str, RunHandle] = {}

    @property
    def operations(self) -> Mapping[str, Operation]:
        """The operations that begin runs and tell how these end."""
        return {
            "start_run": Operation(
                self._start, {"task": _TEXT, **_OVERRIDES}, frozenset(_OVERRIDES), acts=True
            ),
            "continue_run": Operation(
                self._continue, {"task": _TEXT, "images": _IMAGES}, _SHOWN, acts=True
            ),
            "result": Operation(self._result, {"run": _TEXT}),
        }

    async def _start(self, app: AppHandle, args: Mapping[str, Any]) -> dict[str, str]:
        overrides = {name: args[name] for name in STARTABLE if name in args}
        if "mode" in overrides:
            overrides["mode"] = _mode(overrides["mode"])
        if "mcp_servers" in overrides:
            servers = overrides["mcp_servers"].items()
            overrides["mcp_servers"] = {name: _server(told) for name, told in servers}
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


def _server(told: Mapping[str, Any]) -> McpServer:
    known = {name: value for name, value in told.items() if value is not None}
    return McpServer(**{**known, "args": tuple(known.get("args", ()))})


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
    "kill": Operation(_kill, {"agent": _TEXT}, acts=True),
    "prompt": Operation(
        _prompt,
        {"agent": _TEXT, "text": _TEXT, "delivery": _TEXT, "images": _IMAGES},
        _SHOWN,
        acts=True,
    ),
    "restart": Operation(_restart, {"agent": _TEXT, "prompt": _TEXT}, acts=True),
    "resolve_permission": Operation(
        _resolve, {"request": _TEXT, "verdict": _TEXT, "via": _TEXT}, _VIA, acts=True
    ),
    "answer": Operation(
        _answer,
        {"request": _TEXT, "choices": _TEXTS, "text": _MAYBE_TEXT, "via": _TEXT},
        _VIA,
        acts=True,
    ),
    "outcome": Operation(_plain("outcome"), {"request": _TEXT}, looks=True),
    "tree": Operation(_plain("tree"), looks=True),
    "requests": Operation(_plain("requests"), looks=True),
    "attend": Operation(_plain("attend")),
    "options": Operation(_options),
    "subscribe": Operation(_subscribe, {"after": _WHOLE}),
    "interrupt_run": Operation(_plain("interrupt_run"), acts=True),
    "set_mode": Operation(_set_mode, {"mode": _TEXT}, acts=True),
    "set_model": Operation(_plain("set_model"), {"agent": _TEXT, "model": _TEXT}, acts=True),
    "view": Operation(_plain("view")),
    "history": Operation(
        _history, {"agent": _TEXT, "detail": _TEXT, "before": _MAYBE_WHOLE, "limit": _WHOLE}
    ),
    "sessions": Operation(_plain("sessions")),
    "providers": Operation(_plain("providers")),
    "models": Operation(_plain("models")),
    "policy": Operation(_plain("policy")),
    "budget": Operation(_plain("budget")),
    "complete": Operation(_plain("complete"), {"text": _TEXT}),
    "fork": Operation(_plain("fork"), {"at": _MAYBE_WHOLE}, acts=True),
    "changes": Operation(_plain("changes")),
    "show_change": Operation(_plain("show_change"), {"change": _TEXT}),
    "accept": Operation(_plain("accept"), _CHANGES, acts=True),
    "reject": Operation(_plain("reject"), {**_CHANGES, "possible": _TRUTH}, acts=True),
    "undo": Operation(_plain("undo"), _UNDO, _MINE, acts=True),
    "take_snapshot": Operation(_plain("take_snapshot"), {"description": _TEXT}, acts=True),
    "restore_snapshot": Operation(
        _plain("restore_snapshot"), {"snapshot": _TEXT, "dry_run": _TRUTH}, acts=True
    ),
    "commit_changes": Operation(_plain("commit_changes"), _COMMITTING, acts=True),
    "snapshots": Operation(_plain("snapshots")),
    "worktrees": Operation(_plain("worktrees")),
    "hold_files": Operation(_hold_files, acts=True),
    "rationale": Operation(_plain("rationale"), {"path": _TEXT, "line": _MAYBE_WHOLE}),
}
