"""What every Store does with changes of files: a part of the contract of stores."""
# ruff: noqa: S101 - these are tests; a plugin author runs them

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from prsm_core.domain.changes import Decision
from prsm_core.domain.writes import ChangesDecided
from prsm_core.errors import StoreError

if TYPE_CHECKING:
    from prsm_core.interfaces.store import Store
    from prsm_core.testing.steps import Steps


class ChangeRules:
    """Rules of changes; each test's docstring is one."""

    async def test_changes_of_files_are_kept_with_what_is_decided(
        self, store: Store, team: Steps
    ) -> None:
        """A change is found once; what a person decides about it replaces what was decided."""
        mine = team.changed("f1", "w1", path="odd-\\xff", before="", note="too large")
        other = team.changed("f2", how="shared", beside=("", team.agent("w2")))
        await store.commit(team.step(None, mine, other))
        with pytest.raises(StoreError):
            await store.commit(team.step(None, mine))
        first, second = await store.changes("s1")
        assert (first.change, first.state, second.change) == (mine.change, "pending", other.change)
        for state, why in (("unmerged", "later edits"), ("rejected", None)):
            decided = ChangesDecided(decisions=(Decision("f1", mine.change.path, state, why),))
            await store.commit(team.step(None, decided))
            first, second = await store.changes("s1")
            assert (first.state, first.why, second.state) == (state, why, "pending")
        unknown = ChangesDecided(decisions=(Decision("f3", "x", "accepted"),))
        with pytest.raises(StoreError) as caught:
            await store.commit(team.step(None, unknown))
        assert caught.value.code == "unknown_change"
        told = [one async for one in store.events("s1") if one.type == "file_changed"]
        assert [event.agent for event in told] == [team.agent("w1"), None]
        assert list(await store.changes("another")) == []
