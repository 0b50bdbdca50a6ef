"""The wait graph: who is blocked, on whom, and whether anyone can still move.

An agent is blocked while every call it has in flight is a wait. A wait is satisfied by any one of
its targets; an agent moves only when all its waits are satisfied (an AND of ORs). LIVE is the
least fixpoint of: an agent that is not blocked is live; a blocked agent is live if each of its
waits is ready or has a live target. Blocked agents that are not live form a knot.

Nothing is searched on unblock. Every wait of a live blocked agent remembers one witness: a live
target it relies on. Witnesses never form a cycle, so that only those who rely, directly or not,
on an agent that becomes blocked need another look, and most find a runnable target at once
(https://en.wikipedia.org/wiki/Unfounded_set, by source pointers).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Sequence

NO_KNOT: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class WaitFor:
    """One wait: any of `targets` can end it; `key` lets the owner tell its readiness."""

    targets: tuple[str, ...]
    key: Any = None


class _Watch:
    """A wait, and what it relies on."""

    __slots__ = ("owner", "position", "supported", "wait", "witness")

    def __init__(self, owner: str, wait: WaitFor) -> None:
        self.owner = owner
        self.wait = wait
        self.witness: str | None = None
        self.supported = False  # ready, or its witness is live
        self.position = 0  # where the next search for a runnable target begins


@dataclass(slots=True)
class WaitGraph:
    """Owns the waits of blocked agents.

    `is_ready(agent, wait)` tells whether something is there that ends the wait now; `is_over`
    whether an agent has ended and can satisfy no one any more.
    """

    is_ready: Callable[[str, WaitFor], bool]
    is_over: Callable[[str], bool]
    visits: int = 0  # agents looked at since the start; what the cost of checking is made of
    _blocked: dict[str, tuple[_Watch, ...]] = field(default_factory=dict)
    _watchers: dict[str, set[_Watch]] = field(default_factory=dict)
    _dead: set[str] = field(default_factory=set)  # blocked agents known not to be live

    @property
    def blocked(self) -> frozenset[str]:
        """The agents that are blocked now."""
        return frozenset(self._blocked)

    def waits_of(self, agent: str) -> tuple[WaitFor, ...]:
        """Return the waits of a blocked agent; empty if it is not blocked."""
        return tuple(watch.wait for watch in self._blocked.get(agent, ()))

    def block(self, agent: str, waits: Sequence[WaitFor]) -> frozenset[str]:
        """Note that an agent is blocked by these waits; return the knot there is now, if any."""
        if agent in self._blocked:
            self._forget(agent)
        watches = self._blocked[agent] = tuple([_Watch(agent, wait) for wait in waits])
        if not self._dead and self._nobody_relies_on(agent):
            # No witness leads to it, so that any live target may be its own witness.
            self.visits += 1
            if all(self._support(watch, (agent,)) for watch in watches):
                return NO_KNOT
        return self._check((agent,))

    def unblock(self, agent: str) -> None:
        """Note that an agent moves again. Those that are dead because of it stay so until asked."""
        self._forget(agent)

    def recheck(self, agents: Iterable[str]) -> frozenset[str]:
        """Look again at agents whose waits may have lost what satisfied them; return the knot.

        A message of theirs was consumed, or an agent they relied on has ended.
        """
        suspects = []
        for agent in agents:
            suspects.append(agent)
            suspects += [watch.owner for watch in self._watchers.get(agent, ())]
        for suspect in suspects:
            for watch in self._blocked.get(suspect, ()):
                self._drop_witness(watch)
        return self._check(suspects)

    def sweep(self) -> frozenset[str]:
        """Look at every blocked agent from scratch; return the knot, if any."""
        return self.recheck(tuple(self._blocked))

    def _nobody_relies_on(self, agent: str) -> bool:
        """Let those who rely on an agent find a runnable target instead; whether all could."""
        watchers = self._watchers.pop(agent, None)
        if watchers is None:
            return True
        self.visits += len(watchers)
        stuck = {watch for watch in watchers if not self._support(watch, self._blocked)}
        if not stuck:
            return True
        for watch in stuck:  # the full check goes on from them
            watch.supported, watch.witness = True, agent
        self._watchers[agent] = stuck
        return False

    def _check(self, suspects: Sequence[str]) -> frozenset[str]:
        unsupported = self._spread(suspects)
        if not unsupported:
            return NO_KNOT
        while self._settle(unsupported):
            pass
        self._dead = unsupported
        return frozenset(unsupported) if unsupported else NO_KNOT

    def _spread(self, suspects: Sequence[str]) -> set[str]:
        """Return the blocked agents that no runnable target supports, and who relied on them."""
        unsupported = {agent for agent in self._dead if agent in self._blocked}
        queue = list(suspects)
        while queue:
            agent = queue.pop()
            if agent in unsupported or agent not in self._blocked:
                continue
            self.visits += 1
            if self._find_runnable(agent):
                continue
            unsupported.add(agent)
            for watch in tuple(self._watchers.get(agent, ())):
                self._drop_witness(watch)
                queue.append(watch.owner)
        return unsupported

    def _settle(self, unsupported: set[str]) -> bool:
        """Let those leave who rely only on agents outside the set; return whether any did."""
        saved = [agent for agent in unsupported if self._find_live(agent, unsupported)]
        unsupported.difference_update(saved)
        return bool(saved)

    def _find_runnable(self, agent: str) -> bool:
        """Support each unsupported wait of a blocked agent by what surely moves."""
        found = True
        for watch in self._blocked[agent]:
            if not watch.supported and not self._support(watch, self._blocked.keys()):
                found = False
        return found

    def _find_live(self, agent: str, unsupported: set[str]) -> bool:
        self.visits += 1
        return all(
            watch.supported or self._support(watch, unsupported) for watch in self._blocked[agent]
        )

    def _support(self, watch: _Watch, excluded: Container[str]) -> bool:
        """Find a witness that is not excluded and has not ended; rotate where it was found."""
        if self.is_ready(watch.owner, watch.wait):
            watch.supported, watch.witness = True, None
            return True
        targets = watch.wait.targets
        count, first = len(targets), watch.position
        for step in range(count):
            position = first + step if first + step < count else first + step - count
            target = targets[position]
            if target not in excluded and not self.is_over(target):
                watch.position = position
                watch.witness = target
                watch.supported = True
                watchers = self._watchers.get(target)
                if watchers is None:
                    self._watchers[target] = {watch}
                else:
                    watchers.add(watch)
                return True
        return False

    def _drop_witness(self, watch: _Watch) -> None:
        watch.supported = False
        if watch.witness is not None:
            watchers = self._watchers[watch.witness]
            watchers.discard(watch)
            if not watchers:
                del self._watchers[watch.witness]
            watch.witness = None

    def _forget(self, agent: str) -> None:
        for watch in self._blocked.pop(agent, ()):
            self._drop_witness(watch)
        self._dead.discard(agent)
