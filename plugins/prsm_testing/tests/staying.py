"""Frontends that stay until a person leaves them: one that writes lines, one that draws a screen.

Each has ways to break the contract, in which it is told apart from one that keeps it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import aclosing, contextmanager, suppress

from prsm_core import Frontend, PrsmError
from prsm_core.kit import escape_prose


def write(text):
    sys.stdout.write(text)
    sys.stdout.flush()


@contextmanager
def keys_of(stdin):
    """Yield a queue of what a person types; None is the end."""
    loop = asyncio.get_running_loop()
    keys: asyncio.Queue[bytes | None] = asyncio.Queue()

    def read():
        try:
            typed = os.read(stdin, 1024)
        except OSError:  # the terminal is closed
            typed = b""
        if not typed:
            loop.remove_reader(stdin)
        keys.put_nowait(typed or None)

    if not os.isatty(stdin):
        keys.put_nowait(None)
        yield keys
        return
    loop.add_reader(stdin, read)
    try:
        yield keys
    finally:
        loop.remove_reader(stdin)


class Staying(Frontend):
    """Shows how each run ends, until its person types q."""

    breaks = ""

    def __init__(self, settings):
        self.settings = settings

    async def run(self, app):
        with keys_of(sys.stdin.fileno()) as keys:
            async with asyncio.TaskGroup() as group:
                helpers = [group.create_task(self.follow(app))]
                if app.options.task is not None or self.breaks == "begins without a task":
                    helpers.append(group.create_task(self.begin(app)))
                await self.until_left(keys, app)
                for helper in helpers:
                    helper.cancel()
        return 3 if self.breaks == "its code is that of the run" else 0

    async def until_left(self, keys, app):
        if self.breaks == "ends with its run":
            await (await app.started()).result()
            return
        while (typed := await keys.get()) is not None:
            if b"q" in typed and self.breaks != "cannot be left":
                return

    async def begin(self, app):
        try:
            await (await app.runs.start(app.options.task or "a task of its own")).result()
        except (PrsmError, RuntimeError) as error:
            if self.breaks != "hides why":
                self.show(f"error: {error}")

    async def follow(self, app):
        async with aclosing(app.events()) as events:
            async for event in events:
                if event.type == "run_finished":
                    self.show(event.data["summary"])

    def show(self, text):
        write(f"{text if self.breaks == 'shows it raw' else escape_prose(text)}\r\n")


class Drawing(Staying):
    """Draws the newest text into the last row, letter by letter, and again at another size."""

    text = ""

    async def run(self, app):
        loop = asyncio.get_running_loop()
        if self.breaks != "takes no other size":
            loop.add_signal_handler(signal.SIGWINCH, self.draw)
        write("\x1b[?1049h\x1b[?25l")
        try:
            return await super().run(app)
        finally:
            loop.remove_signal_handler(signal.SIGWINCH)
            with suppress(OSError):
                write("\x1b[?25h" if self.breaks == "leaves its screen" else "\x1b[?25h\x1b[?1049l")

    def show(self, text):
        self.text = escape_prose(text).replace("\n", " ")
        self.draw()

    def draw(self):
        columns, rows = (80, 24)
        with suppress(OSError):
            columns, rows = os.get_terminal_size(sys.stdout.fileno())
        if self.breaks == "draws over its text":
            rows = 1
        write("\x1b[2J")
        for column, char in reversed([*enumerate(self.text[: columns - 1], 1)]):  # no line of it
            write(f"\x1b[{rows};{column}H{char}")
        if self.breaks == "draws over its text":
            write("\x1b[1;1H" + " " * 20)
