"""Frontends of many sessions, and Hub, their only door to these."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractAsyncContextManager

    from prsm_core.door import DetachedRun, HistoryEntry, HubSession
    from prsm_core.interfaces.app_handle import AppHandle
    from prsm_core.interfaces.runs import RunOptions

__all__ = ["Hub", "HubFrontend"]


class Hub(Protocol):
    """The sessions of this process, and a door to those of others.

    Each session has the settings, the trust, the policy and the plugins' sections of its own
    workspace. What breaks in one is told to whoever opened it, and touches no other.
    """

    options: RunOptions  # what the command line said; `session` is the one it means, or None

    def open(self, options: RunOptions) -> AbstractAsyncContextManager[AppHandle]:
        """Own a session: the one that `options` names, or else a new one.

        `options.session` of the handle is its id. Its runs have what `options` say, whose `task` is
        not begun by itself. Leaving the context ends what runs in the session as interrupted and
        closes it; it may be left in another task than it was entered in.

        Raises SessionOwnedError where a process owns it already, StoreError for a session that
        there is not, ConfigError for a workspace whose configuration is wrong, and PluginError for
        a plugin that the workspace must have.
        """
        ...

    def attach(self, session: str) -> AbstractAsyncContextManager[AppHandle]:
        """Reach a session that a process owns, which may be this one; leaving it ends nothing.

        Raises ControlError: nobody owns it (code `no_owner`), or its owner cannot be reached.
        """
        ...

    def look(self, session: str) -> AbstractAsyncContextManager[AppHandle]:
        """Look at a session that nobody runs, as its ledger has it; nothing is started or written.

        An agent that had not ended is `interrupted`, and what it had asked waits until somebody
        goes on with it. Events end with the last one that is committed. What changes anything, and
        what only an engine knows, raises ControlError (code `no_owner`).

        Raises StoreError (code `unknown_session`) for a session that there is not, and
        SessionOwnedError for one that a process owns: attach to that.
        """
        ...

    async def sessions(self, workspace: str | None = None) -> Sequence[HubSession]:
        """Return the sessions of a workspace's repository, or of all, newest first.

        A ledger that cannot be read is left out, which is logged.
        """
        ...

    async def start(self, options: RunOptions) -> DetachedRun:
        """Begin a run that a process of its own owns to its end, as `prsm run --detach` does.

        It is `options.task`, in `options.session` or a new one; with `continues` the session's last
        master is given it, in the mode that it has; with `resumes` its newest run goes on. What its
        agents ask waits for a person, `unattended_s` long while nobody attends. The owner ends
        with the run; neither leaving `attach` nor the hub ends anything of it.

        Without a task `options.session` is served, and no run begins: who attaches decides about
        changes and snapshots, or begins a run in the mode of the last master, with which the owner
        ends. It also ends once nobody has asked it anything for 60 seconds; who follows it, asks.

        Raises SessionOwnedError where a process owns the session, this one too,
        ConfigError for a run that is finished and is to go on (code `finished`) and where there is
        neither a task nor a session (`no_task`), and PrsmError that says, as the owner did, what
        kept the run from beginning.
        """
        ...

    async def peek(self, session: str, limit: int = 20) -> Sequence[HistoryEntry]:
        """Return the last entries of the session's newest master, as `Agents.history` does.

        Nobody has to own the session, and nobody is asked. It is what is committed by now; nothing
        before the first agent. Raises StoreError (code `unknown_session`) for one that there is
        not, and SessionOwnedError for one that a process owns and that has had no run yet, as do
        the others.
        """
        ...

    async def rename(self, session: str, name: str) -> None:
        """Give a session a name, or none where it is blank; also while it runs.

        Raises ConfigError for one that is too long or acts on a terminal.
        """
        ...

    async def fork(self, session: str, at: int | None = None) -> str:
        """Begin another session as this one was at event `at`, and return it; see Sessions.fork.

        Raises StoreError for an event that there is not, or one before the first agent.
        """
        ...

    async def delete(self, session: str) -> None:
        """Delete all that PRSM holds of a session, for good; nobody is asked.

        Raises SessionOwnedError where a process owns it, StoreError where forks share it,
        ConfigError (code `has_worktrees`) where worktrees hold what is nowhere else, and PrsmError
        for what is left of it elsewhere.
        """
        ...

    async def export(self, session: str, output: str, form: str = "json") -> str:
        """Write a session to a file, or into a folder, and return the file's path.

        `json` can be imported, `jsonl` has an event a line, `html` is a page to read. Raises
        ConfigError for another form, and for a file that cannot be written.
        """
        ...


class HubFrontend(ABC):
    """A user interface of many sessions; its FrontendSpec has the scope `hub`."""

    @abstractmethod
    async def run(self, hub: Hub) -> int:
        """Open, show and close sessions, and return the exit code.

        Sessions that are still open when it ends, also by an error, are closed in order.
        """
