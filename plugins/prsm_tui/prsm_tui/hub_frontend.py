"""The frontend `sessions`: many sessions on one screen. Runs that begin here go on without it."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from prsm_core import HubFrontend
from prsm_core.kit import first_line
from prsm_tui.frontend import Terminals, look, show

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import TextIO

    from prsm_core import Hub
    from prsm_tui.frontend import Beside
    from prsm_tui.keys import Keymap
    from prsm_tui.screen.hub_app import HubTui
    from prsm_tui.settings import TuiSettings


class SessionsFrontend(HubFrontend):
    """Shows the sessions until a person leaves.

    Settings: `interactive` (default true); false leaves every request to the engine.
    """

    def __init__(self, settings: Mapping[str, Any], own: TuiSettings | None = None) -> None:
        self._own = own
        self._interactive = bool(settings.get("interactive", True))
        self._terminals = Terminals.of_process()

    async def run(self, hub: Hub) -> int:
        """Show the list and what is opened of it; return once it was left.

        Raises ConfigError where there is no terminal. In the linear mode lines are written.
        """
        from prsm_tui.linear.switch import switched_on_by

        is_linear = self._own is not None and self._own.linear
        switch = switched_on_by(os.environ, setting=is_linear)
        terminal, keyboard = self._terminals.needed("sessions")
        if switch is not None:
            from prsm_tui.linear.opening import tell_many

            typed = await tell_many(
                hub,
                switch=switch,
                terminal=terminal,
                keyboard=keyboard,
                answers=self._interactive,
            )
            return _left(typed, terminal)
        from prsm_tui.screen.driver import signals_kept

        tui, beside = compose_hub(
            hub,
            answers=self._interactive,
            terminal=terminal,
            keyboard=keyboard,
            keymap=None if self._own is None else self._own.keymap,
        )
        look(tui, self._own)
        with signals_kept():
            await show(tui, beside, tui.run_async)
        return _left(tui.drafts(), terminal)


def _left(typed: Sequence[str], terminal: TextIO) -> int:
    """Tell what was not sent; return the exit code."""
    for text in typed:
        terminal.write(f"prsm: not sent: {first_line(text)}\n")
    terminal.flush()
    return 0


def compose_hub(
    hub: Hub,
    *,
    answers: bool = True,
    terminal: TextIO | None = None,
    keyboard: int | None = None,
    keymap: Keymap | None = None,
    clock: Callable[[], float] = time.time,
) -> tuple[HubTui, Sequence[Beside]]:
    """Return the screen of many sessions, and what has to run beside it."""
    from prsm_tui.hub_acts import HubActs
    from prsm_tui.model.sessions import Sessions
    from prsm_tui.rounds import Rounds
    from prsm_tui.screen.hub_app import HubTui

    sessions = Sessions()
    sessions.chosen = hub.options.session
    tui = HubTui(
        sessions,
        workspace=hub.options.workspace,
        terminal=terminal,
        keyboard=keyboard,
        answers=answers,
        keymap=keymap,
        clock=clock,
    )
    tui.many = acts = HubActs(hub, tui, answers=answers)
    tui.rounds = rounds = Rounds(hub, sessions, tui.changed, answers=answers)
    return tui, [rounds.follow, acts.serve]
