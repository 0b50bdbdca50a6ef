"""RemoteApp: AppHandle over the control socket of the process that owns a session.

So a command can have the agents of all engines in a working tree write nothing while it acts.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from prsm_core.domain.agents import PermissionMode
from prsm_core.domain.events import Event
from prsm_core.engine.control.client import Asking, open_control
from prsm_core.engine.control.session_lock import find_owner
from prsm_core.engine.control.wire import PROTOCOL, WRONG, bad_answer
from prsm_core.errors import ConfigError, ControlError
from prsm_core.interfaces.frontend import RunOptions
from prsm_core.kit.arguments import takes_checked
from prsm_core.workspace.identity import repo_identity

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Sequence


@takes_checked
class RemoteApp(Asking):
    """AppHandle over another process; each operation has a connection of its own.

    Every method raises the error that the owner met, and ControlError when the owner cannot be
    reached or ends before its answer.
    """

    def __init__(self, state_dir: Path, session: str, options: RunOptions, *, via: str) -> None:
        super().__init__(state_dir, session, via=via)
        self.options = options

    def note_mode(self, mode: PermissionMode) -> None:
        """Note the mode of the runs that begin from now on."""
        self.options = replace(self.options, mode=mode)

    async def events(self, after: int = 0) -> AsyncGenerator[Event, None]:
        """Yield committed events, then live ones with deltas; see AppHandle.

        It ends when the owner closes the session. Raises ControlError (code `no_answer`) where the
        owner ends without a word, or cuts off a reader that takes nothing.
        """
        async with aclosing(self.stream("events", after=after)) as values:
            async for value in values:
                yield _event(value)

    async def ask(self, op: str, **args: Any) -> Any:
        """Return the answer of any operation that has one, over a connection of its own."""
        async with open_control(self._state_dir, self.session) as client:
            return await client.ask(op, **args)


def _event(value: Any) -> Event:
    try:
        return Event(**value)
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


_OVER = frozenset({"no_owner", "closing"})  # codes of errors: its agents write no more


@asynccontextmanager
async def held(
    state: Path, folder: Path, *, but: str | None = None
) -> AsyncIterator[Sequence[str]]:
    """Hold the files that a folder is part of; yield the agents that may write all the same.

    Every engine that works there is asked, `but` that of one session, and waits for its agents, for
    ten seconds. What this process dies of releases the files. Raises ControlError for an engine
    that does not answer.
    """
    root = repo_identity(folder).root
    known = sorted(lock.stem for lock in (state / "runs").glob("*.lock"))
    running = [one for one in known if one != but and find_owner(state, one) is not None]
    async with AsyncExitStack() as stack:
        found = await asyncio.gather(*(_hold(stack, state, root, one) for one in running))
        yield [writer for writers in found for writer in writers]


async def _hold(stack: AsyncExitStack, state: Path, root: Path, session: str) -> Sequence[str]:
    """Hold the files of a session, if it works in that working tree."""
    try:
        app = await stack.enter_async_context(open_remote(state, session))
        if repo_identity(Path(app.options.workspace)).root != root:
            return ()
        values = app.changes.hold_files()
        stack.push_async_callback(values.aclose)
        return await anext(values)
    except ControlError as error:
        if error.code in _OVER:  # it has ended meanwhile
            return ()
        raise


def require_quiet(writers: Sequence[str]) -> None:
    """Raise ConfigError while agents write: what they do would be mixed with what is restored."""
    if writers:
        raise ConfigError(
            f"nothing was changed, because an agent writes here: {'; '.join(writers)}",
            hint="let it end, or end it with `prsm kill`, then try again",
            code="agents_write",
        )
