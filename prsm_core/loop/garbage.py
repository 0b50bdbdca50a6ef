"""How often the process looks for garbage: seldom while it works, never as it starts and ends.

Python looks after every few hundred objects that are made. Importing makes a hundred times as
many, all of which stay; at the end all are looked through once more, and then go anyhow.
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

OBJECTS = 50_000  # that may be new before garbage among them is looked for: some megabytes


def collect_seldom() -> None:
    """Look after many objects; to be called before what they are is imported.

    The first of them are what is imported. They are kept without a look, then and later: it takes
    as long as starting a process does.
    """
    gc.set_threshold(OBJECTS)
    importing = [True]

    def keep(phase: str, _: Mapping[str, int]) -> None:
        """Take what there is from the look that begins; it then finds nothing to look at."""
        if importing and phase == "start":
            importing.clear()
            gc.freeze()

    gc.callbacks.append(keep)


def collect_no_more() -> None:
    """Leave what there is to the end of the process."""
    gc.freeze()
