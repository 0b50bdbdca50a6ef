"""What the contract of an AppHandle has behind it: a master that does as a test says."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prsm_core.interfaces.frontend import AppHandle, RunHandle


class AppScene(ABC):
    """An application, and the master of its run, which does what a test says.

    Its provider takes images.
    """

    app: AppHandle

    @abstractmethod
    async def say(self, text: str) -> None:
        """Have the master say a whole message; returns once it is committed."""

    @abstractmethod
    async def begin_to_say(self, text: str) -> None:
        """Have the master say a piece of a message, which nothing commits."""

    @abstractmethod
    async def ask(self, question: str, *options: str) -> None:
        """Have the master ask the person, and offer options; returns once that is asked."""

    @abstractmethod
    async def finish(self, summary: str) -> None:
        """Have the master end its work, and the run with it."""


async def started(scene: AppScene) -> RunHandle:
    """Start a run whose master has said something: it is there, and works."""
    run = await scene.app.start_run("count")
    await scene.say("I begin")
    return run
