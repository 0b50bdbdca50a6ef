"""Trees of agents with fewer processes than agents, of any shape, and killed at any commit."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest

from prsm_core.errors import StoreError
from tests.engine.deaths import DIED, go_on
from tests.engine.residents import once, open_residents

AGENTS = 9


def some(values, *, often):
    """Return the values as parameters, of which the default run takes those that it does often."""
    return [
        pytest.param(value, marks=() if value in often else pytest.mark.long) for value in values
    ]


@dataclass
class Node:
    """What one agent of a tree does."""

    name: str
    children: list[Node] = field(default_factory=list)
    at_once: bool = False  # by one call
    asks: str | None = None  # whom: its parent or a person; None: nobody
    asks_first: bool = False  # before it has children

    @property
    def all(self) -> list[Node]:
        return [self, *(below for child in self.children for below in child.all)]

    @property
    def summary(self) -> str:
        """What it says in the end."""
        said = {"parent": f"{self.name}-told", "person": "blue"}.get(self.asks or "", "nothing")
        return f"{self.name}({' '.join([said, *sorted(one.summary for one in self.children)])})"

    async def behave(self, agent) -> None:
        """Be this agent, in however many sessions."""
        said = await self._ask(agent) if self.asks_first else "nothing"
        await self._spawn(agent)
        results: list[str] = []
        number = 0
        while len(results) < len(self.children):
            number += 1
            answer = await once(agent, f"m{number}", "wait_for_message")
            for message in (answer, *answer.get("others", ())):
                if message["type"] == "task_result":
                    results.append(message["summary"])
                    continue
                asker = message["from"]
                response = {"child_id": asker, "response": f"{message['name']}-told"}
                response["correlation_id"] = message["correlation_id"]
                await once(agent, f"r{number}-{asker}", "respond_to_child", **response)
        said = said if self.asks_first else await self._ask(agent)
        summary = f"{self.name}({' '.join([said, *sorted(results)])})"
        await once(agent, "done", "task_complete", summary=summary)

    async def _ask(self, agent) -> Any:
        if self.asks == "parent":
            return (await once(agent, "ask", "ask_parent", question="what?"))["answer"]
        if self.asks == "person":
            answer = await once(agent, "ask", "ask_user", question="what?", options=["blue"])
            return answer["choices"][0]
        return "nothing"

    async def _spawn(self, agent) -> None:
        wanted = [{"name": child.name, "prompt": "work"} for child in self.children]
        if self.at_once and wanted:
            await once(agent, "spawn", "spawn_children_parallel", children=wanted)
            return
        for child in wanted:
            await once(agent, f"s-{child['name']}", "spawn_child", **child)


def grown(seed: int) -> Node:
    """Return a tree of a seed."""
    dice = random.Random(seed)
    master = Node("master", asks=dice.choice([None, "person"]))
    nodes = [master]
    for number in range(1, dice.randint(3, AGENTS)):
        parent = dice.choice(nodes[-3:])  # rather deep
        asks = dice.choice([None, "parent", "parent", "person"])
        child = Node(f"n{number}", asks=asks, asks_first=dice.random() < 0.5)
        parent.children.append(child)
        nodes.append(child)
    for node in nodes:
        node.at_once = dice.random() < 0.5
    return master


def open_tree(folder, limit, slots, **fields):
    return open_residents(
        folder,
        limit,
        engine={"max_concurrent_agents": slots, "max_agent_depth": AGENTS},
        on_ask="allow",
        **fields,
    )


def check(team, tree: Node, limit: int) -> None:
    """Each agent has lived once, in one turn; each call, question and answer is there once."""
    assert 1 <= team.provider.crowd <= limit
    ledger, nodes = team.ledger, tree.all
    names = ledger.rows("SELECT name, state FROM agents ORDER BY name")
    assert names == [(name, "completed") for name in sorted(node.name for node in nodes)]
    turns = Counter(event["agent"] for event in ledger.events("turn_started"))
    assert set(turns.values()) == {1}
    asked = sum(node.asks == "parent" for node in nodes)
    expected = {"question": asked, "answer": asked, "task_result": len(nodes) - 1}
    sent = dict(ledger.rows("SELECT type, count(*) FROM inbox GROUP BY type"))
    assert sent == {kind: count for kind, count in expected.items() if count}
    for kind in ("tool_call_started", "tool_call_finished"):
        calls = Counter((event["agent"], event["call"]) for event in ledger.events(kind))
        assert set(calls.values()) == {1}


@pytest.mark.parametrize("seed", some(range(12), often=(0, 5, 7, 10)))
async def test_a_tree_goes_through_with_fewer_processes_than_agents(tmp_path, seed):
    tree, limit, slots = grown(seed), 1 + seed % 3, 1 + seed % 4
    async with open_tree(tmp_path, limit, slots) as team:
        result = await team.run("do it", **{node.name: node.behave for node in tree.all})
        assert (result.status, result.summary) == ("completed", tree.summary)
        assert len(team.provider.parked) > 0 or limit >= len(tree.all)
    check(team, tree, limit)


def dies_after_commit(team, number: int) -> None:
    """Let the engine die once so many steps are durable."""
    commit, left = team.store.commit, [number]

    async def cut_off(step):
        done = await commit(step)
        left[0] -= 1
        if not left[0]:
            team.store.broken = StoreError(DIED)
        return done

    vars(team.store)["commit"] = cut_off


@pytest.mark.parametrize("number", some(range(2, 42, 4), often=(6, 18, 30)))
async def test_a_tree_that_is_killed_at_a_commit_goes_on(tmp_path, number):
    """Parked or not, with answers on their way: two engines die, and the third one ends it."""
    tree, memory = grown(number), None
    behaviours = {node.name: node.behave for node in tree.all}
    for is_first, commits in ((True, number), (False, 3 + number // 2)):
        async with open_tree(tmp_path, 1, 2, check=False) as team:
            memory = team.provider.memory = memory or team.provider.memory
            dies_after_commit(team, commits)
            team.provider.behaviours.update(behaviours)
            try:
                if is_first:
                    await team.run("do it")
                else:
                    await team.engine.resume()
            except StoreError as error:
                assert error.message == DIED  # noqa: PT017 - it may also end before
    async with open_tree(tmp_path, 1, 2, memory=memory) as team:
        result = await go_on(team, **behaviours)
        assert (result.status, result.summary) == ("completed", tree.summary)
    team.provider.crowd = max(team.provider.crowd, 1)
    check(team, tree, 1)
