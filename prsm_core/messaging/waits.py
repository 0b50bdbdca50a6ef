"""The wait graph: who is blocked, on whom, and whether anyone can still move.

An agent is blocked while every call it has in flight is a wait. A wait is satisfied by any one of
its targets; an agent moves only when all its waits are satisfied (an AND of ORs). LIVE is the least
fixpoint of: an agent that is not blocked is live; a blocked agent is live if each of its waits is
ready or has a live target. Blocked agents that are not live form a knot.

Nothing is searched on unblock. Each wait of a live blocked agent remembers a live target as its
witness. Witnesses form no cycle, so that only those who rely on a newly blocked agent need another
look (https://en.wikipedia.org/wiki/Unfounded_set, by source pointers).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from prsm_core.domain.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Sequence

NO_KNOT: frozenset[str] = frozenset()
ANYONE = "*"  # stands for every agent that may write to any other: a target that many waits share
_ITSELF = ""  # the witness of a wait that is ready


class WaitFor(Record, frozen=True):
    """One wait: any of `targets` can end it; `key` lets the owner tell its readiness."""

    targets: tuple[str, ...]
    key: Any = None


class _Watch:
    """A wait, and what it relies on."""

    __slots__ = ("owner", "position", "wait", "witness")

    def __init__(self, owner: str, wait: WaitFor) -> None:
        self.owner = owner
        self.wait = wait
        self.witness: str | None = None  # a live target, or _ITSELF; None: it is not supported
        self.position = 0  # where the next search for a runnable target begins


class WaitGraph(Struct):
    """Owns the waits of blocked agents."""

    is_ready: Callable[[str, WaitFor], bool]  # something is there that ends the wait now
    is_over: Callable[[str], bool]  # the agent has ended, and can satisfy no one any more
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
        if len(waits) == 1:  # nearly always
            watches: tuple[_Watch, ...] = (_Watch(agent, waits[0]),)
        else:
            watches = tuple([_Watch(agent, wait) for wait in waits])
        self._blocked[agent] = watches
        if not self._dead and self._stays_live(agent, watches):
            return NO_KNOT
        return self._check((agent,))

    def unblock(self, agent: str) -> None:
        """Note that an agent moves again. Those that are dead because of it stay so until asked."""
        if agent in self._blocked:  # most that move have waited for nobody
            self._forget(agent)

    def recheck(self, agents: Iterable[str]) -> frozenset[str]:
        """Look again at agents, and at who relies on them; return the knot."""
        suspects = []
        for agent in agents:
            suspects.append(agent)
            suspects += [watch.owner for watch in self._watchers.get(agent, ())]
        for suspect in suspects:
            for watch in self._blocked.get(suspect, ()):
                self._drop_witness(watch)
        return self._check(suspects)

    def reread(self, agent: str) -> frozenset[str]:
        """Look again at an agent one of whose messages was consumed; return the knot."""
        if self._dead:
            return self.recheck((agent,))
        watches = self._blocked.get(agent)
        if watches is None:
            return NO_KNOT
        for watch in watches:
            if watch.witness == _ITSELF:
                watch.witness = None
        return self._check((agent,))

    def sweep(self) -> frozenset[str]:
        """Look at every blocked agent from scratch; return the knot, if any."""
        return self.recheck(tuple(self._blocked))

    def _stays_live(self, agent: str, watches: Sequence[_Watch]) -> bool:
        """Support a newly blocked agent without a cycle of witnesses, if a short look can."""
        self.visits += 1
        watchers = self._watchers.get(agent)
        if watchers is None:  # no witness leads to it, so that any live target may be its own
            return self._support_all(watches, (agent,))
        # What relies on it may go on to do so, if it relies only on agents that run.
        if self._support_all(watches, self._blocked):
            return True
        # Otherwise let that rely on agents that run.
        self.visits += len(watchers)
        return self._move(agent, watchers) and self._support_all(watches, (agent,))

    def _move(self, agent: str, watchers: set[_Watch]) -> bool:
        """Let what relies on an agent rely on agents that run; whether all of it can."""
        if len(watchers) == 1:  # the set itself moves, which costs less than another one
            [watch] = watchers
            del self._watchers[agent]
            if self._support(watch, self._blocked, watchers):
                return True
            self._watchers[agent] = watchers
            return False
        moved = [watch for watch in watchers if self._support(watch, self._blocked)]
        if len(moved) < len(watchers):
            watchers.difference_update(moved)
            return False
        del self._watchers[agent]
        return True

    def _check(self, suspects: Sequence[str]) -> frozenset[str]:
        unsupported = self._spread(suspects)
        if not unsupported:
            return NO_KNOT
        self._settle(unsupported)
        self._dead = unsupported or set()  # one that was large stays so, empty or not
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
            if self._support_all(self._blocked[agent], self._blocked):
                continue
            unsupported.add(agent)
            for watch in tuple(self._watchers.get(agent, ())):
                self._drop_witness(watch)
                queue.append(watch.owner)
        return unsupported

    def _settle(self, unsupported: set[str]) -> None:
        """Let those leave who rely only on agents outside the set, then who relies on these."""
        hopes: dict[str, list[_Watch]] = {}
        saved = []
        for agent in unsupported:
            self.visits += 1
            watches = self._blocked[agent]
            if self._support_all(watches, unsupported):
                saved.append(agent)
            for watch in watches:
                for target in watch.wait.targets if watch.witness is None else ():
                    hopes.setdefault(target, []).append(watch)
        unsupported.difference_update(saved)
        while saved:
            for watch in hopes.get(target := saved.pop(), ()):
                if watch.witness is not None or self.is_over(target):
                    continue
                self._rely(watch, target)
                if all(other.witness is not None for other in self._blocked[watch.owner]):
                    unsupported.discard(watch.owner)
                    saved.append(watch.owner)

    def _support_all(self, watches: Iterable[_Watch], excluded: Container[str]) -> bool:
        """Support each wait of an agent that is not supported yet; whether all are now."""
        found = True
        for watch in watches:
            if watch.witness is None and not self._support(watch, excluded):
                found = False
        return found

    def _support(
        self, watch: _Watch, excluded: Container[str], alone: set[_Watch] | None = None
    ) -> bool:
        """Support a wait: by a target that is neither excluded nor over, or as it is ready."""
        targets, position = watch.wait.targets, watch.position
        if position < len(targets):  # one look mostly is enough, and costs less than readiness
            target = targets[position]
            if target not in excluded and not self.is_over(target):
                watch.position = position + 1
                watch.witness = target  # as _rely does, without a call
                watchers = self._watchers.get(target)
                if watchers is not None:
                    watchers.add(watch)
                else:
                    self._watchers[target] = alone or {watch}
                return True
        if self.is_ready(watch.owner, watch.wait):
            watch.witness = _ITSELF
            return True
        return (position > 0 or len(targets) > 1) and self._find(watch, excluded)

    def _find(self, watch: _Watch, excluded: Container[str]) -> bool:
        """Rely on a target that is not excluded and has not ended; the search rotates."""
        targets = watch.wait.targets
        position, count = watch.position, len(targets)
        for _ in range(count):
            if position >= count:
                position = 0
            target = targets[position]
            position += 1
            if target not in excluded and not self.is_over(target):
                watch.position = position  # the next search begins behind it
                self._rely(watch, target)
                return True
        return False

    def _rely(self, watch: _Watch, witness: str) -> None:
        watch.witness = witness
        watchers = self._watchers.get(witness)
        if watchers is None:
            self._watchers[witness] = {watch}
        else:
            watchers.add(watch)

    def _drop_witness(self, watch: _Watch) -> None:
        if watch.witness:
            watchers = self._watchers[watch.witness]
            watchers.discard(watch)
            if not watchers:
                del self._watchers[watch.witness]
        watch.witness = None

    def _forget(self, agent: str) -> None:
        for watch in self._blocked.pop(agent, ()):
            self._drop_witness(watch)
        self._dead.discard(agent)
