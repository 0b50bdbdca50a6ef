"""What a person's intent says about models: "use claude for /ui"."""

from __future__ import annotations

import re
from dataclasses import dataclass

from prsm_regions.ground import is_below

# The slash is what tells a region from any other thing that something is used for.
_SAID = re.compile(
    r"(?:\buse|\band|,)\s+(?P<model>[\w][\w./:@+-]*)\s+for\s+(?P<region>/[\w./@+-]*)", re.IGNORECASE
)
_FIRST = re.compile(r"\buse\s+[\w][\w./:@+-]*\s+for\s+/", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Override:
    """A model for a region of the workspace, and all below it."""

    region: str
    model: str


def read_overrides(intent: str) -> tuple[Override, ...]:
    """Return what an intent says, in its order; the last one that fits a region holds."""
    if not _FIRST.search(intent):
        return ()
    return tuple(
        Override(_region(found["region"]), found["model"]) for found in _SAID.finditer(intent)
    )


def model_for(region: str, overrides: tuple[Override, ...]) -> str | None:
    """Return the model that a person wants for a region; None where they said nothing of it."""
    fitting = [one.model for one in overrides if is_below(region, one.region)]
    return fitting[-1] if fitting else None


def _region(text: str) -> str:
    return text.strip("/").rstrip(".").rstrip("/") or "."
