"""The terminal that Textual draws on: the streams of this process as they are when it begins."""

from __future__ import annotations

import os
import select
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO, cast

from textual.drivers.linux_driver import LinuxDriver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SIGNALS = (signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH, signal.SIGTTOU, signal.SIGTTIN)
_GONE = select.POLLHUP | select.POLLERR | select.POLLNVAL
_KEEP_TITLE, _RESTORE_TITLE = "\x1b[22;0t", "\x1b[23;0t"


class Output:
    """What is drawn on; once nobody is there, `gone` is called and writing does nothing.

    Textual writes in a thread of its own through a short queue: an error there would end the
    thread, and whoever writes next would wait for ever.

    The stream drops what a stalled terminal has no room for. `torn` is called once it takes text
    again, since a part of the screen is missing.
    """

    def __init__(
        self, stream: TextIO, *, gone: Callable[[], None], torn: Callable[[], object]
    ) -> None:
        self._stream = stream
        self._gone = gone
        self._torn = torn
        self._is_gone = False
        self._is_torn = False

    def write(self, text: str) -> None:
        """Write, as long as somebody is there."""
        self._try(lambda: self._write(text))

    def _write(self, text: str) -> None:
        was_torn, self._is_torn = self._is_torn, self._stream.write(text) < len(text)
        if was_torn and not self._is_torn:
            self._torn()

    def flush(self) -> None:
        """Let all be seen that was written."""
        self._try(self._stream.flush)

    def fileno(self) -> int:
        """Return the descriptor that is written to."""
        return self._stream.fileno()

    def _try(self, act: Callable[[], object]) -> None:
        if self._is_gone:
            return
        try:
            act()
        except (OSError, ValueError):  # the terminal was closed, or its stream
            self._is_gone = True
            self._gone()


class TerminalDriver(LinuxDriver):
    """Draws on the stream that the application was given, and reads the terminal beside it."""

    def __init__(self, app: Any, **options: Any) -> None:
        super().__init__(app, **options)
        self._output = Output(
            app.terminal,
            gone=self._leave,
            torn=lambda: self._loop.call_soon_threadsafe(app.redraw),
        )
        self._file = cast("Any", self._output)
        self.fileno = app.keyboard
        self.input_tty = True

    def start_application_mode(self) -> None:
        """Take the terminal, and keep its title."""
        super().start_application_mode()  # type: ignore[no-untyped-call]
        self.write(_KEEP_TITLE)

    def stop_application_mode(self) -> None:
        """Give the terminal back as it was."""
        self.write(_RESTORE_TITLE)
        super().stop_application_mode()

    def run_input_thread(self) -> None:
        """Read keys until the end, or until the terminal is closed."""
        try:
            super().run_input_thread()
        except OSError:
            self._leave()

    @property
    def has_gone(self) -> bool:
        """Whether the terminal was closed: reading it then gives nothing, again and again."""
        watched = select.poll()
        watched.register(self.fileno, 0)
        return any(event & _GONE for _, event in watched.poll(0))

    def _get_terminal_size(self) -> tuple[int, int]:
        try:
            size = os.get_terminal_size(self._output.fileno())
        except OSError:  # it was closed just now
            return 80, 24
        return size.columns or 80, size.lines or 24

    def _leave(self) -> None:
        """End the application, from whatever thread."""
        self._loop.call_soon_threadsafe(self._app.exit)


@contextmanager
def signals_kept() -> Iterator[None]:
    """Let the signals that Textual takes do afterwards what they did before."""
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
