"""Tells a person that a run needs them, has ended or is held, without any agent's text."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prsm_core.engine.processes.executor import run_captured
from prsm_core.engine.processes.launcher import ProcessLauncher
from prsm_core.errors import PrsmError
from prsm_core.interfaces.sink import EventSink, EventSinkSpec, RunInfo
from prsm_core.kit.clocks import SystemClock
from prsm_core.kit.terminal import one_line

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator, Mapping, Sequence

    from prsm_core.config.schema import NotifySettings
    from prsm_core.domain.events import Event

# For all ways together. It is less than a sink may take for a batch.
SECONDS = 10.0
# Of one batch: whoever is needed twenty times at once looks at the run.
MOST = 5
TERMINAL = "/dev/tty"
WEBHOOK = Path(__file__).with_name("webhook.py")
# Characters of what a program says as it fails.
LINE = 200
# What `notify-send` finds the desktop by.
DESKTOP_VARIABLES = ("DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR")
WORDS = {"needs_you": "needs you", "ended": "has ended", "held": "is held"}
# A name that could be a sentence is not told.
_NAME = re.compile(r"[\w.-]{1,40}")


# By the type of an event: the kind that it is told as.
KINDS = {
    "permission_requested": "needs_you",
    "question_asked": "needs_you",
    "agent_held": "held",
    "run_finished": "ended",
}
_ANSWERS = frozenset({"permission_resolved", "question_answered"})


def notify_sinks(settings: NotifySettings) -> tuple[EventSinkSpec, ...]:
    """Return the sink, or nothing where no way to tell a person is set."""
    if not (settings.desktop or settings.command or settings.webhook):
        return ()
    return (
        EventSinkSpec(
            name="notify",
            summary="Tells a person that a run needs them, has ended or is held.",
            factory=lambda run, _: NotifySink(run, settings),
            kinds=frozenset({"agent_spawned", *KINDS, *_ANSWERS}),
        ),
    )


class CannotNotifyError(PrsmError):
    """A way to tell a person that failed."""


@dataclass(frozen=True, slots=True)
class Notification:
    """What a person is told; `agent` is the agent's name, or None for the run."""

    kind: str
    session: str
    agent: str | None

    @property
    def text(self) -> str:
        """The notification as a line for people."""
        return f"PRSM: {self.agent or 'the run'} {WORDS[self.kind]} (session {self.session})"

    @property
    def variables(self) -> dict[str, str]:
        """The notification as a command of the person's reads it."""
        return {f"PRSM_NOTIFY_{name.upper()}": value or "" for name, value in asdict(self).items()}


class NotifySink(EventSink):
    """Tells a person of a run by the ways that they have set."""

    def __init__(self, run: RunInfo, settings: NotifySettings) -> None:
        self._session = run.session
        self._settings = settings
        self._names = {agent.agent_id: agent.name for agent in run.agents}

    async def write(self, batch: Sequence[Event]) -> None:
        """Tell what is in the batch, by all ways at once; raises CannotNotifyError."""
        notifications = list(dict.fromkeys(self._found(batch)))[-MOST:]
        if not notifications:
            return
        async with ProcessLauncher(SystemClock()) as launcher:
            ways = [way for each in notifications for way in self._ways(launcher, each)]
            outcomes = await asyncio.gather(*ways, return_exceptions=True)
        errors = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        for error in errors:
            if not isinstance(error, PrsmError):
                raise error
        if errors:
            raise CannotNotifyError("; ".join(dict.fromkeys(str(error) for error in errors)))

    def _found(self, batch: Sequence[Event]) -> Sequence[Notification]:
        """Return what a person is to be told; not of a request that is answered by now."""
        answered = {event.data["request"] for event in batch if event.type in _ANSWERS}
        found = []
        for event in batch:
            if event.type == "agent_spawned" and event.agent is not None:
                self._names[event.agent] = event.data["name"]
            kind = KINDS.get(event.type, "")
            if kind not in self._settings.about or event.data.get("request") in answered:
                continue
            # One that is held by a login or a limit no more goes on again.
            if kind != "held" or event.data.get("waiting_on") is not None:
                found.append(Notification(kind, self._session, self._name(event.agent)))
        return found

    def _name(self, agent: str | None) -> str | None:
        if agent is None:
            return None
        name = self._names.get(agent, "")
        return name if _NAME.fullmatch(name) else "an agent"

    def _ways(
        self, launcher: ProcessLauncher, notification: Notification
    ) -> Iterator[Coroutine[Any, Any, None]]:
        settings = self._settings
        if settings.desktop:
            yield _tell_desktop(launcher, notification)
        if settings.command:
            yield _run(launcher, "command", settings.command, notification.variables)
        if settings.webhook:
            request = {
                "PRSM_NOTIFY_URL": settings.webhook,
                "PRSM_NOTIFY_BODY": json.dumps(asdict(notification)),
            }
            yield _run(launcher, "webhook", (sys.executable, "-I", "-S", str(WEBHOOK)), request)


async def _tell_desktop(launcher: ProcessLauncher, notification: Notification) -> None:
    """Show it by `notify-send` where there is a desktop, else by the terminal (OSC 9)."""
    program = shutil.which("notify-send")
    variables = {name: os.environ[name] for name in DESKTOP_VARIABLES if name in os.environ}
    if program and ("DISPLAY" in variables or "WAYLAND_DISPLAY" in variables):
        argv = (program, "--app-name=PRSM", "PRSM", notification.text)
        await _run(launcher, "desktop", argv, variables)
    elif not await asyncio.to_thread(_write_to_terminal, f"\x1b]9;{notification.text}\x07"):
        raise CannotNotifyError(
            "notify.desktop has neither a terminal nor a desktop with `notify-send`"
        )


def _write_to_terminal(text: str) -> bool:
    """Write to the terminal of this process; False where it has none in the foreground."""
    try:
        descriptor = os.open(TERMINAL, os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        # A program in the background would be stopped by what it writes.
        is_in_front = os.tcgetpgrp(descriptor) == os.getpgrp()
        return is_in_front and os.write(descriptor, text.encode()) > 0
    except OSError:
        return False
    finally:
        os.close(descriptor)


async def _run(
    launcher: ProcessLauncher, way: str, argv: Sequence[str], env: Mapping[str, str]
) -> None:
    """Run a program to its end, within the time; raises CannotNotifyError."""
    try:
        result = await run_captured(
            launcher,
            argv,
            name=f"notify.{way}",
            # Where no workspace has a say in what a relative name means.
            cwd=str(Path.home()),
            timeout_s=SECONDS,
            clock=SystemClock(),
            env=env,
        )
    except PrsmError as error:
        raise CannotNotifyError(error.message) from error
    if result.timed_out:
        raise CannotNotifyError(f"notify.{way} has not ended within {SECONDS:.0f} s")
    if result.exit_code:
        line = one_line(result.stderr)[:LINE]
        why = f": {line}" if line else ""
        raise CannotNotifyError(f"notify.{way} ended with {result.exit_code}{why}")
