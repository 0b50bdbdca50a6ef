"""Somebody who hears the linear mode, and types."""

from __future__ import annotations

import asyncio

DEADLINE = 120.0


class Ears:
    """What was written, and the keys that were pressed: `keyboard` takes them."""

    def __init__(self, paper, keyboard):
        self.paper, self.keys = paper, keyboard
        self.left = asyncio.Event()

    @property
    def text(self):
        return self.paper.getvalue()

    @property
    def lines(self):
        return self.text.splitlines()

    def type(self, keys):
        """Press keys, as a terminal sends them at once."""
        self.keys.take(keys.replace("\n", "\r"))

    async def hears(self, *texts):
        await self.until(lambda: all(text in self.text for text in texts), *texts)

    async def hears_last(self, text):
        await self.until(lambda: text in self.lines[-1], text)

    def waits(self):
        """Do what moves things on while something is waited for."""

    async def until(self, is_so, *what):
        try:
            async with asyncio.timeout(DEADLINE):
                while not is_so():
                    self.waits()
                    await asyncio.sleep(0)
        except TimeoutError:
            raise AssertionError(f"not heard: {what}, but\n{self.text}") from None
