"""Model scorers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prsm_core.domain.models import ModelCapability, TaskProfile
from prsm_core.interfaces.records import Registration

ModelScorer = Callable[[ModelCapability, TaskProfile], float | None]
ScorerWithSettings = Callable[[ModelCapability, TaskProfile, Any], float | None]


class ModelScorerSpec(Registration, frozen=True, kw_only=True):
    """Registers a scorer (0..1, None = no opinion); the result is the weighted mean.

    `settings` is a msgspec.Struct or its import string: what `scorers.NAME` of the configuration
    may hold, and the scorer's third argument.
    """

    word = "model scorer"

    weight: float
    score: str | ModelScorer | ScorerWithSettings
    settings: str | type[Any] | None = None
