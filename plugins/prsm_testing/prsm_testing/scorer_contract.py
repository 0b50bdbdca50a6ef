"""The contract of every model scorer, as a pytest class to subclass.

class TestMyScorer(ModelScorerContract):
    spec = next(iter(prsm_model_scorers()))
"""

from __future__ import annotations

import math
from abc import ABC
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar

from prsm_testing.doubles import tried_with
from prsm_testing.samples import sample_models, sample_tasks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_core.domain.models import ModelCapability, TaskProfile
    from prsm_core.interfaces.scorer import ModelScorer, ModelScorerSpec


class ModelScorerContract(ABC):
    """What every model scorer does; each test's docstring is the rule."""

    spec: ClassVar[ModelScorerSpec]  # the record that the plugin registers
    settings: ClassVar[Mapping[str, Any]] = {}  # what its entry in the configuration says

    def score(self, model: ModelCapability, task: TaskProfile) -> float | None:
        """Return the scorer's opinion."""
        scorer: ModelScorer = tried_with(self.spec, self.settings)
        return scorer(model, task)

    def test_its_weight_is_a_positive_number(self) -> None:
        """The weighted mean of all scorers must exist."""
        assert self.spec.weight > 0
        assert math.isfinite(self.spec.weight)

    def test_a_score_is_none_or_between_0_and_1(self) -> None:
        """For every model and task, known or not; it is a plain function and never raises."""
        for model, task in _samples():
            score = self.score(model, task)
            if score is not None:
                assert isinstance(score, int | float), (model, task)
                assert 0 <= score <= 1, (model, task)  # which NaN is not

    def test_the_same_question_gets_the_same_score(self) -> None:
        """In any order."""
        first = [self.score(*sample) for sample in _samples()]
        assert [self.score(*sample) for sample in reversed(_samples())] == first[::-1]

    def test_it_changes_nothing_of_what_it_is_asked(self) -> None:
        """Other scorers look at the same objects."""
        samples = _samples()
        for model, task in samples:
            self.score(model, task)
        assert samples == _samples()


def _samples() -> list[tuple[ModelCapability, TaskProfile]]:
    return list(product(sample_models(), sample_tasks()))
