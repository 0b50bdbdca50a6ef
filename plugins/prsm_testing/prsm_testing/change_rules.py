"""What every Store does with changes of files: a part of the contract of stores."""
# ruff: noqa: S101 - these are tests; a plugin author runs them

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from prsm_core.domain.changes import Decision
from prsm_core.domain.ids import Ids
from prsm_core.domain.writes import ChangesDecided
from prsm_core.domain.writes.current import SessionSetAside, SessionTakenUp
from prsm_core.engine.forking import ForkRequest, fork_session
from prsm_core.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prsm_core.domain.changes import ChangeRow
    from prsm_core.domain.sessions import SessionState
    from prsm_core.interfaces.store import Store
    from prsm_testing.steps import Steps


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

    async def test_changes_are_told_as_they_stood_after_a_commit(
        self, store: Store, team: Steps
    ) -> None:
        """Which there were, and what was decided about each; the last decision of a step counts."""
        await store.commit(team.step(None, team.changed("f1", "w1")))
        seen = [await store.state("s1")]
        await store.commit(team.step(None, team.changed("f2"), team.changed("f3")))
        seen.append(await store.state("s1"))
        for made in ([("f1", "unmerged", "later")], [("f1", "accepted", None)] * 2, []):
            made = [*made, ("f3", "rejected", None)]
            decisions = tuple(Decision(id_, "src/a.py", *rest) for id_, *rest in made)
            await store.commit(team.step(None, ChangesDecided(decisions=decisions)))
            seen.append(await store.state("s1"))
        found = [[(row.change.id, row.state) for row in state.changes] for state in seen]
        assert found == [
            [("f1", "pending")],
            [("f1", "pending"), ("f2", "pending"), ("f3", "pending")],
            [("f1", "unmerged"), ("f2", "pending"), ("f3", "rejected")],
            *[[("f1", "accepted"), ("f2", "pending"), ("f3", "rejected")]] * 2,
        ]
        for state in seen:
            assert await store.state("s1", state.position) == state
        assert seen[-1].changes == tuple(await store.changes("s1"))

    async def test_what_was_taken_back_and_is_there_again_is_pending_in_all_that_know_it(
        self, store: Store, team: Steps
    ) -> None:
        """Only that: what was accepted, or committed, stays so."""
        names = ("f1", "f2", "f3")
        await store.commit(team.step(None, *(team.changed(name) for name in names)))
        fork = (await forked(store, 7)).session_id
        await decide(store, team, f1="rejected", f2="accepted", f3="rejected")
        await decide(store, team, fork, f3="committed")
        before = await store.state("s1")
        await decide(store, team, f1="pending", f2="pending", f3="pending")
        for session, last in (("s1", "pending"), (fork, "committed")):
            rows = await store.changes(session)
            assert states(rows) == {"f1": "pending", "f2": "accepted", "f3": last}
            assert next(row.decided_at for row in rows if row.state == "pending") is None
        assert states((await store.state("s1", before.position)).changes)["f1"] == "rejected"

    async def test_a_fork_has_the_changes_that_its_origin_had(
        self, store: Store, team: Steps
    ) -> None:
        """Of its own agents, as they are now; and as they were then, where the files are, too."""
        mine = team.changed("f1", "w1", beside=("", team.agent("master")))
        await store.commit(team.step(None, mine, team.changed("f2"), team.changed("f3")))
        point = (await store.state("s1")).position
        await decide(store, team, f1="rejected", f2="committed")
        await store.commit(team.step(None, team.changed("f4")))
        fork = await forked(store, 1, position=point)
        assert states(fork.changes) == {"f1": "rejected", "f2": "committed", "f3": "pending"}
        back = await forked(store, 2, position=point, with_files=True)
        assert states(back.changes) == {"f1": "pending", "f2": "committed", "f3": "pending"}
        assert await store.state(back.session_id) == back
        change, own = back.changes[0].change, back.aliases[team.agent("w1")]
        assert [one.agent for one in change.authors] == [own]
        assert change.beside == ("", back.aliases[team.agent("master")])
        again = await forked(store, 3, back.session_id)
        assert states(again.changes) == states(back.changes)

    async def test_what_is_decided_about_a_change_holds_wherever_it_is_known(
        self, store: Store, team: Steps
    ) -> None:
        """A file is one: nobody takes back, or commits, what another session has taken back."""
        await store.commit(team.step(None, *(team.changed(f"f{number}") for number in range(1, 5))))
        fork = (await forked(store, 1)).session_id
        before = await store.state("s1")
        await decide(store, team, fork, f1="rejected", f2="accepted", f3="unmerged")
        assert states(await store.changes("s1")) == states(await store.changes(fork))
        assert (await store.changes("s1"))[0].state == "rejected"
        await decide(store, team, f1="unmerged", f2="committed", f3="rejected", f4="accepted")
        told = {"f2": "committed", "f3": "rejected", "f4": "accepted"}
        assert states(await store.changes(fork)) == {"f1": "rejected", **told}  # it was settled
        assert states(await store.changes("s1")) == {"f1": "unmerged", **told}
        assert (await store.state("s1", before.position)).changes == before.changes

    async def test_a_session_that_is_taken_up_is_the_newest_and_one_set_aside_is_told(
        self, store: Store, team: Steps
    ) -> None:
        """Changes that are given are in that session what they are said to be; a run ends it."""
        await store.commit(team.step(None, team.changed("f1")))
        (then,) = await store.changes("s1")
        fork = (await forked(store, 1)).session_id
        await decide(store, team, fork, f1="rejected")
        assert await listed(store) == [(fork, False), ("s1", False)]
        await store.commit(team.step(None, SessionTakenUp(changes=(then,))))
        assert await listed(store) == [("s1", False), (fork, False)]
        assert await store.changes("s1") == [then]
        assert states(await store.changes(fork)) == {"f1": "rejected"}
        await store.commit(replace(team.step(None, SessionTakenUp()), session_id=fork))
        assert await listed(store) == [(fork, False), ("s1", False)]
        await store.commit(team.step(None, SessionSetAside()))
        assert await listed(store) == [(fork, False), ("s1", True)]
        await store.commit(team.step(None, SessionTakenUp()))
        assert await listed(store) == [("s1", False), (fork, False)]
        await store.commit(team.step(None, SessionSetAside()))
        await store.commit(replace(team.run_started(), run_id="another", step_id="another"))
        assert await listed(store) == [("s1", False), (fork, False)]
        with pytest.raises(StoreError) as caught:
            await store.commit(replace(team.step(None, SessionTakenUp()), session_id="nosuch"))
        assert caught.value.code == "unknown_session"


async def listed(store: Store) -> list[tuple[str, bool]]:
    """Return the sessions, newest first, and whether they are set aside."""
    return [(info.session_id, info.is_aside) for info in await store.sessions()]


def states(rows: Iterable[ChangeRow]) -> dict[str, str]:
    """Return what was decided about changes, by their ids."""
    return {row.change.id: row.state for row in rows}


async def decide(store: Store, team: Steps, session: str = "s1", /, **states: str) -> None:
    """Decide about changes of a session, by their ids."""
    made = tuple(Decision(id_, "src/a.py", state) for id_, state in states.items())
    step = team.step(None, ChangesDecided(decisions=made))
    await store.commit(replace(step, session_id=session))


async def forked(store: Store, seed: int, session: str = "s1", **wanted: Any) -> SessionState:
    """Fork a session; ids are made from the seed."""
    ids = Ids(lambda: 5000.0, Random(seed))  # noqa: S311 - ids that are the same each time
    return await fork_session(store, session, ForkRequest(**wanted), ids, 5000.0)
