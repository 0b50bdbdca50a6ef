"""Starts a run in another process and waits until it has begun.

Light, because that process loads the rest. Each side sends one line of JSON over a socket; errors
before the run begins go to the other process's stderr.
"""

from __future__ import annotations

import json
import signal
import socket
import sys
from typing import IO, TYPE_CHECKING, Any

import click

from prsm_core.engine.processes.launcher import DetachedProcess, start_detached
from prsm_core.loop.interrupts import raise_interrupt

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_core.cli.launch import Launch

SAFE_PATH = "-P"  # else modules of the current folder are found before ours
ERROR = 1


def run_detached(launch: Launch, request: Mapping[str, Any], *, as_json: bool) -> int:
    """Start the run that `request` describes, print its session, and return the exit code."""
    ours, owner = start_owner()
    with ours:
        started = _wait_for_start(ours, owner, order(launch, request))
    if started is None:
        return owner.wait() or ERROR
    _tell(started, as_json=as_json)
    return 0


def start_owner(stderr: IO[bytes] | None = None) -> tuple[socket.socket, DetachedProcess]:
    """Start the other process, which waits for its request on the socket."""
    ours, theirs = socket.socketpair()
    with theirs:
        number = theirs.fileno()
        argv = (sys.executable, SAFE_PATH, "-m", "prsm_core.cli.detached", str(number))
        return ours, start_detached(argv, keep=number, stderr=stderr)


def order(launch: Launch, request: Mapping[str, Any]) -> bytes:
    """Return the line that tells the other process what to run."""
    told = {"request": request, "debug": launch.debug, "load_plugins": launch.load_plugins}
    return json.dumps(told).encode() + b"\n"


def _wait_for_start(
    wire: socket.socket, owner: DetachedProcess, told: bytes
) -> Mapping[str, str] | None:
    """Return what has begun, or None if the owner ends without it. An interrupt ends the owner."""
    signal.signal(signal.SIGTERM, raise_interrupt)
    try:
        wire.sendall(told)
        with wire.makefile("rb") as lines:
            line = lines.readline()
    except ConnectionError:
        return None
    except KeyboardInterrupt:
        owner.terminate()
        return None
    return json.loads(line) if line else None


def _tell(started: Mapping[str, str], *, as_json: bool) -> None:
    session = started["session"]
    if as_json:
        click.echo(json.dumps({"session": session, "run": started["run"]}))
        return
    click.echo(session)
    click.echo(
        f"prsm: process {started['pid']} runs it; follow it: prsm attach {session}\n"
        f"prsm: its log: {started['log']}",
        err=True,
    )
