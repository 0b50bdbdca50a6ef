"""Joins a run that another process has begun: for frontends that begin one and end with it."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from prsm_core.domain.account import code_of, problems_of
from prsm_core.domain.events import ends_run
from prsm_core.domain.usage import Spent
from prsm_core.engine.control.remote import RemoteApp, RemoteRun
from prsm_core.errors import ControlError
from prsm_core.interfaces.frontend import RunResult

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class JoinedRun(RemoteRun):
    """The handle of a run that is open; its end is read from its events."""

    def __init__(self, app: RemoteApp, run_id: str, session: str, since: int) -> None:
        super().__init__(app, run_id, session, since)
        self._app = app

    async def result(self) -> RunResult:
        """Wait for the run's end; raises ControlError when the session is closed before it."""
        async with aclosing(self._app.events(self.since)) as events:
            async for event in events:
                if ends_run(event, self.run_id, self.since):
                    return _result(event.data)
        raise ControlError(
            f"session {self.session} was closed before its run ended", code="session_closed"
        )


class JoinedApp(RemoteApp):
    """The owner of a session, with its open run as the first that is started."""

    def __init__(
        self, app: RemoteApp, state_dir: Path, view: Mapping[str, Any], *, via: str
    ) -> None:
        """Join the run of a session that is open as it is viewed."""
        run = view["run"] or {"task": None, "status": None}
        options = replace(app.options, task=run["task"])
        super().__init__(state_dir, app.session, options, via=via)
        self._is_joined = False
        self._open: JoinedRun | None = None
        if run["status"] == "running":
            self._open = JoinedRun(self, run["id"], app.session, view["seq"])

    async def start_run(self, task: str, **overrides: Any) -> RemoteRun:
        """Return the open run, once; after that start another at the owner.

        Raises ControlError (code `no_run`) where none was open.
        """
        if self._is_joined:
            return await super().start_run(task, **overrides)
        if self._open is None:
            raise ControlError(
                f"no run is open in session {self.session}",
                hint="`prsm events` prints what it did",
                code="no_run",
            )
        self._is_joined = True
        return self._open


def _result(told: Mapping[str, Any]) -> RunResult:
    spent = Spent.from_dict({**(told.get("usage") or {}), **told})
    return RunResult(
        status=told["status"],
        summary=told.get("summary") or "",
        exit_code=code_of(told),
        error=told.get("error"),
        usage=spent.usage,
        spent=spent,
        problems=problems_of(told),
    )
