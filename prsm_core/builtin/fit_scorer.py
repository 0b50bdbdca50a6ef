"""The built-in model scorer: how well a model does such work, what it costs, how fast it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.catalog.categories import GENERAL

if TYPE_CHECKING:
    from prsm_core.domain.models import ModelCapability, TaskProfile

_AFFINITY, _COST, _SPEED = 0.6, 0.25, 0.15  # their shares of the score
_UNKNOWN = 0.5  # of a model on which nobody has said how well it does


def score(model: ModelCapability, task: TaskProfile) -> float:
    """Return 0..1; a model of which nothing is known but a typical price gets 0.5."""
    affinity = model.affinities.get(task.category, model.affinities.get(GENERAL, _UNKNOWN))
    cheapness = 1 / (1 + model.cost_factor)
    speed = model.speed_factor / (1 + model.speed_factor)
    return _AFFINITY * affinity + _COST * cheapness + _SPEED * speed
