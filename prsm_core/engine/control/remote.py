"""RemoteApp: AppHandle over the control socket of the process that owns a session."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import aclosing, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import asdict, replace

from prsm_core.domain.account import Problem
from prsm_core.domain.agents import PermissionMode
from prsm_core.domain.events import Event
from prsm_core.domain.usage import Spent, TokenUsage
from prsm_core.engine.control.client import (
    ANSWER_SECONDS,
    connect,
    kept_images,
    open_control,
    silence,
)
from prsm_core.engine.control.session_lock import read_key
from prsm_core.engine.control.wire import (
    ANSWER_LIMIT,
    PROTOCOL,
    STARTABLE,
    WRONG,
    End,
    bad_answer,
    decode_answer,
    decode_part,
    encode_request,
)
from prsm_core.errors import ConfigError, ControlError
from prsm_core.interfaces.frontend import RunOptions, RunResult
from prsm_core.kit.arguments import check_limit, takes_checked

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
    from pathlib import Path

    from prsm_core.domain.permissions import Answer

_BUFFERED = 64 * 1024  # bytes: what waits here is no delta that the owner could still drop


class RemoteRun:
    """RunHandle of a run in the owner's process."""

    def __init__(self, app: RemoteApp, run_id: str, session: str, since: int = 0) -> None:
        self.run_id = run_id
        self.session = session
        self.since = since
        self._app = app

    async def result(self) -> RunResult:
        """Wait for the run's end; raises ControlError when the session is closed before it."""
        async with aclosing(self._app.stream("result", run=self.run_id)) as values:
            async for value in values:
                return _result(value)
        raise ControlError(
            f"session {self.session} was closed before its run ended", code="session_closed"
        )


@takes_checked
class RemoteApp:
    """AppHandle over another process; each operation has a connection of its own.

    Every method raises the error that the owner met, and ControlError when the owner cannot be
    reached or ends before its answer.
    """

    def __init__(self, state_dir: Path, session: str, options: RunOptions, *, via: str) -> None:
        self.options = options
        self.session = session
        self._state_dir = state_dir
        self._via = via

    async def start_run(self, task: str, **overrides: Any) -> RemoteRun:
        """Start a run of `task` at the owner; see AppHandle."""
        if unknown := sorted(overrides.keys() - STARTABLE):
            raise ConfigError(f"a run in another process has no {', '.join(unknown)} of its own")
        check_limit(overrides.get("timeout_s"))
        told = {name: value for name, value in overrides.items() if value is not None}
        if "mcp_servers" in told:
            servers = told["mcp_servers"].items()
            told["mcp_servers"] = {name: asdict(server) for name, server in servers}
        async with kept_images(self._state_dir, told.pop("images", ())) as shown:
            return self._run(await self._ask("start_run", task=task, **told, **shown))

    async def continue_run(self, task: str, images: Sequence[str] = ()) -> RemoteRun:
        """Give the last master a follow-up task; see AppHandle."""
        async with kept_images(self._state_dir, images) as shown:
            return self._run(await self._ask("continue_run", task=task, **shown))

    def _run(self, started: Mapping[str, Any]) -> RemoteRun:
        return RemoteRun(self, started["run"], started["session"])

    async def interrupt_run(self) -> bool:
        """End the open run as interrupted; see AppHandle."""
        return cast("bool", await self._ask("interrupt_run"))

    async def set_mode(self, mode: PermissionMode) -> None:
        """Let the runs that begin from now on have this mode; see AppHandle."""
        await self._ask("set_mode", mode=str(mode))
        self.options = replace(self.options, mode=PermissionMode(mode))

    async def set_model(self, agent: str, model: str) -> str:
        """Let an agent go on with another model; see AppHandle."""
        return cast("str", await self._ask("set_model", agent=agent, model=model))

    async def prompt_agent(
        self, agent: str, text: str, delivery: str = "queue", images: Sequence[str] = ()
    ) -> str:
        """Send a person's prompt to an agent; see AppHandle."""
        said = {"agent": agent, "text": text, "delivery": delivery}
        async with kept_images(self._state_dir, images) as shown:
            return cast("str", await self._ask("prompt", **said, **shown))

    async def kill(self, agent: str) -> Sequence[str]:
        """Kill an agent and its descendants; see AppHandle."""
        return cast("list[str]", await self._ask("kill", agent=agent))

    async def restart(self, agent: str, prompt: str) -> None:
        """Start an ended agent again; see AppHandle."""
        await self._ask("restart", agent=agent, prompt=prompt)

    async def resolve_permission(self, request: str, verdict: str, *, via: str = "") -> bool:
        """Answer a permission request; see AppHandle."""
        said = {"request": request, "verdict": verdict, "via": via or self._via}
        return cast("bool", await self._ask("resolve_permission", **said))

    async def answer(self, request: str, answer: Answer, *, via: str = "") -> bool:
        """Answer a question; see AppHandle."""
        said = {"choices": list(answer.choices), "text": answer.text, "via": via or self._via}
        return cast("bool", await self._ask("answer", request=request, **said))

    async def outcome(self, request: str) -> Mapping[str, Any] | None:
        """Return how a request has ended; see AppHandle."""
        return cast("Mapping[str, Any] | None", await self._ask("outcome", request=request))

    async def requests(self) -> Sequence[Mapping[str, Any]]:
        """Return what waits for a person; see AppHandle."""
        return cast("list[Mapping[str, Any]]", await self._ask("requests"))

    async def attend(self) -> None:
        """Note that a person is there to answer."""
        await self._ask("attend")

    async def events(self, after: int = 0) -> AsyncGenerator[Event, None]:
        """Yield committed events, then live ones with deltas; see AppHandle.

        It ends when the owner closes the session. Raises ControlError (code `no_answer`) where the
        owner ends without a word, or cuts off a reader that takes nothing.
        """
        async with aclosing(self.stream("subscribe", after=after)) as values:
            async for value in values:
                yield _event(value)

    async def tree(self) -> Mapping[str, Any]:
        """Return the tree; see AppHandle."""
        return cast("Mapping[str, Any]", await self._ask("tree"))

    async def view(self) -> Mapping[str, Any]:
        """Return one picture of the session; see AppHandle."""
        return cast("Mapping[str, Any]", await self._ask("view"))

    async def history(
        self, agent: str, detail: str = "full", *, before: int | None = None, limit: int = 200
    ) -> Sequence[Mapping[str, Any]]:
        """Return a page of an agent's conversation; see AppHandle."""
        wanted: dict[str, Any] = {"detail": detail, "before": before, "limit": limit}
        return cast("list[Mapping[str, Any]]", await self._ask("history", agent=agent, **wanted))

    async def sessions(self) -> Sequence[Mapping[str, Any]]:
        """Return the sessions of the owner's ledger; see AppHandle."""
        return cast("list[Mapping[str, Any]]", await self._ask("sessions"))

    async def providers(self) -> Sequence[Mapping[str, Any]]:
        """Look which providers the owner can use; see AppHandle."""
        return cast("list[Mapping[str, Any]]", await self._ask("providers"))

    async def models(self) -> Sequence[Mapping[str, Any]]:
        """Return the models that the owner knows; see AppHandle."""
        return cast("list[Mapping[str, Any]]", await self._ask("models"))

    async def policy(self) -> Mapping[str, Any]:
        """Return the owner's rules and grants; see AppHandle."""
        return cast("Mapping[str, Any]", await self._ask("policy"))

    async def budget(self) -> Mapping[str, Any]:
        """Return what the newest run has used; see AppHandle."""
        return cast("Mapping[str, Any]", await self._ask("budget"))

    async def complete(self, text: str) -> Sequence[Mapping[str, Any]]:
        """Return what the last word of a text may become; see AppHandle."""
        return cast("list[Mapping[str, Any]]", await self._ask("complete", text=text))

    async def fork(self, at: int | None = None) -> str:
        """Begin another session from an event of this one; see AppHandle."""
        return cast("str", await self._ask("fork", at=at))

    async def changes(self) -> Sequence[Mapping[str, Any]]:
        """Return what the agents have changed; see AppHandle."""
        return cast("list[Mapping[str, Any]]", await self._ask("changes"))

    async def show_change(self, change: str) -> Mapping[str, Any]:
        """Return a change with its lines and its reason; see AppHandle."""
        return cast("Mapping[str, Any]", await self._ask("show_change", change=change))

    async def accept(
        self, changes: Sequence[str] = (), *, agent: str | None = None, call: str | None = None
    ) -> Sequence[Mapping[str, Any]]:
        """Accept changes, which stay; see AppHandle."""
        told = await self._ask("accept", changes=list(changes), agent=agent, call=call)
        return cast("list[Mapping[str, Any]]", told)

    async def reject(
        self,
        changes: Sequence[str] = (),
        *,
        agent: str | None = None,
        call: str | None = None,
        possible: bool = False,
    ) -> Sequence[Mapping[str, Any]]:
        """Take changes back, each alone; see AppHandle."""
        told = await self._ask(
            "reject", changes=list(changes), agent=agent, call=call, possible=possible
        )
        return cast("list[Mapping[str, Any]]", told)

    async def undo(
        self,
        what: str = "prompt",
        wanted: str | None = None,
        *,
        files: bool = True,
        conversation: bool = True,
        mine: bool = False,
        possible: bool = False,
    ) -> Mapping[str, Any]:
        """Take back what a person said, or what agents or PRSM did; see AppHandle."""
        parts = {"files": files, "conversation": conversation, "mine": mine, "possible": possible}
        told = await self._ask("undo", what=what, wanted=wanted, **parts)
        return cast("Mapping[str, Any]", told)

    async def take_snapshot(self, description: str = "") -> Mapping[str, Any]:
        """Keep the files as they are; see AppHandle."""
        told = await self._ask("take_snapshot", description=description)
        return cast("Mapping[str, Any]", told)

    async def restore_snapshot(self, snapshot: str, *, dry_run: bool = False) -> Mapping[str, Any]:
        """Let the files be as in a snapshot; see AppHandle."""
        told = await self._ask("restore_snapshot", snapshot=snapshot, dry_run=dry_run)
        return cast("Mapping[str, Any]", told)

    async def commit_changes(
        self,
        changes: Sequence[str] = (),
        *,
        agent: str | None = None,
        by: str = "agent",
        message: str | None = None,
        dry_run: bool = False,
    ) -> Mapping[str, Any]:
        """Commit accepted changes; see AppHandle."""
        how: dict[str, Any] = {"by": by, "message": message, "dry_run": dry_run}
        told = await self._ask("commit_changes", changes=list(changes), agent=agent, **how)
        return cast("Mapping[str, Any]", told)

    async def snapshots(self) -> Sequence[Mapping[str, Any]]:
        """Return the snapshots of the session; see AppHandle."""
        return cast("list[Mapping[str, Any]]", await self._ask("snapshots"))

    async def worktrees(self) -> Sequence[Mapping[str, Any]]:
        """Return the worktrees that are not merged; see AppHandle."""
        return cast("list[Mapping[str, Any]]", await self._ask("worktrees"))

    def hold_files(self) -> AsyncGenerator[Sequence[str], None]:
        """Keep agents from beginning to write for as long as this is open; see AppHandle."""
        return self.stream("hold_files")

    async def rationale(self, path: str, line: int | None = None) -> Mapping[str, Any]:
        """Return why an agent changed a file; see AppHandle."""
        return cast("Mapping[str, Any]", await self._ask("rationale", path=path, line=line))

    async def _ask(self, op: str, **args: Any) -> Any:
        async with open_control(self._state_dir, self.session) as client:
            return await client.ask(op, **args)

    async def stream(self, op: str, **args: Any) -> AsyncGenerator[Any, None]:
        """Yield the values of an operation that has many, over a connection of its own."""
        reader, writer = await connect(self._state_dir, self.session, buffered=_BUFFERED)
        lines = _Lines(reader, self.session)
        try:
            writer.write(encode_request(op, args, read_key(self._state_dir, self.session)))
            async with asyncio.timeout(ANSWER_SECONDS):
                decode_answer(await lines.next())
            while not isinstance(part := decode_part(await lines.next()), End):
                yield part
        except TimeoutError as error:
            raise silence(self.session, f"did not answer within {ANSWER_SECONDS:.0f} s") from error
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


class _Lines:
    """The lines of a stream: each may be long, and few wait in this process to be read."""

    def __init__(self, reader: asyncio.StreamReader, session: str) -> None:
        self._reader = reader
        self._session = session
        self._whole: deque[bytes] = deque()
        self._begun: list[bytes] = []  # pieces of a line whose end has not come

    async def next(self) -> bytes:
        """Return the next line; raises ControlError where the owner has gone."""
        while not self._whole:
            try:
                piece = await self._reader.read(_BUFFERED)
            except ConnectionError:
                piece = b""
            if not piece:
                raise silence(self._session, "ended, or cut this reader off, without a word")
            self._take(piece)
        return self._whole.popleft()

    def _take(self, piece: bytes) -> None:
        first, *others = piece.split(b"\n")
        self._begun.append(first)
        if others:
            self._whole.append(b"".join(self._begun))
            self._whole.extend(others[:-1])
            self._begun = [others[-1]]
        elif sum(map(len, self._begun)) > ANSWER_LIMIT:
            raise bad_answer()


def _event(value: Any) -> Event:
    try:
        return Event(**value)
    except WRONG as error:
        raise bad_answer() from error


def _result(value: Any) -> RunResult:
    try:
        told = dict(value)
        usage, spent = TokenUsage(**told.pop("usage")), Spent.from_dict(told.pop("spent"))
        problems = tuple(Problem(**one) for one in told.pop("problems"))
        return RunResult(**told, usage=usage, spent=spent, problems=problems)
    except WRONG as error:
        raise bad_answer() from error


def _options(value: Any, session: str) -> RunOptions:
    try:
        return RunOptions(**{**value, "mode": PermissionMode(value["mode"]), "session": session})
    except WRONG as error:
        raise bad_answer() from error


@asynccontextmanager
async def open_remote(state_dir: Path, session: str, *, via: str = "") -> AsyncIterator[RemoteApp]:
    """Reach the owner of a session; `via` is told as where a person's answers come from.

    Raises:
        ControlError: nobody owns it (code `no_owner`), its owner cannot be reached, or is of a
            version that speaks otherwise (code `other_version`).
    """
    async with open_control(state_dir, session) as client:
        told = await client.ping()
        spoken = told.get("protocol") if isinstance(told, dict) else None
        if spoken != PROTOCOL:
            raise ControlError(
                f"the owner of session {session} speaks version {spoken} of the protocol, "
                f"this prsm version {PROTOCOL}",
                hint="use the same version of prsm for both",
                code="other_version",
            )
        options = _options(await client.ask("options"), session)
    yield RemoteApp(state_dir, session, options, via=via)
