"""Every wait configuration of five agents, against the definition.

Two calls of which one implies the other (its targets are among the other's) are the same as the
narrower one alone, so that pairs of such are left out; and of configurations that differ by the
agents' names alone, those are left out whose agents are not ordered by the shapes of their waits.
What remains is walked depth first over one graph: agents block and unblock as the walk goes on.
"""

from __future__ import annotations

import itertools
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial

import pytest

from prsm_core.messaging.waits import WaitFor, WaitGraph

NAMES = ("a", "b", "c", "d", "e")
COUNT = len(NAMES)
ALL = (1 << COUNT) - 1


def masks(agent: int) -> list[int]:
    """Return every non-empty set of others, as bit masks."""
    return [mask for mask in range(1, ALL + 1) if not mask >> agent & 1]


def one_call(agent: int) -> list[tuple[int, ...]]:
    """Return an agent's possible waits with at most one call in flight."""
    return [(), *((mask,) for mask in masks(agent))]


def two_calls(agent: int) -> list[tuple[int, ...]]:
    """Return an agent's possible waits with at most two calls, neither implied by the other."""
    pairs = itertools.combinations(masks(agent), 2)
    return [*one_call(agent), *((one, two) for one, two in pairs if one & two not in {one, two})]


def shape(waits: tuple[int, ...]) -> tuple[int, ...]:
    """Return what does not change when the agents get other names."""
    return (len(waits), *sorted(mask.bit_count() for mask in waits))


@cache
def edges(agent: int, waits: tuple[int, ...]) -> tuple[WaitFor, ...]:
    """Return the waits as the graph knows them; the key tells agent and call."""
    return tuple(
        WaitFor(tuple(NAMES[n] for n in range(COUNT) if mask >> n & 1), key=(agent, number))
        for number, mask in enumerate(waits)
    )


def knot_by_definition(waits: list[tuple[int, ...]], ready: int | None) -> int:
    """Return the blocked agents outside the least fixpoint; `ready` has its answer already."""
    live = sum(1 << agent for agent, its in enumerate(waits) if not its or agent == ready)
    while True:
        more = live
        for agent, its in enumerate(waits):
            if not more >> agent & 1 and all(mask & live for mask in its):
                more |= 1 << agent
        if more == live:
            return ALL & ~live
        live = more


class Walk:
    """Visits every configuration whose agents take their waits from these options."""

    def __init__(self, options: list[list[tuple[int, ...]]], *, ready: int | None, ordered: bool):
        self.options = options
        self.ready = ready
        self.ordered = ordered
        self.waits: list[tuple[int, ...]] = [()] * COUNT
        self.count = 0
        self.graph = WaitGraph(
            is_ready=lambda _, wait: wait.key[0] == ready, is_over=lambda _: False
        )

    def run(self, agent: int, knot: frozenset[str]) -> int:
        """Walk on from this agent; return how many configurations were checked."""
        if agent == COUNT:
            found = sum(1 << NAMES.index(name) for name in knot)
            assert found == knot_by_definition(self.waits, self.ready), self.waits
            self.count += 1
            return self.count
        least = shape(self.waits[agent - 1]) if agent and self.ordered else ()
        for waits in self.options[agent]:
            if shape(waits) < least:
                continue
            self.waits[agent] = waits
            if not waits:
                self.run(agent + 1, knot)
                continue
            self.run(agent + 1, self.graph.block(NAMES[agent], edges(agent, waits)))
            self.graph.unblock(NAMES[agent])
        return self.count


def check_two_calls(first: tuple[int, ...], second: tuple[int, ...]) -> int:
    """Check every configuration in which the first two agents have these waits."""
    options = [[first], [second], *(two_calls(agent) for agent in range(2, COUNT))]
    return Walk(options, ready=None, ordered=True).run(0, frozenset())


def check_one_call(ready: int | None) -> int:
    """Check every configuration of single calls; the answer to this agent's call is there."""
    options = [one_call(agent) for agent in range(COUNT)]
    return Walk(options, ready=ready, ordered=False).run(0, frozenset())


@pytest.fixture(scope="module")
def pool():
    with ProcessPoolExecutor(2) as pool:
        yield pool


@pytest.mark.long
@pytest.mark.requirement("F1")
@pytest.mark.parametrize("ready", [None, *range(COUNT)])
def test_every_configuration_of_single_calls_with_a_message_pending_or_none(pool, ready):
    assert pool.submit(check_one_call, ready).result() == 16**COUNT


@pytest.mark.long
@pytest.mark.requirement("F1")
@pytest.mark.parametrize("first", two_calls(0), ids=str)
def test_every_configuration_of_up_to_two_calls(pool, first):
    seconds = [waits for waits in two_calls(1) if shape(waits) >= shape(first)]
    counts = list(pool.map(partial(check_two_calls, first), seconds))
    assert all(counts)
    assert sum(counts) >= len(seconds)


@pytest.mark.long
def test_no_configuration_is_left_out():
    """Ordered by shape there are at least as many as there are up to renaming, 1 of 120."""
    sizes = Counter(map(shape, two_calls(0)))

    def count(agent: int, least: tuple[int, ...]) -> int:
        if agent == COUNT:
            return 1
        return sum(n * count(agent + 1, kind) for kind, n in sizes.items() if kind >= least)

    assert len(two_calls(0)) == 71
    assert count(0, ()) == 48_323_109
    assert count(0, ()) * 120 >= 71**COUNT
