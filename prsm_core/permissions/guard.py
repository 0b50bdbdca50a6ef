"""Stops an agent that runs the same command over and over though nothing has changed."""

from __future__ import annotations

import time
from collections import Counter, OrderedDict, defaultdict
from hashlib import blake2b
from os.path import normpath
from typing import TYPE_CHECKING

from msgspec import Struct, field

from prsm_core.domain.record import Record
from prsm_core.permissions.results import DENIED, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from prsm_core.policies.port import CommandPolicy

LIMIT = 3  # results of one command that may be the same
MEMORY = 10_000  # different commands remembered per agent; the oldest is forgotten
MAX_RUNNING = 1_000  # runs of one agent that have begun and not ended; the oldest is forgotten
MAX_TREES = 100  # folders outside the workspace that are told apart
LOOK_SECONDS = 10.0  # who waits for so long between two looks does no more than wait
EVERYWHERE = "/"


class Shell(Record, frozen=True, kw_only=True):
    """A command, its absolute folder, and the tree whose changes may change its result."""

    command: str
    cwd: str
    tree: str

    @property
    def text(self) -> bytes:
        """What tells one text from another."""
        return _digest(self.command.strip())

    @property
    def key(self) -> bytes:
        """What tells one command from another: its text and its folder."""
        return _digest(f"{self.cwd}\0{self.command.strip()}")


class _Run(Record, frozen=True):
    """A command that was let through and has not ended."""

    shell: Shell
    begun: int
    counts: bool
    changes: bool


class _Past(Struct):
    """What became of the runs of one command since something changed: the same each time."""

    outcome: Outcome | None = None
    count: int = 0
    since: int = 0  # when the first of them began
    made_at: float | None = None  # seconds: the last one that was let through, whatever came of it


class _Agent(Struct):
    pasts: OrderedDict[bytes, _Past] = field(default_factory=OrderedDict)
    running: list[_Run] = field(default_factory=list)


class _Tree(Struct):
    """When something last changed a tree: by whatever came last, and by anything else."""

    last: int = 0
    key: bytes | None = None
    other: int = 0
    running: Counter[bytes] = field(default_factory=Counter)

    def note(self, at: int, key: bytes | None) -> None:
        if key is None or key != self.key:
            self.other, self.key = self.last, key
        self.last = at

    def changed_without(self, key: bytes) -> int:
        return self.other if key == self.key else self.last

    def is_changed_now(self, key: bytes) -> bool:
        return len(self.running) > (key in self.running)


class BashRepeatGuard:
    """Remembers what became of each agent's commands, whichever tool runs them.

    A command is repeated if it gave the same result before and nothing in between could change
    that: no edit in its tree by anybody, and no other command there that may write. An unknown
    result is never the same. A command's own changes do not count, nor does a look after
    `LOOK_SECONDS`.

    A run counts from its beginning: a change while it runs makes its result one of before. Order is
    a number that grows with whatever happens; see `mark`.
    """

    def __init__(
        self, commands: CommandPolicy, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._commands = commands
        self._now = now
        self._mark = 0
        self._rules_changed = 0
        self._agents: defaultdict[str, _Agent] = defaultdict(_Agent)
        self._trees: defaultdict[str, _Tree] = defaultdict(_Tree)

    def refusal(self, agent_id: str, shell: Shell) -> str | None:
        """Return why an agent may not run a command once more, None if it may."""
        past = self._agents[agent_id].pasts.get(shell.key)
        if past is None or past.outcome is None or past.count < LIMIT:
            return None
        if self._is_over(past, shell) or self._only_waits(past, shell):
            return None
        return _hint(past.outcome, past.count)

    def mark(self) -> int:
        """Return the number of now: what happens later has a higher one."""
        return self._mark

    def began(self, agent_id: str, shell: Shell) -> None:
        """Take note of a command that was let through."""
        agent, past = self._agents[agent_id], self._past(agent_id, shell)
        counts = not self._only_waits(past, shell)
        past.made_at = self._now()
        run = _Run(
            shell, self._next(), counts, changes=not self._commands.only_reads(shell.command)
        )
        agent.running.append(run)
        if run.changes:
            self._changed_by(shell)
            self._tree(shell.tree).running[shell.key] += 1
        if len(agent.running) > MAX_RUNNING:
            self._end(agent.running.pop(0))

    def denied(self, agent_id: str, shell: Shell) -> None:
        """Take note of a command that was not let through; a refusal of the guard is none."""
        past = self._past(agent_id, shell)
        run = _Run(shell, self._next(), counts=not self._only_waits(past, shell), changes=False)
        past.made_at = self._now()
        self._note(past, run, DENIED)

    def ended(
        self, agent_id: str, shell: Shell, outcome: Outcome | None, *, since: int | None = None
    ) -> None:
        """Note how a command ended; an outcome None was not told.

        It is the youngest run of that text in any folder; else it ran unasked, after the mark
        `since`.
        """
        agent = self._agents[agent_id]
        run = next((run for run in reversed(agent.running) if run.shell.text == shell.text), None)
        if run is None and outcome == DENIED:
            return  # it was counted when it was refused
        if run is None:
            begun = self._next() if since is None else since
            run = _Run(
                shell, begun, counts=True, changes=not self._commands.only_reads(shell.command)
            )
            self._past(agent_id, shell).made_at = self._now()
            if run.changes:
                self._changed_by(shell)
        else:
            agent.running.remove(run)
            self._end(run)
        self._note(self._past(agent_id, run.shell), run, outcome)

    def changed(self, trees: Iterable[str]) -> None:
        """Take note that something, which is no command, may have changed these trees."""
        at = self._next()
        for tree in trees:
            self._tree(tree).note(at, None)

    def rules_changed(self) -> None:
        """Take note that what was refused may be allowed now."""
        self._rules_changed = self._next()

    def turn_over(self, agent_id: str) -> None:
        """End the runs of which nothing was told: their results are not known."""
        agent = self._agents.get(agent_id)
        for run in agent.running if agent else ():
            self._end(run)
            self._note(self._past(agent_id, run.shell), run, None)
        if agent:
            agent.running.clear()

    def forget(self, agent_id: str) -> None:
        """Forget an agent that has ended."""
        self.turn_over(agent_id)
        self._agents.pop(agent_id, None)

    def _next(self) -> int:
        self._mark += 1
        return self._mark

    def _past(self, agent_id: str, shell: Shell) -> _Past:
        pasts = self._agents[agent_id].pasts
        past = pasts.setdefault(shell.key, _Past())
        pasts.move_to_end(shell.key)
        if len(pasts) > MEMORY:
            pasts.popitem(last=False)
        return past

    def _note(self, past: _Past, run: _Run, outcome: Outcome | None) -> None:
        if outcome is None or self._has_changed(run.begun, run.shell):
            past.outcome, past.count = None, 0
        elif past.outcome == outcome and not self._is_over(past, run.shell):
            past.count += run.counts
            past.since = min(past.since, run.begun)
        else:
            past.outcome, past.count, past.since = outcome, 1, run.begun

    def _is_over(self, past: _Past, shell: Shell) -> bool:
        is_refusal = past.outcome == DENIED
        is_outdated = is_refusal and past.since < self._rules_changed
        return is_outdated or self._has_changed(past.since, shell)

    def _only_waits(self, past: _Past, shell: Shell) -> bool:
        if past.made_at is None or self._now() - past.made_at < LOOK_SECONDS:
            return False
        return self._commands.looks_up(shell.command)

    def _has_changed(self, since: int, shell: Shell) -> bool:
        """Return whether anything but the command itself may have changed its tree since then."""
        return any(
            tree.changed_without(shell.key) > since or tree.is_changed_now(shell.key)
            for folder, tree in self._trees.items()
            if _is_below(folder, shell.tree) or _is_below(shell.tree, folder)
        )

    def _changed_by(self, shell: Shell) -> None:
        self._tree(shell.tree).note(self._next(), shell.key)

    def _end(self, run: _Run) -> None:
        if not run.changes:
            return
        self._changed_by(run.shell)
        running = self._tree(run.shell.tree).running
        running[run.shell.key] -= 1
        running += Counter()  # without what is at zero

    def _tree(self, folder: str) -> _Tree:
        if folder not in self._trees and len(self._trees) >= MAX_TREES:
            folder = EVERYWHERE
        return self._trees[folder]


def tree_of(folder: str, workspace: str) -> str:
    """Return the tree of an absolute folder: the workspace, or the folder where it is outside."""
    workspace = normpath(workspace)
    return workspace if _is_below(folder, workspace) else folder


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _hint(outcome: Outcome, count: int) -> str:
    if outcome == DENIED:
        return f"this exact command was refused {count} times before; try another way"
    return (
        f"this exact command {outcome.label} {count} times with the same result, and nothing that "
        "could change it was done since; use the result you have, change something first, or try "
        f"another way (what only looks may look again after {LOOK_SECONDS:g} s)"
    )
