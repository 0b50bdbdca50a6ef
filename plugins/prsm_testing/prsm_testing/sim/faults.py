"""What may go wrong: the names of the faults, and the dice that decide when one strikes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from prsm_core.errors import ConfigError

if TYPE_CHECKING:
    import random

FAULTS = {
    "crash": "a provider's session breaks in the middle of a turn, or cannot be opened",
    "hang": "a provider falls silent, or does not stop when it is told to",
    "garbage": "unknown tools, wrong arguments, invalid text, events after the end, no end",
    "429": "a provider limits the rate, and says when to come again",
    "duplicate": "a call is delivered twice",
    "late": "a call comes after its turn, or its answer is not waited for",
    "stale": "an ended agent lives again, and what its former life did comes late",
    "interrupt": "the user interrupts the run: the engine is closed in the middle of it",
    "restart": "the engine is dropped between two commits, and another opens the ledger",
    "slow-sink": "a sink takes minutes for a batch, or raises",
}


def parse_faults(text: str) -> frozenset[str]:
    """Return the faults of `all`, `none`, or names with commas; raise ConfigError else."""
    if text == "all":
        return frozenset(FAULTS)
    if text == "none":
        return frozenset()
    wanted = frozenset(name.strip() for name in text.split(","))
    unknown = sorted(wanted - FAULTS.keys())
    if unknown:
        raise ConfigError(
            f"no fault is named {', '.join(map(repr, unknown))}",
            hint=f"choose of: all, none, {', '.join(FAULTS)}",
        )
    return wanted


class FaultDice:
    """Decides when a fault strikes, and counts those that did."""

    def __init__(self, allowed: frozenset[str], dice: random.Random, rate: float) -> None:
        self.injected: Counter[str] = Counter()
        self._allowed = allowed
        self._dice = dice
        self._rate = rate  # of this run: some are calm, some are wild

    def strikes(self, fault: str, chance: float) -> bool:
        """Return whether the fault strikes now; chance is that of a run of the usual rate."""
        if fault not in self._allowed or self._dice.random() >= chance * self._rate:
            return False
        self.injected[fault] += 1
        return True
