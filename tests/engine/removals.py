"""A deletion that comes while images are kept which no ledger cites yet."""

from __future__ import annotations

import asyncio
import re
import threading
from typing import TYPE_CHECKING

from prsm_core.domain.turns import IMAGE_SCHEME
from prsm_core.store.removal import cited_in
from prsm_core.workspace.images import FILE, remove_images

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

LOOK_SECONDS = 0.3  # a removal that nobody holds up looks for citations in a hundredth of them


class Removal:
    """Removes all images of a folder that nobody cites, begun at one moment."""

    def __init__(self, folder: Path, cited: Callable[[], Collection[str]]) -> None:
        self._folder = folder
        self._cited = cited
        self._looks = threading.Event()
        self._removing: asyncio.Task[int] | None = None
        self.was_held_up = False

    @property
    def is_begun(self) -> bool:
        return self._removing is not None

    async def begin(self) -> None:
        """Begin it, and note whether it waits for whoever holds the images."""
        files = [path.name for path in self._folder.iterdir()]
        assert files, "none is kept yet"
        removing = asyncio.to_thread(remove_images, self._folder, files, self._look)
        self._removing = asyncio.get_running_loop().create_task(removing)
        self.was_held_up = not await asyncio.to_thread(self._looks.wait, LOOK_SECONDS)

    def _look(self) -> Collection[str]:
        self._looks.set()
        return self._cited()

    async def end(self) -> int:
        """Return how many it has removed."""
        assert self._removing is not None, "nothing was said that cites an image"
        return await self._removing


def removes_before_commit(team, state: Path) -> Removal:
    """Have a removal begin just before the first step is committed that cites an image."""
    commit = team.store.commit
    removal = Removal(state / "images", lambda: citations(team.ledger.path))

    async def meanwhile(step):
        if IMAGE_SCHEME in repr(step) and not removal.is_begun:
            await removal.begin()
        return await commit(step)

    vars(team.store)["commit"] = meanwhile
    return removal


def citations(ledger: Path) -> Collection[str]:
    """Return the files of the images that a ledger cites."""
    found = cited_in(ledger, IMAGE_SCHEME, re.compile(IMAGE_SCHEME + FILE.pattern))
    return {mark.removeprefix(IMAGE_SCHEME) for mark in found}
