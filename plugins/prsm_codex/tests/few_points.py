"""The contract of a resume for a provider whose sessions are those of one that meets all of it."""

from __future__ import annotations

import pytest
from prsm_testing.resume_contract import ResumeContract

FEW = [("called", 0, 1), ("answered", 0, 3), ("before TurnEnded", 0, 1)]


class KilledAtFewPoints(ResumeContract):
    """Another way to the same sessions: that they go on is shown, not that they do everywhere."""

    @pytest.mark.parametrize(("point", "skip", "times"), FEW)
    async def test_a_turn_goes_on_where_it_was_killed(self, open_scene, point, skip, times):
        """See ResumeContract; at the points that differ most."""
        await super().test_a_turn_goes_on_where_it_was_killed(open_scene, point, skip, times)
