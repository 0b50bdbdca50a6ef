"""What a hub has the command line do: start runs in other processes, delete, export."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from prsm_core.cli.detaching import order, start_owner
from prsm_core.cli.places import workspace_paths
from prsm_core.cli.resuming import request_to_go_on
from prsm_core.cli.run_options import UNATTENDED_SECONDS
from prsm_core.cli.sessions.deleting import Places, delete
from prsm_core.cli.sessions.exporting import pieces_of, write
from prsm_core.cli.sessions.keepers import Keepers, require_no_trees
from prsm_core.door import DetachedRun
from prsm_core.engine.control.session_lock import SessionLock, find_owner
from prsm_core.errors import ConfigError, PrsmError, SessionOwnedError, StoreError
from prsm_core.store import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from prsm_core.cli.launch import Launch
    from prsm_core.engine.processes.launcher import DetachedProcess
    from prsm_core.interfaces.frontend import RunOptions
    from prsm_core.interfaces.store import SessionInfo

_LEAD = "prsm: "
# Of RunOptions, as a request has them too.
_TAKEN = ("workspace", "provider", "model", "session", "timeout_s", "images", "continues")
_UNTAKEN = {  # of RunOptions: no command line says them; what to do instead
    "effort": "configure it",
    "mcp_servers": "configure it",
    "abort_signal": "use interrupt_run",
}


class CommandErrands:
    """The errands of a hub, with the options its command gives to all runs."""

    def __init__(
        self,
        launch: Launch,
        sets: Sequence[str],
        keepers: Callable[[], Keepers],
        *,
        idle_s: float = 60.0,
    ) -> None:
        """Begin runs with these `sets`; a session served without a run ends after `idle_s`."""
        self._launch = launch
        self._sets = tuple(sets)
        self._keepers = keepers
        self._idle_s = idle_s
        self._watched: dict[int, DetachedProcess] = {}  # by a descriptor of the process

    async def start(self, options: RunOptions) -> DetachedRun:
        """Begin a run in a process of its own, or serve a session in one; see Hub.start."""
        if options.task is None and options.session is None:
            raise ConfigError(
                "a run has a task, and without one there is no session to serve",
                hint="give a task, or the session",
                code="no_task",
            )
        for name, instead in _UNTAKEN.items():
            if getattr(options, name) is not None:
                raise ConfigError(f"a run of a process of its own takes no {name}: {instead}")
        if options.session is not None:
            owner = find_owner(workspace_paths(options.workspace).state, options.session)
            if owner is not None:
                raise SessionOwnedError(
                    f"process {owner.process.pid} owns session {options.session}",
                    hint="talk to its agents there, or wait for its end",
                )
        notes: list[str] = []
        request = self._request(options)
        if options.resumes and options.session is not None:
            kept = {"sets": self._sets, "timeout_s": options.timeout_s}
            going_on = await request_to_go_on(options.workspace, options.session, kept)
            request, notes = {"unattended_s": request["unattended_s"], **going_on[0]}, going_on[1]
        return await self._begin(request, tuple(notes))

    async def delete(self, ledger: Path, session: str) -> None:
        """Delete a session of a ledger; see Hub.delete."""
        paths = workspace_paths(os.sep)
        with SessionLock.take(paths.state, session, since=time.time()) as lock:
            keepers = self._keepers()
            require_no_trees(keepers.worktrees(session), session)
            await delete(Places(paths.state, ledger, keepers), session, lock)

    async def export(self, ledger: Path, session: str, output: Path, form: str) -> Path:
        """Write a session of a ledger to a file; see Hub.export."""
        async with await SqliteStore.open(ledger, read_only=True) as store:
            info = await _info(store, session)
            pieces = pieces_of(store, info, workspace_paths(os.sep).state, form)
            data = "".join([piece async for piece in pieces]).encode()
        return await asyncio.to_thread(write, output, f"{session}.{form}", data)

    def close(self) -> None:
        """Stop watching the started processes; they go on."""
        for descriptor in tuple(self._watched):
            self._let_go(descriptor)

    def _request(self, options: RunOptions) -> dict[str, Any]:
        keeps_mode = options.continues or options.task is None
        return {
            **{name: getattr(options, name) for name in _TAKEN},
            "task": (options.task or "") if options.continues else options.task,
            "mode": None if keeps_mode else options.mode.value,
            "unattended_s": options.unattended_s or UNATTENDED_SECONDS,
            "sets": self._sets,
            "labels": dict(options.labels),
            "idle_s": self._idle_s,
        }

    async def _begin(self, request: Mapping[str, Any], notes: tuple[str, ...]) -> DetachedRun:
        """Start the owner and wait until its run has begun or failed to."""
        with tempfile.TemporaryFile() as said:
            wire, owner = start_owner(said)
            self._watch(owner)
            try:
                reader, writer = await asyncio.open_unix_connection(sock=wire)
                try:
                    writer.write(order(self._launch, request))
                    line = await reader.readline()
                finally:
                    writer.close()
            except BaseException:
                owner.terminate()  # whoever is interrupted meanwhile wants no run
                raise
            if line:
                told = json.loads(line)
                return DetachedRun(
                    session=told["session"], run=told["run"], pid=int(told["pid"]), notes=notes
                )
            said.seek(0)
            raise _what_was_said(said.read().decode(errors="replace"))

    def _watch(self, owner: DetachedProcess) -> None:
        descriptor = os.pidfd_open(owner.pid)
        self._watched[descriptor] = owner
        asyncio.get_running_loop().add_reader(descriptor, partial(self._let_go, descriptor))

    def _let_go(self, descriptor: int) -> None:
        asyncio.get_running_loop().remove_reader(descriptor)
        _ = self._watched.pop(descriptor).poll()
        os.close(descriptor)


async def _info(store: SqliteStore, session: str) -> SessionInfo:
    for info in await store.sessions():
        if info.session_id == session:
            return info
    raise StoreError(f"there is no session {session!r}", code="unknown_session")


def _what_was_said(text: str) -> PrsmError:
    """Return the error that an owner printed before it ended."""
    lines = [line.removeprefix(_LEAD) for line in text.splitlines() if line.strip()]
    told = [line for line in lines if not line.startswith(("starts: ", "note: "))]
    hints = [line.strip() for line in told if line.strip().startswith("hint: ")]
    said = [line for line in told if line.strip() not in hints]
    hint = hints[-1].removeprefix("hint: ") if hints else None
    return PrsmError(
        said[-1].removeprefix("error: ") if said else "the run's process ended before it began",
        hint=hint,
        code="not_begun",
    )
