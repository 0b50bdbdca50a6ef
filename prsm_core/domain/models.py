"""Models: what providers list and what is known of them."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import field

from prsm_core.domain.record import Record

if TYPE_CHECKING:
    from collections.abc import Mapping


class ModelInfo(Record, frozen=True, gc=False, kw_only=True):
    """A model as its provider lists it; `aliases` are other names that the vendor takes for it."""

    model_id: str
    display_name: str | None = None
    context_window: int | None = None
    reasoning_efforts: tuple[str, ...] = ()
    hidden: bool = False
    aliases: tuple[str, ...] = ()

    def is_called(self, name: str) -> bool:
        """Return whether the vendor takes a name for this model."""
        return name == self.model_id or name in self.aliases


class ModelTier(StrEnum):
    """A model's rough strength."""

    FRONTIER = "frontier"
    STRONG = "strong"
    FAST = "fast"
    ECONOMY = "economy"


class ModelCapability(Record, frozen=True, gc=False, kw_only=True):
    """What is known of a model; affinities are scores 0..1 by task category."""

    model_id: str
    provider: str
    tier: ModelTier
    affinities: Mapping[str, float] = field(default_factory=dict)
    cost_factor: float = 1.0
    speed_factor: float = 1.0
    max_context: int | None = None


class TaskProfile(Record, frozen=True, gc=False, kw_only=True):
    """A task as a model scorer sees it."""

    description: str
    category: str = "general"
    complexity: str | None = None
