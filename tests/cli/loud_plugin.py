"""A check, a sink, a scorer and a frontend that print whenever they work, as LOUD says."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

from prsm_core import (
    EventSink,
    EventSinkSpec,
    Frontend,
    FrontendSpec,
    ModelScorerSpec,
    PermissionCheckSpec,
    hookimpl,
)

if TYPE_CHECKING:
    from collections.abc import Callable

SHOUTS: dict[str, Callable[[str], object]] = {
    "print": print,
    "sys.stdout": lambda text: sys.stdout.write(text),
    "lines": lambda text: sys.stdout.writelines([text, "\n"]),
    "the first stdout": lambda text: print(text, file=sys.__stdout__),
    "its bytes": lambda text: sys.stdout.buffer.write(f"{text}\n".encode()),
    "the descriptor": lambda text: os.write(1, f"{text}\n".encode()),
    "a program": lambda text: subprocess.run(["echo", text], check=True),
    "a thread": lambda text: _in_thread(print, text),
}


def _in_thread(work, *args):
    thread = threading.Thread(target=work, args=args)
    thread.start()
    thread.join()


def shout(who):
    SHOUTS[os.environ["LOUD"]](f"LOUD {who}")


class LoudSink(EventSink):
    def __init__(self, run, settings):
        pass

    async def write(self, batch):
        shout("sink")


class Face(Frontend):
    def __init__(self, settings):
        pass

    async def run(self, app):
        sys.stdout.write("the face\n")
        run = await app.runs.start(app.options.task)
        result = await run.result()
        sys.stdout.write(f"the face says {result.summary}\n")
        return result.exit_code


async def check(request, context):
    shout("check")


def score(model, task):
    shout("scorer")
    return 0.5


@hookimpl
def prsm_permission_checks():
    yield PermissionCheckSpec(
        name="loud", summary="Prints.", check=check, priority=1, in_bypass=True
    )


@hookimpl
def prsm_event_sinks():
    yield EventSinkSpec(name="loud", summary="Prints.", factory=LoudSink)


@hookimpl
def prsm_model_scorers():
    yield ModelScorerSpec(name="loud", summary="Prints.", weight=1.0, score=score)


@hookimpl
def prsm_frontends():
    yield FrontendSpec(name="face", summary="Prints.", interactive=False, priority=0, factory=Face)
