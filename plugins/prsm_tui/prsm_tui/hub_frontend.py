"""The frontends `tui` and `sessions`: one session on a screen, and many, which outlive it."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from prsm_core import ConfigError, Frontend, HubFrontend
from prsm_core.kit import first_line

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence
    from typing import Unpack

    from prsm_core import AppHandle, Hub
    from prsm_tui.model.session import Session
    from prsm_tui.screen.app import ScreenOptions, Tui
    from prsm_tui.screen.hub_app import HubTui
    from prsm_tui.settings import TuiSettings

    Beside = Callable[[], Coroutine[Any, Any, Any]]

INTERRUPTED = 130  # the exit code where a run was open that ends with this process


class _OnTerminal:
    """Knows the settings and the terminal of a frontend.

    Settings: `interactive` (default true); false leaves every request to the engine. With the
    section's `linear` it writes lines and draws nothing.
    """

    def __init__(self, settings: Mapping[str, Any], own: TuiSettings | None = None) -> None:
        self._own = own
        self._interactive = bool(settings.get("interactive", True))
        self._terminals = Terminals.of_process()

    def _switch(self) -> str | None:
        """Return what turned the linear mode on, None where it is off."""
        from prsm_tui.settings import switched_on_by

        return switched_on_by(os.environ, setting=self._own is not None and self._own.linear)

    def _options(self, terminal: TextIO, keyboard: int) -> ScreenOptions:
        keymap = None if self._own is None else self._own.keymap
        return {
            "terminal": terminal,
            "keyboard": keyboard,
            "answers": self._interactive,
            "keymap": keymap,
        }


class SessionsFrontend(_OnTerminal, HubFrontend):
    """Shows the sessions until a person leaves."""

    async def run(self, hub: Hub) -> int:
        """Show the list and what is opened of it; return once it was left.

        Raises ConfigError where there is no terminal.
        """
        switch = self._switch()
        terminal, keyboard = self._terminals.needed("sessions")
        if switch is not None:
            from prsm_tui.linear.opening import tell_many

            typed = await tell_many(hub, switch, terminal, keyboard, answers=self._interactive)
            _tell_unsent(typed, terminal)
            return 0
        tui, beside = compose_hub(hub, **self._options(terminal, keyboard))
        await draw(tui, beside, self._own)
        _tell_unsent(tui.drafts(), terminal)
        return 0


def _tell_unsent(typed: Sequence[str], terminal: TextIO) -> None:
    for text in typed:
        terminal.write(f"prsm: not sent: {first_line(text)}\n")
    terminal.flush()


def compose_hub(hub: Hub, **options: Unpack[ScreenOptions]) -> tuple[HubTui, Sequence[Beside]]:
    """Return the screen of many sessions, and what has to run beside it."""
    from prsm_tui.hub_acts import HubActs
    from prsm_tui.model.sessions import Sessions
    from prsm_tui.rounds import Rounds
    from prsm_tui.screen.hub_app import HubTui

    sessions = Sessions()
    sessions.chosen = hub.options.session
    tui = HubTui(sessions, workspace=hub.options.workspace, **options)
    answers = options.get("answers", True)
    tui.many = acts = HubActs(hub, tui, answers=answers)
    tui.rounds = rounds = Rounds(hub, sessions, tui.changed, answers=answers)
    return tui, [rounds.follow, acts.serve]


class TuiFrontend(_OnTerminal, Frontend):
    """Shows one session until a person leaves it."""

    async def run(self, app: AppHandle) -> int:
        """Show the session, begin the task of the command line, and return once it was left.

        Raises ConfigError where there is no terminal.
        """
        terminal, keyboard = self._terminals.needed("tui")
        switch = self._switch()
        if switch is not None:
            from prsm_tui.linear.opening import tell

            session, owns, typed = await tell(
                app, switch, terminal, keyboard, answers=self._interactive
            )
            return _leave_session(session, typed, terminal, owns=owns)
        tui, beside = await compose(app, **self._options(terminal, keyboard))
        await draw(tui, beside, self._own)
        return _leave_session(tui.session, tui.drafts(), terminal, owns=tui.owns)


class Terminals(NamedTuple):
    """What a person sees and types on, as far as these are terminals."""

    screen: TextIO | None
    keyboard: int | None

    @classmethod
    def of_process(cls) -> Terminals:
        """Return those of this process; of stderr and stdout, one may lead to a file."""
        screen = next(filter(_is_terminal, (sys.stderr, sys.stdout)), None)
        return cls(screen, _descriptor(sys.stdin))

    def needed(self, name: str) -> tuple[TextIO, int]:
        """Return both; raises ConfigError, for the frontend of this name, where one is none."""
        screen, keyboard = self
        if keyboard is None or not os.isatty(keyboard) or screen is None:
            raise ConfigError(
                f"the frontend {name} needs a terminal to read and to draw on",
                hint="use another, such as --ui console",
            )
        return screen, keyboard


def _leave_session(session: Session, typed: Sequence[str], terminal: TextIO, *, owns: bool) -> int:
    is_cut_off = owns and session.run is not None and session.run.is_open
    if is_cut_off:
        terminal.write(f"prsm: the run is interrupted: prsm resume {session.id} goes on with it\n")
    _tell_unsent(typed, terminal)
    return INTERRUPTED if is_cut_off else 0


async def compose(app: AppHandle, **options: Unpack[ScreenOptions]) -> tuple[Tui, Sequence[Beside]]:
    """Return the screen of a session, and what has to run beside it; its task is begun there."""
    from prsm_tui.acts import Acts, owns_runs
    from prsm_tui.model.session import Session
    from prsm_tui.pump import Pump
    from prsm_tui.screen.app import Tui

    session = Session.of_view(await app.view(), options.get("clock", time.time)())
    owns = await owns_runs(app, session.id)
    tui = Tui(session, owns=owns, **options)
    tui.acts = acts = Acts(app, session, tui)
    acts.looks.owns = owns
    pump = Pump(app, session, tui.changed)
    acts.begin()
    attending = [pump.attend] if options.get("answers", True) else []
    return tui, [pump.follow, pump.keep_spent, pump.keep_name, acts.serve, *attending]


async def draw(tui: Tui, beside: Sequence[Beside], own: TuiSettings | None) -> None:
    """Run a screen that looks, and tells, as it is set."""
    from prsm_tui.screen.driver import signals_kept
    from prsm_tui.screen.themes import THEMES

    if own is not None:
        tui.theme, tui.notifies = THEMES[own.theme], own.notify
    with signals_kept():
        await show(tui, beside, tui.run_async)


async def show(tui: Tui, beside: Sequence[Beside], run: Beside) -> None:
    """Run the screen, and the rest beside it for as long; raise what went wrong in any of them."""
    failed: list[Exception] = []

    async def guarded(work: Beside) -> None:
        try:
            await work()
        except Exception as error:  # noqa: BLE001 - raised below, once the terminal is whole
            failed.append(error)
            tui.exit()

    async with asyncio.TaskGroup() as group:
        helpers = [group.create_task(guarded(work)) for work in beside]
        shown = group.create_task(guarded(run), name="the screen")
        try:
            await asyncio.wait({shown})
        except asyncio.CancelledError:
            tui.exit()  # rather than by a cancellation, which would leave the terminal torn
            await asyncio.wait({shown})
            raise
        finally:
            for helper in helpers:
                helper.cancel()
    error = tui.failure or next(iter(failed), None)
    if error is not None:
        raise error


def _is_terminal(stream: TextIO | None) -> bool:
    descriptor = _descriptor(stream)
    return descriptor is not None and os.isatty(descriptor)


def _descriptor(stream: TextIO | None) -> int | None:
    try:
        return None if stream is None else stream.fileno()
    except (OSError, ValueError):  # closed, or held in memory
        return None
