"""Every configuration of a small tree whose agents wait for any message or for all results.

The waits, records and mailboxes are the engine's own. An agent runs, waits for any message, for the
results of all its children, or for the answer of its parent, or has ended; then so has all below
it, and its result is read or unread. A question may have been delivered. One agent may be one that
writes to all. The knot that is told once all have blocked, in some order, is the definition's, and
so is the one that is told after each end of an agent that runs.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass

import pytest

from prsm_core.domain.agents import AgentDescriptor, AgentRole, AgentState, Grant
from prsm_core.domain.messages import MessageType, RoutedMessage
from prsm_core.engine.state import AgentRecord, Roster
from prsm_core.engine.turns.waits import AllResults, AnyMessage, WaitOf, edge_of
from prsm_core.messaging.deadlock import DeadlockDetector
from prsm_core.messaging.router import MessageRouter

pytestmark = pytest.mark.requirement("F1", "U32")

RUNS, ANY, ALL, ASKS, ASKS_READ, ENDED, ENDED_READ = range(7)
GONE = {ENDED, ENDED_READ}
BLOCKED = {ANY, ALL, ASKS, ASKS_READ}


@dataclass(frozen=True)
class Tree:
    """Who is whose child, what each does, and who may write to all, if anybody."""

    parents: tuple[int | None, ...]
    acts: tuple[int, ...]
    writer: int | None = None

    def children(self, agent: int) -> list[int]:
        return [n for n, parent in enumerate(self.parents) if parent == agent]

    @property
    def can_be(self) -> bool:
        """Whether nobody has ended above others that live, or asks without a parent."""
        master, writer = self.acts[0], self.writer
        if master in {ASKS, ASKS_READ, *GONE} or (writer is not None and self.acts[writer] in GONE):
            return False
        pairs = list(zip(self.acts, self.parents, strict=True))[1:]
        return all(act in GONE or self.acts[parent or 0] not in GONE for act, parent in pairs)

    def ended(self, agent: int) -> Tree:
        """Return the tree once an agent has ended, and its result is there."""
        acts = (*self.acts[:agent], ENDED, *self.acts[agent + 1 :])
        return Tree(self.parents, acts, None if self.writer == agent else self.writer)

    def may_end(self) -> list[int]:
        """Return who runs, and has nobody below it that lives; the master stays."""
        return [
            n
            for n in range(1, len(self.acts))
            if self.acts[n] == RUNS and all(self.acts[c] in GONE for c in self.children(n))
        ]


def knot_by_definition(tree: Tree) -> frozenset[str]:
    """Return the blocked agents outside the least fixpoint."""
    acts = tree.acts
    live = {n for n, act in enumerate(acts) if act == RUNS}

    def is_live(agent: int) -> bool:
        parent, act = tree.parents[agent], acts[agent]
        if act in {ASKS, ASKS_READ}:
            return parent in live
        of_children = {acts[child] for child in tree.children(agent)}
        left = {child for child in tree.children(agent) if acts[child] not in GONE}
        if ASKS in of_children or (act == ANY and ENDED in of_children):
            return True
        if act == ALL and not left:
            return True
        if act == ANY and parent is None and not left:
            return True
        able = left | ({parent} - {None}) | ({tree.writer} - {None, agent})
        return bool(able & live)

    while True:
        more = {n for n, act in enumerate(acts) if act in BLOCKED and n not in live and is_live(n)}
        if not more:
            return frozenset(str(n) for n, act in enumerate(acts) if act in BLOCKED) - {
                str(n) for n in live
            }
        live |= more


class Scene:
    """The same, by the engine's parts."""

    def __init__(self, tree: Tree, dice: random.Random) -> None:
        self.tree = tree
        self.knots: list[frozenset[str]] = []
        self.router, roster = MessageRouter(), Roster()
        self.records = [self._born(roster, n) for n in range(len(tree.acts))]
        self.roster = roster
        self.detector = DeadlockDetector(
            is_ready=lambda _, wait: wait.key.ready(),
            is_over=lambda agent: roster.get(agent).has_ended,
            on_knot=lambda agents, _: self.knots.append(agents),
        )
        for n, act in enumerate(tree.acts):
            self._fill(n, act)
        if tree.writer is not None:
            for record in self.records:
                record.peers = {str(tree.writer): self.records[tree.writer]}
            self.detector.may_write((str(tree.writer),))
        order = [n for n, act in enumerate(tree.acts) if act in BLOCKED]
        dice.shuffle(order)
        for n in order:
            self.knots.clear()
            self.detector.blocked(str(n), [edge_of(self._wait(n))])

    def _born(self, roster: Roster, n: int) -> AgentRecord:
        parent = self.tree.parents[n]
        record = AgentRecord(
            AgentDescriptor(
                agent_id=str(n),
                name=f"w{n}",
                session_id="s",
                run_id="r",
                parent_id=None if parent is None else str(parent),
                role=AgentRole.MASTER if parent is None else AgentRole.WORKER,
                provider="p",
                model="m",
                depth=0,
                prompt="x",
                system_prompt="",
                cwd="/",
                tools=frozenset(),
                grant=Grant(tools=frozenset()),
            )
        )
        roster.enlist(record)
        self.router.register_agent(str(n))
        return record

    def _fill(self, n: int, act: int) -> None:
        """Let an agent have ended, or asked."""
        if act in GONE:
            self._end(n, is_read=act == ENDED_READ)
        if act in {ASKS, ASKS_READ}:
            question = self._send(n, MessageType.QUESTION, is_read=act == ASKS_READ)
            parent = self.records[self.tree.parents[n] or 0]
            parent.asked(question, delivered=act == ASKS_READ)

    def _end(self, n: int, *, is_read: bool = False) -> None:
        self._send(n, MessageType.TASK_RESULT, is_read=is_read)
        self.records[n].end()
        self.roster.settle(self.records[n])

    def _send(self, n: int, kind: MessageType, *, is_read: bool) -> RoutedMessage:
        about = str(n) if kind is MessageType.QUESTION else None
        message = RoutedMessage(
            message_id=f"{n} {kind}",
            type=kind,
            source=str(n),
            target=str(self.tree.parents[n]),
            correlation_id=about,
        )
        if not is_read:
            self.router.send(message)
        return message

    def _wait(self, n: int):
        record, act = self.records[n], self.tree.acts[n]
        if act == ANY:
            return AnyMessage(record, self.router)
        if act == ALL:
            return AllResults(record, self.router)
        parent = str(self.tree.parents[n])
        return WaitOf(
            state=AgentState.WAITING_FOR_PARENT,
            on="parent",
            targets=lambda: (parent,),
            ready=lambda: False,
        )

    @property
    def knot(self) -> frozenset[str]:
        """The knot that was told last."""
        return self.knots[-1] if self.knots else frozenset()

    def end(self, n: int) -> None:
        """Let an agent that runs end, as the engine does."""
        self.knots.clear()
        self._end(n)
        if self.tree.writer == n:
            for record in self.records:
                record.peers = {}
            self.detector.may_write(())
        self.detector.ended(str(n))
        self.tree = self.tree.ended(n)


def check(tree: Tree, dice: random.Random) -> None:
    scene = Scene(tree, dice)
    assert scene.knot == knot_by_definition(tree), tree
    while ends := scene.tree.may_end():
        scene.end(dice.choice(ends))
        assert scene.knot == knot_by_definition(scene.tree), (tree, scene.tree)


def trees(count: int, first: int | None = None):
    """Yield every tree of so many agents; `first` is what the first child does."""
    shapes = itertools.product(*(range(n) for n in range(1, count)))
    acts = [range(7), *([range(7)] * (count - 1))]
    if first is not None:
        acts[1] = range(first, first + 1)
    for shape in shapes:
        for does in itertools.product(*acts):
            for writer in (None, *range(count)):
                tree = Tree((None, *shape), does, writer)
                if tree.can_be:
                    yield tree


@pytest.mark.parametrize("count", [2, 3])
def test_all_trees_of_up_to_three_agents(count):
    dice, every = random.Random(count), list(trees(count))
    assert len(every) > 7**count
    for tree in every:
        check(tree, dice)


def test_a_sample_of_the_trees_of_four_agents():
    dice, every = random.Random(4), list(trees(4))
    for tree in dice.sample(every, 3_000):
        check(tree, dice)


@pytest.mark.long
@pytest.mark.parametrize("first", range(7))
@pytest.mark.parametrize("count", [4, 5])
def test_all_trees_of_four_and_five_agents(count, first):
    dice = random.Random(first)
    for tree in trees(count, first):
        check(tree, dice)
