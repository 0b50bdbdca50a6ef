"""A model scorer: the cheaper a model, the better, unless the task is hard."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core import ModelScorerSpec, hookimpl

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prsm_core import ModelCapability, TaskProfile


def score(model: ModelCapability, task: TaskProfile) -> float | None:
    """Return 1 for a model that costs nothing, 1/2 for a typical one, towards 0 for dear ones."""
    if task.complexity == "complex":
        return None  # others know better what a hard task is worth
    return 1 / (1 + model.cost_factor)


@hookimpl
def prsm_model_scorers() -> Iterable[ModelScorerSpec]:
    """Contribute `thrift`, which counts as much as one other scorer of weight 1."""
    yield ModelScorerSpec(name="thrift", summary="Prefers cheap models.", weight=1.0, score=score)
