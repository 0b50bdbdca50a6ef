"""What the tests of changes share: a folder that is tracked, and calls that write in it."""

from __future__ import annotations

import itertools

from prsm_files.changes.acting import Rejecter
from prsm_files.changes.attribution import WritingCall, attribute
from prsm_files.changes.merging import Wanted
from prsm_files.changes.tracker import Tracker

from plugins.prsm_files.tests.shadow_scene import Scene


class Tracked(Scene):
    """A folder and its tracker; `moments` is the one counter of calls and looks."""

    def __init__(self, tmp_path, **more):
        super().__init__(tmp_path, **more)
        self.start_moments()

    def start_moments(self):
        self.moments, self._ids = itertools.count(1), itertools.count(1)

    def tick(self):
        return next(self.moments)

    def tracker(self, name="s", **more):
        return Tracker(
            self.shadow(),
            name,
            tick=self.tick,
            new_id=lambda: f"{next(self._ids):08x}",
            **more,
        )

    def begin(self):
        tracker = self.tracker()
        tracker.begin()
        return tracker

    def rejecter(self):
        return Rejecter(self.shadow())


def stored(scene, session="s"):
    """Have the ledger say what acts decided, as their owner does; return the acts."""
    rejecter, acts = scene.rejecter(), []
    while (act := rejecter.unfinished(session)) is not None:
        rejecter.finish(act, session)
        acts.append(act)
    return acts


def told(scan):
    """Return what a scan says of each path: kind, lines added and removed."""
    return {one.path: (one.kind, one.added, one.removed) for one in scan.found}


def found_by(tracker):
    """Scan, and keep what was found."""
    scan = tracker.scan()
    tracker.settle(scan)
    return scan


def wanted(found, first=0):
    """Return changes as they are asked to be taken back, newest first."""
    asked = [
        Wanted(id=f"c{n}", path=one.path, root=one.root, before=one.before, after=one.after)
        for n, one in enumerate(found, first)
    ]
    return asked[::-1]


def call(agent, began, ended=None, **more):
    return WritingCall(agent=agent, call=f"{agent}-{began}", began=began, ended=ended, **more)


def whose(found, calls, **more):
    """Return by path how a change is attributed, and to whom."""
    return {
        one.found.path: (one.how, tuple(dict.fromkeys(c.agent for c in one.calls)))
        for one in attribute(found, calls, **more)
    }


def begun(tmp_path):
    """Return a folder with a commit of one file."""
    scene = Tracked(tmp_path)
    scene.write("first", "1")
    scene.commit()
    return scene
