"""A plugin whose objects do what the variable SABOTAGE says: `point:deed`."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import io
import os
import sys
import threading

from prsm_core import (
    Allow,
    AssistantMessage,
    EventSink,
    EventSinkSpec,
    Frontend,
    FrontendSpec,
    PermissionCheckSpec,
    Provider,
    ProviderCapabilities,
    ProviderSession,
    ProviderSpec,
    ProviderStatus,
    StopReason,
    TurnEnded,
    hookimpl,
)

POINT, _, DEED = os.environ.get("SABOTAGE", "").partition(":")
LONG = 3600.0
_begun: list[object] = []


async def swallow():
    """Never end, whoever cancels it."""
    sys.stderr.write("swallowing\n")
    while True:
        with contextlib.suppress(BaseException):
            await asyncio.Event().wait()


async def leave():
    sys.exit(7)


def press():
    raise KeyboardInterrupt


async def cross():
    press()


class Loops(asyncio.DefaultEventLoopPolicy):
    """Makes loops that are none."""

    def new_event_loop(self):
        raise RuntimeError("no loop of mine")


def nap():
    threading.Event().wait(LONG)


def spin():
    while True:
        pass


DEEDS = {
    "exit": lambda: sys.exit(3),
    "block": nap,
    "spin": spin,
    "stop-loop": lambda: asyncio.get_running_loop().stop(),
    "thread": lambda: threading.Thread(target=nap).start(),
    "at-exit": lambda: atexit.register(nap),
    "callback-exits": lambda: asyncio.get_running_loop().call_soon(lambda: sys.exit(9)),
    "task-exits": lambda: _begun.append(asyncio.get_running_loop().create_task(leave())),
    "task-swallows": lambda: _begun.append(asyncio.get_running_loop().create_task(swallow())),
    "ctrl-c": press,
    "task-ctrl-c": lambda: _begun.append(asyncio.get_running_loop().create_task(cross())),
    "callback-ctrl-c": lambda: asyncio.get_running_loop().call_soon(press),
    "die": lambda: os._exit(77),
    "read": lambda: sys.stdin.read(),
    "shout": lambda: print("LOUD"),  # noqa: T201
    "own-stdout": lambda: setattr(sys, "stdout", io.StringIO()),
    "chdir": lambda: os.chdir("/"),
    "own-loops": lambda: asyncio.set_event_loop_policy(Loops()),
    "none": lambda: None,
}
AWAITED = {
    "swallow": swallow,
    "hang": lambda: asyncio.Event().wait(),
    "to-thread": lambda: asyncio.to_thread(nap),
}


def act(point):
    """Do the deed, the first time only, if this is its point."""
    if point == POINT and DEED in DEEDS and not _begun:
        _begun.append(point)
        DEEDS[DEED]()


async def act_and_wait(point):
    act(point)
    if point == POINT and DEED in AWAITED:
        await AWAITED[DEED]()


act("import")


class Sink(EventSink):
    async def write(self, batch):
        await act_and_wait("write")

    async def aclose(self):
        await act_and_wait("aclose")


def build_sink(run, settings):
    act("sink")
    return Sink()


async def check(request, context):
    await act_and_wait("check")
    return Allow() if POINT == "check" else None


class Face(Frontend):
    async def run(self, app):
        run = await app.runs.start(app.options.task)
        result = await run.result()
        print(f"face: {result.summary}")  # noqa: T201 - what a frontend is for
        await act_and_wait("frontend")
        return {"none": None, "text": "done", "big": 999}.get(DEED, 42)


def build_face(settings):
    act("face")
    return Face()


class Session(ProviderSession):
    async def run_turn(self, context):
        yield AssistantMessage("so far")
        await act_and_wait("turn")
        yield TurnEnded(StopReason.END_TURN)


class Saboteur(Provider):
    capabilities = ProviderCapabilities(enforcement="pre_tool")

    async def probe(self):
        await act_and_wait("probe")
        return None if (POINT, DEED) == ("probe", "none") else ProviderStatus(available=True)

    @contextlib.asynccontextmanager
    async def open_session(self, request, host):
        await act_and_wait("open")
        yield Session()


def build_provider(settings, services):
    act("provider")
    return Saboteur()


@hookimpl
def prsm_event_sinks():
    yield EventSinkSpec(name="badsink", summary="", factory=build_sink)


@hookimpl
def prsm_permission_checks():
    act("hook")
    yield PermissionCheckSpec(name="badcheck", summary="", priority=1, check=check, in_bypass=True)


@hookimpl
def prsm_frontends():
    yield FrontendSpec(name="face", summary="", interactive=False, priority=0, factory=build_face)
    if POINT == "doctor":
        code = "no.such:thing"
        yield FrontendSpec(name="lost", summary="", interactive=False, priority=0, factory=code)


@hookimpl
def prsm_providers():
    yield ProviderSpec(name="badprovider", summary="", factory=build_provider)
