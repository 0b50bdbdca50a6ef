"""Every wait configuration of up to four agents, against the definition.

An agent is not blocked, or blocked by one or two waits, each on any non-empty set of the others;
at most one wait in the whole configuration has a message pending. The order in which the agents
block is drawn per configuration.
"""

from __future__ import annotations

import itertools
import random

import pytest

from prsm_core.messaging.waits import WaitFor, WaitGraph

NAMES = ("a", "b", "c", "d")


def options(agent: int, count: int) -> list[tuple[int, ...]]:
    """Return an agent's possible waits: up to two sets of others, as bit masks."""
    others = [n for n in range(count) if n != agent]
    sets = [
        sum(1 << n for n in chosen)
        for size in range(1, len(others) + 1)
        for chosen in itertools.combinations(others, size)
    ]
    return [(), *((s,) for s in sets), *itertools.combinations(sets, 2)]


def knot_by_definition(waits, ready) -> int:
    """Return the blocked agents outside the least fixpoint, as a bit mask."""
    live = sum(1 << agent for agent, its in enumerate(waits) if not its)
    blocked = ((1 << len(waits)) - 1) & ~live
    while True:
        more = live
        for agent, its in enumerate(waits):
            if its and all(mask & live or (agent, n) == ready for n, mask in enumerate(its)):
                more |= 1 << agent
        if more == live:
            return blocked & ~live
        live = more


def knot_by_graph(waits, ready, order) -> int:
    """Return the knot that the wait graph reports when the last agent has blocked."""
    graph = WaitGraph(is_ready=lambda _, wait: wait.key == ready, is_over=lambda _: False)
    found: frozenset[str] = frozenset()
    for agent in order:
        if waits[agent]:
            edges = [
                WaitFor(tuple(NAMES[n] for n in range(4) if mask >> n & 1), key=(agent, number))
                for number, mask in enumerate(waits[agent])
            ]
            found = graph.block(NAMES[agent], edges)
    return sum(1 << NAMES.index(name) for name in found)


def check(waits, ready, rng) -> None:
    order = list(range(len(waits)))
    rng.shuffle(order)
    if any(waits):
        by_graph = knot_by_graph(waits, ready, order)
        assert by_graph == knot_by_definition(waits, ready), (waits, ready, order)


def messages(waits):
    """Return where one pending message may be: nowhere, or at one wait."""
    return [None, *((agent, n) for agent, its in enumerate(waits) for n in range(len(its)))]


@pytest.mark.parametrize("count", [2, 3])
def test_all_configurations_of_up_to_three_agents(count):
    rng = random.Random(count)
    for waits in itertools.product(*(options(agent, count) for agent in range(count))):
        for ready in messages(waits):
            check(waits, ready, rng)


def test_a_sample_of_the_configurations_of_four_agents():
    rng = random.Random(4)
    choices = [options(agent, 4) for agent in range(4)]
    for _ in range(30_000):
        waits = tuple(rng.choice(its) for its in choices)
        check(waits, rng.choice(messages(waits)), rng)


@pytest.mark.long
@pytest.mark.parametrize("first", options(0, 4), ids=str)
def test_all_configurations_of_four_agents(first):
    rng = random.Random(str(first))
    others = (options(agent, 4) for agent in range(1, 4))
    for waits in itertools.product((first,), *others):
        for ready in messages(waits):
            check(waits, ready, rng)
