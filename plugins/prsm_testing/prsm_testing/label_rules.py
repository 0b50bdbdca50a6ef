"""What every Store does with labels of agents: a part of the contract of stores."""
# ruff: noqa: S101 - these are tests; a plugin author runs them

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_testing.steps import Steps

if TYPE_CHECKING:
    from prsm_core.interfaces.store import Store


class LabelRules:
    """Rules of labels; each test's docstring is one."""

    async def test_the_newest_sessions_of_a_label_are_found(self, store: Store) -> None:
        """Those in which an agent has it, by name and text, newest first, as many as wanted."""
        for number in range(4):
            steps = Steps(f"s{number}")
            labels = {"a/b.c": "x" if number != 2 else "y", "other": "x"}
            await store.commit(steps.run_started())
            await store.commit(steps.spawn("master", labels=labels))
        assert list(await store.sessions_with("a/b.c", "x", limit=9)) == ["s3", "s1", "s0"]
        assert list(await store.sessions_with("a/b.c", "x", limit=2)) == ["s3", "s1"]
        assert list(await store.sessions_with("a/b.c", "y", limit=2)) == ["s2"]
        assert list(await store.sessions_with("a", "x", limit=2)) == []
