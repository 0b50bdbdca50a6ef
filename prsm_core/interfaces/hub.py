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

    Each session has the settings, trust, policy and plugins' sections of its own workspace. What
    breaks in one is told to whoever opened it, and touches no other.
    """

    options: RunOptions  # what the command line said; `session` is the one it means, or None

    def open(self, options: RunOptions) -> AbstractAsyncContextManager[AppHandle]:
        """Own a session: the one that `options` names, or else a new one.

        `options.session` of the handle is its id. `options` hold for its runs, but their `task` is
        not begun. Leaving interrupts what runs and closes the session; another task than the
        entering one may leave it.

        Raises SessionOwnedError for an owned session, StoreError for an unknown one, ConfigError
        for a wrong configuration of the workspace, and PluginError for a required plugin.
        """

    def attach(self, session: str) -> AbstractAsyncContextManager[AppHandle]:
        """Reach a session that a process owns, which may be this one; leaving it ends nothing.

        Raises ControlError: nobody owns it (code `no_owner`), or its owner cannot be reached.
        """

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

        An unreadable ledger is left out and logged.
        """

    async def start(self, options: RunOptions) -> DetachedRun:
        """Begin a run in a process of its own, as `prsm run --detach` does.

        It is `options.task`, in `options.session` or a new one. `continues` gives it to the
        session's last master, in its mode; `resumes` goes on with the newest run. Requests wait for
        a person, `unattended_s` long while nobody attends. The owner ends with the run; leaving
        `attach` or the hub ends nothing.

        Without a task `options.session` is served: who attaches decides about changes and
        snapshots, or begins a run in the last master's mode, with which the owner ends. It also
        ends after 60 seconds without a question or a follower.

        Raises SessionOwnedError if a process owns the session, this one too, ConfigError for a
        finished run that is to go on (code `finished`) and without task and session (`no_task`),
        and PrsmError with the owner's words if the run could not begin.
        """

    async def peek(self, session: str, limit: int = 20) -> Sequence[HistoryEntry]:
        """Return the last entries of the session's newest master, as `Agents.history` does.

        They come from the ledger, whoever owns the session; none before the first agent. Raises
        StoreError (code `unknown_session`), and SessionOwnedError for an owned session without a
        run, as do the others.
        """

    async def rename(self, session: str, name: str) -> None:
        """Give a session a name, or none if blank; also while it runs.

        Raises ConfigError for a name that is too long or acts on a terminal.
        """

    async def fork(self, session: str, at: int | None = None) -> str:
        """Begin another session as this one was at event `at`, and return it; see Sessions.fork."""

    async def delete(self, session: str) -> None:
        """Delete all that PRSM holds of a session, for good; nobody is asked.

        Raises SessionOwnedError for an owned session, StoreError if forks share it, ConfigError
        (code `has_worktrees`) if worktrees hold what is nowhere else, and PrsmError for what is
        left of it.
        """

    async def export(self, session: str, output: str, form: str = "json") -> str:
        """Write a session to a file, or into a folder, and return the file's path.

        `json` can be imported, `jsonl` has an event a line, `html` is a page. Raises ConfigError
        for another form, and for a file that cannot be written.
        """


class HubFrontend(ABC):
    """A user interface of many sessions; its FrontendSpec has the scope `hub`."""

    @abstractmethod
    async def run(self, hub: Hub) -> int:
        """Open, show and close sessions; return the exit code. Open ones are closed at its end."""
