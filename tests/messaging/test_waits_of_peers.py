"""Every wait configuration of agents some of which may write to all, against the definition.

As in `test_waits_exhaustive.py`, but a wait may also be for what any agent writes that may write to
all: by the definition its targets are all these but the waiter itself. That they may is told to the
detector before, while or after they block, and what was told before is something else.
"""

from __future__ import annotations

import itertools
import random

import pytest

from prsm_core.messaging.deadlock import DeadlockDetector
from prsm_core.messaging.waits import ANYONE, WaitFor

NAMES = ("a", "b", "c", "d")


def targets(agent: int, count: int) -> list[frozenset[str]]:
    """Return the sets of targets that a wait of an agent may have."""
    among = [*(NAMES[n] for n in range(count) if n != agent), ANYONE]
    sizes = range(1, len(among) + 1)
    return [frozenset(c) for size in sizes for c in itertools.combinations(among, size)]


def waits_of(agent: int, count: int, most: int) -> list[tuple[frozenset[str], ...]]:
    """Return an agent's possible waits, `most` at a time."""
    sets = targets(agent, count)
    return [w for size in range(most + 1) for w in itertools.combinations(sets, size)]


def senders_of(count: int) -> list[tuple[str, ...]]:
    """Return who may write to all, in every way."""
    among = NAMES[:count]
    return [s for size in range(count + 1) for s in itertools.combinations(among, size)]


def messages(waits):
    """Return where one pending message may be: nowhere, or at one wait."""
    return [None, *((agent, n) for agent, its in enumerate(waits) for n in range(len(its)))]


def knot_by_definition(waits, senders, ready) -> frozenset[str]:
    """Return the blocked agents outside the least fixpoint."""
    live = {NAMES[agent] for agent, its in enumerate(waits) if not its}

    def may_end(agent: int, wait: frozenset[str]) -> bool:
        able = wait - {ANYONE} | (set(senders) - {NAMES[agent]} if ANYONE in wait else set())
        return bool(able & live)

    while True:
        more = {
            NAMES[agent]
            for agent, its in enumerate(waits)
            if all(may_end(agent, wait) or (agent, n) == ready for n, wait in enumerate(its))
        }
        if more <= live:
            return frozenset(NAMES[: len(waits)]) - live
        live |= more


def knot_by_detector(waits, senders, ready, dice) -> frozenset[str]:
    """Return the knot that is reported when all is told, in some order."""
    knots: list[frozenset[str]] = []
    detector = DeadlockDetector(
        is_ready=lambda _, wait: wait.key == ready,
        is_over=lambda _: False,
        on_knot=lambda agents, _: knots.append(agents),
    )
    acts: list[int | None] = [agent for agent, its in enumerate(waits) if its]
    dice.shuffle(acts)
    acts.insert(dice.randint(0, len(acts)), None)
    if dice.random() < 0.5:  # who may write has changed by then
        detector.may_write(dice.choice(senders_of(len(waits))))
    for act in acts:
        knots.clear()
        if act is None:
            detector.may_write(senders)
        else:
            edges = [WaitFor(tuple(wait), key=(act, n)) for n, wait in enumerate(waits[act])]
            detector.blocked(NAMES[act], edges)
    return knots[-1] if knots else frozenset()


def check(waits, senders, ready, dice) -> None:
    found = knot_by_detector(waits, senders, ready, dice)
    assert found == knot_by_definition(waits, senders, ready), (waits, senders, ready)
    assert ANYONE not in found


def test_all_configurations_of_two_agents():
    dice, options = random.Random(2), [waits_of(agent, 2, 2) for agent in range(2)]
    for waits in itertools.product(*options):
        for senders in senders_of(2):
            for ready in messages(waits):
                check(waits, senders, ready, dice)


@pytest.mark.parametrize("count", [3, 4])
def test_a_sample_of_the_configurations_of_more_agents(count):
    dice, options = random.Random(count), [waits_of(agent, count, 2) for agent in range(count)]
    for _ in range(3_000):
        waits = tuple(dice.choice(its) for its in options)
        check(waits, dice.choice(senders_of(count)), dice.choice(messages(waits)), dice)


@pytest.mark.long
@pytest.mark.requirement("F1")
@pytest.mark.parametrize("first", waits_of(0, 3, 2), ids=lambda waits: str([*map(sorted, waits)]))
def test_all_configurations_of_three_agents(first):
    dice, others = random.Random(str(first)), [waits_of(agent, 3, 2) for agent in (1, 2)]
    for waits in itertools.product((first,), *others):
        for senders in senders_of(3):
            for ready in messages(waits):
                check(waits, senders, ready, dice)


@pytest.mark.long
@pytest.mark.requirement("F1")
@pytest.mark.parametrize("first", waits_of(0, 4, 1), ids=lambda waits: str([*map(sorted, waits)]))
def test_all_configurations_of_single_calls_of_four_agents(first):
    dice, others = random.Random(str(first)), [waits_of(agent, 4, 1) for agent in (1, 2, 3)]
    for waits in itertools.product((first,), *others):
        for senders in senders_of(4):
            for ready in messages(waits):
                check(waits, senders, ready, dice)
