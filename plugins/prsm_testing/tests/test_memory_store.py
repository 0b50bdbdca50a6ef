"""The memory store keeps the contract of every Store, and answers as SQLite answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from prsm_testing.memory_ledger import MemoryLedger
from prsm_testing.memory_store import MemoryStore
from prsm_testing.steps import Steps
from prsm_testing.store_contract import StoreContract, notices

from prsm_core.domain.rows import Insert, Update
from prsm_core.domain.steps import Telling, Write
from prsm_core.errors import FencedError, PrsmError, StoreError
from prsm_core.store import SqliteStore
from tests.store.ledger_seen import look

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from prsm_core.domain.rows import Row
    from prsm_core.domain.steps import Step


class TestMemoryStore(StoreContract):
    @pytest.fixture(autouse=True)
    def ledgers(self):
        self.kept: dict[Path, MemoryLedger] = {}

    async def open_store(self, tmp_path: Path) -> MemoryStore:
        return MemoryStore(self.kept.setdefault(tmp_path, MemoryLedger()))


@pytest.fixture
async def store():
    async with MemoryStore() as store:
        yield store


@pytest.fixture
async def team(store):
    steps = Steps()
    await store.commit(steps.run_started())
    await store.commit(steps.spawn("master"))
    await store.commit(steps.spawn("w1", "master"))
    return steps


async def test_a_step_that_fails_at_its_very_end_leaves_no_trace(store, team):
    turn, mail = team.turn("w1"), team.message("master", "w1")
    await store.commit(team.step("w1", turn))
    await store.commit(team.open_call(turn, team.call("c1"), "w1"))
    await store.commit(team.step("master", *team.sent(mail)))
    before = await look(store)
    broken = team.end(
        "w1",
        team.answer(turn, "c1", consumed=(mail.message_id,)),
        *team.sent(replace(mail, target="nobody", message_id="new")),
    )
    with pytest.raises(PrsmError):
        await store.commit(broken)
    assert await look(store) == before
    await store.commit(replace(broken, writes=(*broken.writes[:2], broken.writes[-1])))


async def test_a_follower_of_one_store_ends_when_it_closes_and_another_goes_on(store, team):
    other = MemoryStore(store.ledger)
    await store.aclose()
    with pytest.raises(StoreError):
        await store.agents("s1")
    await other.commit(team.step("w1", team.told("more")))
    assert await notices(other, "s1") == ["more"]


class Promised(Write, frozen=True, kw_only=True):
    """A kind of fact that no store has heard of."""

    texts = ("what",)
    is_of_life = True

    what: str

    def rows(self, step: Step) -> Iterable[Row]:
        grant = {"session_id": step.session_id, "agent_id": step.agent_id, "created_at": step.at}
        yield Insert("grants", {**grant, "data": {"promised": self.what}})
        yield Update("agents", {"agent_id": step.agent_id}, {"waiting_on": self.what})

    def events(self, step: Step) -> Iterable[Telling]:
        return step.telling("notice", {"level": "info", "text": self.what})


async def test_a_new_kind_of_fact_needs_nothing_but_itself(store, team, tmp_path):
    step = team.step("w1", Promised(what="soon"))
    async with await SqliteStore.open(tmp_path / "ledger.db") as sqlite:
        for given in (team.run_started(), team.spawn("master"), team.spawn("w1", "master")):
            await sqlite.commit(given)
        assert await sqlite.commit(step) == await store.commit(step)
        rows = [(await one.agents("s1"))[1].waiting_on for one in (store, sqlite)]
        assert rows == ["soon", "soon"]
        [grant] = (await sqlite.state("s1")).grants
        assert grant["data"] == {"promised": "soon"}
        await sqlite.commit(team.end("w1"))
        with pytest.raises(FencedError):
            await sqlite.commit(team.step("w1", Promised(what="too late")))
