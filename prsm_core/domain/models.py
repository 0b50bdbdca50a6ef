"""Models: what providers list and what is known of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInfo:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCapability:
    """What is known of a model; affinities are scores 0..1 by task category."""

    model_id: str
    provider: str
    tier: ModelTier
    affinities: Mapping[str, float] = field(default_factory=dict)
    cost_factor: float = 1.0
    speed_factor: float = 1.0
    max_context: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskProfile:
    """A task as a model scorer sees it."""

    description: str
    category: str = "general"
    complexity: str | None = None
