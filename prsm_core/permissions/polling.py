"""Which commands only read, and which only look something up, remembered; see by_text.

What reads them is imported with the first command: see the room.
"""

from __future__ import annotations

from functools import lru_cache


@lru_cache(maxsize=512)
def only_reads(command: str) -> bool:
    """Return whether a command is known to change nothing."""
    from prsm_core.permissions import by_text

    return by_text.only_reads(command)


@lru_cache(maxsize=512)
def looks_up(command: str) -> bool:
    """Return whether a command does no more than look how something is, here or elsewhere."""
    from prsm_core.permissions import by_text

    return by_text.looks_up(command)
