"""The contract of every frontend, on a terminal that is drawn as a person sees it."""

from prsm_testing import FrontendContract
from prsm_tui.hub_frontend import TuiFrontend

CTRL_C, F2 = "\x03", "\x1bOQ"


class TestTui(FrontendContract):
    interactive = True
    stays = True
    draws = True
    deadline_s = 30.0

    def build(self, settings):
        return TuiFrontend(settings)

    async def choose(self, terminal, option):
        """Go to what waits, read it, and type the answer."""
        await terminal.draws("NEEDS YOU: 1")
        terminal.type(F2)
        await terminal.draws("[o]nce")  # which is offered once an answer counts
        terminal.type({"once": "o", "deny": "d"}[option] + "\r")

    async def reply(self, terminal, choice):
        await terminal.draws("NEEDS YOU: 1")
        terminal.type(F2)
        await terminal.draws(f"2. {choice}")
        await terminal.draws("a number or a text")
        terminal.type("2\r")

    async def leave(self, terminal):
        terminal.type(CTRL_C)
        await terminal.draws("Ctrl+C again leaves")
        terminal.type(CTRL_C)
