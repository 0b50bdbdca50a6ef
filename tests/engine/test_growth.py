"""What a run reads of its ledger does not grow with the age of its session."""

import pytest

from prsm_core.interfaces.store import TakenNames
from prsm_core.kit.clocks import SystemClock
from tests.engine.harness import open_team
from tests.engine.held_store import HeldStore

RUNS = 30
TASKS = 30
WARM = 3  # the first ones read what later ones know


class CountedStore(HeldStore):
    """Counts the rows that are read."""

    rows = 0

    async def _read(self, *arguments, **named):
        found = await super()._read(*arguments, **named)
        self.rows += len(found.names if isinstance(found, TakenNames) else found)
        return found


@pytest.fixture
async def store(tmp_path):
    return await CountedStore.on(tmp_path / "ledger.db", SystemClock())


@pytest.mark.requirement("U37")
async def test_a_later_run_of_a_session_reads_no_more_than_an_early_one(tmp_path, store):
    costs = []
    async with open_team(tmp_path, store=store) as team:
        for number in range(RUNS):
            before = store.rows
            result = await team.engine.run(f"task {number}")
            assert (result.status, len(team.manager.roster.records())) == ("completed", number + 1)
            costs.append(store.rows - before)
    assert max(costs[WARM:]) == costs[WARM], costs
    async with await HeldStore.open(tmp_path / "ledger.db") as again:
        taken = await again.taken("session")
        assert (len(taken.names), "master" in taken.names) == (RUNS, True)


@pytest.mark.requirement("U37")
async def test_a_child_that_is_reused_again_and_again_costs_the_same_each_time(tmp_path, store):
    costs = []

    async def master(agent):
        for number in range(TASKS):
            before = store.rows
            answer = await agent.call("spawn_child", prompt=f"task {number}", wait=True)
            assert (answer["name"], answer["reused"]) == ("w1", number > 0)
            costs.append(store.rows - before)
        await agent.complete()

    async with open_team(tmp_path, store=store) as team:
        team.provider.behaviours.update(master=master)
        assert (await team.engine.run("do it")).status == "completed"
    assert max(costs[WARM:]) <= costs[WARM] + 2, costs


async def test_a_reused_child_is_told_nothing_of_earlier_tasks_and_a_restarted_one_all(tmp_path):
    """Only what belongs to the conversation is read; all that belongs to it is."""
    heard = []

    async def master(agent):
        await agent.call("spawn_child", prompt="first", name="a", wait=True)
        await agent.call("spawn_child", prompt="second", wait=True)
        await agent.call("restart_child", child_id="a", prompt="third", wait=True)
        await agent.complete()

    async def a(agent):
        heard.append([message.content for message in agent.context.history])
        await agent.say(f"I did {agent.text}")
        await agent.complete()

    async with open_team(tmp_path) as team:
        team.provider.behaviours.update(master=master, a=a)
        assert (await team.engine.run("do it")).status == "completed"
    first, second, third = (" ".join(texts) for texts in heard)
    assert (first, second) == ("", "")
    assert "second" in third
    assert "first" not in third
