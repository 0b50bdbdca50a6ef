"""The contract of frontends of many sessions, by keys on a terminal that is drawn."""

from __future__ import annotations

from prsm_testing import HubFrontendContract
from prsm_tui.hub_frontend import SessionsFrontend

CTRL_C, F5, SHIFT_TAB, TAB = "\x03", "\x1b[15~", "\x1b[Z", "\t"


class TestSessions(HubFrontendContract):
    stays = True
    deadline_s = 60.0

    def build(self, settings, workspaces):
        return SessionsFrontend(settings)

    async def begin(self, hub, terminal, workspaces):
        """Type a task for each folder; what cannot begin comes back, and is left."""
        for place, workspace in enumerate(workspaces):
            await terminal.draws("Enter open")
            terminal.type("n")
            await terminal.draws("a new session")
            terminal.type(f"{SHIFT_TAB}{workspace}{TAB}")
            terminal.type("x" if place and hub.faults else f"task {place}")
            terminal.type("\r")
            if workspace in hub.faults:
                await terminal.draws("not begun")
            else:
                await terminal.draws("F1 keys")
            terminal.type(F5)

    async def leave(self, hub, terminal):
        terminal.type(CTRL_C)
        await terminal.draws("Ctrl+C again leaves")
        terminal.type(CTRL_C)
