"""The ranking of models for a task: by tier where its complexity is known, then by all scorers."""

from __future__ import annotations

import math
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any

from prsm_core.catalog.selection import FITTING
from prsm_core.domain.record import Record
from prsm_core.errors import PluginError
from prsm_core.plugins.guard import Guest, PluginFaultError
from prsm_core.plugins.values import NUMBER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from prsm_core.domain.models import ModelCapability, ModelInfo, TaskProfile
    from prsm_core.interfaces.scorer import ModelScorer, ModelScorerSpec

RECOMMENDED = 3  # so many are told to whoever asks for the best


class RankedModel(Record, frozen=True, kw_only=True):
    """A model and what the scorers think of it; `score` is 0..1, None where none has an opinion."""

    model: ModelCapability
    score: float | None
    reason: str

    @property
    def name(self) -> str:
        """The model as agents name it, "provider/model"."""
        return f"{self.model.provider}/{self.model.model_id}"

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "model": self.name,
            "tier": self.model.tier.value,
            "score": None if self.score is None else round(self.score, 4),
            "cost_factor": self.model.cost_factor,
            "speed_factor": self.model.speed_factor,
            "reason": self.reason,
        }


class Ranking(Record, frozen=True, kw_only=True):
    """The models that fit, the best first, and which scorers were left out, and why."""

    models: tuple[RankedModel, ...]
    problems: tuple[str, ...] = ()


def rank_models(
    models: Iterable[ModelCapability], task: TaskProfile, scorers: Iterable[ModelScorerSpec]
) -> Ranking:
    """Rank the models whose tier fits the complexity of the task; without one all of them.

    The best-fitting tier comes first; within it the scorers' weighted mean decides, then the
    cheaper, the faster, and the name. A scorer that fails for one model is left out for all.
    """
    tiers = None if task.complexity is None else FITTING[task.complexity]
    fitting = [model for model in models if tiers is None or model.tier in tiers]
    opinions, problems = _hear(fitting, task, scorers)
    ranked = [
        RankedModel(
            model=model,
            score=_weighted_mean([(weight, scores[index]) for weight, scores in opinions]),
            reason=_reason(model, task),
        )
        for index, model in enumerate(fitting)
    ]
    ranked.sort(key=lambda entry: (tiers.index(entry.model.tier) if tiers else 0, *_order(entry)))
    return Ranking(models=tuple(ranked), problems=tuple(problems))


def _order(entry: RankedModel) -> tuple[float, float, float, str]:
    """Return what sorts the models of a tier; one that nobody has an opinion on comes last."""
    score = -1.0 if entry.score is None else entry.score
    return -score, entry.model.cost_factor, -entry.model.speed_factor, entry.name


def _reason(model: ModelCapability, task: TaskProfile) -> str:
    tier, affinity = model.tier.value, model.affinities.get(task.category)
    return "; ".join(
        [
            tier if task.complexity is None else f"{tier} fits a {task.complexity} task",
            f"{task.category} {'unknown' if affinity is None else f'{affinity:g}'}",
            f"cost {model.cost_factor:g}, speed {model.speed_factor:g}",
        ]
    )


def _hear(
    models: Sequence[ModelCapability], task: TaskProfile, scorers: Iterable[ModelScorerSpec]
) -> tuple[list[tuple[float, Sequence[float | None]]], list[str]]:
    """Return the weight and the scores of each scorer, and what is wrong with the others."""
    heard: list[tuple[float, Sequence[float | None]]] = []
    problems = []
    for spec in scorers:
        guest = Guest.of(spec)
        try:
            heard.append((_checked_weight(spec.weight, guest), _scores(guest, models, task)))
        except PluginFaultError as error:
            problems.append(f"{guest} is left out: {error.why}")
        except PluginError as error:
            problems.append(f"{guest} is left out: {error.message}")
    return heard, problems


def _scores(
    guest: Guest, models: Sequence[ModelCapability], task: TaskProfile
) -> list[float | None]:
    score: ModelScorer = guest.load()
    scores = []
    for model in models:
        with guest.calling("a score"):
            told = score(model, task)
        if told is not None and not (NUMBER.fits(told) and 0 <= told <= 1):  # which NaN is not
            shown = repr(told) if NUMBER.fits(told) else f"a {type(told).__name__}"
            raise guest.wrong("a score", f"it says {shown}, which is not 0 to 1")
        scores.append(told)
    return scores


def _checked_weight(weight: float, guest: Guest) -> float:
    if not (NUMBER.fits(weight) and weight > 0 and math.isfinite(weight)):
        raise guest.wrong("weight", f"its weight is {weight!r}, which is no positive number")
    return weight


def _weighted_mean(opinions: Iterable[tuple[float, float | None]]) -> float | None:
    known = [(weight, score) for weight, score in opinions if score is not None]
    total = math.fsum(weight for weight, _ in known)
    return math.fsum(weight * score for weight, score in known) / total if known else None


OFFERED = 9  # so many are told at most, if there are not more providers


def offered_models(
    found: Mapping[str, Iterable[ModelInfo]],
    default: str,
    *,
    is_allowed: Callable[[str, str], bool],
) -> list[dict[str, Any]]:
    """Return models of which nothing is known, as a ranking tells them, for want of more.

    Each provider's `default` comes first, then the listed ones by turns.
    """
    defaults = [
        _row(provider, default, f"what {provider} takes by itself")
        for provider in found
        if is_allowed(provider, default)
    ]
    listed = (
        [
            _row(provider, model.model_id, f"listed by {provider}")
            for model in models
            if not model.hidden and model.model_id != default
            if is_allowed(provider, model.model_id)
        ]
        for provider, models in found.items()
    )
    by_turns = chain.from_iterable(zip_longest(*listed))
    rows = [*defaults, *(row for row in by_turns if row is not None)]
    return rows[: max(OFFERED, len(defaults))]


def _row(provider: str, model: str, reason: str) -> dict[str, Any]:
    unknown = dict.fromkeys(("tier", "score", "cost_factor", "speed_factor"))
    reason = f"{reason}; nothing is known of its strength"
    return {"model": f"{provider}/{model}", **unknown, "reason": reason}
