"""The scorer keeps the contract, and prefers what is cheap."""

from msgspec.structs import replace
from prsm_testing import ModelScorerContract, sample_models
from prsm_thrift import prsm_model_scorers

from prsm_core import ModelTier, TaskProfile


class TestThrift(ModelScorerContract):
    (spec,) = prsm_model_scorers()

    def test_the_cheaper_model_scores_higher(self):
        model = next(m for m in sample_models() if m.tier is ModelTier.FAST)
        cheap, dear = (replace(model, cost_factor=factor) for factor in (0.5, 5.0))
        task = TaskProfile(description="Rename a variable.", complexity="simple")
        assert self.score(cheap, task) > self.score(dear, task)
        assert self.score(dear, replace(task, complexity="complex")) is None
