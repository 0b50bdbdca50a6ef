"""A simulation is worth what it finds: bugs planted into a copy of the engine break a rule."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.sources import CORE

SEEDS = "1..400"  # as many as it takes: the first that breaks a rule ends it
FEW = "1..30"  # of the copy without a bug, which plays all of them


@dataclass(frozen=True)
class Bug:
    """A change of one place in the sources, and the rules of which it breaks at least one."""

    path: str
    right: str
    wrong: str
    rules: frozenset[str]


BUGS = {
    "a wake-up is dropped": Bug(
        "messaging/router.py",
        "        box.has_had_letters |= message.type is MessageType.PEER\n        box.wake()\n",
        "        box.has_had_letters |= message.type is MessageType.PEER\n",
        frozenset({"wakeups"}),
    ),
    "nobody is told that the last who could write has ended": Bug(
        "engine/agents/peers.py",
        "            self.router.wake(agent_id)  # perhaps nobody is left who could write to it\n",
        "            pass\n",
        frozenset({"wakeups", "ends"}),
    ),
    "who waits is charged for a slot": Bug(
        "engine/agents/life.py",
        "        self._lease.release(act)\n        self._waits = waits\n",
        "        self._waits = waits\n",
        frozenset({"slots"}),
    ),
    "there is room for a process more than there may be": Bug(
        "engine/providers/residents.py",
        "        return self._running() + self._starting >= self._limit\n",
        "        return self._running() + self._starting > self._limit\n",
        frozenset({"processes"}),
    ),
    "a call of an ended turn is not refused": Bug(
        "engine/turns/calls.py",
        "        if self._is_over or self.life.is_over:\n",
        "        if self.life.is_over:\n",
        frozenset({"incarnations", "surprises"}),
    ),
    "whoever lives again is taken for the one that has ended": Bug(
        "engine/agents/life.py",
        "        has_passed = self.record.incarnation != self._number\n",
        "        has_passed = False\n",
        frozenset({"incarnations", "surprises"}),  # its turns are forgotten: it has none to call in
    ),
    "the ledger takes what an ended life writes": Bug(
        "domain/writes/agents.py",
        "    if incarnation < expected:\n",
        "    if False:\n",
        frozenset({"incarnations"}),
    ),
    "what a lost session has received stays read": Bug(
        "engine/agents/session.py",
        "        if not turn.going_on.is_parked:\n",
        "        if False:\n",
        frozenset({"receives"}),
    ),
    "a message for an ended life is delivered to the next one": Bug(
        "messaging/router.py",
        "        if box is None or message.incarnation < box.incarnation:\n",
        "        if box is None:\n",
        frozenset({"incarnations"}),
    ),
    "a turn whose provider does not let go is never closed": Bug(
        "engine/agents/session.py",
        "        await self._within(STOP_SECONDS, life.session.abandon_turn)\n",
        "        pass\n",
        frozenset({"fold"}),
    ),
    "an interrupted run has no end": Bug(
        "engine/engine.py",
        "        if self._started is not None and self._ends is not None and not self.is_broken:\n",
        "        if False:\n",
        frozenset({"ends", "log"}),
    ),
    "messages come a second time": Bug(
        "messaging/router.py",
        "            box.messages.pop(message_id, None)\n",
        "",
        frozenset({"messages", "mailboxes"}),
    ),
    "an end is not settled": Bug(
        "engine/agents/manager.py",
        "then=lambda: self._settle(record), needs=needs)",
        "then=None, needs=needs)",
        frozenset({"results"}),
    ),
    "what an agent has staged is forgotten by its next step": Bug(
        "engine/journal/unit.py",
        "    return replace(step, writes=(*_writes(before), *step.writes))\n",
        "    return step\n",
        frozenset({"results", "surprises", "fold"}),
    ),
    "who asks its parent is not looked at": Bug(
        "engine/agents/life.py",
        "        if not record.is_condemned:\n",
        "        if wait.on != 'parent':\n",
        # A run whose agent is held ends once nobody else can move: such a one seems to.
        frozenset({"ends", "knots", "victims"}),
    ),
    "a child may do what its parent may not": Bug(
        "engine/spawn.py",
        "    beyond = request.tools - parent.grant.tools\n",
        "    beyond = frozenset()\n",
        frozenset({"grants"}),
    ),
    "who waits for all results is not told that the last child has ended": Bug(
        "engine/turns/waits.py",
        "        return bool(self._record.notes.reminders) or not self._record.live_children\n",
        "        return bool(self._record.notes.reminders)\n",
        frozenset({"wakeups", "victims"}),
    ),
    "who waits for all results is taken for one whom a result moves": Bug(
        "engine/turns/waits.py",
        "        news = self._router.has_unread(self._record.agent_id, self.fits)\n",
        "        fits = AnyMessage.fits.__get__(self)\n"
        "        news = self._router.has_unread(self._record.agent_id, fits)\n",
        frozenset({"knots", "victims"}),
    ),
    "the one who waits is taken for dead": Bug(
        "messaging/waits.py",
        "        if self.is_ready(watch.owner, watch.wait):\n",
        "        if False:\n",
        frozenset({"victims"}),
    ),
}


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Path:
    """Return a folder with a copy of the package, which tests may change and must restore.

    What was compiled comes with it, and counts as long as its source has the same time.
    """
    folder = tmp_path_factory.mktemp("copy")
    shutil.copytree(CORE, folder / CORE.name)
    return Path(folder)


def play(folder: Path, seeds: str) -> tuple[int, list[dict]]:
    """Play seeds on a copy; return the exit code and the outcomes, the last one being the sum."""
    command = "import sys; from prsm_core.cli import main; sys.exit(main())"
    options = ("--seed", seeds, "--agents", "12", "--stop", "--json")
    done = subprocess.run(
        [sys.executable, "-c", command, "sim", *options],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"},
        timeout=200,
        check=False,
    )
    assert done.stdout, done.stderr
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


SLOW = {"a turn whose provider does not let go is never closed"}  # to be found


@pytest.mark.requirement("F3")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long if name in SLOW else ()) for name in BUGS]
)
def test_a_planted_bug_breaks_its_rule(copy, name):
    bug = BUGS[name]
    source = copy / CORE.name / bug.path
    text = source.read_text(encoding="utf-8")
    assert text.count(bug.right) == 1, "the place to plant the bug was not found"
    source.write_text(text.replace(bug.right, bug.wrong), encoding="utf-8")
    try:
        code, outcomes = play(copy, SEEDS)
    finally:
        source.write_text(text, encoding="utf-8")
    *_, last, summary = outcomes
    assert code == 1
    assert summary["broken"] == [last["seed"]]
    assert last["violations"][0]["rule"] in bug.rules, last["violations"]
    assert last["replay"].startswith(f"prsm sim --seed {last['seed']} ")


@pytest.mark.parametrize("seeds", [FEW, pytest.param(SEEDS, marks=pytest.mark.long)])
def test_the_copy_without_a_bug_holds_every_rule(copy, seeds):
    code, outcomes = play(copy, seeds)
    assert code == 0, outcomes[-2]
    assert outcomes[-1]["seeds"] == len(outcomes) - 1
