"""How often the process looks for garbage: seldom while it starts and works, never as it ends.

Python looks after every few hundred objects that are made. Importing makes a hundred times as
many, all of which stay; at the end all are looked through once more, and then go anyhow.
"""

from __future__ import annotations

import gc

OBJECTS = 50_000  # that may be new before garbage among them is looked for: some megabytes


def collect_seldom() -> None:
    """Look after many objects; to be called before what they are is imported."""
    gc.set_threshold(OBJECTS)


def collect_no_more() -> None:
    """Leave what there is to the end of the process."""
    gc.freeze()
