"""The wait graph against the definition: the least fixpoint, computed by brute force."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from prsm_core.messaging.waits import WaitFor, WaitGraph


def live_agents(agents, waits, ready, over):
    """Return the LIVE agents by the definition: the least fixpoint, from nothing upwards."""
    live = {a for a in agents if a not in waits and a not in over}
    while True:
        more = {
            agent
            for agent, its_waits in waits.items()
            if agent not in live
            and all((agent, w) in ready or live.intersection(w.targets) for w in its_waits)
        }
        if not more:
            return live
        live |= more


class World:
    """A wait graph and, beside it, the plain facts it must agree with."""

    def __init__(self, agents):
        self.agents = tuple(agents)
        self.waits: dict[str, tuple[WaitFor, ...]] = {}
        self.ready: set[tuple[str, WaitFor]] = set()
        self.over: set[str] = set()
        self.graph = WaitGraph(
            is_ready=lambda agent, wait: (agent, wait) in self.ready,
            is_over=lambda agent: agent in self.over,
        )

    def knot(self):
        live = live_agents(self.agents, self.waits, self.ready, self.over)
        return frozenset(self.waits) - live

    def block(self, agent, waits):
        self.waits[agent] = tuple(waits)
        return self.graph.block(agent, waits)


def small_waits(agents, most):
    """Return every set of up to `most` waits an agent may have: any targets, ready or not."""
    targets = [c for n in range(1, len(agents) + 1) for c in itertools.combinations(agents, n)]
    single = [(t, r) for t in targets for r in (False, True)]
    return [()] + [c for n in range(1, most + 1) for c in itertools.combinations(single, n)]


@pytest.mark.requirement("E30")
def test_every_configuration_of_three_agents_with_two_calls_equals_the_fixpoint():
    agents = ("a", "b", "c")
    options = {agent: small_waits([x for x in agents if x != agent], 2) for agent in agents}
    count = 0
    for choice in itertools.product(*(options[agent] for agent in agents)):
        world = World(agents)
        found: frozenset[str] = frozenset()
        for agent, waits in zip(agents, choice, strict=True):
            if not waits:
                continue
            edges = [WaitFor(targets, key=n) for n, (targets, _) in enumerate(waits)]
            world.ready |= {
                (agent, e) for e, (_, is_ready) in zip(edges, waits, strict=True) if is_ready
            }
            found = world.block(agent, edges)
        assert found == world.knot() or not world.waits, choice
        count += 1
    assert count == len(options["a"]) ** 3


class Walk(RuleBasedStateMachine):
    """Random acts; after each one the graph's knot is the definition's."""

    @initialize(size=st.integers(2, 12))
    def start(self, size):
        self.world = World([f"a{n}" for n in range(size)])
        self.last: frozenset[str] = frozenset()

    @rule(data=st.data())
    def block(self, data):
        agent = data.draw(st.sampled_from(self.world.agents))
        if agent in self.world.over:
            return
        others = [a for a in self.world.agents if a != agent]
        targets = st.lists(st.sampled_from(others), min_size=1, max_size=4, unique=True)
        waits = data.draw(st.lists(targets, min_size=1, max_size=3))
        self.world.ready = {(a, w) for a, w in self.world.ready if a != agent}
        edges = [WaitFor(tuple(t), key=n) for n, t in enumerate(waits)]
        self.last = self.world.block(agent, edges)

    @rule(data=st.data())
    def unblock(self, data):
        if not self.world.waits:
            return
        agent = data.draw(st.sampled_from(sorted(self.world.waits)))
        del self.world.waits[agent]
        self.world.graph.unblock(agent)
        self.last = self.world.graph.recheck([agent])

    @rule(data=st.data())
    def message_comes(self, data):
        edges = [(a, w) for a, ws in sorted(self.world.waits.items()) for w in ws]
        if not edges:
            return
        agent, wait = data.draw(st.sampled_from(edges))
        self.world.ready.add((agent, wait))
        self.last = self.world.graph.recheck([agent])

    @rule(data=st.data())
    def message_is_consumed(self, data):
        if not self.world.ready:
            return
        agent, wait = data.draw(st.sampled_from(sorted(self.world.ready, key=repr)))
        self.world.ready.discard((agent, wait))
        self.last = self.world.graph.reread(agent)

    @rule(data=st.data())
    def agent_ends(self, data):
        agent = data.draw(st.sampled_from(self.world.agents))
        self.world.over.add(agent)
        self.world.waits.pop(agent, None)
        self.world.graph.unblock(agent)
        self.last = self.world.graph.recheck([agent])

    @invariant()
    def the_knot_is_the_definitions(self):
        if hasattr(self, "world"):
            assert self.last == self.world.knot()


TestWalk = Walk.TestCase
TestWalk.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


@given(seed=st.integers(0, 2**32))
@settings(max_examples=30, deadline=None)
def test_random_acts_of_fifty_agents_equal_the_fixpoint(seed):
    rng = random.Random(seed)
    agents = [f"a{n}" for n in range(50)]
    world = World(agents)
    for _ in range(120):
        agent = rng.choice(agents)
        if agent in world.waits:
            del world.waits[agent]
            world.graph.unblock(agent)
            found = world.graph.recheck([agent])
        else:
            others = [a for a in agents if a != agent]
            waits = [
                WaitFor(tuple(rng.sample(others, rng.randint(1, 3))), key=n)
                for n in range(rng.randint(1, 2))
            ]
            found = world.block(agent, waits)
        assert found == world.knot()


@pytest.mark.parametrize("order", ["forward", "backward", "shuffled"])
def test_children_blocking_on_a_waiting_hub_cost_a_bounded_number_of_visits(order):
    count = 2000
    children = [f"c{n}" for n in range(count)]
    world = World(["hub", *children])
    assert world.block("hub", [WaitFor(tuple(children))]) == frozenset()
    sequence = list(children)
    if order == "backward":
        sequence.reverse()
    elif order == "shuffled":
        random.Random(1).shuffle(sequence)
    for child in sequence[:-1]:
        assert world.graph.block(child, [WaitFor(("hub",))]) == frozenset()
    assert world.graph.visits <= 8 * count
    assert world.graph.block(sequence[-1], [WaitFor(("hub",))]) == {"hub", *children}


@pytest.mark.parametrize("backwards", [False, True])
def test_looking_at_a_long_chain_from_scratch_costs_a_bounded_number_of_visits(backwards):
    count = 2000
    agents = [f"a{n}" for n in range(count)]
    world = World([*agents, "runs"])
    chain = list(itertools.pairwise([*agents, "runs"]))
    for agent, following in reversed(chain) if backwards else chain:
        assert world.block(agent, [WaitFor((following,))]) == frozenset()
    before = world.graph.visits
    assert world.graph.sweep() == frozenset()
    assert world.graph.visits - before <= 3 * count
    assert world.block("runs", [WaitFor((agents[0],))]) == {*agents, "runs"}
